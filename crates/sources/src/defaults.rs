//! What a manifest leaves out. A pod of the API server has been through its
//! defaulting; a static pod gets the same here ([`api_defaults`]), and what makes it a
//! pod of this node ([`complete`]).

mod api;
#[cfg(test)]
mod pod_resources;

use std::fmt::Write as _;

use k8s_openapi::api::core::v1::{Pod, PodStatus, Toleration};
use sha2::{Digest as _, Sha256};

pub use api::api_defaults;

use crate::annotations;

/// Where a manifest lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin<'a> {
    File(&'a str),
    Url(&'a str),
}

/// How many bytes of a hash make a uid: as many as a UUID has.
const UID_BYTES: usize = 16;

/// The pod as this node runs it.
pub fn complete(mut pod: Pod, origin: Origin<'_>, node: &str) -> Pod {
    // The uid follows from what was written, not from our defaults: a new release
    // must not restart anything.
    let given = pod.metadata.uid.take().filter(|uid| !uid.is_empty());
    let uid = given.unwrap_or_else(|| uid(&pod, origin, node));
    api_defaults(&mut pod);

    let metadata = &mut pod.metadata;
    let name = metadata.name.take().unwrap_or_default();
    metadata.name = Some(format!("{name}-{}", node.to_lowercase()));
    if metadata.namespace.as_ref().is_none_or(String::is_empty) {
        metadata.namespace = Some("default".to_owned());
    }
    let notes = metadata.annotations.get_or_insert_default();
    notes.insert(annotations::HASH.to_owned(), uid.clone());
    metadata.uid = Some(uid);

    let spec = pod.spec.get_or_insert_default();
    spec.node_name = Some(node.to_owned());
    if matches!(origin, Origin::File(_)) {
        tolerate_no_execute(spec.tolerations.get_or_insert_default());
    }
    pod.status = Some(PodStatus {
        phase: Some("Pending".to_owned()),
        ..pod.status.unwrap_or_default()
    });
    pod
}

/// The same for the same manifest in the same place, after every restart.
fn uid(pod: &Pod, origin: Origin<'_>, node: &str) -> String {
    // Maps are sorted and fields have their order, so that equal pods have equal
    // text. A pod that was read can be written: nothing is lost by the default.
    let text = serde_json::to_vec(pod).unwrap_or_default();
    let mut hash = Sha256::new_with_prefix(text);
    hash.update(match origin {
        Origin::File(path) => format!("host:{node}file:{path}"),
        Origin::Url(url) => format!("url:{url}"),
    });
    let mut uid = String::with_capacity(2 * UID_BYTES);
    for byte in hash.finalize().iter().take(UID_BYTES) {
        // Writing to text does not fail.
        let _ = write!(uid, "{byte:02x}");
    }
    uid
}

/// A static pod is not evicted for what ails its node.
fn tolerate_no_execute(tolerations: &mut Vec<Toleration>) {
    let all = Toleration {
        effect: Some("NoExecute".to_owned()),
        operator: Some("Exists".to_owned()),
        ..Toleration::default()
    };
    let empty = |text: &Option<String>| text.as_ref().is_none_or(String::is_empty);
    let same = |other: &&mut Toleration| {
        other.effect == all.effect
            && other.operator == all.operator
            && empty(&other.key)
            && empty(&other.value)
    };
    match tolerations.iter_mut().find(same) {
        Some(found) => *found = all,
        None => tolerations.push(all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pod;

    const FILE: Origin<'_> = Origin::File("/etc/kubernetes/manifests/web.yaml");
    const URL: Origin<'_> = Origin::Url("http://pods.example/web");

    const WEB: &str = "metadata: {name: web}\nspec: {containers: [{name: web, image: nginx}]}";

    #[test]
    fn a_static_pod_belongs_to_its_node() {
        let web = complete(pod(WEB), FILE, "Node-A");
        assert_eq!(web.metadata.name.as_deref(), Some("web-node-a"));
        assert_eq!(web.metadata.namespace.as_deref(), Some("default"));
        let uid = web.metadata.uid.unwrap();
        assert_eq!(uid.len(), 32);
        assert_eq!(web.metadata.annotations.unwrap()[annotations::HASH], uid);
        let spec = web.spec.unwrap();
        assert_eq!(spec.node_name.as_deref(), Some("Node-A"));
        assert_eq!(spec.restart_policy.as_deref(), Some("Always"));
        let toleration = &spec.tolerations.unwrap()[0];
        assert_eq!(toleration.operator.as_deref(), Some("Exists"));
        assert_eq!(toleration.effect.as_deref(), Some("NoExecute"));
        assert_eq!(web.status.unwrap().phase.as_deref(), Some("Pending"));
    }

    #[test]
    fn what_the_manifest_says_stays() {
        let given = "metadata: {name: web, namespace: kube-system, uid: mine, annotations: {a: b}}\nspec:\n  containers: [{name: web, image: nginx}]\n  tolerations: [{effect: NoExecute, operator: Exists, tolerationSeconds: 5}, {key: k}]";
        let web = complete(pod(given), FILE, "n");
        assert_eq!(web.metadata.namespace.as_deref(), Some("kube-system"));
        assert_eq!(web.metadata.uid.as_deref(), Some("mine"));
        let annotations = web.metadata.annotations.unwrap();
        assert_eq!(
            (
                annotations["a"].as_str(),
                annotations[annotations::HASH].as_str()
            ),
            ("b", "mine")
        );
        let tolerations = web.spec.unwrap().tolerations.unwrap();
        assert_eq!(tolerations.len(), 2);
        assert_eq!(tolerations[0].toleration_seconds, None);
    }

    #[test]
    fn only_files_bring_the_toleration() {
        let spec = complete(pod(WEB), URL, "n").spec.unwrap();
        assert_eq!(spec.tolerations, None);
    }

    #[test]
    fn a_uid_is_the_same_for_the_same_manifest_in_the_same_place_and_no_other() {
        let uid = |text: &str, origin, node: &str| {
            complete(pod(text), origin, node).metadata.uid.unwrap()
        };
        let ordered = "spec: {containers: [{image: nginx, name: web}]}\nmetadata: {name: web}";
        assert_eq!(uid(WEB, FILE, "n"), uid(ordered, FILE, "n"));
        // Written down: it must not change from release to release.
        assert_eq!(uid(WEB, URL, "n"), WRITTEN_DOWN);
        let others = [
            uid(&WEB.replace("nginx", "httpd"), FILE, "n"),
            uid(
                WEB,
                Origin::File("/etc/kubernetes/manifests/other.yaml"),
                "n",
            ),
            uid(WEB, FILE, "m"),
            uid(WEB, URL, "n"),
        ];
        for other in others {
            assert_ne!(uid(WEB, FILE, "n"), other);
        }
        assert_eq!(uid(WEB, URL, "n"), uid(WEB, URL, "m"));
    }

    const WRITTEN_DOWN: &str = "4815becf4ecd73319c446842da8d2b1c";
}
