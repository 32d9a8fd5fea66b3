//! Statuses from all that is known of a pod: the rows of upstream's rules.

mod addresses;
mod adopted;
mod over;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use serde_json::{Value, json};
use types::observed::{
    ContainerState, ObservedContainer, ObservedPod, ObservedSandbox, ObservedUser,
};

use crate::{Ended, Input, Known, NodeFacts, Probed, Waiting, status, terminate};

const NOW: &str = "2026-01-01T00:10:00Z";
const BEFORE: &str = "2026-01-01T00:01:00Z";

/// A pod at a moment; each test changes what it is about.
struct Case {
    pod: Value,
    api: Value,
    previous: Option<Value>,
    observed: ObservedPod,
    known: Known,
    node: NodeFacts,
}

impl Case {
    /// A pod of container `a`, whose sandbox is there.
    fn new() -> Self {
        let sandbox = ObservedSandbox {
            id: "s".to_owned(),
            ready: true,
            ips: vec!["10.0.0.7".to_owned()],
            ..ObservedSandbox::default()
        };
        Self {
            pod: json!({
                "metadata": {"name": "web", "generation": 2},
                "spec": {"containers": [{"name": "a", "image": "app"}]},
            }),
            api: json!({"phase": "Pending"}),
            previous: None,
            observed: ObservedPod {
                sandboxes: vec![sandbox],
                ..ObservedPod::default()
            },
            known: Known::default(),
            node: NodeFacts {
                runtime_name: "containerd".to_owned(),
                host_ips: vec!["192.168.0.1".parse().unwrap()],
                prefers_ipv6: false,
                agent_started: BEFORE.parse().unwrap(),
            },
        }
    }

    fn spec(mut self, key: &str, value: Value) -> Self {
        self.pod["spec"][key] = value;
        self
    }

    /// The newest so far.
    fn container(mut self, name: &str, state: ContainerState, exit_code: i32) -> Self {
        let id = format!("{name}{}", self.observed.containers.len());
        let container = ObservedContainer {
            id,
            name: name.to_owned(),
            sandbox_id: "s".to_owned(),
            state,
            exit_code,
            image: "docker.io/app".to_owned(),
            image_ref: "app@sha256:1".to_owned(),
            stop_signal: Some("SIGTERM".to_owned()),
            ..ObservedContainer::default()
        };
        self.observed.containers.insert(0, container);
        self
    }

