//! What is written on sandboxes and containers, so that they can be found and
//! understood again: upstream's keys, for a node may change its agent.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod};

use super::go_json::go_json;
use super::hash::hash_text;
use super::pod_ref;

pub const POD_NAME: &str = "io.kubernetes.pod.name";
pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
pub const POD_UID: &str = "io.kubernetes.pod.uid";
pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";

pub const HASH: &str = "io.kubernetes.container.hash";
pub const RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
pub const MESSAGE_PATH: &str = "io.kubernetes.container.terminationMessagePath";
pub const MESSAGE_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
pub const PRE_STOP: &str = "io.kubernetes.container.preStopHandler";
pub const PORTS: &str = "io.kubernetes.container.ports";
pub const DELETION_GRACE: &str = "io.kubernetes.pod.deletionGracePeriod";
pub const TERMINATION_GRACE: &str = "io.kubernetes.pod.terminationGracePeriod";

type Texts = BTreeMap<String, String>;

/// The pod's own, and who it is.
pub fn of_sandbox(pod: &Pod) -> Texts {
    let mut labels = pod.metadata.labels.clone().unwrap_or_default();
    labels.extend(identity(pod));
    labels
}

pub fn of_container(pod: &Pod, container: &Container) -> Texts {
    let mut labels: Texts = identity(pod).into();
    labels.insert(CONTAINER_NAME.to_owned(), container.name.clone());
    labels
}

fn identity(pod: &Pod) -> [(String, String); 3] {
    let pod = pod_ref(pod);
    [
        (POD_NAME.to_owned(), pod.name.name),
        (POD_NAMESPACE.to_owned(), pod.name.namespace),
        (POD_UID.to_owned(), pod.uid.to_string()),
    ]
}

/// What is needed of a container's spec when only the container is left.
pub fn annotations(pod: &Pod, container: &Container, restart_count: u32) -> Texts {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut annotations = Texts::from([
        (HASH.to_owned(), hash_text(container)),
        (RESTART_COUNT.to_owned(), restart_count.to_string()),
        (
            MESSAGE_PATH.to_owned(),
            text(&container.termination_message_path),
        ),
        (
            MESSAGE_POLICY.to_owned(),
            text(&container.termination_message_policy),
        ),
    ]);
    let spec = pod.spec.as_ref();
    let graces = [
        (DELETION_GRACE, pod.metadata.deletion_grace_period_seconds),
        (
            TERMINATION_GRACE,
            spec.and_then(|spec| spec.termination_grace_period_seconds),
        ),
    ];
    for (key, grace) in graces {
        annotations.extend(grace.map(|grace| (key.to_owned(), grace.to_string())));
    }
    let pre_stop = container
        .lifecycle
        .as_ref()
        .and_then(|lifecycle| lifecycle.pre_stop.as_ref());
    let pre_stop = pre_stop.and_then(|handler| serde_json::to_value(handler).ok());
    annotations.extend(pre_stop.map(|json| (PRE_STOP.to_owned(), go_json(&json))));
    let ports = container.ports.as_ref().filter(|ports| !ports.is_empty());
    let ports = ports.and_then(|ports| serde_json::to_value(ports).ok());
    annotations.extend(ports.map(|json| (PORTS.to_owned(), go_json(&json))));
    annotations
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::spec::testing;

    fn object(texts: &Texts) -> Value {
        serde_json::to_value(texts).unwrap()
    }

    #[test]
    fn a_sandbox_has_its_pods_labels_and_containers_have_only_the_identity() {
        let mut pod = testing::pod(&json!({}));
        let own = [("app", "web"), (POD_NAME, "forged")];
        let own = own.map(|(key, value)| (key.to_owned(), value.to_owned()));
        pod.metadata.labels = Some(own.into());
        assert_eq!(
            object(&of_sandbox(&pod)),
            json!({
                "app": "web",
                "io.kubernetes.pod.name": "web",
                "io.kubernetes.pod.namespace": "shop",
                "io.kubernetes.pod.uid": "u-1",
            })
        );
        assert_eq!(
            object(&of_container(&pod, &testing::container(&json!({})))),
            json!({
                "io.kubernetes.container.name": "app",
                "io.kubernetes.pod.name": "web",
                "io.kubernetes.pod.namespace": "shop",
                "io.kubernetes.pod.uid": "u-1",
            })
        );
    }

    #[test]
    fn a_plain_container_is_annotated_with_the_least() {
        let container = testing::container(&json!({
            "name": "test_container", "image": "foo/image:v1", "ports": [],
        }));
        assert_eq!(
            object(&annotations(&testing::pod(&json!({})), &container, 0)),
            json!({
                "io.kubernetes.container.hash": "8e45cbd0",
                "io.kubernetes.container.restartCount": "0",
                "io.kubernetes.container.terminationMessagePath": "",
                "io.kubernetes.container.terminationMessagePolicy": "",
            })
        );
    }

    #[test]
    fn everything_that_an_orderly_end_needs_is_in_the_annotations() {
        let mut pod = testing::pod(&json!({ "terminationGracePeriodSeconds": 30 }));
        pod.metadata.deletion_grace_period_seconds = Some(5);
        let handler = json!({ "exec": { "command": ["stop"] } });
        let ports = json!([{ "containerPort": 80, "name": "http", "protocol": "TCP" }]);
        let container = testing::container(&json!({
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "lifecycle": { "preStop": handler },
            "ports": ports,
        }));
        let annotations = annotations(&pod, &container, 7);
        for (key, value) in [
            (RESTART_COUNT, "7"),
            (MESSAGE_PATH, "/dev/termination-log"),
            (MESSAGE_POLICY, "File"),
            (DELETION_GRACE, "5"),
            (TERMINATION_GRACE, "30"),
        ] {
            assert_eq!(annotations[key], value, "{key}");
        }
        let json = |key: &str| serde_json::from_str::<Value>(&annotations[key]).unwrap();
        assert_eq!(json(PRE_STOP), handler);
        assert_eq!(json(PORTS), ports);
    }
}
