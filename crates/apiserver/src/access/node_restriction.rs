//! What may not be written, seen in the object: by a node (`NodeRestriction`), and requests
//! for certificates of the admins (`CertificateSubjectRestriction`). Pure but for looking up.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize as _;
use serde_json::Value;

use super::certificate_request::{
    CLIENT_KUBELET_SIGNER, CLIENT_SIGNER, CertificateRequest, SERVING_SIGNER,
};
use super::node_rules::LEASE_NAMESPACE;
use super::pod_references::needed_of_the_api;
use super::references::MIRROR_ANNOTATION;
use super::user::{MASTERS, NODE_PREFIX, User};
use crate::failure::Failure;
use crate::kinds::{self, Kind, NODES, PODS};
use crate::store::{Key, Store};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

/// A write that is about to take place.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    pub kind: &'static Kind,
    pub subresource: &'a str,
    pub namespace: &'a str,
    /// As in the path; empty for what is created in a collection.
    pub name: &'a str,
    pub operation: Operation,
    /// What is written: the object, or what a subresource takes (an eviction, a token
    /// request). `None` for deletions.
    pub object: Option<&'a Value>,
    /// As it is now; `None` for what is created.
    pub old: Option<&'a Value>,
}

/// How objects are looked up.
type Find<'a> = &'a dyn Fn(&Key) -> Option<Value>;

/// Refuses what a node may not write. Others may write what they are authorized to.
pub fn admit(user: &User, write: &Write<'_>, store: &Store) -> Result<(), Failure> {
    admit_with(user, write, &|key| {
        store.get(key).map(|found| found.value())
    })
}

/// Nobody gets a certificate of the admins' group by request, whoever approves it.
fn subject(write: &Write<'_>) -> Option<String> {
    let is_request =
        write.kind.plural == "certificatesigningrequests" && write.subresource.is_empty();
    if !is_request || write.operation != Operation::Create {
        return None;
    }
    let request = write.object.unwrap_or(&Value::Null);
    let signer = part(request, "/spec/signerName").and_then(Value::as_str);
    if signer != Some(CLIENT_SIGNER) {
        return None;
    }
    let text = part(request, "/spec/request")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let request = CertificateRequest::of_base64(text).ok()?;
    let asks = request.organizations.iter().any(|group| group == MASTERS);
    asks.then(|| format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"))
}

fn admit_with(user: &User, write: &Write<'_>, find: Find<'_>) -> Result<(), Failure> {
    if let Some(cause) = subject(write) {
        return Err(Failure::forbidden(write.kind, write.object_name(), cause));
    }
    let Some(node) = user.node() else {
        return Ok(());
    };
    let refusal = if node.is_empty() {
        Some(format!(
            "could not determine node from user {:?}",
            user.name
        ))
    } else {
        judge(node, write, find)?
    };
    match refusal {
        None => Ok(()),
        Some(cause) => Err(Failure::forbidden(write.kind, write.object_name(), cause)),
    }
}

/// Why not, if so. What is not there to be looked at is an error of its own.
fn judge(node: &str, write: &Write<'_>, find: Find<'_>) -> Result<Option<String>, Failure> {
    let verdict = match (write.kind.group, write.kind.plural, write.subresource) {
        ("", "pods", "") => match write.operation {
            Operation::Create => {
                let pod = write.decode::<Pod>()?;
                let own = find(&Key::global(&NODES, node));
                let own = own.and_then(|own| metadata(&own));
                pod_create(node, &pod, own.as_ref())?
            }
            Operation::Delete => {
                let found = found_pod(find, write.namespace, write.name)?;
                (node_of(&found) != node).then(|| {
                    format!("node {node:?} can only delete pods with spec.nodeName set to itself")
                })
            }
            Operation::Update => Some(format!(
                "unexpected operation \"UPDATE\", node {node:?} can only create and delete mirror pods"
            )),
        },
        ("", "pods", "status") => pod_status(node, write),
        ("", "pods", "eviction") => {
            let found = found_pod(find, write.namespace, write.object_name())?;
            (node_of(&found) != node).then(|| {
                format!("node {node} can only evict pods with spec.nodeName set to itself")
            })
        }
        ("", "pods", other) => Some(format!(
            "unexpected pod subresource {other:?}, only 'status' and 'eviction' are allowed"
        )),
        ("", "nodes", _) => node_write(node, write),
        ("", "persistentvolumeclaims", "status") => claim_status(node, write),
        ("", "persistentvolumeclaims", _) => Some("may only update PVC status".to_owned()),
        ("", "serviceaccounts", "token") => token(node, write, find)?,
        ("coordination.k8s.io", "leases", _) if write.namespace != LEASE_NAMESPACE => Some(
            format!("can only access leases in the {LEASE_NAMESPACE:?} system namespace"),
        ),
        ("coordination.k8s.io", "leases", _) => (write.object_name() != node).then(|| {
            "can only access node lease with the same name as the requesting node".to_owned()
        }),
        ("storage.k8s.io", "csinodes", _) => (write.object_name() != node).then(|| {
            "can only access CSINode with the same name as the requesting node".to_owned()
        }),
        ("certificates.k8s.io", "certificatesigningrequests", "")
            if write.operation == Operation::Create =>
        {
            certificate_request(node, write)
        }
        _ => None,
    };
    Ok(verdict)
}

impl Write<'_> {
    fn object_name(&self) -> &str {
        if !self.name.is_empty() {
            return self.name;
        }
        let name = self
            .object
            .and_then(|object| object.pointer("/metadata/name"));
        name.and_then(Value::as_str).unwrap_or_default()
    }

    fn decode<T: serde::de::DeserializeOwned>(&self) -> Result<T, Failure> {
        T::deserialize(self.object.unwrap_or(&Value::Null))
            .map_err(|cause| Failure::bad_request(format!("the object cannot be read: {cause}")))
    }
}