    fn with<R>(&self, use_it: impl FnOnce(&Input<'_>) -> R) -> R {
        let pod: Pod = serde_json::from_value(self.pod.clone()).unwrap();
        let parse = |value: &Value| serde_json::from_value::<PodStatus>(value.clone()).unwrap();
        let api = parse(&self.api);
        let previous = self.previous.as_ref().map(parse);
        use_it(&Input {
            pod: &pod,
            api: &api,
            previous: previous.as_ref(),
            observed: &self.observed,
            known: &self.known,
            node: &self.node,
            now: NOW.parse().unwrap(),
        })
    }

    fn status(&self) -> Value {
        self.with(|input| serde_json::to_value(status(input).unwrap()).unwrap())
    }

    fn first(&self) -> Value {
        self.status()["containerStatuses"][0].clone()
    }

    fn condition(&self, kind: &str) -> Value {
        let status = self.status();
        let conditions = status["conditions"].as_array().unwrap().iter();
        let mut found = conditions.filter(|condition| condition["type"] == kind);
        found.next().cloned().unwrap_or_default()
    }
}

use ContainerState::{Created, Exited, Running, Unknown};

fn old(container: &Value) -> Value {
    json!({"phase": "Running", "containerStatuses": [container]})
}

#[test]
fn a_pod_that_runs_is_told_of_in_full() {
    let mut case = Case::new().container("a", Running, 0);
    case.observed.containers[0].started_at = 60_123_456_789;
    case.observed.containers[0].user = Some(ObservedUser {
        uid: 1000,
        gid: 2000,
        supplemental_groups: vec![2000],
    });
    let condition = |kind: &str| json!({"type": kind, "status": "True", "observedGeneration": 2, "lastTransitionTime": NOW});
    assert_eq!(
        case.status(),
        json!({
            "phase": "Running",
            "observedGeneration": 2,
            "qosClass": "BestEffort",
            "resources": {},
            "startTime": NOW,
            "hostIP": "192.168.0.1",
            "hostIPs": [{"ip": "192.168.0.1"}],
            "podIP": "10.0.0.7",
            "podIPs": [{"ip": "10.0.0.7"}],
            "conditions": [
                condition("PodReadyToStartContainers"), condition("Initialized"),
                condition("Ready"), condition("ContainersReady"), condition("PodScheduled"),
            ],
            "containerStatuses": [{
                "name": "a",
                "image": "docker.io/app",
                "imageID": "app@sha256:1",
                "containerID": "containerd://a0",
                "ready": true,
                "started": true,
                "restartCount": 0,
                "state": {"running": {"startedAt": "1970-01-01T00:01:00Z"}},
                "lastState": {},
                "resources": {},
                "user": {"linux": {"uid": 1000, "gid": 2000, "supplementalGroups": [2000]}},
            }],
        })
    );
    case.known.stop_signals = true;
    assert_eq!(case.first()["stopSignal"], "SIGTERM");
}

#[test]
fn containers_that_have_not_come_wait_and_say_why() {
    let mounts = json!([
        {"name": "v", "mountPath": "/v"},
        {"name": "r", "mountPath": "/r", "readOnly": true},
        {"name": "d", "mountPath": "/d", "readOnly": true, "recursiveReadOnly": "IfPossible"},
    ]);
    let containers = json!([
        {"name": "b", "image": "other"}, {"name": "a", "image": "app", "volumeMounts": mounts},
    ]);
    let mut case = Case::new().spec("containers", containers);
    case.known.recursive_read_only = true;
    let status = case.status();
    let names: Vec<_> = [0, 1]
        .map(|place| status["containerStatuses"][place]["name"].clone())
        .into();
    assert_eq!(names, ["a", "b"], "by name");
    let first = &status["containerStatuses"][0];
    assert_eq!(
        first["state"],
        json!({"waiting": {"reason": "ContainerCreating"}})
    );
    assert_eq!(
        (&first["image"], &first["started"]),
        (&json!("app"), &json!(false))
    );
    assert_eq!(
        first["volumeMounts"],
        json!([
            {"name": "v", "mountPath": "/v"},
            {"name": "r", "mountPath": "/r", "readOnly": true, "recursiveReadOnly": "Disabled"},
            {"name": "d", "mountPath": "/d", "readOnly": true, "recursiveReadOnly": "Enabled"},
        ])
    );
    assert_eq!(status["phase"], "Pending");
    // The worker knows more.
    let why = Waiting {
        reason: "ErrImagePull".to_owned(),
        message: "no such image".to_owned(),
    };
    case.known.waiting.insert("a".to_owned(), why);
    let waiting = json!({"waiting": {"reason": "ErrImagePull", "message": "no such image"}});
    assert_eq!(case.first()["state"], waiting);
    case.pod["metadata"]["deletionTimestamp"] = json!(NOW);
    let waiting = json!({"waiting": {"reason": "ContainerCreating"}});
    assert_eq!(
        case.first()["state"],
        waiting,
        "it will not be started any more"
    );
}

#[test]
fn states_of_the_runtime_in_the_apis_words() {
    let running = json!({"name": "a", "state": {"running": {}}, "restartCount": 3});
    let unknown = json!({"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown",
        "message": "The container could not be located when the pod was terminated"}});
    let epoch = "1970-01-01T00:00:00Z";
    let ended = json!({"terminated": {"exitCode": 2, "containerID": "containerd://a0",
        "startedAt": epoch, "finishedAt": epoch}});
    let cases = [
        (Created, json!({}), json!({"waiting": {}}), 0),
        (Unknown, json!({}), json!({"waiting": {}}), 0),
        (Unknown, old(&running), unknown, 4),
        (Exited, json!({}), ended, 0),
    ];
    for (state, api, expected, count) in cases {
        let mut case = Case::new().container("a", state, 2);
        case.api = api;
        let first = case.first();
        assert_eq!(first["state"], expected, "{state:?}");
        assert_eq!(first["restartCount"], count, "{state:?}");
    }
}

