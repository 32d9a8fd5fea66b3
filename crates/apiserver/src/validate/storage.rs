//! Volumes, claims, and what nodes and drivers say of storage.

use std::collections::BTreeSet;

use serde_json::Value;

use super::errors::Errors;
use super::{names, pod, resources};
use crate::schema::look::{entries, items, text};

const ACCESS_MODES: [&str; 4] = [
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];
/// What can be behind a volume, in the order in which upstream looks.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

pub(super) fn volume(object: &Value, errors: &mut Errors) {
    let spec = &object["spec"];
    if items(&spec["accessModes"]).is_empty() {
        errors.required("spec.accessModes", "");
    }
    access_modes(&spec["accessModes"], errors);
    let capacity = &spec["capacity"];
    if capacity.is_null() {
        errors.required("spec.capacity", "");
    }
    if capacity.get("storage").is_none() || entries(capacity).count() > 1 {
        errors.unsupported("spec.capacity", capacity.clone(), &["storage"]);
    }
    for (name, amount) in entries(capacity) {
        resources::positive(amount, &format!("spec.capacity[{name}]"), errors);
    }
    let policy = text(&spec["persistentVolumeReclaimPolicy"]);
    if !policy.is_empty() {
        errors.choice(
            "spec.persistentVolumeReclaimPolicy",
            policy,
            &["Delete", "Recycle", "Retain"],
        );
    }
    let mut sources = SOURCES.iter().filter(|source| !spec[**source].is_null());
    match sources.next() {
        None => errors.required("spec", "must specify a volume type"),
        Some(&"hostPath") => pod::host_path(&spec["hostPath"], "spec.hostPath", errors),
        Some(&"local") if spec["nodeAffinity"].is_null() => {
            errors.required("spec.nodeAffinity", "Local volume requires node affinity");
        }
        Some(&"local") if text(&spec["local"]["path"]).is_empty() => {
            errors.required("spec.local.path", "");
        }
        Some(_) => {}
    }
    for source in sources {
        errors.forbidden(
            format!("spec.{source}"),
            "may not specify more than 1 volume type",
        );
    }
    let class = text(&spec["storageClassName"]);
    if !class.is_empty() {
        errors.invalid_all("spec.storageClassName", class, names::dns_subdomain(class));
    }
    volume_mode(spec, errors);
}

pub(super) fn volume_update(object: &Value, old: &Value, errors: &mut Errors) {
    let (spec, before) = (&object["spec"], &old["spec"]);
    if SOURCES
        .iter()
        .any(|source| spec[*source] != before[*source])
    {
        errors.forbidden(
            "spec.persistentvolumesource",
            "spec.persistentvolumesource is immutable after creation\n",
        );
    }
    if spec["volumeMode"] != before["volumeMode"] {
        errors.invalid(
            "volumeMode",
            spec["volumeMode"].clone(),
            "field is immutable",
        );
    }
}

pub(super) fn claim(object: &Value, errors: &mut Errors) {
    let spec = &object["spec"];
    if items(&spec["accessModes"]).is_empty() {
        errors.required("spec.accessModes", "at least 1 access mode is required");
    }
    pod::label_selector(&spec["selector"], "spec.selector", errors);
    access_modes(&spec["accessModes"], errors);
    match spec.pointer("/resources/requests/storage") {
        None => errors.required("spec.resources[storage]", ""),
        Some(amount) => resources::positive(amount, "spec.resources[storage]", errors),
    }
    let class = text(&spec["storageClassName"]);
    if !class.is_empty() {
        errors.invalid_all("spec.storageClassName", class, names::dns_subdomain(class));
    }
    volume_mode(spec, errors);
}

/// A claim may be bound, and grow; the rest stays.
pub(super) fn claim_update(object: &Value, old: &Value, errors: &mut Errors) {
    let (mut spec, before) = (object["spec"].clone(), &old["spec"]);
    if text(&before["volumeName"]).is_empty() {
        spec["volumeName"] = before["volumeName"].clone();
    }
    let storage = "/resources/requests/storage";
    let (now, then) = (spec.pointer(storage).cloned(), before.pointer(storage));
    if old["status"]["phase"] == "Bound"
        && let (Some(now), Some(then)) = (&now, then)
    {
        if resources::quantity(now) < resources::quantity(then) {
            errors.forbidden(
                "spec.resources.requests.storage",
                "field can not be less than previous value",
            );
        }
        spec["resources"]["requests"]["storage"] = then.clone();
    }
    spec["volumeAttributesClassName"] = before["volumeAttributesClassName"].clone();
    let mut before = before.clone();
    // What is not there is null in neither, or in both.
    for name in ["volumeName", "volumeAttributesClassName"] {
        before[name] = before[name].clone();
        spec[name] = spec[name].clone();
    }
    if spec != before {
        let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n";
        errors.forbidden("spec", detail);
    }
}

