//! Namespaces: what each of them has from its beginning, and their end with all that is
//! in them.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use serde_json::{Value, json};
use tracing::info;

use super::agenda::Agenda;
use super::mirror::{Bare, Mirror};
use super::settled;
use crate::failure::Failure;
use crate::kinds::{CONFIG_MAPS, KINDS, NAMESPACES, SERVICE_ACCOUNTS};
use crate::rest::{DeleteOptions, Objects, Part};
use crate::store::Key;

const FINALIZER: &str = "kubernetes";
const ROOT_CA: &str = "kube-root-ca.crt";
const DEFAULT_ACCOUNT: &str = "default";
/// Between two looks at a namespace that is being emptied.
const AGAIN: Duration = Duration::from_millis(250);

pub(crate) struct Namespaces {
    pub(crate) objects: Objects,
    /// The CA of the cluster, as PEM.
    pub(crate) ca: String,
}

impl Namespaces {
    /// Each by itself: emptying one that is large takes long, and nobody can make pods in a new
    /// one before it is furnished.
    pub(crate) async fn run(self) {
        tokio::join!(self.furnish_all(), self.empty_all());
    }

    async fn furnish_all(&self) {
        let clock = self.objects.clock().clone();
        let store = self.objects.store();
        let mut namespaces: Mirror<Namespace> = Mirror::new(store, &NAMESPACES);
        let mut accounts: Mirror<Bare> = Mirror::new(store, &SERVICE_ACCOUNTS);
        let mut config_maps: Mirror<Bare> = Mirror::new(store, &CONFIG_MAPS);
        let mut agenda = Agenda::new(namespaces.names());
        let of = |names: Vec<(String, String)>, what: &str| {
            let names = names.into_iter().filter(|(_, name)| name == what);
            names
                .map(|(namespace, _)| (String::new(), namespace))
                .collect::<Vec<_>>()
        };
        loop {
            for name in agenda.take(|| namespaces.names()) {
                let outcome = match namespaces.get("", &name.1) {
                    Some(namespace) if !is_going(namespace) => self.furnish(&name.1).await,
                    _ => Ok(None),
                };
                agenda.done("namespaces", name, outcome);
            }
            tokio::select! {
                names = namespaces.changed() => agenda.now(names),
                names = accounts.changed() => agenda.now(of(names, DEFAULT_ACCOUNT)),
                names = config_maps.changed() => agenda.now(of(names, ROOT_CA)),
                () = agenda.wait(&clock) => {}
            }
        }
    }

    async fn empty_all(&self) {
        let clock = self.objects.clock().clone();
        let mut namespaces: Mirror<Namespace> = Mirror::new(self.objects.store(), &NAMESPACES);
        let mut agenda = Agenda::new(namespaces.names());
        loop {
            for name in agenda.take(|| namespaces.names()) {
                let outcome = match namespaces.get("", &name.1) {
                    Some(namespace) if is_going(namespace) => self.empty(&name.1).await,
                    _ => Ok(None),
                };
                agenda.done("namespaces", name, outcome);
            }
            tokio::select! {
                names = namespaces.changed() => agenda.now(names),
                () = agenda.wait(&clock) => {}
            }
        }
    }

    /// The service account that pods have by default, and what they verify the server with.
    async fn furnish(&self, namespace: &str) -> Result<Option<Duration>, Failure> {
        let store = self.objects.store();
        if store
            .get(&Key::new(&SERVICE_ACCOUNTS, namespace, DEFAULT_ACCOUNT))
            .is_none()
        {
            let account = json!({
                "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": DEFAULT_ACCOUNT, "namespace": namespace},
            });
            settled(
                self.objects
                    .create(&SERVICE_ACCOUNTS, namespace, account)
                    .await,
            )?;
        }
        let key = Key::new(&CONFIG_MAPS, namespace, ROOT_CA);
        match store.get(&key) {
            None => {
                let config_map = root_ca(namespace, &self.ca);
                settled(
                    self.objects
                        .create(&CONFIG_MAPS, namespace, config_map)
                        .await,
                )?;
            }
            Some(found) if found.value()["data"] != json!({"ca.crt": self.ca}) => {
                let kept = self.objects.modify(&key, Part::Whole, |object| {
                    object["data"] = json!({"ca.crt": self.ca});
                    true
                });
                settled(kept.await)?;
            }
            Some(_) => {}
        }
        Ok(None)
    }

    /// Takes away what is in a namespace; when that is nothing, lets go of it.
    async fn empty(&self, namespace: &str) -> Result<Option<Duration>, Failure> {
        let mut left = Vec::new();
        let mut to_delete = Vec::new();
        for kind in KINDS.iter().filter(|kind| kind.namespaced && kind.stored) {
            for stored in self.objects.store().list(kind, Some(namespace)).items {
                let value = stored.value();
                left.push(Left::of(kind.qualified(), &value));
                if value["metadata"]["deletionTimestamp"].is_null() {
                    to_delete.push(stored.key());
                }
            }
        }
        let options = DeleteOptions::default();
        self.objects.delete_all(to_delete, &options).await?;
        let key = Key::global(&NAMESPACES, namespace);
        // What went at once is not seen again: the next look decides.
        let is_empty = left.is_empty();
        if is_empty {
            info!(namespace, "a namespace is empty and goes");
        }
        let now = self.objects.clock().seconds();
        let told = self.objects.modify(&key, Part::Whole, |object| {
            object["status"]["phase"] = json!("Terminating");
            if is_empty {
                let finalizers = object["spec"]["finalizers"].as_array_mut();
                if let Some(finalizers) = finalizers {
                    finalizers.retain(|one| one != FINALIZER);
                }
            } else {
                tell(object, &left, &now);
            }
            true
        });
        settled(told.await)?;
        Ok((!is_empty).then_some(AGAIN))
    }
}