#[test]
fn what_a_container_left_behind_follows_what_the_runtime_says_of_its_end() {
    for (runtime, left, expected) in [
        ("", "bye", "bye"),
        ("killed", "", "killed"),
        ("killed", "bye", "killed: bye"),
    ] {
        let mut case = Case::new().container("a", Exited, 1);
        case.observed.containers[0].message = runtime.to_owned();
        let messages = &mut case.known.termination_messages;
        messages.insert("a0".to_owned(), left.to_owned());
        assert_eq!(case.first()["state"]["terminated"]["message"], expected);
    }
    let mut case = Case::new().container("a", Exited, 1);
    case.observed.containers[0].message = "ü".repeat(10_000);
    let message = case.first()["state"]["terminated"]["message"].clone();
    assert_eq!(message.as_str().unwrap().len(), 12 * 1024, "within bounds");
}

#[test]
fn the_two_newest_are_the_state_and_the_last_state() {
    let case = Case::new()
        .container("a", Exited, 1)
        .container("a", Exited, 2)
        .container("a", Running, 0);
    let mut case = case;
    case.observed.containers[0].annotations = BTreeMap::from([(
        "io.kubernetes.container.restartCount".to_owned(),
        "7".to_owned(),
    )]);
    let first = case.first();
    assert_eq!(first["lastState"]["terminated"]["exitCode"], 2);
    assert_eq!(
        (&first["containerID"], &first["restartCount"]),
        (&json!("containerd://a2"), &json!(7))
    );
    // One before that has not ended is told of as it is.
    let running = json!({"running": {"startedAt": "1970-01-01T00:00:00Z"}});
    for (before, expected) in [(Created, json!({"waiting": {}})), (Running, running)] {
        let case = Case::new()
            .container("a", before, 0)
            .container("a", Running, 0);
        assert_eq!(case.first()["lastState"], expected, "{before:?}");
    }
}

#[test]
fn containers_that_were_added_come_by_name() {
    let added = json!([{"name": "z", "image": "i"}, {"name": "b", "image": "i"}]);
    let case = Case::new()
        .spec("ephemeralContainers", added)
        .container("z", Running, 0);
    let status = case.status();
    let statuses = status["ephemeralContainerStatuses"].as_array().unwrap();
    let names: Vec<_> = statuses.iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["b", "z"]);
}

#[test]
fn a_container_in_its_backoff_waits_and_its_end_is_the_last_state() {
    let why = Waiting {
        reason: "CrashLoopBackOff".to_owned(),
        message: "back-off".to_owned(),
    };
    for (policy, exit_code, waits) in [
        ("Always", 0, true),
        ("OnFailure", 1, true),
        ("OnFailure", 0, false),
        ("Never", 1, false),
    ] {
        let mut case = Case::new()
            .spec("restartPolicy", json!(policy))
            .container("a", Exited, exit_code);
        case.known.waiting.insert("a".to_owned(), why.clone());
        let first = case.first();
        let ended = if waits { "lastState" } else { "state" };
        assert_eq!(
            first[ended]["terminated"]["exitCode"], exit_code,
            "{policy} {exit_code}"
        );
        let reason = &first["state"]["waiting"]["reason"];
        assert_eq!(reason == "CrashLoopBackOff", waits, "{policy} {exit_code}");
    }
}

