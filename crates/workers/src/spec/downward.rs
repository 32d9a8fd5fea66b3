//! What a pod can learn of itself: its fields, and its containers' resources.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, ObjectFieldSelector, Pod, ResourceFieldSelector};
use resources::requests::{
    self, Amounts, CPU, EPHEMERAL_STORAGE, HUGE_PAGES, MEMORY, is_pod_level,
};
use thiserror::Error;
use types::Quantity;
use types::names::validate_label_key;

use super::{pod_ref, spec_of};

/// What a pod cannot learn from its own object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Surroundings {
    /// The node's family first.
    pub host_ips: Vec<IpAddr>,
    /// As the runtime has them.
    pub pod_ips: Vec<String>,
    /// What the node can give.
    pub allocatable: Amounts,
}

/// Why a reference leads nowhere.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ReferenceError {
    #[error("unsupported pod version: {0}")]
    Version(String),
    #[error("field label does not support subscript: {0}")]
    Subscript(String),
    #[error("field label not supported: {0}")]
    Label(String),
    #[error("unsupported fieldPath: {0}")]
    Path(String),
    #[error("invalid key subscript in {path}: {reason}")]
    Key { path: String, reason: String },
    #[error("host IP unknown; known addresses: []")]
    NoHostIp,
    #[error("container {0} not found")]
    Container(String),
    #[error("unsupported container resource : {0}")]
    Resource(String),
}

/// These are labels, but have no value that a container could see.
const WITHOUT_VALUE: [&str; 3] = ["spec.restartPolicy", "spec.schedulerName", "status.phase"];

/// The value of a field of a pod.
pub fn field(
    selector: &ObjectFieldSelector,
    pod: &Pod,
    surroundings: &Surroundings,
) -> Result<String, ReferenceError> {
    let version = selector.api_version.as_deref().unwrap_or("v1");
    if version != "v1" {
        return Err(ReferenceError::Version(version.to_owned()));
    }
    let path = selector.field_path.as_str();
    if let Some((list, key)) = subscript(path) {
        return keyed(pod, path, list, key);
    }
    let spec = spec_of(pod);
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let metadata = &pod.metadata;
    let hosts: Vec<String> = surroundings
        .host_ips
        .iter()
        .map(IpAddr::to_string)
        .collect();
    // In the order in which the pod's status has them.
    let prefers_ipv6 = surroundings.host_ips.first().is_some_and(IpAddr::is_ipv6);
    let own = status::one_of_each_family(&surroundings.pod_ips, prefers_ipv6);
    let own: Vec<String> = own.iter().map(IpAddr::to_string).collect();
    let some_host = hosts.first().cloned().ok_or(ReferenceError::NoHostIp);
    let pod = pod_ref(pod);
    Ok(match path {
        "metadata.name" => pod.name.name,
        "metadata.namespace" => pod.name.namespace,
        "metadata.uid" => pod.uid.to_string(),
        "metadata.labels" => listed(metadata.labels.as_ref()),
        "metadata.annotations" => listed(metadata.annotations.as_ref()),
        // Old clients send the second.
        "spec.nodeName" | "spec.host" => text(&spec.node_name),
        "spec.serviceAccountName" => text(&spec.service_account_name),
        "status.hostIP" => some_host?,
        "status.hostIPs" => some_host.map(|_| hosts.join(","))?,
        "status.podIP" => own.first().cloned().unwrap_or_default(),
        "status.podIPs" => own.join(","),
        known if WITHOUT_VALUE.contains(&known) => {
            return Err(ReferenceError::Path(known.to_owned()));
        }
        unknown => return Err(ReferenceError::Label(unknown.to_owned())),
    })
}

/// The list and the key of `list['key']`.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (list, key) = path.strip_suffix("']")?.split_once("['")?;
    (!list.is_empty()).then_some((list, key))
}

