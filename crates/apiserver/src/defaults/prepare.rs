//! What the server sets itself, and what it takes back: nobody writes a status with the
//! spec, or a spec with the status.

use k8s_openapi::api::core::v1::{Pod, PodSpec, ResourceRequirements};
use serde_json::{Value, json};
use types::Quantity;
use types::qos::{self, Bounds, Claim};

use super::{admit, list_mut, remove};
use crate::kinds::Kind;
use crate::schema::look::items;

/// A new object. `now` is in the API's form.
pub fn create(kind: &Kind, mut object: Value, now: &str) -> Value {
    match kind.kind {
        "Pod" => {
            object["metadata"]["generation"] = 1.into();
            object["status"] = json!({"phase": "Pending", "qosClass": qos_class(&object)});
            if !items(&object["spec"]["schedulingGates"]).is_empty() {
                object["status"]["conditions"] = json!([{
                    "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                    "lastTransitionTime": now, "lastProbeTime": null,
                }]);
            }
        }
        "Namespace" => {
            object["status"] = json!({"phase": "Active"});
            let finalizers = &mut object["spec"]["finalizers"];
            if !items(finalizers).iter().any(|name| name == "kubernetes") {
                let mut list = items(finalizers).to_vec();
                list.push("kubernetes".into());
                *finalizers = list.into();
            }
        }
        "Node" => {
            remove(&mut object["spec"], "configSource");
            remove(&mut object["status"], "config");
        }
        "Service" => object["status"] = json!({"loadBalancer": {}}),
        "PersistentVolume" => {
            object["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": now});
        }
        "PersistentVolumeClaim" => object["status"] = json!({"phase": "Pending"}),
        "CertificateSigningRequest" => object["status"] = json!({}),
        "ServiceAccount" => names_only(&mut object),
        _ => {}
    }
    object
}

/// A changed object; `old` is the one that is stored.
pub fn update(kind: &Kind, mut object: Value, old: &Value) -> Value {
    keep(&mut object, old, "/metadata/generation");
    match kind.kind {
        "Pod" => {
            keep(&mut object, old, "/status");
            for field in ["priority", "preemptionPolicy"] {
                if object["spec"][field].is_null() {
                    keep(&mut object, old, &format!("/spec/{field}"));
                }
            }
            object = admit::pod_update(object);
            bump_generation(&mut object, old);
        }
        "Node" | "Service" | "PersistentVolume" | "PersistentVolumeClaim" => {
            keep(&mut object, old, "/status");
        }
        "Namespace" => {
            keep(&mut object, old, "/spec/finalizers");
            keep(&mut object, old, "/status");
        }
        "CertificateSigningRequest" => {
            keep(&mut object, old, "/spec");
            keep(&mut object, old, "/status");
        }
        "ServiceAccount" => names_only(&mut object),
        "Secret" if object["type"].as_str().unwrap_or_default().is_empty() => {
            keep(&mut object, old, "/type");
        }
        "CSIDriver" => bump_generation(&mut object, old),
        _ => {}
    }
    object
}

/// An object that was written to one of its subresources.
pub fn update_subresource(
    kind: &Kind,
    subresource: &str,
    mut object: Value,
    old: &Value,
    now: &str,
) -> Value {
    keep(&mut object, old, "/metadata/generation");
    match (kind.kind, subresource) {
        ("Namespace", "finalize") => keep(&mut object, old, "/status"),
        ("CertificateSigningRequest", "approval") => {
            condition_times(&mut object, old, now);
            let conditions = object["status"]["conditions"].clone();
            keep(&mut object, old, "/spec");
            keep(&mut object, old, "/status");
            object["status"]["conditions"] = conditions;
        }
        ("CertificateSigningRequest", _) => {
            keep(&mut object, old, "/spec");
            for decision in ["Approved", "Denied"] {
                keep_conditions(&mut object, old, decision);
            }
            condition_times(&mut object, old, now);
        }
        ("Pod", "ephemeralcontainers") => {
            let containers = object["spec"]["ephemeralContainers"].clone();
            keep(&mut object, old, "/spec");
            keep_all_but_spec(&mut object, old);
            object["spec"]["ephemeralContainers"] = containers;
            bump_generation(&mut object, old);
        }
        ("Pod", "resize") => {
            resized(&mut object, old);
            bump_generation(&mut object, old);
        }
        ("Pod", _) => {
            keep(&mut object, old, "/spec");
            keep(&mut object, old, "/metadata/ownerReferences");
            keep(&mut object, old, "/metadata/deletionTimestamp");
            if object["status"]["qosClass"].is_null() {
                keep(&mut object, old, "/status/qosClass");
            }
            keep_observed_generations(&mut object, old);
        }
        ("PersistentVolume", _) => {
            keep(&mut object, old, "/spec");
            let time = "/status/lastPhaseTransitionTime";
            let same_phase = object["status"]["phase"] == old["status"]["phase"];
            let given = object.pointer(time).filter(|time| !time.is_null());
            if given.is_none() && same_phase {
                keep(&mut object, old, time);
            } else if !same_phase && (given.is_none() || given == old.pointer(time)) {
                object["status"]["lastPhaseTransitionTime"] = now.into();
            }
        }
        _ => keep(&mut object, old, "/spec"),
    }
    object
}

/// Of a pod one of whose subresources is a part of its spec.
fn keep_all_but_spec(pod: &mut Value, old: &Value) {
    keep(pod, old, "/status");
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        keep(pod, old, &format!("/metadata/{field}"));
    }
}