#[test]
fn containers_that_the_runtime_has_lost() {
    let end = json!({"terminated": {"exitCode": 3}});
    let lost = json!({"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown",
        "message": "The container could not be located when the pod was deleted.  \
                    The container used to be Running"}});
    let creating = json!({"waiting": {"reason": "ContainerCreating"}});
    let running = json!({"running": {"startedAt": BEFORE}});
    let cases = [
        (
            "it had ended",
            end.clone(),
            json!({}),
            false,
            (&end, &json!({}), 1),
        ),
        (
            "it ran",
            running.clone(),
            json!({}),
            false,
            (&creating, &lost, 2),
        ),
        (
            "it ran, and is deleted",
            running.clone(),
            json!({}),
            true,
            (&creating, &lost, 1),
        ),
        (
            "it ran again",
            running,
            end.clone(),
            false,
            (&creating, &end, 1),
        ),
        (
            "it waited",
            json!({"waiting": {}}),
            end.clone(),
            false,
            (&creating, &end, 1),
        ),
    ];
    for (what, state, last, deleted, (expected, expected_last, count)) in cases {
        let mut case = Case::new();
        case.api = old(&json!({"name": "a", "state": state, "lastState": last, "restartCount": 1}));
        if deleted {
            case.pod["metadata"]["deletionTimestamp"] = json!(NOW);
        }
        let first = case.first();
        assert_eq!(
            (&first["state"], &first["lastState"]),
            (expected, expected_last),
            "{what}"
        );
        assert_eq!(first["restartCount"], count, "{what}");
    }
}

#[test]
fn init_containers_come_in_the_specs_order_and_may_be_taken_as_done() {
    let init = json!([{"name": "z", "image": "i"}, {"name": "b", "image": "i"}]);
    let case = Case::new().spec("initContainers", init.clone());
    let status = case.status();
    let init_status = |status: &Value, place: usize| status["initContainerStatuses"][place].clone();
    assert_eq!(init_status(&status, 0)["name"], "z");
    let initializing = json!({"waiting": {"reason": "PodInitializing"}});
    assert_eq!(init_status(&status, 1)["state"], initializing);
    assert_eq!(status["containerStatuses"][0]["state"], initializing);
    assert_eq!(
        case.condition("Initialized"),
        json!({"type": "Initialized", "status": "False", "observedGeneration": 2,
            "reason": "ContainersNotInitialized", "lastTransitionTime": NOW,
            "message": "containers with incomplete status: [z b]"})
    );
    let case = Case::new()
        .spec("initContainers", init)
        .container("b", Exited, 0)
        .container("a", Running, 0);
    let status = case.status();
    let taken = &init_status(&status, 0);
    let words = "Unable to get init container status from container runtime and pod has been \
                 initialized, treat it as exited normally";
    let end = json!({"exitCode": 0, "reason": "Completed", "message": words});
    assert_eq!(taken["state"]["terminated"], end);
    assert_eq!(
        (&taken["ready"], &init_status(&status, 1)["ready"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(status["phase"], "Running");
}

#[test]
fn started_and_ready_follow_from_probes() {
    let probe = json!({"exec": {"command": ["x"]}});
    let found = |started, ready| Some(Probed { started, ready });
    // (startup probe, readiness probe, found, began, API was ready) → (started, ready)
    let cases = [
        (false, false, None, NOW, false, (true, true)),
        (true, false, None, NOW, false, (false, false)),
        (
            true,
            false,
            found(Some(true), None),
            NOW,
            false,
            (true, true),
        ),
        (
            true,
            true,
            found(Some(false), Some(true)),
            NOW,
            false,
            (false, false),
        ),
        (false, true, None, NOW, true, (true, false)),
        (
            false,
            true,
            found(None, Some(true)),
            NOW,
            false,
            (true, true),
        ),
        (
            false,
            true,
            found(None, Some(false)),
            BEFORE,
            true,
            (true, false),
        ),
        // Not probed yet by this agent, which found it running.
        (
            false,
            true,
            None,
            "2026-01-01T00:00:00Z",
            true,
            (true, true),
        ),
        (
            false,
            true,
            None,
            "2026-01-01T00:00:00Z",
            false,
            (true, false),
        ),
    ];
    for (startup, readiness, found, began, was_ready, expected) in cases {
        let mut container = json!({"name": "a"});
        if startup {
            container["startupProbe"] = probe.clone();
        }
        if readiness {
            container["readinessProbe"] = probe.clone();
        }
        let mut case = Case::new()
            .spec("containers", json!([container]))
            .container("a", Running, 0);
        let began = began.parse::<Timestamp>().unwrap().as_nanosecond();
        case.observed.containers[0].started_at = i64::try_from(began).unwrap();
        case.known
            .probed
            .extend(found.map(|found| ("a0".to_owned(), found)));
        let ready = if was_ready { "True" } else { "False" };
        case.api = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]});
        let first = case.first();
        let said = (
            first["started"].as_bool().unwrap(),
            first["ready"].as_bool().unwrap(),
        );
        assert_eq!(
            said, expected,
            "{startup} {readiness} {found:?} {began} {was_ready}"
        );
    }
}