fn keyed(pod: &Pod, path: &str, list: &str, key: &str) -> Result<String, ReferenceError> {
    let metadata = &pod.metadata;
    let (texts, name) = match list {
        "metadata.labels" => (metadata.labels.as_ref(), key.to_owned()),
        "metadata.annotations" => (metadata.annotations.as_ref(), key.to_lowercase()),
        _ => return Err(ReferenceError::Subscript(path.to_owned())),
    };
    validate_label_key(&name).map_err(|error| ReferenceError::Key {
        path: path.to_owned(),
        reason: error.to_string(),
    })?;
    Ok(texts
        .and_then(|texts| texts.get(key))
        .cloned()
        .unwrap_or_default())
}

/// A line for each, sorted, values quoted as Go does.
fn listed(texts: Option<&BTreeMap<String, String>>) -> String {
    let lines = texts.into_iter().flatten();
    let lines: Vec<String> = lines
        .map(|(key, value)| format!("{key}={}", quoted(value)))
        .collect();
    lines.join("\n")
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        // Writing to a string cannot fail.
        let _ = match letter {
            '"' | '\\' => write!(quoted, "\\{letter}"),
            '\n' => write!(quoted, "\\n"),
            '\r' => write!(quoted, "\\r"),
            '\t' => write!(quoted, "\\t"),
            '\u{7}' => write!(quoted, "\\a"),
            '\u{8}' => write!(quoted, "\\b"),
            '\u{b}' => write!(quoted, "\\v"),
            '\u{c}' => write!(quoted, "\\f"),
            other if u32::from(other) < 0x20 || other == '\u{7f}' => {
                write!(quoted, "\\x{:02x}", u32::from(other))
            }
            other => write!(quoted, "{other}"),
        };
    }
    quoted.push('"');
    quoted
}

/// The value of a resource of a container, in units of the divisor, rounded up.
/// `container` is whose reference it is.
pub fn resource(
    selector: &ResourceFieldSelector,
    pod: &Pod,
    container: &Container,
    allocatable: &Amounts,
) -> Result<String, ReferenceError> {
    let spec = spec_of(pod);
    let other = selector
        .container_name
        .as_deref()
        .filter(|name| !name.is_empty());
    let init_containers = spec.init_containers.iter().flatten();
    let mut all = spec.containers.iter().chain(init_containers);
    let (container, is_init) = match other {
        None => (container, false),
        Some(name) => {
            let found = all.find(|container| container.name == name);
            let found = found.ok_or_else(|| ReferenceError::Container(name.to_owned()))?;
            let regular = spec
                .containers
                .iter()
                .any(|container| container.name == name);
            (found, !regular)
        }
    };
    let unsupported = || ReferenceError::Resource(selector.resource.clone());
    let (kind, name) = selector.resource.split_once('.').ok_or_else(unsupported)?;
    let known = [CPU, MEMORY, EPHEMERAL_STORAGE].contains(&name) || name.starts_with(HUGE_PAGES);
    let amounts = match kind {
        "requests" => requests::requests(container.resources.as_ref()),
        // Upstream fills in the limits of other init containers nowhere.
        "limits" if is_init => requests::limits(container.resources.as_ref()),
        "limits" => {
            let of_pod = requests::limits(spec.resources.as_ref());
            filled(
                requests::limits(container.resources.as_ref()),
                &of_pod,
                allocatable,
            )
        }
        _ => return Err(unsupported()),
    };
    if !known {
        return Err(unsupported());
    }
    let divisor = selector
        .divisor
        .as_ref()
        .and_then(|divisor| divisor.0.parse().ok());
    let divisor = divisor.filter(|divisor: &Quantity| !divisor.is_zero());
    let divisor =
        divisor.unwrap_or_else(|| Quantity::from_milli(1000, types::quantity::Format::DecimalSi));
    let amount = amounts.get(name).cloned().unwrap_or_default();
    let (amount, divisor) = if name == CPU {
        (amount.milli_value(), divisor.milli_value())
    } else {
        (amount.value(), divisor.value())
    };
    let divisor = divisor.max(1);
    let rounded_up = amount / divisor + i64::from(amount % divisor > 0);
    Ok(rounded_up.to_string())
}

