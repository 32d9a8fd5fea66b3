//! What becomes of a pod on a node.

use std::path::Path;

use cluster::layout::KUBELET_DIRECTORY;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStatus, Event, Pod, PodCondition, PodStatus,
};

use super::live::Live;
use super::walk::{Step, Walk};
use crate::local_node::look::Look;

/// Events that are told, at most: the newest.
const EVENTS: usize = 12;

pub(super) fn walk(live: Option<&Live>) -> Walk {
    let pod = live.and_then(|live| Some((live, live.pod.as_ref()?)));
    let names = Names::of(pod.map(|(_, pod)| pod));
    Walk {
        title: "What becomes of a pod on a node",
        steps: vec![
            source(live, pod, &names),
            admission(pod),
            volumes(pod),
            sandbox(pod),
            containers(pod, &names),
            probes(pod),
            status(pod, &names),
            end(pod, &names),
        ],
    }
}

type Told<'a> = Option<(&'a Live, &'a Pod)>;

/// How commands name the pod.
struct Names {
    namespace: String,
    name: String,
}

impl Names {
    fn of(pod: Option<&Pod>) -> Self {
        let metadata = pod.map(|pod| &pod.metadata);
        let text = |field: Option<&Option<String>>, usual: &str| {
            let text = field.and_then(Clone::clone);
            text.unwrap_or_else(|| usual.to_owned())
        };
        Self {
            namespace: text(metadata.map(|metadata| &metadata.namespace), "NAMESPACE"),
            name: text(metadata.map(|metadata| &metadata.name), "POD"),
        }
    }

    fn kubectl(&self, verb: &str, rest: &str) -> String {
        let Self { namespace, name } = self;
        format!("kubectl --namespace {namespace} {verb} {name}{rest}")
    }
}

fn status_of(pod: &Pod) -> Option<&PodStatus> {
    pod.status.as_ref()
}

fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    let conditions = status_of(pod)?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind)
}

/// `Ready: True since …`.
fn told(live: &Live, pod: &Pod, kind: &str) -> Option<String> {
    let condition = condition(pod, kind)?;
    let since = condition.last_transition_time.as_ref();
    let since = since.map_or(String::new(), |time| {
        format!(" since {}", live.when(time.0))
    });
    let message = condition.message.as_deref().unwrap_or_default();
    let message = if message.is_empty() {
        String::new()
    } else {
        format!(": {message}")
    };
    Some(format!("{kind}: {}{since}{message}", condition.status))
}

fn source(live: Option<&Live>, pod: Told<'_>, names: &Names) -> Step {
    let node = live.map_or("NODE", |live| &live.name);
    let text = "The scheduler writes the node's name into the pod. The agent watches for pods with its name; it also reads manifests from staticPodPath and staticPodURL, whose pods it shows in the API as mirrors. All of them are one desired set, and each pod in it has a worker of its own.";
    let here = match (live, pod) {
        (_, Some((live, pod))) => {
            let metadata = &pod.metadata;
            let source = metadata.annotations.as_ref();
            let source = source.and_then(|all| all.get("kubernetes.io/config.source"));
            let created = metadata.creation_timestamp.as_ref();
            let created = created.map_or(String::new(), |time| live.when(time.0));
            vec![format!(
                "pod {}/{}, from {}, made {created}",
                names.namespace,
                names.name,
                source.map_or("the API", String::as_str)
            )]
        }
        (Some(_), None) => vec!["no pod of this node is seen".to_owned()],
        (None, None) => Vec::new(),
    };
    Step::new(text).here(here).look(format!(
        "kubectl get pods --all-namespaces --field-selector spec.nodeName={node}"
    ))
}