pub(super) fn node(object: &Value, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, driver) in items(&object["spec"]["drivers"]).iter().enumerate() {
        let field = format!("spec.drivers[{index}]");
        let name = text(&driver["name"]);
        driver_name(name, &format!("{field}.name"), errors);
        if !seen.insert(name) {
            errors.duplicate(format!("{field}.name"), name);
        }
        match text(&driver["nodeID"]) {
            "" => errors.required(format!("{field}.nodeID"), ""),
            id if id.len() > 192 => {
                errors.invalid(
                    format!("{field}.nodeID"),
                    id,
                    "must be 192 characters or less",
                );
            }
            _ => {}
        }
        let mut keys = BTreeSet::new();
        for key in items(&driver["topologyKeys"]).iter().map(text) {
            if key.is_empty() {
                errors.required(format!("{field}.topologyKeys"), "");
            }
            if !keys.insert(key) {
                errors.duplicate(format!("{field}.topologyKeys"), key);
            }
            errors.invalid_all(&field, key, names::qualified_name(key));
        }
    }
}

/// What a driver told of a node stays, but for how much it can take.
pub(super) fn node_update(object: &Value, old: &Value, errors: &mut Errors) {
    let without_count = |driver: &Value| {
        let mut driver = driver.clone();
        driver
            .as_object_mut()
            .map(|fields| fields.remove("allocatable"));
        driver
    };
    for driver in items(&object["spec"]["drivers"]) {
        let before = items(&old["spec"]["drivers"])
            .iter()
            .find(|other| other["name"] == driver["name"]);
        let driver = without_count(driver);
        if before.is_some_and(|before| without_count(before) != driver) {
            errors.invalid("spec.drivers", driver, "field is immutable");
        }
    }
}

pub(super) fn driver(object: &Value, errors: &mut Errors) {
    let name = text(&object["metadata"]["name"]);
    if name.len() > 63 {
        errors.too_long("metadata.name", 63);
    }
    let spec = &object["spec"];
    let policy = text(&spec["fsGroupPolicy"]);
    errors.choice(
        "spec.fsGroupPolicy",
        policy,
        &["File", "None", "ReadWriteOnceWithFSType"],
    );
    for mode in items(&spec["volumeLifecycleModes"]).iter().map(text) {
        errors.choice(
            "spec.volumeLifecycleModes",
            mode,
            &["Persistent", "Ephemeral"],
        );
    }
    let mut audiences = BTreeSet::new();
    for (index, request) in items(&spec["tokenRequests"]).iter().enumerate() {
        let field = format!("spec.tokenRequests[{index}]");
        let audience = text(&request["audience"]);
        if !audiences.insert(audience) {
            errors.duplicate(format!("{field}.audience"), audience);
        }
        if let Some(seconds) = request["expirationSeconds"]
            .as_i64()
            .filter(|seconds| *seconds < 600)
        {
            errors.invalid(
                format!("{field}.expirationSeconds"),
                seconds,
                "may not specify a duration less than 10 minutes",
            );
        }
    }
}

pub(super) fn driver_update(object: &Value, old: &Value, errors: &mut Errors) {
    let (spec, before) = (&object["spec"], &old["spec"]);
    if spec["attachRequired"] != before["attachRequired"] {
        errors.invalid(
            "spec.attachedRequired",
            spec["attachRequired"].clone(),
            "field is immutable",
        );
    }
    if spec["volumeLifecycleModes"] != before["volumeLifecycleModes"] {
        errors.invalid(
            "spec.volumeLifecycleModes",
            spec["volumeLifecycleModes"].clone(),
            "field is immutable",
        );
    }
}

pub(super) fn driver_name(name: &str, field: &str, errors: &mut Errors) {
    if name.is_empty() {
        errors.required(field, "");
        return;
    }
    if name.len() > 63 {
        errors.too_long(field, 63);
    }
    let lower = name.to_lowercase();
    errors.invalid_all(field, name, names::dns_subdomain(&lower));
}

fn access_modes(list: &Value, errors: &mut Errors) {
    let modes: Vec<&str> = items(list).iter().map(text).collect();
    for mode in modes.iter().filter(|mode| !ACCESS_MODES.contains(mode)) {
        errors.unsupported("spec.accessModes", *mode, &ACCESS_MODES);
    }
    let alone = modes.contains(&"ReadWriteOncePod");
    let others = modes
        .iter()
        .any(|mode| *mode != "ReadWriteOncePod" && ACCESS_MODES.contains(mode));
    if alone && others {
        errors.forbidden(
            "spec.accessModes",
            "may not use ReadWriteOncePod with other access modes",
        );
    }
}

fn volume_mode(spec: &Value, errors: &mut Errors) {
    let mode = text(&spec["volumeMode"]);
    if !mode.is_empty() && !["Block", "Filesystem"].contains(&mode) {
        errors.unsupported("spec.volumeMode", mode, &["Block", "Filesystem"]);
    }
}