/// Only mirrors of its own static pods, which need nothing of the API.
fn pod_create(node: &str, pod: &Pod, own: Option<&ObjectMeta>) -> Result<Option<String>, Failure> {
    let annotations = pod.metadata.annotations.as_ref();
    if !annotations.is_some_and(|all| all.contains_key(MIRROR_ANNOTATION)) {
        return Ok(Some(format!(
            "pod does not have {MIRROR_ANNOTATION:?} annotation, node {node:?} can only create mirror pods"
        )));
    }
    let bound = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    if bound != Some(node) {
        return Ok(Some(format!(
            "node {node:?} can only create pods with spec.nodeName set to itself"
        )));
    }
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    let [owner] = owners else {
        let which = if owners.is_empty() { "an" } else { "a single" };
        return Ok(Some(format!(
            "node {node:?} can only create pods with {which} owner reference set to itself"
        )));
    };
    if owner.api_version != "v1" || owner.kind != "Node" || owner.name != node {
        return Ok(Some(format!(
            "node {node:?} can only create pods with an owner reference set to itself"
        )));
    }
    if owner.controller != Some(true) {
        return Ok(Some(format!(
            "node {node:?} can only create pods with a controller owner reference set to itself"
        )));
    }
    if owner.block_owner_deletion == Some(true) {
        return Ok(Some(format!(
            "node {node:?} must not set blockOwnerDeletion on an owner reference"
        )));
    }
    let own = own.ok_or_else(|| Failure::not_found(&NODES, node))?;
    let uid = own.uid.as_deref().unwrap_or_default();
    if owner.uid != uid {
        return Ok(Some(format!(
            "node {node} UID mismatch: expected {} got {uid}",
            owner.uid
        )));
    }
    Ok(needed_of_the_api(pod)
        .map(|what| format!("node {node:?} can not create pods that reference {what}")))
}

fn pod_status(node: &str, write: &Write<'_>) -> Option<String> {
    if write.operation != Operation::Update {
        return Some(format!("unexpected operation {:?}", write.operation));
    }
    let (old, new) = (
        write.old.unwrap_or(&Value::Null),
        write.object.unwrap_or(&Value::Null),
    );
    if node_of(old) != node {
        return Some(format!(
            "node {node:?} can only update pod status for pods with spec.nodeName set to itself"
        ));
    }
    let differs = |path: &str| part(old, path) != part(new, path);
    if differs("/metadata/labels") {
        return Some(format!(
            "node {node:?} cannot update labels through pod status"
        ));
    }
    if differs("/status/resourceClaimStatuses") {
        return Some(format!(
            "node {node:?} cannot update resource claim statues"
        ));
    }
    differs("/status/extendedResourceClaimStatus")
        .then(|| format!("node {node:?} cannot update extended resource claim status"))
}