fn admission(pod: Told<'_>) -> Step {
    let text = "First it is admitted or not: does the node have the resources, do selectors, taints and ports fit, may it have its sysctls? What is not admitted ends as Failed, with a reason such as OutOfcpu; a critical pod may push others out.";
    let here = pod.and_then(|(_, pod)| {
        let status = status_of(pod)?;
        let phase = status.phase.as_deref().unwrap_or("none yet");
        let reason = status.reason.as_deref().unwrap_or_default();
        let class = status.qos_class.as_deref().unwrap_or("unknown");
        Some(
            format!("phase {phase} {reason}").trim_end().to_owned()
                + &format!(", class of service {class}"),
        )
    });
    Step::new(text).here(here)
}

fn volumes(pod: Told<'_>) -> Step {
    let text = "It gets a cgroup and a directory below the agent's root, and its volumes: configMaps and secrets are fetched and kept fresh, others waited for until they are attached, and mounted. What is missing is told by the event FailedMount, and tried again.";
    let here = pod.and_then(|(_, pod)| {
        let volumes = pod.spec.as_ref()?.volumes.as_ref()?;
        let names: Vec<&str> = volumes.iter().map(|volume| volume.name.as_str()).collect();
        Some(format!("volumes: {}", names.join(", ")))
    });
    let uid = pod.and_then(|(_, pod)| pod.metadata.uid.clone());
    let uid = uid.unwrap_or_else(|| "UID".to_owned());
    let step = Step::new(text).here(here);
    match root_directory(pod) {
        Some(root) => step.look(format!("sudo ls {}/pods/{uid}/volumes", root.display())),
        None => step,
    }
}

/// Below which the pod's files are; a simulated node has none.
fn root_directory(pod: Told<'_>) -> Option<&Path> {
    let usual = Some(Path::new(KUBELET_DIRECTORY));
    pod.map_or(usual, |(live, _)| live.root_directory.as_deref())
}

fn sandbox(pod: Told<'_>) -> Step {
    let text = "The runtime makes the sandbox: the pod's namespaces, in which a CNI plugin puts its network and its address. Pods on the host's network have the node's.";
    let here = pod.map(|(live, pod)| {
        let address = status_of(pod).and_then(|status| status.pod_ip.clone());
        let address = address.map(|address| format!("address {address}"));
        let ready = told(live, pod, "PodReadyToStartContainers");
        address.into_iter().chain(ready).collect::<Vec<_>>()
    });
    let name = pod.and_then(|(_, pod)| pod.metadata.name.clone());
    let step = Step::new(text).here(here.into_iter().flatten());
    if root_directory(pod).is_none() {
        return step;
    }
    step.look(format!(
        "sudo crictl pods --name {}",
        name.as_deref().unwrap_or("POD")
    ))
}

fn containers(pod: Told<'_>, names: &Names) -> Step {
    let text = "Images are pulled, with the pod's and the node's credentials, then init containers run one after the other, then all others start. One that ends is started again as restartPolicy says, after 10 s, 20 s and so on up to five minutes (CrashLoopBackOff); an image that cannot be pulled waits in the same way (ImagePullBackOff).";
    let here = pod.map(|(live, pod)| {
        let status = status_of(pod);
        let list = |of: fn(&PodStatus) -> &Option<Vec<ContainerStatus>>| {
            let found = status.and_then(|status| of(status).as_ref());
            found.into_iter().flatten().collect::<Vec<_>>()
        };
        let init = list(|status| &status.init_container_statuses).into_iter();
        let init = init.map(|one| format!("init {}", container(live, one)));
        let all = list(|status| &status.container_statuses).into_iter();
        init.chain(all.map(|one| container(live, one)))
            .collect::<Vec<_>>()
    });
    Step::new(text)
        .here(here.into_iter().flatten())
        .look(names.kubectl("logs", " --all-containers"))
}

fn container(live: &Live, status: &ContainerStatus) -> String {
    let state = status
        .state
        .as_ref()
        .map_or("not started".to_owned(), |state| state_told(live, state));
    format!(
        "{}: {state}, {} restarts",
        status.name, status.restart_count
    )
}