fn is_going(namespace: &Namespace) -> bool {
    namespace.metadata.deletion_timestamp.is_some()
}

/// Something that is still in a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Left {
    kind: String,
    finalizers: Vec<String>,
}

impl Left {
    fn of(kind: String, object: &Value) -> Self {
        let finalizers = object["metadata"]["finalizers"].as_array();
        let texts = finalizers.into_iter().flatten().filter_map(Value::as_str);
        Self {
            kind,
            finalizers: texts.map(str::to_owned).collect(),
        }
    }
}

/// What stands in the way of a namespace's end, in upstream's conditions.
fn tell(object: &mut Value, left: &[Left], now: &str) {
    let counted = |words: &str, names: Vec<&str>| {
        let mut counts = std::collections::BTreeMap::<&str, usize>::new();
        for name in names {
            *counts.entry(name).or_default() += 1;
        }
        let counts: Vec<_> = counts
            .iter()
            .map(|(name, count)| format!("{name} {words} {count} resource instances"))
            .collect();
        counts.join(", ")
    };
    let content = counted("has", left.iter().map(|left| left.kind.as_str()).collect());
    let held = left
        .iter()
        .flat_map(|left| left.finalizers.iter().map(String::as_str));
    let held = counted("in", held.collect());
    let conditions = [
        (
            "NamespaceDeletionDiscoveryFailure",
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered".to_owned(),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed".to_owned(),
        ),
        (
            "NamespaceDeletionContentFailure",
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization".to_owned(),
        ),
        (
            "NamespaceContentRemaining",
            "True",
            "SomeResourcesRemain",
            format!("Some resources are remaining: {content}"),
        ),
        if held.is_empty() {
            (
                "NamespaceFinalizersRemaining",
                "False",
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished".to_owned(),
            )
        } else {
            (
                "NamespaceFinalizersRemaining",
                "True",
                "SomeFinalizersRemain",
                format!("Some content in the namespace has finalizers remaining: {held}"),
            )
        },
    ];
    for (kind, status, reason, message) in conditions {
        let condition = json!({
            "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now,
        });
        super::pods::set_condition(object, &condition);
    }
}

fn root_ca(namespace: &str, ca: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": ROOT_CA, "namespace": namespace,
            "annotations": {"kubernetes.io/description": "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."},
        },
        "data": {"ca.crt": ca},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_the_way_is_told() {
        let left = [
            Left {
                kind: "pods".to_owned(),
                finalizers: vec!["a/b".to_owned()],
            },
            Left {
                kind: "pods".to_owned(),
                finalizers: Vec::new(),
            },
        ];
        let mut object = json!({"status": {}});
        tell(&mut object, &left, "now");
        let message = |object: &Value, kind: &str| {
            let conditions = object["status"]["conditions"].as_array().unwrap();
            let found = conditions.iter().find(|one| one["type"] == kind).unwrap();
            format!(
                "{} {}",
                found["status"].as_str().unwrap(),
                found["message"].as_str().unwrap()
            )
        };
        assert_eq!(
            message(&object, "NamespaceContentRemaining"),
            "True Some resources are remaining: pods has 2 resource instances"
        );
        assert_eq!(
            message(&object, "NamespaceFinalizersRemaining"),
            "True Some content in the namespace has finalizers remaining: a/b in 1 resource instances"
        );
        tell(&mut object, &left[1..], "later");
        assert_eq!(
            message(&object, "NamespaceFinalizersRemaining"),
            "False All content-preserving finalizers finished"
        );
        assert_eq!(object["status"]["conditions"].as_array().unwrap().len(), 5);
    }

    #[test]
    fn finalizers_are_counted_per_object() {
        let object = json!({"metadata": {"finalizers": ["a", "b"]}});
        assert_eq!(Left::of("pods".to_owned(), &object).finalizers, ["a", "b"]);
        assert!(
            Left::of("pods".to_owned(), &json!({}))
                .finalizers
                .is_empty()
        );
    }
}
