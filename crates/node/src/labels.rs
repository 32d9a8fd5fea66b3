//! Names of labels and annotations that a node puts on its own object, and those
//! that it starts with.

use std::collections::BTreeMap;

use crate::info::OPERATING_SYSTEM;

pub const HOSTNAME: &str = "kubernetes.io/hostname";
pub const OS: &str = "kubernetes.io/os";
pub const ARCHITECTURE: &str = "kubernetes.io/arch";
const BETA_OS: &str = "beta.kubernetes.io/os";
const BETA_ARCHITECTURE: &str = "beta.kubernetes.io/arch";

/// Whether volumes are attached by a controller, not by the node.
pub const ATTACH_DETACH: &str = "volumes.kubernetes.io/controller-managed-attach-detach";
/// What `--node-ip` says, for an external cloud provider.
pub const PROVIDED_NODE_IP: &str = "alpha.kubernetes.io/provided-node-ip";

/// Labels that follow the node's flags on an object that was there before. All
/// others stay as the cluster has them.
pub const REFRESHED: [&str; 12] = [
    HOSTNAME,
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    OS,
    ARCHITECTURE,
    "node.kubernetes.io/windows-build",
    BETA_OS,
    BETA_ARCHITECTURE,
];

/// The labels of a new node; `given` (`--node-labels`) has the last word.
pub fn first(
    hostname: &str,
    architecture: &str,
    given: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let own = [
        (HOSTNAME, hostname),
        (OS, OPERATING_SYSTEM),
        (BETA_OS, OPERATING_SYSTEM),
        (ARCHITECTURE, architecture),
        (BETA_ARCHITECTURE, architecture),
    ];
    let own = own.map(|(key, value)| (key.to_owned(), value.to_owned()));
    own.into_iter().chain(given.clone()).collect()
}

/// Puts right what schedulers rely on. Whether it was wrong.
pub fn reassert(labels: &mut BTreeMap<String, String>, architecture: &str) -> bool {
    let mut wrong = false;
    for (key, value) in [(OS, OPERATING_SYSTEM), (ARCHITECTURE, architecture)] {
        // An unknown architecture is no reason to take a label away.
        if !value.is_empty() && labels.get(key).map(String::as_str) != Some(value) {
            labels.insert(key.to_owned(), value.to_owned());
            wrong = true;
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_node_has_five_labels_and_those_it_was_given() {
        let given = [("zone", "a"), (HOSTNAME, "other")];
        let given = given.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let labels = first("n1", "arm64", &BTreeMap::from(given));
        let printed: Vec<String> = labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(
            printed,
            [
                "beta.kubernetes.io/arch=arm64",
                "beta.kubernetes.io/os=linux",
                "kubernetes.io/arch=arm64",
                "kubernetes.io/hostname=other",
                "kubernetes.io/os=linux",
                "zone=a",
            ]
        );
    }

    #[test]
    fn wrong_or_missing_os_and_architecture_are_put_right() {
        let mut labels = first("n1", "amd64", &BTreeMap::new());
        assert!(!reassert(&mut labels, "amd64"));
        labels.remove(OS);
        labels.insert(ARCHITECTURE.to_owned(), "arm64".to_owned());
        assert!(reassert(&mut labels, "amd64"));
        assert_eq!(labels, first("n1", "amd64", &BTreeMap::new()));
    }
}
