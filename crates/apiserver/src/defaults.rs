//! What an object leaves out, and what its writer has no say in. Pure.
//!
//! A request goes through here in this order: [`complete`] (the defaults of its type),
//! for what is created [`admit`] (what depends on other objects: service accounts,
//! runtime classes), then [`prepare`] (what the server sets or takes back).
//! [`crate::schema::tidy`] and [`crate::validate`] come last.

pub mod admit;
pub mod prepare;

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Map, Value, json};
use types::pod_defaults::api_defaults;

use crate::kinds::Kind;
use crate::schema::look::{items, text};
use crate::schema::{self, DecodeError};

/// Fills what a decoded object leaves out. A second time it changes nothing.
pub fn complete(kind: &Kind, mut object: Value) -> Result<Value, DecodeError> {
    let fields = &mut object;
    match kind.kind {
        "Pod" => object = pod(object)?,
        "Service" => service(fields),
        "Secret" => secret(fields),
        "Namespace" => namespace(fields),
        "Node" => node(fields),
        "PersistentVolume" => volume(fields),
        "PersistentVolumeClaim" => claim(fields),
        "CSIDriver" => driver(fields),
        _ => {}
    }
    object["apiVersion"] = kind.api_version().into();
    object["kind"] = kind.kind.into();
    schema::tidy(kind.kind, object)
}

fn pod(object: Value) -> Result<Value, DecodeError> {
    let failed = |error: serde_json::Error| DecodeError(error.to_string());
    let mut object = object;
    for list in ["initContainers", "containers"] {
        for container in list_mut(&mut object, &format!("/spec/{list}")) {
            divisors(container);
        }
    }
    // `containers` is the one list that the typed form needs to be there.
    if object["spec"]["containers"].is_null() {
        object["spec"]["containers"] = json!([]);
    }
    let mut pod: Pod = serde_json::from_value(object).map_err(failed)?;
    api_defaults(&mut pod);
    if let Some(spec) = &mut pod.spec {
        // The older name of the same field.
        let older = spec.service_account.take();
        let name = spec.service_account_name.take();
        let name = name.filter(|name| !name.is_empty()).or(older);
        spec.service_account.clone_from(&name);
        spec.service_account_name = name;
    }
    let mut object = serde_json::to_value(&pod).map_err(failed)?;
    if object["status"].is_object() {
        first_of(
            &mut object["status"],
            "podIP",
            "podIPs",
            |address| json!({"ip": address}),
        );
    }
    Ok(object)
}

/// A variable that takes a resource's amount divides it by one.
fn divisors(container: &mut Value) {
    for variable in list_mut(container, "/env") {
        if let Some(Value::Object(reference)) = variable.pointer_mut("/valueFrom/resourceFieldRef")
        {
            reference.entry("divisor").or_insert_with(|| "0".into());
        }
    }
}