fn node_write(node: &str, write: &Write<'_>) -> Option<String> {
    let name = write.object_name();
    if name != node {
        return Some(format!(
            "node {node:?} is not allowed to modify node {name:?}"
        ));
    }
    let new = write.object.unwrap_or(&Value::Null);
    match write.operation {
        Operation::Create => {
            if part(new, "/spec/configSource").is_some() {
                return Some(format!(
                    "node {node:?} is not allowed to create pods with a non-nil configSource"
                ));
            }
            let forbidden = forbidden_labels(new, &Value::Null);
            (!forbidden.is_empty()).then(|| {
                format!(
                    "node {node:?} is not allowed to set the following labels: {}",
                    forbidden.join(", ")
                )
            })
        }
        Operation::Update => {
            let old = write.old.unwrap_or(&Value::Null);
            let differs = |path: &str| part(old, path) != part(new, path);
            if part(new, "/spec/configSource").is_some() && differs("/spec/configSource") {
                return Some(format!(
                    "node {node:?} is not allowed to update configSource to a new non-nil configSource"
                ));
            }
            if differs("/spec/taints") {
                return Some(format!("node {node:?} is not allowed to modify taints"));
            }
            if differs("/metadata/ownerReferences") {
                return Some(format!(
                    "node {node:?} is not allowed to modify ownerReferences"
                ));
            }
            let forbidden = forbidden_labels(new, old);
            (!forbidden.is_empty())
                .then(|| format!("is not allowed to modify labels: {}", forbidden.join(", ")))
        }
        Operation::Delete => None,
    }
}

/// Labels by which privileged work could be steered to a node are not its own to write.
fn forbidden_labels(new: &Value, old: &Value) -> Vec<String> {
    let labels = |object: &Value| -> BTreeMap<String, Value> {
        let labels = object
            .pointer("/metadata/labels")
            .and_then(Value::as_object);
        labels
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    let (new, old) = (labels(new), labels(old));
    let mut changed: Vec<_> = new.keys().chain(old.keys()).collect();
    changed.sort();
    changed.dedup();
    let changed = changed
        .into_iter()
        .filter(|key| new.get(*key) != old.get(*key));
    changed.filter(|key| is_forbidden(key)).cloned().collect()
}

fn is_forbidden(label: &str) -> bool {
    let (namespace, _) = label.split_once('/').unwrap_or(("", label));
    let within = |domain: &str| {
        let rest = namespace.strip_suffix(domain);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let is_kubelets = OWN_LABELS.contains(&label)
        || within("kubelet.kubernetes.io")
        || within("node.kubernetes.io");
    let is_kubernetes = within("kubernetes.io") || within("k8s.io");
    within("node-restriction.kubernetes.io") || is_kubernetes && !is_kubelets
}

const OWN_LABELS: &[&str] = &[
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];

/// Of a claim only what a resize changes.
fn claim_status(node: &str, write: &Write<'_>) -> Option<String> {
    let bare = |object: Option<&Value>| {
        let mut object = object.cloned().unwrap_or_default();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
            metadata.remove("managedFields");
        }
        let status = object.get_mut("status").and_then(Value::as_object_mut);
        if let Some(status) = status {
            status.retain(|key, _| {
                let free = [
                    "capacity",
                    "conditions",
                    "allocatedResources",
                    "allocatedResourceStatuses",
                ];
                !free.contains(&key.as_str())
            });
        }
        object
    };
    (bare(write.old) != bare(write.object)).then(|| {
        format!("node {node:?} is not allowed to update fields other than status.quantity and status.conditions")
    })
}

/// Only for a pod of its own, and only with an audience that the pod asks for.
fn token(node: &str, write: &Write<'_>, find: Find<'_>) -> Result<Option<String>, Failure> {
    let request = write.object.unwrap_or(&Value::Null);
    let reference = |field: &str| {
        let value = request.pointer(&format!("/spec/boundObjectRef/{field}"));
        value.and_then(Value::as_str).unwrap_or_default()
    };
    if reference("apiVersion") != "v1" || reference("kind") != "Pod" || reference("name").is_empty()
    {
        return Ok(Some("node requested token not bound to a pod".to_owned()));
    }
    let uid = reference("uid");
    if uid.is_empty() {
        return Ok(Some(
            "node requested token with a pod binding without a uid".to_owned(),
        ));
    }
    let pod = found_pod(find, write.namespace, reference("name"))?;
    let found = part(&pod, "/metadata/uid")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if found != uid {
        return Ok(Some(format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        )));
    }
    if node_of(&pod) != node {
        return Ok(Some(
            "node requested token bound to a pod scheduled on a different node".to_owned(),
        ));
    }
    let audiences = request.pointer("/spec/audiences").and_then(Value::as_array);
    let audience = match audiences.map(Vec::as_slice).unwrap_or_default() {
        [] => "",
        [one] => one.as_str().unwrap_or_default(),
        _ => return Ok(Some("node may only request 0 or 1 audiences".to_owned())),
    };
    if asks_for_audience(&pod, write.namespace, audience, find) {
        return Ok(None);
    }
    Ok(Some(format!(
        "{NODE_PREFIX}{node} is not authorized to request tokens for audience {audience:?}"
    )))
}

