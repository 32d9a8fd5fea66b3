//! The object that a node registers with.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeSpec, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::config::Config;
use crate::labels::{self, ATTACH_DETACH};
use crate::observe::Observed;
use crate::update::{Updated, update};

const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// A new node's object, with its whole status.
pub fn posted(config: &Config, observed: &Observed) -> Updated {
    let architecture = observed.machine.as_ref();
    let architecture = architecture.map_or("", |machine| &machine.architecture);
    let registration = &config.registration;
    let mut labels = labels::first(
        &config.identity.hostname,
        architecture,
        &registration.labels,
    );
    // Of a machine that cannot be looked at nothing is claimed.
    labels.retain(|_, value| !value.is_empty());
    let annotations = registration
        .attach_detach
        .then(|| BTreeMap::from([(ATTACH_DETACH.to_owned(), "true".to_owned())]));
    let taints = taints(config);
    let spec = NodeSpec {
        taints: (!taints.is_empty()).then_some(taints),
        provider_id: registration.provider_id.clone(),
        ..NodeSpec::default()
    };
    let bare = Node {
        metadata: ObjectMeta {
            name: Some(config.identity.node_name.clone()),
            labels: Some(labels),
            annotations,
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        status: None,
    };
    update(&bare, config, observed)
}

fn taints(config: &Config) -> Vec<Taint> {
    let mut taints = config.registration.taints.clone();
    if config.identity.external_cloud {
        taints.push(Taint {
            key: UNINITIALIZED.to_owned(),
            value: Some("true".to_owned()),
            effect: "NoSchedule".to_owned(),
            time_added: None,
        });
    }
    taints
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testdata::{config, observed, oracle};

    fn value(config: &Config) -> Value {
        serde_json::to_value(posted(config, &observed()).node).unwrap()
    }

    #[test]
    fn a_plain_node_is_posted_as_upstream_posts_it() {
        let ours = value(&config());
        let theirs = oracle();
        assert_eq!(ours["metadata"]["name"], theirs["metadata"]["name"]);
        assert_eq!(ours["metadata"]["labels"], theirs["metadata"]["labels"]);
        assert_eq!(
            ours["metadata"]["annotations"],
            json!({"volumes.kubernetes.io/controller-managed-attach-detach": "true"})
        );
        assert_eq!(ours["spec"], json!({}));
    }

    #[test]
    fn flags_and_settings_shape_the_first_object() {
        let mut config = config();
        config.registration.attach_detach = false;
        config.registration.provider_id = Some("cloud://7".to_owned());
        config.registration.taints = vec![Taint {
            key: "dedicated".to_owned(),
            value: Some("x".to_owned()),
            effect: "NoExecute".to_owned(),
            time_added: None,
        }];
        config.identity.external_cloud = true;
        let node = value(&config);
        assert_eq!(node["metadata"].get("annotations"), None);
        assert_eq!(
            node["spec"],
            json!({
                "providerID": "cloud://7",
                "taints": [
                    {"key": "dedicated", "value": "x", "effect": "NoExecute"},
                    {"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"},
                ],
            })
        );
        assert_eq!(
            node["status"]["addresses"],
            json!([{"type": "Hostname", "address": "up1"}])
        );
    }
}