/// Takes over the resources and nothing else. Containers that are not those of before are left for
/// the validation to refuse, as upstream does.
fn resized(pod: &mut Value, old: &Value) {
    const LISTS: [&str; 2] = ["containers", "initContainers"];
    let wanted = pod["spec"].clone();
    let same_number = |list: &&str| items(&wanted[*list]).len() == items(&old["spec"][*list]).len();
    if !LISTS.iter().all(same_number) {
        return;
    }
    keep(pod, old, "/spec");
    keep_all_but_spec(pod, old);
    keep(&mut pod["spec"], &wanted, "/resources");
    for list in LISTS {
        let wanted = items(&wanted[list]);
        let own = list_mut(pod, &format!("/spec/{list}"));
        let same_names = own
            .iter()
            .zip(wanted)
            .all(|(own, wanted)| own["name"] == wanted["name"]);
        for (container, wanted) in own.iter_mut().zip(wanted) {
            if same_names {
                keep(container, wanted, "/resources");
                keep(container, wanted, "/resizePolicy");
            } else {
                container.clone_from(wanted);
            }
        }
    }
}

/// The class of a pod with its defaults.
pub fn qos_class(pod: &Value) -> String {
    let Ok(Pod {
        spec: Some(spec), ..
    }) = serde_json::from_value::<Pod>(pod.clone())
    else {
        return "BestEffort".to_owned();
    };
    let PodSpec {
        containers,
        init_containers,
        resources,
        ..
    } = spec;
    let all = containers.iter().chain(init_containers.iter().flatten());
    let claims: Vec<Claim> = all
        .map(|container| claim(container.resources.as_ref()))
        .collect();
    let whole = resources
        .as_ref()
        .filter(|whole| whole.limits.is_some() || whole.requests.is_some());
    let whole = whole.map(|whole| claim(Some(whole)));
    qos::class(whole.as_ref(), &claims).to_string()
}

fn claim(resources: Option<&ResourceRequirements>) -> Claim {
    let bounds = |name: &str| {
        let amount = |amounts: Option<
            &std::collections::BTreeMap<
                String,
                k8s_openapi::apimachinery::pkg::api::resource::Quantity,
            >,
        >| { amounts?.get(name)?.0.parse::<Quantity>().ok() };
        Bounds {
            request: amount(resources.and_then(|resources| resources.requests.as_ref())),
            limit: amount(resources.and_then(|resources| resources.limits.as_ref())),
        }
    };
    Claim {
        cpu: bounds("cpu"),
        memory: bounds("memory"),
    }
}

/// What is at `pointer` becomes what it was.
fn keep(object: &mut Value, old: &Value, pointer: &str) {
    let Some((parent, name)) = pointer.rsplit_once('/') else {
        return;
    };
    let before = old.pointer(pointer).cloned();
    let Some(Value::Object(fields)) = object.pointer_mut(parent) else {
        return;
    };
    match before {
        Some(value) => drop(fields.insert(name.to_owned(), value)),
        None => drop(fields.remove(name)),
    }
}

/// Another spec is another generation.
fn bump_generation(object: &mut Value, old: &Value) {
    if object["spec"] != old["spec"] {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or_default();
        object["metadata"]["generation"] = (generation + 1).into();
    }
}

/// Old kubelets that do not know these fields do not clear them.
fn keep_observed_generations(object: &mut Value, old: &Value) {
    if object["status"]["observedGeneration"].is_null() {
        keep(object, old, "/status/observedGeneration");
    }
    let mut before = items(&old["status"]["conditions"]).to_vec();
    for condition in list_mut(object, "/status/conditions") {
        let found = before
            .iter()
            .position(|other| other["type"] == condition["type"]);
        let Some(found) = found.map(|index| before.remove(index)) else {
            continue;
        };
        if condition["observedGeneration"].is_null() && !found["observedGeneration"].is_null() {
            condition["observedGeneration"] = found["observedGeneration"].clone();
        }
    }
}

/// Who writes the status does not decide.
fn keep_conditions(object: &mut Value, old: &Value, decision: &str) {
    let is_decision = |condition: &&Value| condition["type"] == decision;
    let before: Vec<Value> = items(&old["status"]["conditions"])
        .iter()
        .filter(is_decision)
        .cloned()
        .collect();
    let conditions = list_mut(object, "/status/conditions");
    let now: Vec<&mut Value> = conditions
        .iter_mut()
        .filter(|condition| condition["type"] == decision)
        .collect();
    if now.len() == before.len() {
        for (condition, before) in now.into_iter().zip(before) {
            *condition = before;
        }
    }
}

fn condition_times(object: &mut Value, old: &Value, now: &str) {
    let before = items(&old["status"]["conditions"]);
    for condition in list_mut(object, "/status/conditions") {
        if condition["lastUpdateTime"].is_null() {
            condition["lastUpdateTime"] = now.into();
        }
        if condition["lastTransitionTime"].is_null() {
            let same = before.iter().find(|other| {
                other["type"] == condition["type"]
                    && other["status"] == condition["status"]
                    && !other["lastTransitionTime"].is_null()
            });
            condition["lastTransitionTime"] =
                same.map_or_else(|| now.into(), |same| same["lastTransitionTime"].clone());
        }
    }
}

/// A service account names its secrets, and nothing else of them.
fn names_only(object: &mut Value) {
    for secret in list_mut(object, "/secrets") {
        *secret = json!({"name": secret["name"]});
    }
}