fn state_told(live: &Live, state: &ContainerState) -> String {
    let ContainerState {
        running,
        terminated,
        waiting,
    } = state;
    if let Some(running) = running {
        let since = running.started_at.as_ref();
        let since = since.map_or(String::new(), |time| {
            format!(" since {}", live.when(time.0))
        });
        return format!("running{since}");
    }
    if let Some(ended) = terminated {
        let reason = ended.reason.as_deref().unwrap_or("ended");
        return format!("{reason}, exit code {}", ended.exit_code);
    }
    let waiting = waiting.as_ref();
    let reason = waiting.and_then(|waiting| waiting.reason.as_deref());
    format!("waiting: {}", reason.unwrap_or("no reason yet"))
}

fn probes(pod: Told<'_>) -> Step {
    let text = "A startup probe holds the others back until it succeeds. A liveness probe that fails has its container killed and started again. A readiness probe decides over Ready, and so over traffic: a pod is Ready when all of its containers and readiness gates are.";
    let here = pod.map(|(live, pod)| {
        let kinds = ["Initialized", "ContainersReady", "Ready"];
        let lines = kinds.iter().filter_map(|kind| told(live, pod, kind));
        lines.collect::<Vec<_>>()
    });
    Step::new(text).here(here.into_iter().flatten())
}

fn status(pod: Told<'_>, names: &Names) -> Step {
    let text = "What the runtime shows is listed every second at the latest, compared, and sent to the API as the pod's status: ends and readiness first. Events tell the story beside it.";
    let here = pod.map(|(live, _)| match &live.events {
        Look::Seen(events) if events.is_empty() => {
            vec!["no events are left: the cluster keeps them for an hour".to_owned()]
        }
        Look::Seen(events) => event_lines(events, live.now),
        Look::Hidden(hidden) => vec![format!(
            "events: {}; give --admin-kubeconfig FILE",
            hidden.why
        )],
        Look::Skipped => vec!["events are not seen".to_owned()],
    });
    Step::new(text)
        .here(here.into_iter().flatten())
        .look(names.kubectl("describe pod", ""))
}

fn event_lines(events: &[Event], now: Timestamp) -> Vec<String> {
    let moment = |event: &Event| {
        let last = event.last_timestamp.as_ref().map(|time| time.0);
        let first = event.event_time.as_ref().map(|time| time.0);
        let made = event
            .metadata
            .creation_timestamp
            .as_ref()
            .map(|time| time.0);
        last.or(first).or(made)
    };
    let mut sorted: Vec<&Event> = events.iter().collect();
    sorted.sort_by_key(|event| moment(event));
    let from = sorted.len().saturating_sub(EVENTS);
    let line = |event: &&Event| {
        let ago = moment(event).map(|time| now.duration_since(time).as_secs());
        let ago = u64::try_from(ago.unwrap_or_default()).unwrap_or_default();
        let ago = crate::output::age(std::time::Duration::from_secs(ago));
        format!(
            "{ago} ago {}: {}",
            event.reason.as_deref().unwrap_or_default(),
            event.message.as_deref().unwrap_or_default()
        )
    };
    sorted[from..].iter().map(line).collect()
}

fn end(pod: Told<'_>, names: &Names) -> Step {
    let text = "A deletion in the API is a wish: it sets deletionTimestamp and a grace period. The agent runs preStop hooks, sends SIGTERM, and SIGKILL when the grace is over; then it unmounts the volumes, removes the cgroup, reports the end, and takes the object out of the API. If the agent itself ends or restarts, containers run on.";
    let here = pod.map(|(live, pod)| {
        if let Some(time) = &pod.metadata.deletion_timestamp {
            return format!("to be gone by {}", live.when(time.0));
        }
        let spec = pod.spec.as_ref();
        let grace = spec.and_then(|spec| spec.termination_grace_period_seconds);
        format!("not deleted; its grace would be {} s", grace.unwrap_or(30))
    });
    Step::new(text)
        .here(here)
        .look(names.kubectl("delete pod", " --wait=false"))
}