#[test]
fn readiness_and_its_reasons() {
    let not_ready = Case::new().container("a", Created, 0);
    let ready = not_ready.condition("Ready");
    assert_eq!(
        (&ready["status"], &ready["reason"]),
        (&json!("False"), &json!("ContainersNotReady"))
    );
    assert_eq!(ready["message"], "containers with unready status: [a]");
    assert_eq!(
        not_ready.condition("ContainersReady")["message"],
        ready["message"]
    );
    let ended = |exit_code| {
        Case::new()
            .spec("restartPolicy", json!("Never"))
            .container("a", Exited, exit_code)
    };
    assert_eq!(ended(0).condition("Ready")["reason"], "PodCompleted");
    assert_eq!(ended(0).condition("Initialized")["reason"], "PodCompleted");
    assert_eq!(ended(1).condition("ContainersReady")["reason"], "PodFailed");
    let gates = json!([{"conditionType": "x/one"}, {"conditionType": "x/two"}]);
    let mut case = Case::new()
        .spec("readinessGates", gates)
        .container("a", Running, 0);
    case.api = json!({"conditions": [{"type": "x/two", "status": "False"}]});
    let ready = case.condition("Ready");
    assert_eq!(ready["reason"], "ReadinessGatesNotReady");
    assert_eq!(
        ready["message"],
        "corresponding condition of pod readiness gate \"x/one\" does not exist., \
         the status of pod readiness gate \"x/two\" is not \"True\", but False"
    );
    assert_eq!(case.condition("ContainersReady")["status"], "True");
    case.api = json!({"conditions": [
        {"type": "x/one", "status": "True"}, {"type": "x/two", "status": "True"},
    ]});
    assert_eq!(case.condition("Ready")["status"], "True");
}

