//! Volumes: one source each, with what it needs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{containers, environment};
use crate::schema::look::{items, number, text};
use crate::validate::errors::Errors;
use crate::validate::{names, resources, storage};

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
/// In the order in which upstream looks.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// The volumes without fault, by name.
pub(super) type Volumes<'a> = BTreeMap<&'a str, &'a Value>;

pub(super) fn check<'a>(pod: &'a Value, errors: &mut Errors) -> Volumes<'a> {
    let pod_name = text(&pod["metadata"]["name"]);
    let list = items(&pod["spec"]["volumes"]);
    let made = |claim: &str| {
        list.iter().any(|volume| {
            volume["ephemeral"].is_object()
                && format!("{pod_name}-{}", text(&volume["name"])) == claim
        })
    };
    let mut volumes = Volumes::new();
    for (index, volume) in list.iter().enumerate() {
        let field = format!("spec.volumes[{index}]");
        let name = text(&volume["name"]);
        let mut own = Errors::default();
        source(volume, &field, &mut own);
        match name {
            "" => own.required(format!("{field}.name"), ""),
            name => own.invalid_all(format!("{field}.name"), name, names::dns_label(name)),
        }
        if volumes.contains_key(name) {
            own.duplicate(format!("{field}.name"), name);
        }
        if own.is_empty() {
            volumes.insert(name, volume);
        }
        errors.0.extend(own.0);
        let claim = text(&volume["persistentVolumeClaim"]["claimName"]);
        if !claim.is_empty() && made(claim) {
            let detail = "must not reference a PVC that gets created for an ephemeral volume";
            errors.invalid(
                format!("{field}.persistentVolumeClaim.claimName"),
                claim,
                detail,
            );
        }
    }
    volumes
}

fn source(volume: &Value, field: &str, errors: &mut Errors) {
    let mut sources = SOURCES.into_iter().filter(|name| volume[*name].is_object());
    let Some(first) = sources.next() else {
        errors.required(field, "must specify a volume type");
        return;
    };
    let (found, own) = (&volume[first], format!("{field}.{first}"));
    let mut need = |name: &str| {
        if text(&found[name]).is_empty() {
            errors.required(format!("{own}.{name}"), "");
        }
    };
    match first {
        "persistentVolumeClaim" => need("claimName"),
        "gitRepo" => need("repository"),
        "nfs" => {
            need("server");
            need("path");
            if !text(&found["path"]).starts_with('/') {
                errors.invalid(
                    format!("{own}.path"),
                    text(&found["path"]),
                    "must be an absolute path",
                );
            }
        }
        "image" => {
            need("reference");
            containers::pull_policy(&found["pullPolicy"], &format!("{own}.pullPolicy"), errors);
        }
        "emptyDir" if resources::quantity(&found["sizeLimit"]).sign() < 0 => {
            errors.forbidden(
                format!("{own}.sizeLimit"),
                "SizeLimit field must be a valid resource quantity",
            );
        }
        "hostPath" => host_path(found, &own, errors),
        "secret" => keyed(found, "secretName", &own, errors),
        "configMap" => keyed(found, "name", &own, errors),
        "downwardAPI" => {
            mode(&found["defaultMode"], &format!("{own}.defaultMode"), errors);
            for item in items(&found["items"]) {
                // Upstream names the volume here, not the file.
                downward_file(item, &own, errors);
            }
        }
        "projected" => projected(found, &own, errors),
        "csi" => storage::driver_name(text(&found["driver"]), &format!("{own}.driver"), errors),
        "ephemeral" => {
            let template = &found["volumeClaimTemplate"];
            if template.is_null() {
                errors.required(format!("{own}.volumeClaimTemplate"), "");
            } else if items(&template["spec"]["accessModes"]).is_empty() {
                errors.required(
                    format!("{own}.volumeClaimTemplate.spec.accessModes"),
                    "at least 1 access mode is required",
                );
            }
        }
        _ => {}
    }
    for other in sources {
        errors.forbidden(
            format!("{field}.{other}"),
            "may not specify more than 1 volume type",
        );
    }
}

pub(crate) fn host_path(source: &Value, field: &str, errors: &mut Errors) {
    let path = text(&source["path"]);
    if path.is_empty() {
        errors.required(format!("{field}.path"), "");
        return;
    }
    if !without_backsteps(path) {
        errors.invalid(format!("{field}.path"), path, "must not contain '..'");
    }
    let kinds = [
        "",
        "BlockDevice",
        "CharDevice",
        "Directory",
        "DirectoryOrCreate",
        "File",
        "FileOrCreate",
        "Socket",
    ];
    let kind = text(&source["type"]);
    if !kinds.contains(&kind) {
        errors.unsupported(format!("{field}.type"), kind, &kinds);
    }
}

/// A configMap or a secret: its name, and which of its keys go where.
fn keyed(source: &Value, name: &str, field: &str, errors: &mut Errors) {
    if text(&source[name]).is_empty() {
        errors.required(format!("{field}.{name}"), "");
    }
    mode(
        &source["defaultMode"],
        &format!("{field}.defaultMode"),
        errors,
    );
    for (index, item) in items(&source["items"]).iter().enumerate() {
        key_to_path(item, &format!("{field}.items[{index}]"), errors);
    }
}

