use serde_json::json;

use super::*;

fn place() -> Place {
    Place {
        namespace: "c1u-plain".to_owned(),
        node: "compare-u".to_owned(),
        address: "10.76.1.1".to_owned(),
    }
}

fn sighting(seconds: u64, object: Value) -> Sighting {
    Sighting {
        at: Duration::from_secs(seconds),
        gone: false,
        object,
    }
}

fn pod(uid: &str, status: &Value) -> Value {
    json!({"metadata": {"name": "p", "uid": uid}, "status": status})
}

fn whats(story: &PodStory, topic: &str) -> Vec<String> {
    let sequence = story.sequences.get(topic).cloned().unwrap_or_default();
    sequence.into_iter().map(|span| span.what).collect()
}

#[test]
fn sequences_hold_each_change_once_and_how_long_it_lasted() {
    let waiting = json!({"phase": "Pending", "containerStatuses": [
        {"name": "main", "restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}},
    ]});
    let running = json!({
        "phase": "Running",
        "podIP": "10.245.1.7",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{
            "name": "main", "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}},
        }],
    });
    let ended = json!({"phase": "Failed", "containerStatuses": [{
        "name": "main", "restartCount": 0,
        "state": {"terminated": {"reason": "Error", "exitCode": 7, "message": "at 10.245.1.7"}},
    }]});
    let tape = [
        sighting(1, pod("u", &waiting)),
        sighting(2, pod("u", &waiting)),
        sighting(4, pod("u", &running)),
        Sighting {
            gone: true,
            ..sighting(9, pod("u", &ended))
        },
    ];
    let record = record(&place(), &tape, &[], &BTreeMap::new(), None);
    let story = &record.pods["p"];
    assert_eq!(whats(story, "phase"), ["Pending", "Running", "Failed"]);
    let lasted: Vec<_> = story.sequences["phase"]
        .iter()
        .map(|span| span.lasted)
        .collect();
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!(lasted, [seconds(3), seconds(5), None]);
    assert_eq!(
        whats(story, "container main"),
        [
            "waiting:ContainerCreating restarts=0",
            "running restarts=0",
            "terminated:Error:7 restarts=0",
        ]
    );
    assert_eq!(whats(story, "condition Ready"), ["True"]);
    let key = "container main terminated:Error:7 restarts=0";
    assert_eq!(story.messages[key], BTreeSet::from(["at IP".to_owned()]));
    assert_eq!(
        story.last["containerStatuses[main].state.terminated.exitCode"],
        "7"
    );
    assert!(story.gone);
}

#[test]
fn a_condition_that_goes_has_lasted_until_then() {
    let with = json!({"conditions": [{"type": "PodResizeInProgress", "status": "True"}]});
    let tape = [
        sighting(1, pod("u", &with)),
        sighting(3, pod("u", &json!({}))),
        sighting(4, pod("u", &json!({}))),
        sighting(6, pod("u", &with)),
    ];
    let record = record(&place(), &tape, &[], &BTreeMap::new(), None);
    let lasted: Vec<_> = record.pods["p"].sequences["condition PodResizeInProgress"]
        .iter()
        .map(|span| span.lasted)
        .collect();
    assert_eq!(lasted, [Some(Duration::from_secs(2)), None]);
}

#[test]
fn a_name_that_comes_again_is_another_pod_and_generated_names_get_numbers() {
    let generated = |uid: &str, name: &str| {
        json!({"metadata": {
            "name": name, "uid": uid, "generateName": "web-5d9f-",
            "labels": {"pod-template-hash": "5d9f"},
        }})
    };
    let tape = [
        sighting(1, pod("u1", &json!({}))),
        sighting(2, pod("u2", &json!({}))),
        sighting(3, generated("u3", "web-5d9f-abcde")),
        sighting(4, generated("u4", "web-5d9f-fghij")),
    ];
    let record = record(&place(), &tape, &[], &BTreeMap::new(), None);
    let names: Vec<_> = record.pods.keys().map(String::as_str).collect();
    assert_eq!(names, ["p", "p@2", "web-HASH1-#1", "web-HASH1-#2"]);
}

#[test]
fn events_say_what_the_node_said_of_whom_and_how_often() {
    let event = |count: Value, message: &str| {
        json!({
            "type": "Warning", "reason": "BackOff", "message": message, "count": count,
            "source": {"component": "kubelet"},
            "involvedObject": {
                "kind": "Pod", "name": "p", "uid": "u1", "fieldPath": "spec.containers{main}",
            },
        })
    };
    let tape = [sighting(1, pod("u1", &json!({})))];
    let events = [
        event(json!(3), "in c1u-plain"),
        event(Value::Null, "(combined from similar events): in c1u-plain"),
        json!({"reason": "Scheduled", "source": {"component": "default-scheduler"}}),
    ];
    let record = record(&place(), &tape, &events, &BTreeMap::new(), None);
    let key = "Warning BackOff of Pod p spec.containers{main}: in NAMESPACE";
    assert_eq!(record.events, BTreeMap::from([(key.to_owned(), 4)]));
}

#[test]
fn prints_and_the_failure_are_made_normal_too() {
    let prints = BTreeMap::from([("p/main".to_owned(), "I am in c1u-plain".to_owned())]);
    let record = record(&place(), &[], &[], &prints, Some("no compare-u"));
    assert_eq!(record.prints["p/main"], "I am in NAMESPACE");
    assert_eq!(record.failure.as_deref(), Some("no NODE"));
}

#[test]
fn resources_of_a_pod_count_while_it_runs_and_has_limits() {
    let cases = [
        (json!({"resources": {}}), 0),
        (
            json!({"resources": {"limits": {"memory": "9007199254740988Ki"}}}),
            0,
        ),
        (json!({"resources": {"limits": {"memory": "48Mi"}}}), 1),
        (
            json!({"phase": "Failed", "resources": {"limits": {"memory": "48Mi"}}}),
            1,
        ),
        (json!({"containerStatuses": [{"lastState": {}}]}), 1),
    ];
    for (status, count) in cases {
        let record = record(
            &place(),
            &[sighting(1, pod("u", &status))],
            &[],
            &BTreeMap::new(),
            None,
        );
        assert_eq!(record.pods["p"].last.len(), count, "{status}");
    }
}

#[test]
fn of_uids_only_those_of_objects_are_chance() {
    let user = json!({"name": "main", "user": {"linux": {"uid": 1234}}});
    let mut pod = pod("u1", &json!({"containerStatuses": [user]}));
    pod["metadata"]["ownerReferences"] = json!([{"name": "web", "uid": "u2"}]);
    let record = record(&place(), &[sighting(0, pod)], &[], &BTreeMap::new(), None);
    let last = &record.pods["p"].last;
    assert_eq!(last["containerStatuses[main].user.linux.uid"], "1234");
    assert_eq!(last["ownerReferences[web].uid"], "UID");
}

#[test]
fn a_run_is_brief_by_the_clock_of_the_runtime() {
    let run = |name: &str, state: &str, end: &str| {
        let times = json!({"startedAt": "2026-01-02T03:04:05Z", "finishedAt": end});
        json!({"name": name, state: {"terminated": times}})
    };
    let status = json!({"containerStatuses": [
        run("short", "state", "2026-01-02T03:04:06Z"),
        run("again", "lastState", "2026-01-02T03:04:08Z"),
        run("long", "state", "2026-01-02T03:04:09Z"),
        {"name": "runs", "state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}}},
    ]});
    let brief: Vec<_> = brief(&status).into_iter().collect();
    assert_eq!(brief, ["again", "short"]);
}
