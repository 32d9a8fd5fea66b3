//! Which node has to do with which object: through the pods that are bound to it, the
//! claims of those, and the volumes of those.

use std::collections::{HashMap, HashSet};

use k8s_openapi::api::core::v1::{PersistentVolume, Pod};

use super::pod_references::{PodReferences, volume_secrets};

pub(crate) const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// A kind of object that nodes see only as far as they have to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Related {
    Pod,
    Secret,
    ConfigMap,
    Claim,
    ServiceAccount,
    Volume,
}

type Name = (String, String);

/// An index, kept up with changes of pods and volumes.
#[derive(Debug, Default)]
pub(crate) struct References {
    /// What each bound pod was entered with, to be taken out again.
    pods: HashMap<Name, Vec<(Related, Name)>>,
    pod_nodes: HashMap<Name, String>,
    /// How many pods of a node refer to an object.
    nodes: HashMap<(Related, Name), HashMap<String, usize>>,
    /// The claim of each volume, and the secrets that it needs.
    volumes: HashMap<String, (Name, Vec<Name>)>,
    volumes_of_secret: HashMap<Name, HashSet<String>>,
}

impl References {
    pub(crate) fn set_pod(&mut self, pod: &Pod) {
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        let name = pod.metadata.name.clone().unwrap_or_default();
        self.remove_pod(&namespace, &name);
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let Some(node) = node.filter(|node| !node.is_empty()) else {
            return;
        };
        let mut related = vec![(Related::Pod, (namespace.clone(), name.clone()))];
        let annotations = pod.metadata.annotations.as_ref();
        // A node makes these itself: they must not open anything to it.
        let is_mirror = annotations.is_some_and(|all| all.contains_key(MIRROR_ANNOTATION));
        if !is_mirror {
            let PodReferences {
                secrets,
                config_maps,
                claims,
                service_account,
            } = PodReferences::of(pod);
            let named = |kind: Related, names: Vec<String>| {
                let namespace = namespace.clone();
                names
                    .into_iter()
                    .map(move |name| (kind, (namespace.clone(), name)))
            };
            related.extend(named(Related::Secret, secrets));
            related.extend(named(Related::ConfigMap, config_maps));
            related.extend(named(Related::Claim, claims));
            let account = service_account.into_iter().collect();
            related.extend(named(Related::ServiceAccount, account));
        }
        for object in &related {
            let counts = self.nodes.entry(object.clone()).or_default();
            *counts.entry(node.clone()).or_default() += 1;
        }
        self.pod_nodes
            .insert((namespace.clone(), name.clone()), node);
        self.pods.insert((namespace, name), related);
    }

