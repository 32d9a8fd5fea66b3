//! The cells of each kind, in the order of its columns.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};
use types::Quantity;

use super::{age, pod};
use crate::kinds::Kind;
use crate::schema::look::{entries, items, text};

/// The server always prints the wide form: kubectl leaves out what it does not show.
pub(super) fn cells(kind: &Kind, object: &Value, now: Timestamp) -> Value {
    let name = &object["metadata"]["name"];
    let age = age::since(&object["metadata"]["creationTimestamp"], now);
    let (spec, status) = (&object["spec"], &object["status"]);
    match kind.kind {
        "Pod" => pod::cells(object, &age, now),
        "Node" => node(object, &age),
        "Namespace" => json!([name, text(&status["phase"]), age]),
        "ConfigMap" => json!([
            name,
            size(&object["data"]) + size(&object["binaryData"]),
            age
        ]),
        "Secret" => json!([name, text(&object["type"]), size(&object["data"]), age]),
        "Service" => service(object, &age),
        "Event" => event(object, now),
        "Lease" => json!([name, text(&spec["holderIdentity"]), age]),
        "CertificateSigningRequest" => {
            let duration = spec["expirationSeconds"]
                .as_i64()
                .map_or_else(|| "<none>".to_owned(), age::human);
            json!([
                name,
                age,
                or(&spec["signerName"], "<none>"),
                text(&spec["username"]),
                duration,
                request_status(status)
            ])
        }
        "CSINode" => json!([name, size(&spec["drivers"]), age]),
        "CSIDriver" => driver(object, &age),
        "RuntimeClass" => json!([name, text(&object["handler"]), age]),
        "PersistentVolume" => volume(object, &age),
        "PersistentVolumeClaim" => claim(object, &age),
        _ => json!([name, age]),
    }
}

/// What stands there, or what is said if nothing does.
pub(super) fn or<'a>(value: &'a Value, otherwise: &'a str) -> &'a str {
    match text(value) {
        "" => otherwise,
        found => found,
    }
}

fn size(value: &Value) -> usize {
    value.as_array().map_or(0, Vec::len) + value.as_object().map_or(0, serde_json::Map::len)
}

fn joined(list: &Value) -> String {
    let texts: Vec<&str> = items(list).iter().map(text).collect();
    texts.join(",")
}

fn node(object: &Value, age: &str) -> Value {
    let (status, info) = (&object["status"], &object["status"]["nodeInfo"]);
    let ready = items(&status["conditions"])
        .iter()
        .rfind(|condition| condition["type"] == "Ready");
    let mut state = match ready {
        Some(condition) if condition["status"] == "True" => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if object["spec"]["unschedulable"] == true {
        state.push_str(",SchedulingDisabled");
    }
    let mut kernel = or(&info["kernelVersion"], "<unknown>").to_owned();
    if let Some(architecture) = Some(text(&info["architecture"])).filter(|found| !found.is_empty())
    {
        kernel = format!("{kernel} ({architecture})");
    }
    let address = |kind: &str| {
        let found = items(&status["addresses"])
            .iter()
            .find(|address| address["type"] == kind);
        found
            .map_or("<none>", |address| text(&address["address"]))
            .to_owned()
    };
    json!([
        object["metadata"]["name"],
        state,
        roles(object),
        age,
        text(&info["kubeletVersion"]),
        address("InternalIP"),
        address("ExternalIP"),
        or(&info["osImage"], "<unknown>"),
        kernel,
        or(&info["containerRuntimeVersion"], "<unknown>"),
    ])
}

fn roles(object: &Value) -> String {
    let mut roles = BTreeSet::new();
    for (key, value) in entries(&object["metadata"]["labels"]) {
        match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => drop(roles.insert(role)),
            None if key == "kubernetes.io/role" => drop(roles.insert(text(value))),
            None => {}
        }
    }
    roles.remove("");
    let roles: Vec<&str> = roles.into_iter().collect();
    if roles.is_empty() {
        "<none>".to_owned()
    } else {
        roles.join(",")
    }
}

fn service(object: &Value, age: &str) -> Value {
    let spec = &object["spec"];
    let internal = items(&spec["clusterIPs"]).first().map_or("<none>", text);
    let ports: Vec<String> = items(&spec["ports"]).iter().map(port).collect();
    let ports = if ports.is_empty() {
        "<none>".to_owned()
    } else {
        ports.join(",")
    };
    let selector = spec["selector"].as_object().map(|labels| {
        let pairs: Vec<String> = labels
            .iter()
            .map(|(key, value)| format!("{key}={}", text(value)))
            .collect();
        pairs.join(",")
    });
    let selector = selector
        .filter(|text| !text.is_empty())
        .unwrap_or_else(|| "<none>".to_owned());
    json!([
        object["metadata"]["name"],
        text(&spec["type"]),
        internal,
        external(object),
        ports,
        age,
        selector
    ])
}

fn port(port: &Value) -> String {
    let protocol = text(&port["protocol"]);
    match port["nodePort"].as_i64().unwrap_or_default() {
        0 => format!("{}/{protocol}", port["port"]),
        node => format!("{}:{node}/{protocol}", port["port"]),
    }
}

