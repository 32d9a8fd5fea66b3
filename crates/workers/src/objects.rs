//! The objects that a pod's containers refer to: configMaps and secrets of their
//! environment, and the secrets that images are pulled with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::objects::{NodeReader, Referable, Reference, Referenced, RuntimeClasses};
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, select_all};
use k8s_openapi::api::core::v1::{ConfigMap, Container, Pod, Secret};

use crate::spec::container::of_ephemeral;
use crate::spec::env::{Kind, Unanswered};
use crate::spec::spec_of;

/// Where the objects come from; `None` without an API server.
#[derive(Clone, Debug)]
pub struct Objects {
    pub config_maps: Referenced<ConfigMap>,
    pub secrets: Referenced<Secret>,
    pub runtime_classes: RuntimeClasses,
    pub own_node: NodeReader,
}

/// Those that one pod refers to, held as long as it runs.
#[derive(Debug, Default)]
pub(crate) struct PodObjects {
    config_maps: BTreeMap<String, Reference<ConfigMap>>,
    secrets: BTreeMap<String, Reference<Secret>>,
}

/// What there is of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) config_maps: BTreeMap<String, ConfigMap>,
    pub(crate) secrets: BTreeMap<String, Secret>,
    /// Those that the API server has not told of, and why: they may be there.
    pub(crate) unanswered: Unanswered,
}

/// Names, by kind.
#[derive(Debug, Default, PartialEq, Eq)]
struct Names {
    config_maps: BTreeSet<String>,
    secrets: BTreeSet<String>,
}

impl PodObjects {
    /// All that there are now, of those that the pod refers to.
    pub(crate) async fn find(&mut self, from: Option<&Objects>, pod: &Pod) -> Found {
        let Some(from) = from else {
            return Found::default();
        };
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let names = Names::of(pod);
        hold(
            &from.config_maps,
            namespace,
            &names.config_maps,
            &mut self.config_maps,
        );
        hold(&from.secrets, namespace, &names.secrets, &mut self.secrets);
        let mut unanswered = Unanswered::new();
        Found {
            config_maps: found(&mut self.config_maps, Kind::ConfigMap, &mut unanswered).await,
            secrets: found(&mut self.secrets, Kind::Secret, &mut unanswered).await,
            unanswered,
        }
    }

    /// Ends when one of them is not as it was when it was looked at.
    pub(crate) async fn changed(&mut self) {
        let config_maps = self.config_maps.values_mut();
        let config_maps = config_maps.map(|reference| reference.changed().boxed());
        let secrets = self.secrets.values_mut();
        let secrets = secrets.map(|reference| reference.changed().boxed());
        let changes: Vec<BoxFuture<'_, ()>> = config_maps.chain(secrets).collect();
        if changes.is_empty() {
            return std::future::pending().await;
        }
        select_all(changes).await;
    }
}

impl Names {
    fn of(pod: &Pod) -> Self {
        let spec = spec_of(pod);
        let mut names = Self::default();
        let init = spec.init_containers.iter().flatten();
        for container in init.chain(&spec.containers) {
            names.add(container);
        }
        for container in spec.ephemeral_containers.iter().flatten() {
            names.add(&of_ephemeral(container));
        }
        let pull = spec.image_pull_secrets.iter().flatten();
        names.secrets.extend(pull.map(|secret| secret.name.clone()));
        names.config_maps.remove("");
        names.secrets.remove("");
        names
    }

    fn add(&mut self, container: &Container) {
        for source in container.env_from.iter().flatten() {
            let map = source.config_map_ref.as_ref().map(|one| one.name.clone());
            self.config_maps.extend(map);
            let secret = source.secret_ref.as_ref().map(|one| one.name.clone());
            self.secrets.extend(secret);
        }
        let variables = container.env.iter().flatten();
        for source in variables.filter_map(|variable| variable.value_from.as_ref()) {
            let map = source.config_map_key_ref.as_ref();
            self.config_maps.extend(map.map(|key| key.name.clone()));
            let secret = source.secret_key_ref.as_ref();
            self.secrets.extend(secret.map(|key| key.name.clone()));
        }
    }
}

fn hold<K: Referable>(
    from: &Referenced<K>,
    namespace: &str,
    names: &BTreeSet<String>,
    held: &mut BTreeMap<String, Reference<K>>,
) {
    held.retain(|name, _| names.contains(name));
    for name in names {
        held.entry(name.clone())
            .or_insert_with(|| from.register(namespace, name));
    }
}

async fn found<K: Referable>(
    held: &mut BTreeMap<String, Reference<K>>,
    kind: Kind,
    unanswered: &mut Unanswered,
) -> BTreeMap<String, K> {
    let mut there = BTreeMap::new();
    for (name, reference) in held {
        match reference.get().await {
            Ok(Some(object)) => {
                there.insert(name.clone(), K::clone(&Arc::clone(&object)));
            }
            Ok(None) => {}
            Err(error) => {
                unanswered.insert((kind, name.clone()), error.to_string());
            }
        }
    }
    there
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_refers_to_what_its_environment_and_its_images_need() {
        let pod = json!({ "spec": {
            "imagePullSecrets": [{ "name": "pull" }, { "name": "" }],
            "initContainers": [{ "name": "i", "envFrom": [
                { "configMapRef": { "name": "from" } }, { "secretRef": { "name": "hidden" } },
            ] }],
            "containers": [{ "name": "c", "env": [
                { "name": "A", "value": "1" },
                { "name": "B", "valueFrom": { "configMapKeyRef": { "name": "one", "key": "k" } } },
                { "name": "C", "valueFrom": { "secretKeyRef": { "name": "two", "key": "k" } } },
            ] }],
            "ephemeralContainers": [{ "name": "e", "envFrom": [
                { "configMapRef": { "name": "added" } },
            ] }],
        } });
        let names = Names::of(&serde_json::from_value(pod).unwrap());
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let expected = Names {
            config_maps: set(&["added", "from", "one"]),
            secrets: set(&["hidden", "pull", "two"]),
        };
        assert_eq!(names, expected);
    }
}