    pub(crate) fn remove_pod(&mut self, namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        let (Some(related), Some(node)) = (self.pods.remove(&key), self.pod_nodes.remove(&key))
        else {
            return;
        };
        for object in related {
            let Some(counts) = self.nodes.get_mut(&object) else {
                continue;
            };
            if let Some(count) = counts.get_mut(&node) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(&node);
                }
            }
            if counts.is_empty() {
                self.nodes.remove(&object);
            }
        }
    }

    pub(crate) fn set_volume(&mut self, volume: &PersistentVolume) {
        let name = volume.metadata.name.clone().unwrap_or_default();
        self.remove_volume(&name);
        let claim = volume
            .spec
            .as_ref()
            .and_then(|spec| spec.claim_ref.as_ref());
        let Some(claim) = claim else {
            return;
        };
        let claim = (
            claim.namespace.clone().unwrap_or_default(),
            claim.name.clone().unwrap_or_default(),
        );
        let secrets = volume_secrets(volume, &claim.0);
        for secret in &secrets {
            let volumes = self.volumes_of_secret.entry(secret.clone()).or_default();
            volumes.insert(name.clone());
        }
        self.volumes.insert(name, (claim, secrets));
    }

    pub(crate) fn remove_volume(&mut self, name: &str) {
        let Some((_, secrets)) = self.volumes.remove(name) else {
            return;
        };
        for secret in secrets {
            if let Some(volumes) = self.volumes_of_secret.get_mut(&secret) {
                volumes.remove(name);
                if volumes.is_empty() {
                    self.volumes_of_secret.remove(&secret);
                }
            }
        }
    }

    /// Everything is forgotten: the lists are read anew.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn relates(&self, node: &str, kind: Related, namespace: &str, name: &str) -> bool {
        if kind == Related::Volume {
            return self
                .volumes
                .get(name)
                .is_some_and(|(claim, _)| self.by_pod(node, Related::Claim, claim));
        }
        let object = (namespace.to_owned(), name.to_owned());
        if self.by_pod(node, kind, &object) {
            return true;
        }
        if kind != Related::Secret {
            return false;
        }
        let mut volumes = self.volumes_of_secret.get(&object).into_iter().flatten();
        volumes.any(|volume| self.relates(node, Related::Volume, "", volume))
    }

    fn by_pod(&self, node: &str, kind: Related, object: &Name) -> bool {
        let nodes = self.nodes.get(&(kind, object.clone()));
        nodes.is_some_and(|nodes| nodes.contains_key(node))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, node: &str, more: Value) -> Pod {
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "team"},
            "spec": {
                "nodeName": node, "containers": [], "serviceAccountName": "account",
                "volumes": [
                    {"name": "a", "secret": {"secretName": "secret"}},
                    {"name": "b", "configMap": {"name": "map"}},
                    {"name": "c", "persistentVolumeClaim": {"claimName": "claim"}},
                ],
            },
        });
        if let Value::Object(more) = more {
            pod["metadata"].as_object_mut().unwrap().extend(more);
        }
        serde_json::from_value(pod).unwrap()
    }

    fn volume() -> PersistentVolume {
        serde_json::from_value(json!({
            "metadata": {"name": "volume"},
            "spec": {
                "claimRef": {"namespace": "team", "name": "claim"},
                "csi": {"driver": "d", "volumeHandle": "v", "nodeStageSecretRef": {"name": "stage", "namespace": "storage"}},
            },
        }))
        .unwrap()
    }

    fn related(references: &References, node: &str) -> Vec<(Related, &'static str)> {
        [
            (Related::Pod, "team", "p"),
            (Related::Secret, "team", "secret"),
            (Related::ConfigMap, "team", "map"),
            (Related::Claim, "team", "claim"),
            (Related::ServiceAccount, "team", "account"),
            (Related::Volume, "", "volume"),
            (Related::Secret, "storage", "stage"),
        ]
        .into_iter()
        .filter(|(kind, namespace, name)| references.relates(node, *kind, namespace, name))
        .map(|(kind, _, name)| (kind, name))
        .collect()
    }

    #[test]
    fn a_node_has_to_do_with_what_its_pods_refer_to() {
        let mut references = References::default();
        references.set_pod(&pod("p", "one", Value::Null));
        references.set_volume(&volume());
        assert_eq!(related(&references, "one").len(), 7);
        assert_eq!(related(&references, "two"), []);
        assert!(!references.relates("one", Related::Secret, "other", "secret"));
        assert!(!references.relates("one", Related::ConfigMap, "team", "secret"));
        references.remove_volume("volume");
        assert_eq!(related(&references, "one").len(), 5);
        references.remove_pod("team", "p");
        assert_eq!(related(&references, "one"), []);
        assert!(references.nodes.is_empty() && references.volumes_of_secret.is_empty());
    }

    #[test]
    fn the_last_of_several_pods_takes_the_relation_with_it() {
        let mut references = References::default();
        references.set_pod(&pod("p", "one", Value::Null));
        references.set_pod(&pod("q", "one", Value::Null));
        references.set_pod(&pod("q", "one", Value::Null));
        references.remove_pod("team", "p");
        assert!(references.relates("one", Related::Secret, "team", "secret"));
        references.remove_pod("team", "q");
        assert!(!references.relates("one", Related::Secret, "team", "secret"));
    }

    #[test]
    fn a_mirror_pod_opens_nothing_but_itself() {
        let mut references = References::default();
        let mirror = json!({"annotations": {MIRROR_ANNOTATION: "x"}});
        references.set_pod(&pod("p", "one", mirror));
        assert_eq!(related(&references, "one"), [(Related::Pod, "p")]);
    }

    #[test]
    fn a_pod_that_is_not_bound_opens_nothing() {
        let mut references = References::default();
        references.set_pod(&pod("p", "", Value::Null));
        assert_eq!(related(&references, ""), []);
    }
}
