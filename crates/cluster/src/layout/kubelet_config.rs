//! The node's config.yaml: the cluster's, as it lies in the `ConfigMap`
//! kubelet-config, with what is this node's own put in.

use serde_json::{Map, Value, json};
use thiserror::Error;

use super::{AUTHORITY, MANIFESTS};

/// The text of a config.yaml.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletConfigText(String);

/// What is this node's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSettings {
    pub runtime_endpoint: String,
    /// Whether systemd-resolved runs: pods then need the real resolv.conf, not the
    /// one that points at this machine.
    pub resolved_active: bool,
}

/// What a cluster without that `ConfigMap` cannot tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterDefaults {
    pub cluster_dns: Vec<String>,
    pub cluster_domain: String,
}

/// Why there is no config.yaml.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KubeletConfigError {
    #[error(
        "the ConfigMap kube-system/kubelet-config does not hold a KubeletConfiguration of kubelet.config.k8s.io/v1beta1 ({0}); correct its key kubelet"
    )]
    NotKubeletConfiguration(String),
    #[error("the kubelet's configuration cannot be put into words: {0}")]
    Encode(String),
}

const RESOLVED: &str = "/run/systemd/resolve/resolv.conf";

impl KubeletConfigText {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The cluster's, for this node.
    pub fn of_cluster(text: &str, node: &NodeSettings) -> Result<Self, KubeletConfigError> {
        let fault = KubeletConfigError::NotKubeletConfiguration;
        let value: Value =
            serde_saphyr::from_str(text).map_err(|cause| fault(cause.to_string()))?;
        let Value::Object(config) = value else {
            return Err(fault("it is not a mapping".to_owned()));
        };
        let is = |field: &str, expected: &str| config.get(field) == Some(&json!(expected));
        if !is("kind", "KubeletConfiguration") || !is("apiVersion", "kubelet.config.k8s.io/v1beta1")
        {
            return Err(fault("kind or apiVersion is another".to_owned()));
        }
        Self::render(config, node)
    }

    /// For a cluster that has none: what kubeadm would have put there.
    pub fn of_defaults(
        cluster: &ClusterDefaults,
        node: &NodeSettings,
    ) -> Result<Self, KubeletConfigError> {
        let config = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": { "enabled": false },
                "webhook": { "enabled": true },
                "x509": { "clientCAFile": AUTHORITY },
            },
            "authorization": { "mode": "Webhook" },
            "cgroupDriver": "systemd",
            "clusterDNS": cluster.cluster_dns,
            "clusterDomain": cluster.cluster_domain,
            "healthzBindAddress": "127.0.0.1",
            "healthzPort": 10248,
            "rotateCertificates": true,
            "staticPodPath": MANIFESTS,
        });
        let Value::Object(config) = config else {
            return Err(KubeletConfigError::Encode("it is not a mapping".to_owned()));
        };
        Self::render(config, node)
    }

    fn render(
        mut config: Map<String, Value>,
        node: &NodeSettings,
    ) -> Result<Self, KubeletConfigError> {
        config.insert(
            "containerRuntimeEndpoint".to_owned(),
            json!(node.runtime_endpoint),
        );
        if node.resolved_active && !config.contains_key("resolvConf") {
            config.insert("resolvConf".to_owned(), json!(RESOLVED));
        }
        let text = serde_saphyr::to_string(&sorted(Value::Object(config)));
        text.map(Self)
            .map_err(|cause| KubeletConfigError::Encode(cause.to_string()))
    }
}

/// Keys in order, whatever order the maps of this build keep.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields
                .into_iter()
                .map(|(name, value)| (name, sorted(value)))
                .collect();
            fields.sort_by(|(one, _), (other, _)| one.cmp(other));
            Value::Object(fields.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str = include_str!("../../testdata/kubelet-config.yaml");

    fn node() -> NodeSettings {
        NodeSettings {
            runtime_endpoint: "unix:///run/containerd/containerd.sock".to_owned(),
            resolved_active: false,
        }
    }

    #[test]
    fn a_clusters_configuration_becomes_the_file_that_kubeadm_writes() {
        let in_cluster = RECORDED.replace("unix:///run/containerd/containerd.sock", "\"\"");
        let text = KubeletConfigText::of_cluster(&in_cluster, &node()).unwrap();
        // Addresses are put in quotes, which change nothing.
        let plain = |text: &str| text.replace('"', "");
        assert_eq!(plain(text.as_str()), plain(RECORDED));
        let value = |text: &str| serde_saphyr::from_str::<Value>(text).unwrap();
        assert_eq!(value(text.as_str()), value(RECORDED));
    }

    #[test]
    fn where_systemd_resolved_runs_pods_get_the_real_resolv_conf() {
        let resolved = NodeSettings {
            resolved_active: true,
            ..node()
        };
        let text = KubeletConfigText::of_cluster(RECORDED, &resolved).unwrap();
        let line = "resolvConf: /run/systemd/resolve/resolv.conf\n";
        assert!(text.as_str().contains(line));
        let own = format!("{RECORDED}resolvConf: /etc/mine\n");
        let text = KubeletConfigText::of_cluster(&own, &resolved).unwrap();
        assert!(text.as_str().contains("resolvConf: /etc/mine\n"));
    }

    #[test]
    fn something_else_is_refused() {
        for bad in ["", "a: [", "- a", "kind: Pod\napiVersion: v1\n"] {
            let outcome = KubeletConfigText::of_cluster(bad, &node());
            assert!(
                matches!(outcome, Err(KubeletConfigError::NotKubeletConfiguration(_))),
                "{bad:?}: {outcome:?}"
            );
        }
    }

    #[test]
    fn a_cluster_without_one_gets_a_secure_one() {
        let cluster = ClusterDefaults {
            cluster_dns: vec!["10.96.0.10".to_owned()],
            cluster_domain: "cluster.local".to_owned(),
        };
        let text = KubeletConfigText::of_defaults(&cluster, &node()).unwrap();
        let again = KubeletConfigText::of_cluster(text.as_str(), &node()).unwrap();
        assert_eq!(again, text);
        for line in [
            "    enabled: false\n",
            "  mode: Webhook\n",
            "- \"10.96.0.10\"\n",
            "    clientCAFile: /etc/kubernetes/pki/ca.crt\n",
        ] {
            assert!(text.as_str().contains(line), "{line}\n{}", text.as_str());
        }
    }
}
