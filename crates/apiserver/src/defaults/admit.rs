//! What new pods and nodes get by admission, from what else there is in the cluster. The
//! caller looks it up.

use serde_json::{Value, json};

use super::list_mut;
use crate::Failure;
use crate::kinds;
use crate::schema::look::items;

const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const TOKEN_VOLUME: &str = "kube-api-access-";
const MIRROR: &str = "kubernetes.io/config.mirror";
/// How long a pod stays on a node that is not ready or cannot be reached.
const TOLERATION_SECONDS: i64 = 300;

/// What a pod's admission depends on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Surroundings<'a> {
    /// The one that [`service_account_name`] names, if it is there.
    pub service_account: Option<&'a Value>,
    /// The one that `spec.runtimeClassName` names, if it is there.
    pub runtime_class: Option<&'a Value>,
    /// Five characters that make a volume's name unlike others.
    pub suffix: &'a str,
}

/// Which service account a pod runs as.
pub fn service_account_name(pod: &Value) -> &str {
    let name = pod["spec"]["serviceAccountName"]
        .as_str()
        .unwrap_or_default();
    if name.is_empty() { "default" } else { name }
}

/// A new pod, as the admission plugins leave it that upstream has on by default.
pub fn pod(mut pod: Value, surroundings: Surroundings<'_>) -> Result<Value, Failure> {
    service_account(&mut pod, surroundings)?;
    priority(&mut pod)?;
    default_tolerations(&mut pod);
    runtime_class(&mut pod, surroundings.runtime_class)?;
    Ok(pod)
}

/// A pod that was changed keeps tolerating for a while what ails its node.
pub fn pod_update(mut pod: Value) -> Value {
    default_tolerations(&mut pod);
    pod
}

/// A new node gets no pods before it is ready.
pub fn node(mut node: Value) -> Value {
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    let taints = items(&node["spec"]["taints"]);
    let there = |other: &Value| other["key"] == taint["key"] && other["effect"] == taint["effect"];
    if !taints.iter().any(there) {
        let mut taints = taints.to_vec();
        taints.push(taint);
        node["spec"]["taints"] = taints.into();
    }
    node
}

fn forbidden(pod: &Value, cause: &str) -> Failure {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    Failure::forbidden(&kinds::PODS, name, cause)
}

fn service_account(pod: &mut Value, surroundings: Surroundings<'_>) -> Result<(), Failure> {
    if pod["metadata"]["annotations"].get(MIRROR).is_some() {
        return mirror(pod);
    }
    let name = service_account_name(pod).to_owned();
    let Some(account) = surroundings.service_account else {
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
        let cause = format!(
            "error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found"
        );
        return Err(forbidden(pod, &cause));
    };
    pod["spec"]["serviceAccountName"] = name.as_str().into();
    pod["spec"]["serviceAccount"] = name.into();
    let wanted = pod["spec"]["automountServiceAccountToken"].as_bool();
    let wanted = wanted.or_else(|| account["automountServiceAccountToken"].as_bool());
    if wanted.unwrap_or(true) {
        mount_token(pod, surroundings.suffix);
    }
    let secrets = items(&account["imagePullSecrets"]);
    if items(&pod["spec"]["imagePullSecrets"]).is_empty() && !secrets.is_empty() {
        pod["spec"]["imagePullSecrets"] = secrets.to_vec().into();
    }
    Ok(())
}

/// The mirror of a static pod refers to nothing at the server.
fn mirror(pod: &Value) -> Result<(), Failure> {
    let spec = &pod["spec"];
    let volumes = || items(&spec["volumes"]).iter();
    let projections = || volumes().flat_map(|volume| items(&volume["projected"]["sources"]));
    if spec["serviceAccountName"].is_string() {
        return Err(forbidden(
            pod,
            "a mirror pod may not reference service accounts",
        ));
    }
    if has_secrets(spec) {
        return Err(forbidden(pod, "a mirror pod may not reference secrets"));
    }
    if projections().any(|source| source["serviceAccountToken"].is_object()) {
        return Err(forbidden(
            pod,
            "a mirror pod may not use ServiceAccountToken volume projections",
        ));
    }
    Ok(())
}

fn has_secrets(spec: &Value) -> bool {
    let containers = ["initContainers", "containers", "ephemeralContainers"];
    let mut containers = containers.into_iter().flat_map(|list| items(&spec[list]));
    let by_container = containers.any(|container| {
        let from = items(&container["envFrom"])
            .iter()
            .any(|source| source["secretRef"].is_object());
        let keys = items(&container["env"]).iter();
        from || keys
            .into_iter()
            .any(|variable| variable["valueFrom"]["secretKeyRef"].is_object())
    });
    let by_volume = items(&spec["volumes"]).iter().any(|volume| {
        let references = [
            "/secret",
            "/azureFile/secretName",
            "/cephfs/secretRef",
            "/cinder/secretRef",
            "/flexVolume/secretRef",
            "/rbd/secretRef",
            "/scaleIO/secretRef",
            "/iscsi/secretRef",
            "/storageos/secretRef",
            "/csi/nodePublishSecretRef",
        ];
        references
            .iter()
            .any(|pointer| volume.pointer(pointer).is_some())
            || items(&volume["projected"]["sources"])
                .iter()
                .any(|source| source["secret"].is_object())
    });
    by_container || by_volume || !items(&spec["imagePullSecrets"]).is_empty()
}

