//! cluster-info: the `ConfigMap` that anybody may read, from which a new node
//! learns where the cluster is and whom to trust there, and how it comes to
//! believe it: by a signature made with its token, and by the authority's pin.

mod discover;
mod fetch;
mod file;
mod judge;
mod signature;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

pub use discover::{DEFAULT_TIMEOUT, POLL_INTERVAL, Waiting, discover};
pub use fetch::{FetchError, fetch};
pub use file::{Credentials, DiscoveryFile, DiscoveryFileError};
pub use judge::{Discovered, DiscoveryError, Pinning, Verified, judge_again, judge_first};
pub use signature::{sign, verify};

use crate::token::TokenId;

pub const NAMESPACE: &str = "kube-public";
pub const NAME: &str = "cluster-info";

const KUBECONFIG_KEY: &str = "kubeconfig";
const SIGNATURE_PREFIX: &str = "jws-kubeconfig-";

/// What cluster-info says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterInfo {
    /// The kubeconfig, to the byte: signatures are over these bytes.
    pub kubeconfig: String,
    /// By the id of the token that signed.
    pub signatures: BTreeMap<String, String>,
}

impl ClusterInfo {
    /// Reads the `ConfigMap`. What is not there is empty.
    pub fn of(object: &ConfigMap) -> Self {
        let data = object.data.clone().unwrap_or_default();
        let kubeconfig = data.get(KUBECONFIG_KEY).cloned().unwrap_or_default();
        let signatures = data
            .into_iter()
            .filter_map(|(key, value)| {
                let id = key.strip_prefix(SIGNATURE_PREFIX)?;
                Some((id.to_owned(), value)).filter(|(_, value)| !value.is_empty())
            })
            .collect();
        Self {
            kubeconfig,
            signatures,
        }
    }

    pub fn signature_of(&self, id: &TokenId) -> Option<&str> {
        self.signatures.get(id.as_str()).map(String::as_str)
    }

    /// The `ConfigMap`. Signatures are the control plane's to add: where its signer
    /// runs, `signatures` is left empty.
    pub fn object(&self) -> ConfigMap {
        let mut data = BTreeMap::from([(KUBECONFIG_KEY.to_owned(), self.kubeconfig.clone())]);
        for (id, signature) in &self.signatures {
            data.insert(format!("{SIGNATURE_PREFIX}{id}"), signature.clone());
        }
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(NAME.to_owned()),
                namespace: Some(NAMESPACE.to_owned()),
                ..ObjectMeta::default()
            },
            data: Some(data),
            ..ConfigMap::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_object_is_read_back_as_it_was_made() {
        let info = ClusterInfo {
            kubeconfig: "apiVersion: v1\n".to_owned(),
            signatures: BTreeMap::from([("abcdef".to_owned(), "x..y".to_owned())]),
        };
        let object = info.object();
        assert_eq!(
            serde_json::to_value(&object).unwrap(),
            json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": { "name": "cluster-info", "namespace": "kube-public" },
                "data": { "kubeconfig": "apiVersion: v1\n", "jws-kubeconfig-abcdef": "x..y" },
            })
        );
        assert_eq!(ClusterInfo::of(&object), info);
        assert_eq!(
            ClusterInfo::of(&ConfigMap::default()),
            ClusterInfo::default()
        );
    }
}
