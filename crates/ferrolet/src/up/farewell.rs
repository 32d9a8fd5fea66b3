//! Before a cluster goes for good, its pods go: nobody would end their containers after it.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, ResourceExt as _};
use seams::{Clock, timeout};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(200);

/// For all of them to be gone.
const PATIENCE: Duration = Duration::from_secs(30);

/// For an answer about them.
const PATIENCE_TO_COUNT: Duration = Duration::from_secs(2);

/// Of pods that nobody has ended.
pub(super) const MAY_RUN: &str = "pods of the cluster that is gone may still run: `crictl pods` shows them, `crictl rmp -f` removes them";

/// What there still is when a cluster has ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Remains {
    /// It ended before anybody looked.
    Unknown,
    Nothing,
    /// Its files, to go on with, and so many pods in containerd.
    Cluster {
        running: usize,
    },
    /// Pods that could not be ended, and why, of a cluster that is gone.
    Pods(String),
}

impl Remains {
    /// What people are told of it. `is_clean`: nothing went wrong, and the directory is as
    /// it was to be left.
    pub(super) fn last_words(&self, root: &Path, is_clean: bool) -> Vec<String> {
        match self {
            Self::Nothing if is_clean => vec!["nothing of the cluster is left".to_owned()],
            Self::Cluster { running } if is_clean => {
                let kept = format!(
                    "the cluster is kept in {}; the next `ferrolet up` goes on with it",
                    root.display()
                );
                let running = (*running > 0).then(|| run_on(*running));
                [kept].into_iter().chain(running).collect()
            }
            Self::Pods(cause) => vec![format!("warning: {MAY_RUN} ({cause})")],
            Self::Unknown | Self::Nothing | Self::Cluster { .. } => Vec::new(),
        }
    }
}

/// As with any kubelet, containers do not end with it.
fn run_on(pods: usize) -> String {
    let pods = match pods {
        1 => "1 pod runs on in containerd: the next `ferrolet up` takes it up again".to_owned(),
        _ => {
            format!("{pods} pods run on in containerd: the next `ferrolet up` takes them up again")
        }
    };
    format!("{pods}, and `kubectl delete pod` ends one then; `crictl rmp -fa` ends all now")
}

/// How many pods of a node have containers that run, as far as anybody can say.
pub(super) async fn running_pods(client: &Client, clock: &dyn Clock, node: &str) -> usize {
    let all: Api<Pod> = Api::all(client.clone());
    let own = ListParams::default().fields(&format!("spec.nodeName={node}"));
    match timeout(clock, PATIENCE_TO_COUNT, all.list(&own)).await {
        Ok(Ok(pods)) => pods.items.iter().filter(|pod| runs(pod)).count(),
        _ => 0,
    }
}

/// A pod that waits for its image, or to be started again, has nothing that runs on.
fn runs(pod: &Pod) -> bool {
    let Some(status) = &pod.status else {
        return false;
    };
    let containers = [
        &status.init_container_statuses,
        &status.container_statuses,
        &status.ephemeral_container_statuses,
    ];
    let mut containers = containers.into_iter().flatten().flatten();
    containers.any(|container| {
        let state = container.state.as_ref();
        state.is_some_and(|state| state.running.is_some())
    })
}

/// Removes all pods; how many are left.
pub(super) async fn remove_pods(client: &Client, clock: &dyn Clock) -> Result<(), String> {
    let removing = async {
        let all: Api<Pod> = Api::all(client.clone());
        let soon = DeleteParams::default().grace_period(1);
        loop {
            let pods = all.list(&ListParams::default()).await?.items;
            if pods.is_empty() {
                return Ok::<(), kube::Error>(());
            }
            for pod in pods {
                if pod.metadata.deletion_timestamp.is_some() {
                    continue;
                }
                let namespace = pod.namespace().unwrap_or_default();
                let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
                match pods.delete(&pod.name_any(), &soon).await {
                    Ok(_) => {}
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    Err(error) => return Err(error),
                }
            }
            clock.sleep(LOOK).await;
        }
    };
    match timeout(clock, PATIENCE, removing).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("they did not end in time".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_is_said_to_be_left_only_where_nothing_is() {
        let root = Path::new("/d");
        let cluster = |running| Remains::Cluster { running };
        let pods = || Remains::Pods("they did not end in time".to_owned());
        for (remains, is_clean, told) in [
            (Remains::Nothing, true, "nothing of the cluster is left"),
            (Remains::Nothing, false, ""),
            (cluster(0), true, "the cluster is kept in /d;"),
            (cluster(2), false, ""),
            (Remains::Unknown, false, ""),
            (pods(), true, "warning: pods of the cluster"),
            (pods(), false, "warning: pods of the cluster"),
        ] {
            let lines = remains.last_words(root, is_clean);
            let line = lines.first().map_or("", String::as_str);
            assert!(line.starts_with(told), "{remains:?} {line}");
            assert_eq!(line.is_empty(), told.is_empty(), "{remains:?} {line}");
        }
    }

    #[test]
    fn pods_that_run_on_are_counted_and_how_they_end_is_told() {
        for (running, told) in [
            (0, None),
            (1, Some("1 pod runs on")),
            (2, Some("2 pods run on")),
        ] {
            let lines = Remains::Cluster { running }.last_words(Path::new("/d"), true);
            let line = lines.get(1);
            assert_eq!(line.is_some(), told.is_some(), "{lines:?}");
            if let (Some(line), Some(told)) = (line, told) {
                assert!(
                    line.starts_with(told) && line.contains("crictl rmp"),
                    "{line}"
                );
            }
        }
    }

    #[test]
    fn only_a_pod_with_a_container_that_runs_runs_on() {
        let running = json!({"running": {}});
        let ended = json!({"terminated": {"exitCode": 0}});
        let waiting = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        for (phase, list, state, runs_on) in [
            ("Running", "containerStatuses", &running, true),
            ("Running", "containerStatuses", &waiting, false),
            ("Running", "ephemeralContainerStatuses", &running, true),
            ("Pending", "initContainerStatuses", &running, true),
            ("Pending", "containerStatuses", &waiting, false),
            ("Succeeded", "containerStatuses", &ended, false),
        ] {
            let container = json!({
                "name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
                "state": state,
            });
            let pod = json!({"status": {"phase": phase, list: [container]}});
            let pod: Pod = serde_json::from_value(pod).unwrap();
            assert_eq!(runs(&pod), runs_on, "{phase} {list} {state}");
        }
        let unseen: Pod = serde_json::from_value(json!({"status": {"phase": "Pending"}})).unwrap();
        assert!(!runs(&unseen) && !runs(&Pod::default()));
    }
}