/// Who has no limit has the pod's, or else the node's. Huge pages are never more
/// than was said.
fn filled(mut limits: Amounts, of_pod: &Amounts, allocatable: &Amounts) -> Amounts {
    for name in [CPU, MEMORY, EPHEMERAL_STORAGE] {
        let has_own = limits.get(name).is_some_and(|limit| !limit.is_zero());
        let Some(of_node) = allocatable.get(name).filter(|_| !has_own) else {
            continue;
        };
        let of_pod = of_pod
            .get(name)
            .filter(|limit| !limit.is_zero() && is_pod_level(name));
        limits.insert(name.to_owned(), of_pod.unwrap_or(of_node).clone());
    }
    limits
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::spec::testing;

    fn surroundings() -> Surroundings {
        let amounts = [
            ("cpu", "4"),
            ("memory", "8Gi"),
            ("ephemeral-storage", "100Gi"),
        ];
        let amount = |(name, amount): (&str, &str)| (name.to_owned(), amount.parse().unwrap());
        Surroundings {
            host_ips: vec!["192.0.2.1".parse().unwrap(), "fd00::1".parse().unwrap()],
            pod_ips: vec!["10.0.0.5".to_owned(), "fd00::5".to_owned()],
            allocatable: amounts.map(amount).into(),
        }
    }

    fn value(path: &str) -> Result<String, String> {
        let mut pod = testing::pod(&json!({ "nodeName": "n1", "serviceAccountName": "sa" }));
        let texts = |list: &[(&str, &str)]| {
            let owned = list
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            Some(owned.collect())
        };
        pod.metadata.labels = texts(&[("b", "2"), ("a", "1")]);
        pod.metadata.annotations = texts(&[("Note", "say \"hi\"\n")]);
        let selector = ObjectFieldSelector {
            field_path: path.to_owned(),
            ..Default::default()
        };
        field(&selector, &pod, &surroundings()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_pod_can_learn_these_of_itself() {
        for (path, expected) in [
            ("metadata.name", "web"),
            ("metadata.namespace", "shop"),
            ("metadata.uid", "u-1"),
            ("metadata.labels['a']", "1"),
            ("metadata.labels['absent']", ""),
            ("metadata.annotations['Note']", "say \"hi\"\n"),
            ("metadata.labels", "a=\"1\"\nb=\"2\""),
            ("metadata.annotations", "Note=\"say \\\"hi\\\"\\n\""),
            ("spec.nodeName", "n1"),
            ("spec.host", "n1"),
            ("spec.serviceAccountName", "sa"),
            ("status.hostIP", "192.0.2.1"),
            ("status.hostIPs", "192.0.2.1,fd00::1"),
            ("status.podIP", "10.0.0.5"),
            ("status.podIPs", "10.0.0.5,fd00::5"),
        ] {
            assert_eq!(value(path).as_deref(), Ok(expected), "{path}");
        }
    }

    #[test]
    fn addresses_are_in_the_order_of_the_pods_status() {
        let (v4, v6) = ("10.0.0.5", "fd00::5");
        for (nodes, own, first, all) in [
            (vec!["192.0.2.1"], vec![v6, v4], v4, "10.0.0.5,fd00::5"),
            (
                vec!["fd00::1", "192.0.2.1"],
                vec![v4, v6],
                v6,
                "fd00::5,10.0.0.5",
            ),
            (vec!["fd00::1"], vec![v4, "10.0.0.6"], v4, v4),
            (vec![], vec![v6, v4], v4, "10.0.0.5,fd00::5"),
        ] {
            let surroundings = Surroundings {
                host_ips: nodes.iter().map(|ip| ip.parse().unwrap()).collect(),
                pod_ips: own.iter().map(|ip| (*ip).to_owned()).collect(),
                ..Surroundings::default()
            };
            for (path, expected) in [("status.podIP", first), ("status.podIPs", all)] {
                let selector = ObjectFieldSelector {
                    field_path: path.to_owned(),
                    ..Default::default()
                };
                let value = field(&selector, &testing::pod(&json!({})), &surroundings);
                assert_eq!(value.as_deref(), Ok(expected), "{nodes:?} {own:?} {path}");
            }
        }
    }

    #[test]
    fn and_nothing_else() {
        for (path, expected) in [
            (
                "spec.restartPolicy",
                "unsupported fieldPath: spec.restartPolicy",
            ),
            ("status.phase", "unsupported fieldPath: status.phase"),
            ("spec.volumes", "field label not supported: spec.volumes"),
            (
                "spec.x['a']",
                "field label does not support subscript: spec.x['a']",
            ),
        ] {
            assert_eq!(value(path), Err(expected.to_owned()), "{path}");
        }
        let error = value("metadata.labels['a b']").unwrap_err();
        assert!(
            error.starts_with("invalid key subscript in metadata.labels['a b']: "),
            "{error}"
        );
        let selector = ObjectFieldSelector {
            api_version: Some("v2".to_owned()),
            field_path: "metadata.name".to_owned(),
        };
        let error = field(&selector, &testing::pod(&json!({})), &surroundings()).unwrap_err();
        assert_eq!(error.to_string(), "unsupported pod version: v2");
    }

    fn amount(spec: &Value, selector: &Value) -> Result<String, String> {
        let pod = testing::pod(spec);
        let selector: ResourceFieldSelector = serde_json::from_value(selector.clone()).unwrap();
        let container = &pod.spec.as_ref().unwrap().containers[0];
        let found = resource(&selector, &pod, container, &surroundings().allocatable);
        found.map_err(|error| error.to_string())
    }

    #[test]
    fn resources_are_told_in_units_of_the_divisor_rounded_up() {
        let resources = json!({
            "requests": { "cpu": "250m", "memory": "100Mi", "hugepages-2Mi": "4Mi" },
            "limits": { "cpu": "1500m", "ephemeral-storage": "5Gi" },
        });
        let spec = json!({
            "containers": [{ "name": "app", "resources": resources }, { "name": "bare" }],
            "initContainers": [{ "name": "init" }],
        });
        for (selector, expected) in [
            (json!({ "resource": "requests.cpu" }), "1"),
            (
                json!({ "resource": "requests.cpu", "divisor": "1m" }),
                "250",
            ),
            (json!({ "resource": "requests.cpu", "divisor": "0" }), "1"),
            (json!({ "resource": "requests.memory" }), "104857600"),
            (
                json!({ "resource": "requests.memory", "divisor": "1Gi" }),
                "1",
            ),
            (json!({ "resource": "requests.ephemeral-storage" }), "0"),
            (
                json!({ "resource": "requests.hugepages-2Mi", "divisor": "1Mi" }),
                "4",
            ),
            (json!({ "resource": "limits.cpu" }), "2"),
            (json!({ "resource": "limits.hugepages-2Mi" }), "0"),
            (
                json!({ "resource": "limits.ephemeral-storage", "divisor": "1Gi" }),
                "5",
            ),
            // Without a limit: what the node can give.
            (
                json!({ "resource": "limits.memory", "divisor": "1Gi" }),
                "8",
            ),
            (
                json!({ "resource": "limits.cpu", "containerName": "bare" }),
                "4",
            ),
            (
                json!({ "resource": "requests.cpu", "containerName": "bare" }),
                "0",
            ),
            (
                json!({ "resource": "limits.cpu", "containerName": "init" }),
                "0",
            ),
        ] {
            assert_eq!(
                amount(&spec, &selector).as_deref(),
                Ok(expected),
                "{selector}"
            );
        }
    }

    #[test]
    fn without_a_limit_of_its_own_a_container_has_the_pods() {
        let spec = json!({
            "containers": [{ "name": "app" }],
            "resources": { "limits": { "cpu": "2" } },
        });
        for (resource, expected) in [("limits.cpu", "2"), ("limits.memory", "8589934592")] {
            assert_eq!(
                amount(&spec, &json!({ "resource": resource })).as_deref(),
                Ok(expected)
            );
        }
    }

    #[test]
    fn resources_that_nobody_counts_are_refused() {
        let spec = json!({ "containers": [{ "name": "app" }] });
        for (selector, expected) in [
            (
                json!({ "resource": "limits.gpu" }),
                "unsupported container resource : limits.gpu",
            ),
            (
                json!({ "resource": "cpu" }),
                "unsupported container resource : cpu",
            ),
            (
                json!({ "resource": "limits.cpu", "containerName": "x" }),
                "container x not found",
            ),
        ] {
            assert_eq!(
                amount(&spec, &selector),
                Err(expected.to_owned()),
                "{selector}"
            );
        }
    }
}