fn key_to_path(item: &Value, field: &str, errors: &mut Errors) {
    if text(&item["key"]).is_empty() {
        errors.required(format!("{field}.key"), "");
    }
    file_path(item, field, errors);
    mode(&item["mode"], &format!("{field}.mode"), errors);
}

fn file_path(item: &Value, field: &str, errors: &mut Errors) {
    let path = text(&item["path"]);
    if path.is_empty() {
        errors.required(format!("{field}.path"), "");
    }
    local_path(path, &format!("{field}.path"), errors);
}

fn local_path(path: &str, field: &str, errors: &mut Errors) {
    descending_path(path, field, errors);
    if path.starts_with("..") && !path.starts_with("../") {
        errors.invalid(field, path, "must not start with '..'");
    }
}

/// A path below something, if there is one.
pub(super) fn descending_path(path: &str, field: &str, errors: &mut Errors) {
    if path.starts_with('/') {
        errors.invalid(field, path, "must be a relative path");
    }
    if !without_backsteps(path) {
        errors.invalid(field, path, "must not contain '..'");
    }
}

pub(super) fn without_backsteps(path: &str) -> bool {
    path.split('/').all(|part| part != "..")
}

fn downward_file(item: &Value, field: &str, errors: &mut Errors) {
    file_path(item, field, errors);
    let (of_pod, amount) = (&item["fieldRef"], &item["resourceFieldRef"]);
    if of_pod.is_object() {
        environment::field_of_pod(
            of_pod,
            &environment::FILE_FIELDS,
            &format!("{field}.fieldRef"),
            errors,
        );
        if amount.is_object() {
            errors.invalid(
                field,
                "resource",
                "fieldRef and resourceFieldRef can not be specified simultaneously",
            );
        }
    } else if amount.is_object() {
        environment::resource(amount, true, &format!("{field}.resourceFieldRef"), errors);
    } else {
        errors.required(field, "one of fieldRef and resourceFieldRef is required");
    }
    mode(&item["mode"], &format!("{field}.mode"), errors);
}

fn projected(volume: &Value, field: &str, errors: &mut Errors) {
    mode(
        &volume["defaultMode"],
        &format!("{field}.defaultMode"),
        errors,
    );
    let mut paths = BTreeSet::new();
    for (index, source) in items(&volume["sources"]).iter().enumerate() {
        let own = format!("{field}.sources[{index}]");
        let kinds = [
            "secret",
            "configMap",
            "downwardAPI",
            "serviceAccountToken",
            "clusterTrustBundle",
            "podCertificate",
        ];
        let found: Vec<&str> = kinds
            .into_iter()
            .filter(|kind| source[*kind].is_object())
            .collect();
        for kind in &found {
            projection(
                kind,
                &source[*kind],
                &format!("{own}.{kind}"),
                field,
                errors,
            );
            for item in items(&source[*kind]["items"]) {
                let path = text(&item["path"]);
                if !path.is_empty() && !paths.insert(path) {
                    let named = if *kind == "downwardAPI" {
                        path
                    } else {
                        text(&source[*kind]["name"])
                    };
                    errors.invalid(field, named, "conflicting duplicate paths");
                }
            }
        }
        if found.len() > 1 {
            errors.forbidden(own, "may not specify more than 1 volume type per source");
        }
    }
}

fn projection(kind: &str, source: &Value, field: &str, volume: &str, errors: &mut Errors) {
    match kind {
        "secret" | "configMap" => keyed(source, "name", field, errors),
        "downwardAPI" => {
            for item in items(&source["items"]) {
                downward_file(item, field, errors);
            }
        }
        "serviceAccountToken" => {
            let seconds = number(&source["expirationSeconds"]);
            if seconds < 600 {
                errors.invalid(
                    format!("{field}.expirationSeconds"),
                    seconds,
                    "may not specify a duration less than 10 minutes",
                );
            }
            if seconds > 1 << 32 {
                errors.invalid(
                    format!("{field}.expirationSeconds"),
                    seconds,
                    "may not specify a duration larger than 2^32 seconds",
                );
            }
            // Upstream names the volume here, not the source.
            file_path(source, volume, errors);
        }
        "clusterTrustBundle" => {
            match (source["name"].is_string(), source["signerName"].is_string()) {
                (true, true) => errors.invalid(
                    field,
                    source.clone(),
                    "only one of name and signerName may be used",
                ),
                (false, false) => {
                    errors.required(field, "either name or signerName must be specified");
                }
                _ => {}
            }
            file_path(source, field, errors);
        }
        _ => {}
    }
}

fn mode(mode: &Value, field: &str, errors: &mut Errors) {
    if let Some(bits) = mode.as_i64().filter(|bits| !(0..=0o777).contains(bits)) {
        errors.invalid(field, bits, MODE);
    }
}