fn service(object: &mut Value) {
    let spec = &mut object["spec"];
    fill(spec, "sessionAffinity", "None");
    match spec["sessionAffinity"].as_str() {
        Some("ClientIP")
            if spec
                .pointer("/sessionAffinityConfig/clientIP/timeoutSeconds")
                .is_none() =>
        {
            spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": 10800}});
        }
        Some("None") => remove(spec, "sessionAffinityConfig"),
        _ => {}
    }
    fill(spec, "type", "ClusterIP");
    for port in list_mut(spec, "/ports") {
        fill(port, "protocol", "TCP");
        let target = &port["targetPort"];
        if target.is_null() || *target == json!(0) || *target == json!("") {
            port["targetPort"] = port["port"].clone();
        }
    }
    let kind = spec["type"].as_str().unwrap_or_default().to_owned();
    let external = matches!(kind.as_str(), "LoadBalancer" | "NodePort")
        || kind == "ClusterIP" && !items(&spec["externalIPs"]).is_empty();
    if external {
        fill(spec, "externalTrafficPolicy", "Cluster");
    }
    if kind != "ExternalName" {
        fill(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" && spec["allocateLoadBalancerNodePorts"].is_null() {
        spec["allocateLoadBalancerNodePorts"] = true.into();
    }
}

/// A service with the address that it was given, or `None` if it asked for none.
pub fn with_address(mut service: Value, address: &str) -> Value {
    let spec = &mut service["spec"];
    spec["clusterIP"] = address.into();
    spec["clusterIPs"] = json!([address]);
    if items(&spec["ipFamilies"]).is_empty() {
        let family = if address.contains(':') {
            "IPv6"
        } else {
            "IPv4"
        };
        spec["ipFamilies"] = json!([family]);
    }
    fill(spec, "ipFamilyPolicy", "SingleStack");
    service
}

/// What was written as text becomes data, and is not kept as text.
fn secret(object: &mut Value) {
    use base64::Engine as _;
    fill(object, "type", "Opaque");
    let Some(Value::Object(texts)) = object
        .as_object_mut()
        .and_then(|fields| fields.remove("stringData"))
    else {
        return;
    };
    for (key, text) in texts {
        let bytes = text.as_str().unwrap_or_default().as_bytes();
        object["data"][key] = base64::engine::general_purpose::STANDARD
            .encode(bytes)
            .into();
    }
}

fn namespace(object: &mut Value) {
    if let Some(name) = object["metadata"]["name"]
        .as_str()
        .filter(|name| !name.is_empty())
    {
        object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name.to_owned().into();
    }
    fill(&mut object["status"], "phase", "Active");
}

/// A field that became a list is its first element; whoever knows only the field wins.
fn first_of(object: &mut Value, single: &str, list: &str, wrap: fn(Value) -> Value) {
    let value = object[single].clone();
    let first = object[list].get(0).cloned();
    if !text(&value).is_empty() {
        if first != Some(wrap(value.clone())) {
            object[list] = json!([wrap(value)]);
        }
    } else if let Some(first) = first {
        object[single] = first.get("ip").cloned().unwrap_or(first);
    }
}

fn node(object: &mut Value) {
    first_of(&mut object["spec"], "podCIDR", "podCIDRs", |range| range);
    let status = &mut object["status"];
    if status["allocatable"].is_null() && !status["capacity"].is_null() {
        status["allocatable"] = status["capacity"].clone();
    }
}

fn volume(object: &mut Value) {
    fill(&mut object["status"], "phase", "Pending");
    let spec = &mut object["spec"];
    fill(spec, "persistentVolumeReclaimPolicy", "Retain");
    fill(spec, "volumeMode", "Filesystem");
    if let Some(Value::Object(host_path)) = spec.get_mut("hostPath") {
        host_path.entry("type").or_insert_with(|| "".into());
    }
    if spec["iscsi"].is_object() {
        fill(&mut spec["iscsi"], "iscsiInterface", "default");
    }
    if spec["azureDisk"].is_object() {
        let disk = &mut spec["azureDisk"];
        fill(disk, "cachingMode", "ReadWrite");
        fill(disk, "fsType", "ext4");
        fill(disk, "kind", "Shared");
        if disk["readOnly"].is_null() {
            disk["readOnly"] = false.into();
        }
    }
}

fn claim(object: &mut Value) {
    fill(&mut object["status"], "phase", "Pending");
    fill(&mut object["spec"], "volumeMode", "Filesystem");
}

fn driver(object: &mut Value) {
    let spec = &mut object["spec"];
    for (name, value) in [
        ("attachRequired", true),
        ("podInfoOnMount", false),
        ("storageCapacity", false),
        ("requiresRepublish", false),
        ("seLinuxMount", false),
    ] {
        if spec[name].is_null() {
            spec[name] = value.into();
        }
    }
    fill(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    if items(&spec["volumeLifecycleModes"]).is_empty() {
        spec["volumeLifecycleModes"] = json!(["Persistent"]);
    }
}

/// Empty counts as left out, as it does in Go.
fn fill(object: &mut Value, name: &str, default: &str) {
    if object[name].as_str().unwrap_or_default().is_empty() {
        object[name] = default.into();
    }
}

fn remove(object: &mut Value, name: &str) {
    object
        .as_object_mut()
        .map(|fields: &mut Map<_, _>| fields.remove(name));
}

/// The elements of the list at `pointer`, if there is one.
fn list_mut<'a>(object: &'a mut Value, pointer: &str) -> &'a mut [Value] {
    let list = object.pointer_mut(pointer).and_then(Value::as_array_mut);
    list.map_or(&mut [], Vec::as_mut_slice)
}

#[cfg(test)]
mod tests;