fn external(object: &Value) -> String {
    let spec = &object["spec"];
    let own = joined(&spec["externalIPs"]);
    match text(&spec["type"]) {
        "ClusterIP" | "NodePort" if own.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => own,
        "LoadBalancer" => {
            let ingress = items(&object["status"]["loadBalancer"]["ingress"]).iter();
            let addresses: BTreeSet<&str> = ingress
                .map(|found| or(&found["ip"], text(&found["hostname"])))
                .filter(|found| !found.is_empty())
                .collect();
            let mut all: Vec<&str> = addresses.into_iter().collect();
            all.extend(items(&spec["externalIPs"]).iter().map(text));
            if all.is_empty() {
                "<pending>".to_owned()
            } else {
                all.join(",")
            }
        }
        "ExternalName" => text(&spec["externalName"]).to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

fn event(object: &Value, now: Timestamp) -> Value {
    let time = |name: &str| Some(&object[name]).filter(|time| !time.is_null());
    let first = age::since(time("firstTimestamp").unwrap_or(&object["eventTime"]), now);
    let mut last =
        time("lastTimestamp").map_or_else(|| first.clone(), |time| age::since(time, now));
    let mut count = object["count"].as_i64().unwrap_or_default();
    let series = &object["series"];
    if series.is_object() {
        last = age::since(&series["lastObservedTime"], now);
        count = series["count"].as_i64().unwrap_or_default();
    } else if count == 0 {
        count = 1;
    }
    let about = &object["involvedObject"];
    let kind = text(&about["kind"]).to_lowercase();
    let target = match text(&about["name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let component = or(
        &object["source"]["component"],
        text(&object["reportingComponent"]),
    );
    let source = match or(
        &object["source"]["host"],
        text(&object["reportingInstance"]),
    ) {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    };
    json!([
        last,
        text(&object["type"]),
        text(&object["reason"]),
        target,
        text(&about["fieldPath"]),
        source,
        text(&object["message"]).trim(),
        first,
        count,
        object["metadata"]["name"],
    ])
}

fn request_status(status: &Value) -> String {
    let has = |name: &str| {
        items(&status["conditions"])
            .iter()
            .any(|condition| condition["type"] == name)
    };
    let mut words = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has("Failed") {
        words.push_str(",Failed");
    }
    if !text(&status["certificate"]).is_empty() {
        words.push_str(",Issued");
    }
    words
}

fn driver(object: &Value, age: &str) -> Value {
    let spec = &object["spec"];
    let flag = |name: &str, otherwise: bool| spec[name].as_bool().unwrap_or(otherwise);
    let audiences = spec["tokenRequests"].as_array().map_or_else(
        || "<unset>".to_owned(),
        |requests| {
            requests
                .iter()
                .map(|request| text(&request["audience"]))
                .collect::<Vec<_>>()
                .join(",")
        },
    );
    let modes = Some(joined(&spec["volumeLifecycleModes"])).filter(|modes| !modes.is_empty());
    json!([
        object["metadata"]["name"],
        flag("attachRequired", true),
        flag("podInfoOnMount", false),
        flag("storageCapacity", false),
        audiences,
        flag("requiresRepublish", false),
        modes.unwrap_or_else(|| "<none>".to_owned()),
        age,
    ])
}

fn access_modes(list: &Value) -> String {
    let modes = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let found = modes
        .iter()
        .filter(|(mode, _)| items(list).iter().any(|item| item == mode));
    found.map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

fn amount(value: &Value) -> String {
    text(value)
        .parse::<Quantity>()
        .unwrap_or_default()
        .to_string()
}

/// An annotation had the class before there was a field.
fn storage_class(object: &Value) -> &str {
    let annotated =
        object["metadata"]["annotations"].get("volume.beta.kubernetes.io/storage-class");
    annotated.map_or_else(|| text(&object["spec"]["storageClassName"]), text)
}

fn phase(object: &Value) -> &str {
    if object["metadata"]["deletionTimestamp"].is_null() {
        text(&object["status"]["phase"])
    } else {
        "Terminating"
    }
}

fn volume(object: &Value, age: &str) -> Value {
    let spec = &object["spec"];
    let claim = &spec["claimRef"];
    let owner = if claim.is_object() {
        format!("{}/{}", text(&claim["namespace"]), text(&claim["name"]))
    } else {
        String::new()
    };
    json!([
        object["metadata"]["name"],
        amount(&spec["capacity"]["storage"]),
        access_modes(&spec["accessModes"]),
        text(&spec["persistentVolumeReclaimPolicy"]),
        phase(object),
        owner,
        storage_class(object),
        or(&spec["volumeAttributesClassName"], "<unset>"),
        text(&object["status"]["reason"]),
        age,
        or(&spec["volumeMode"], "<unset>"),
    ])
}

fn claim(object: &Value, age: &str) -> Value {
    let (spec, status) = (&object["spec"], &object["status"]);
    let volume = text(&spec["volumeName"]);
    let (capacity, modes) = if volume.is_empty() {
        (String::new(), String::new())
    } else {
        (
            amount(&status["capacity"]["storage"]),
            access_modes(&status["accessModes"]),
        )
    };
    json!([
        object["metadata"]["name"],
        phase(object),
        volume,
        capacity,
        modes,
        storage_class(object),
        or(&spec["volumeAttributesClassName"], "<unset>"),
        age,
        or(&spec["volumeMode"], "<unset>"),
    ])
}