#[test]
fn conditions_of_others_come_first_and_times_change_with_the_status_only() {
    let mut case = Case::new().container("a", Running, 0);
    case.api = json!({"phase": "Running", "startTime": BEFORE, "conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": BEFORE},
        {"type": "ContainersReady", "status": "False", "lastTransitionTime": BEFORE},
        {"type": "theirs", "status": "Unknown", "lastTransitionTime": BEFORE},
    ]});
    case.known.disruption = serde_json::from_value(
        json!({"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}),
    )
    .unwrap();
    case.known.resize = ["PodResizePending", "PodResizeInProgress"]
        .map(|kind| serde_json::from_value(json!({"type": kind, "status": "True"})).unwrap())
        .into();
    let status = case.status();
    let kinds = status["conditions"].as_array().unwrap().iter();
    let kinds: Vec<_> = kinds
        .map(|condition| condition["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "theirs",
            "PodResizePending",
            "PodResizeInProgress",
            "DisruptionTarget",
            "PodReadyToStartContainers",
            "Initialized",
            "Ready",
            "ContainersReady",
            "PodScheduled"
        ]
    );
    assert_eq!(case.condition("Ready")["lastTransitionTime"], BEFORE);
    assert_eq!(case.condition("ContainersReady")["lastTransitionTime"], NOW);
    assert_eq!(status["startTime"], BEFORE, "set once");
}

#[test]
fn a_sandbox_has_to_be_there_ready_alone_and_with_an_address() {
    let ready_to_start = |change: &dyn Fn(&mut ObservedPod)| {
        let mut case = Case::new();
        change(&mut case.observed);
        case.condition("PodReadyToStartContainers")["status"].clone()
    };
    assert_eq!(ready_to_start(&|_| {}), "True");
    assert_eq!(ready_to_start(&|pod| pod.sandboxes.clear()), "False");
    assert_eq!(
        ready_to_start(&|pod| pod.sandboxes[0].ready = false),
        "False"
    );
    assert_eq!(ready_to_start(&|pod| pod.sandboxes[0].ips.clear()), "False");
    assert_eq!(
        ready_to_start(&|pod| pod.sandboxes[0].host_network = true),
        "False"
    );
    assert_eq!(
        ready_to_start(&|pod| pod.sandboxes.push(pod.sandboxes[0].clone())),
        "False"
    );
}

#[test]
fn a_pod_never_comes_back_from_its_end() {
    let running = || Case::new().container("a", Running, 0);
    let ended = json!({"phase": "Failed", "reason": "Evicted", "message": "why"});
    let mut by_api = running();
    by_api.api = ended.clone();
    let status = by_api.status();
    assert_eq!(
        (&status["phase"], &status["reason"]),
        (&json!("Failed"), &json!("Evicted"))
    );
    assert_eq!(by_api.condition("Ready")["reason"], "PodFailed");
    let mut by_cache = running();
    by_cache.previous = Some(ended.clone());
    assert_eq!(by_cache.status()["message"], "why");
    // What the mirror came to does not end a static pod.
    let mut of_static = running();
    (of_static.api, of_static.known.is_static) = (ended.clone(), true);
    assert_eq!(of_static.status()["phase"], "Running");
    of_static.previous = Some(ended);
    assert_eq!(of_static.status()["phase"], "Failed");
}

#[test]
fn reasons_stay_with_their_phase_and_an_eviction_has_the_last_word() {
    let mut case = Case::new().container("a", Running, 0);
    case.api = json!({"phase": "Running", "reason": "R", "message": "M"});
    assert_eq!(
        (
            case.status()["reason"].clone(),
            case.status()["message"].clone()
        ),
        (json!("R"), json!("M"))
    );
    case.api = json!({"phase": "Pending", "reason": "R", "message": "M"});
    assert_eq!(case.status()["reason"], Value::Null);
    case.known.ended = Some(Ended {
        reason: "DeadlineExceeded".to_owned(),
        message: "Pod was active on the node longer than the specified deadline".to_owned(),
    });
    let status = case.status();
    assert_eq!(
        (&status["phase"], &status["reason"]),
        (&json!("Failed"), &json!("DeadlineExceeded"))
    );
    case.api["phase"] = json!("Succeeded");
    assert_eq!(
        case.status()["phase"],
        "Succeeded",
        "but not over the API's"
    );
}

#[test]
fn a_rule_that_restarts_all_is_told_as_a_condition() {
    let rule = json!({"action": "RestartAllContainers",
        "exitCodes": {"operator": "In", "values": [42]}});
    let containers = json!([
        {"name": "a", "restartPolicy": "Never", "restartPolicyRules": [rule]}, {"name": "b"},
    ]);
    let case = |exit_code| {
        Case::new()
            .spec("containers", containers.clone())
            .container("a", Exited, exit_code)
            .container("b", Running, 0)
    };
    assert_eq!(
        case(1).condition("AllContainersRestarting")["status"],
        "False"
    );
    let told = case(42).condition("AllContainersRestarting");
    assert_eq!(
        (&told["status"], &told["reason"]),
        (&json!("True"), &json!("RestartAllContainersStarted"))
    );
    assert_eq!(told["observedGeneration"], Value::Null);
    // What was removed since then waits, and has been restarted.
    let mut removed = case(42);
    removed
        .observed
        .containers
        .retain(|container| container.name == "a");
    removed.api = json!({"phase": "Running", "containerStatuses": [
        {"name": "b", "state": {"running": {}}, "restartCount": 1},
    ]});
    let status = removed.status();
    let second = &status["containerStatuses"][1];
    assert_eq!(
        second["state"]["waiting"]["reason"],
        "RestartingAllContainers"
    );
    assert_eq!(
        (
            &second["restartCount"],
            &second["lastState"]["terminated"]["exitCode"]
        ),
        (&json!(2), &json!(137))
    );
    assert_eq!(
        Case::new().condition("AllContainersRestarting"),
        Value::Null
    );
}

#[test]
fn a_status_that_would_bring_a_container_back_is_refused() {
    let mut case = Case::new()
        .spec("restartPolicy", json!("Never"))
        .container("a", Running, 0);
    case.api = old(&json!({"name": "a", "state": {"terminated": {"exitCode": 0}}}));
    let refused = case.with(status).unwrap_err();
    assert_eq!(refused.container, "a");
}

#[test]
fn a_generation_that_was_seen_is_not_unseen() {
    let mut case = Case::new();
    case.previous = Some(json!({"observedGeneration": 5}));
    assert_eq!(case.status()["observedGeneration"], 5);
}

#[test]
fn the_last_status_ends_what_had_begun() {
    let last = |case: &Case| case.with(|input| serde_json::to_value(terminate(input)).unwrap());
    let running = json!({"name": "a", "state": {"running": {}}});
    let waiting = |name: &str| json!({"name": name, "state": {"waiting": {}}});
    let unknown = json!({"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown",
        "message": "The container could not be located when the pod was terminated"}});
    let mut case = Case::new();
    case.api = old(&running);
    let status = last(&case);
    assert_eq!(status["phase"], "Failed");
    assert_eq!(status["containerStatuses"][0]["state"], unknown);
    case.known.is_static = true;
    assert_eq!(last(&case)["phase"], "Running");
    // What never began, never ended.
    let init = json!([{"name": "i"}, {"name": "j"}]);
    let mut case = Case::new().spec("initContainers", init);
    case.api = json!({"phase": "Pending", "containerStatuses": [waiting("a")],
        "initContainerStatuses": [{"name": "i", "state": {"running": {}}}, waiting("j")]});
    let status = last(&case);
    assert_eq!(status["initContainerStatuses"][0]["state"], unknown);
    assert_eq!(
        status["initContainerStatuses"][1]["state"],
        json!({"waiting": {}})
    );
    assert_eq!(
        status["containerStatuses"][0]["state"],
        json!({"waiting": {}})
    );
    case.api = json!({"phase": "Succeeded"});
    assert_eq!(last(&case)["phase"], "Succeeded");
}

#[test]
fn a_pods_resources_are_the_allocated_ones_and_those_of_its_cgroup_once_it_runs() {
    let resources = json!({"requests": {"cpu": "500m", "memory": "64Mi"}, "limits": {"cpu": "1"}});
    let container = json!({"name": "a", "resources": resources});
    let mut case = Case::new()
        .spec("containers", json!([container]))
        .container("a", Running, 0);
    let status = case.status();
    assert_eq!(status["resources"], resources);
    assert_eq!(status["allocatedResources"], resources["requests"]);
    case.api = json!({"phase": "Running", "resources": resources});
    assert_eq!(
        case.status()["resources"],
        resources,
        "as long as nobody has looked"
    );
    case.known.cgroup = Some(types::observed::ObservedResources {
        cpu_period: 100_000,
        cpu_quota: 200_000,
        cpu_shares: 1024,
        memory_limit: 128 << 20,
    });
    assert_eq!(
        case.status()["resources"],
        json!({"requests": {"cpu": "1", "memory": "64Mi"}, "limits": {"cpu": "2", "memory": "128Mi"}})
    );
}
