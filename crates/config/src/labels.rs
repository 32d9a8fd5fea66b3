//! `--node-labels`: which labels a node may give itself.

use types::names::{validate_label_key, validate_label_value};

use crate::finding::{Class, Finding};
use crate::flags::CommandLine;

/// Labels of Kubernetes that a node may set, beside those in the namespaces
/// below.
const ALLOWED: [&str; 11] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];
const ALLOWED_NAMESPACES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// Every label that the API server would not take from a node.
pub(crate) fn check(line: &CommandLine) -> Result<(), Vec<Finding>> {
    let mut findings = Vec::new();
    for (key, value) in line.pairs("node-labels") {
        let value = value.as_str().unwrap_or_default();
        let mut fault = |message: String| {
            findings.push(Finding::new(
                Class::Value,
                format!("--node-labels {key}"),
                message,
            ));
        };
        if let Err(error) = validate_label_key(key) {
            fault(error.to_string());
        } else if !may_set(key) {
            fault(format!(
                "labels of kubernetes.io and k8s.io are the cluster's; a node may set only those \
                 below {} and {}",
                ALLOWED_NAMESPACES.join(" and "),
                ALLOWED.join(", ")
            ));
        }
        if let Err(error) = validate_label_value(value) {
            fault(format!("value {value:?}: {error}"));
        }
    }
    if findings.is_empty() {
        Ok(())
    } else {
        Err(findings)
    }
}

fn may_set(key: &str) -> bool {
    let Some((namespace, _)) = key.split_once('/') else {
        return true;
    };
    let below = |top: &str| namespace == top || namespace.ends_with(&format!(".{top}"));
    let of_kubernetes = below("kubernetes.io") || below("k8s.io");
    !of_kubernetes || ALLOWED.contains(&key) || ALLOWED_NAMESPACES.iter().any(|top| below(top))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_sets_its_own_labels_only() {
        for good in [
            "plain",
            "example.org/x",
            "kubernetes.io/hostname",
            "node.kubernetes.io/x",
            "x.node.kubernetes.io/y",
            "kubelet.kubernetes.io/x",
        ] {
            assert!(may_set(good), "{good}");
        }
        for bad in [
            "kubernetes.io/foo",
            "k8s.io/x",
            "x.k8s.io/y",
            "node-role.kubernetes.io/master",
        ] {
            assert!(!may_set(bad), "{bad}");
        }
    }
}