fn mount_token(pod: &mut Value, suffix: &str) {
    let volumes = items(&pod["spec"]["volumes"]);
    let mut names = volumes.iter().filter_map(|volume| volume["name"].as_str());
    let existing = names
        .find(|name| name.starts_with(TOKEN_VOLUME))
        .map(str::to_owned);
    let there = existing.is_some();
    let name = existing.unwrap_or_else(|| format!("{TOKEN_VOLUME}{suffix}"));
    let mut mounted = false;
    for list in ["initContainers", "containers"] {
        for container in list_mut(pod, &format!("/spec/{list}")) {
            let mut mounts = items(&container["volumeMounts"]).to_vec();
            if mounts.iter().any(|mount| mount["mountPath"] == TOKEN_PATH) {
                continue;
            }
            mounts.push(json!({"name": name, "readOnly": true, "mountPath": TOKEN_PATH}));
            container["volumeMounts"] = mounts.into();
            mounted = true;
        }
    }
    if mounted && !there {
        let mut volumes = items(&pod["spec"]["volumes"]).to_vec();
        volumes.push(token_volume(&name));
        pod["spec"]["volumes"] = volumes.into();
    }
}

fn token_volume(name: &str) -> Value {
    json!({"name": name, "projected": {"defaultMode": 0o644, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 60 * 60 + 7, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ]}})
}

/// There are no classes but those that every cluster has.
fn priority(pod: &mut Value) -> Result<(), Failure> {
    let class = pod["spec"]["priorityClassName"]
        .as_str()
        .unwrap_or_default();
    let priority = match class {
        "" => 0,
        "system-cluster-critical" => 2_000_000_000,
        "system-node-critical" => 2_000_001_000,
        other => {
            let cause = format!("no PriorityClass with name {other} was found");
            return Err(forbidden(pod, &cause));
        }
    };
    if let Some(given) = pod["spec"]["priority"]
        .as_i64()
        .filter(|given| *given != priority)
    {
        let cause = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {priority} from the given PriorityClass name"
        );
        return Err(forbidden(pod, &cause));
    }
    let policy = "PreemptLowerPriority";
    if let Some(given) = pod["spec"]["preemptionPolicy"]
        .as_str()
        .filter(|given| *given != policy)
    {
        let cause = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        );
        return Err(forbidden(pod, &cause));
    }
    pod["spec"]["priority"] = priority.into();
    pod["spec"]["preemptionPolicy"] = policy.into();
    Ok(())
}

fn default_tolerations(pod: &mut Value) {
    let mut tolerations = items(&pod["spec"]["tolerations"]).to_vec();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for key in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        let tolerated = tolerations.iter().any(|toleration| {
            let (for_key, effect) = (text(&toleration["key"]), text(&toleration["effect"]));
            (for_key == key || for_key.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        });
        if !tolerated {
            tolerations.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS,
            }));
        }
    }
    pod["spec"]["tolerations"] = tolerations.into();
}

fn runtime_class(pod: &mut Value, class: Option<&Value>) -> Result<(), Failure> {
    let Some(name) = pod["spec"]["runtimeClassName"].as_str() else {
        return Ok(());
    };
    let Some(class) = class else {
        let cause = format!("pod rejected: RuntimeClass \"{name}\" not found");
        return Err(forbidden(pod, &cause));
    };
    let overhead = &class["overhead"]["podFixed"];
    if overhead.is_object() {
        let given = &pod["spec"]["overhead"];
        if !given.is_null() && given != overhead {
            return Err(forbidden(
                pod,
                "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
            ));
        }
        pod["spec"]["overhead"] = overhead.clone();
    }
    for (key, value) in class["scheduling"]["nodeSelector"]
        .as_object()
        .into_iter()
        .flatten()
    {
        let given = &pod["spec"]["nodeSelector"][key];
        if !given.is_null() && given != value {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let cause = format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                text(value),
                text(given)
            );
            return Err(forbidden(pod, &cause));
        }
        pod["spec"]["nodeSelector"][key] = value.clone();
    }
    let more = items(&class["scheduling"]["tolerations"]);
    if !more.is_empty() {
        let mut tolerations = items(&pod["spec"]["tolerations"]).to_vec();
        tolerations.extend(
            more.iter()
                .filter(|toleration| !items(&pod["spec"]["tolerations"]).contains(toleration))
                .cloned(),
        );
        pod["spec"]["tolerations"] = tolerations.into();
    }
    Ok(())
}