/// Whether a projected volume, or the driver of a CSI volume, wants such a token.
fn asks_for_audience(pod: &Value, namespace: &str, audience: &str, find: Find<'_>) -> bool {
    let pod_name = part(pod, "/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let volumes = part(pod, "/spec/volumes").and_then(Value::as_array);
    volumes.into_iter().flatten().any(|volume| {
        let sources = volume
            .pointer("/projected/sources")
            .and_then(Value::as_array);
        let mut tokens = sources
            .into_iter()
            .flatten()
            .filter_map(|source| source.get("serviceAccountToken"));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if tokens.any(|token| token.get("audience").map(text).unwrap_or_default() == audience) {
            return true;
        }
        let driver = volume.pointer("/csi/driver").map(text).or_else(|| {
            let claim = volume.pointer("/persistentVolumeClaim/claimName").map(text);
            let ephemeral = || {
                volume.get("ephemeral")?;
                let name = volume.get("name").and_then(Value::as_str)?;
                Some(format!("{pod_name}-{name}"))
            };
            driver_of_claim(namespace, &claim.or_else(ephemeral)?, find)
        });
        driver.is_some_and(|driver| driver_asks(&driver, audience, find))
    })
}

fn driver_of_claim(namespace: &str, claim: &str, find: Find<'_>) -> Option<String> {
    let key = Key::new(&kinds::PERSISTENT_VOLUME_CLAIMS, namespace, claim);
    let claim = find(&key)?;
    let volume = claim.pointer("/spec/volumeName")?.as_str()?;
    let volume = find(&Key::global(&kinds::PERSISTENT_VOLUMES, volume))?;
    Some(volume.pointer("/spec/csi/driver")?.as_str()?.to_owned())
}

fn driver_asks(driver: &str, audience: &str, find: Find<'_>) -> bool {
    let driver = find(&Key::global(&kinds::CSI_DRIVERS, driver)).unwrap_or_default();
    let requests = driver
        .pointer("/spec/tokenRequests")
        .and_then(Value::as_array);
    let mut requests = requests.into_iter().flatten();
    requests.any(|request| {
        let found = request.get("audience").and_then(Value::as_str);
        found.unwrap_or_default() == audience
    })
}

fn certificate_request(node: &str, write: &Write<'_>) -> Option<String> {
    let request = write.object.unwrap_or(&Value::Null);
    let signer = part(request, "/spec/signerName").and_then(Value::as_str);
    if !matches!(signer, Some(SERVING_SIGNER | CLIENT_KUBELET_SIGNER)) {
        return None;
    }
    let text = part(request, "/spec/request")
        .and_then(Value::as_str)
        .unwrap_or_default();
    match CertificateRequest::of_base64(text) {
        Err(cause) => Some(format!("unable to parse csr: {cause}")),
        Ok(request) if request.common_name == format!("{NODE_PREFIX}{node}") => None,
        Ok(_) => Some(format!(
            "can only create a node CSR with CN={NODE_PREFIX}{node}"
        )),
    }
}

fn found_pod(find: Find<'_>, namespace: &str, name: &str) -> Result<Value, Failure> {
    let found = find(&Key::new(&PODS, namespace, name));
    found.ok_or_else(|| Failure::not_found(&PODS, name))
}

fn node_of(pod: &Value) -> &str {
    part(pod, "/spec/nodeName")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// What is empty is as good as not there.
fn part<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    object.pointer(path).filter(|value| match value {
        Value::Null => false,
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    })
}

fn metadata(object: &Value) -> Option<ObjectMeta> {
    ObjectMeta::deserialize(object.get("metadata")?).ok()
}

#[cfg(test)]
mod tests;
