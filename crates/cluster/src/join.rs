//! What a joining node asks of the cluster that it has found: the configuration
//! that the cluster has for kubelets, and whether its name is still free.

use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::{Api, Client};
use thiserror::Error;

use crate::call::{CallError, CallProblem};

const NAMESPACE: &str = "kube-system";
const KUBELET_CONFIG: &str = "kubelet-config";

/// Why a node must not join yet.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JoinError {
    #[error(
        "a node named {0} is in the cluster and Ready; choose another name with --node-name, or remove that one with `kubectl delete node {0}`"
    )]
    NameTaken(String),
    #[error(transparent)]
    Call(#[from] CallError),
}

/// What the cluster has for kubelets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterKubeletConfig {
    /// The text of a `KubeletConfiguration`.
    Found(String),
    /// It keeps none for joining nodes: it is not kubeadm's.
    Missing,
    /// It may keep one, and does not let this token read it.
    Forbidden(String),
}

/// The cluster's configuration for kubelets. Where there is none, a default one
/// has to do.
pub async fn kubelet_config(client: &Client) -> Result<ClusterKubeletConfig, CallError> {
    let objects: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let named = || format!("the ConfigMap {NAMESPACE}/{KUBELET_CONFIG}");
    let found = objects.get(KUBELET_CONFIG).await;
    match found.map_err(|cause| CallError::new("read", named(), &cause)) {
        Ok(object) => {
            let text = object.data.and_then(|mut data| data.remove("kubelet"));
            Ok(text.map_or(ClusterKubeletConfig::Missing, ClusterKubeletConfig::Found))
        }
        Err(error) => match error.problem {
            CallProblem::NotFound => Ok(ClusterKubeletConfig::Missing),
            CallProblem::Forbidden(message) => Ok(ClusterKubeletConfig::Forbidden(message)),
            _ => Err(error),
        },
    }
}

/// Refuses a name under which another node is at work. One that is not Ready may
/// be this machine before a reinstallation. Where the token may not look, as in
/// clusters that are not kubeadm's, nobody can tell, and the join goes on.
pub async fn check_name_is_free(client: &Client, name: &str) -> Result<(), JoinError> {
    let nodes: Api<Node> = Api::all(client.clone());
    let found = nodes.get_opt(name).await;
    let found = found.map_err(|cause| CallError::new("read", format!("the Node {name}"), &cause));
    match found {
        Ok(Some(node)) if is_ready(&node) => Err(JoinError::NameTaken(name.to_owned())),
        Ok(_) => Ok(()),
        Err(error) => match error.problem {
            CallProblem::Forbidden(_) => Ok(()),
            _ => Err(error.into()),
        },
    }
}

/// Whether the cluster counts the node as Ready.
pub fn is_ready(node: &Node) -> bool {
    let status = node.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    conditions
        .unwrap_or_default()
        .iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::FakeApi;

    const CONFIG: &str = "/api/v1/namespaces/kube-system/configmaps/kubelet-config";
    const NODE: &str = "/api/v1/nodes/up1";

    #[tokio::test]
    async fn the_clusters_configuration_is_read_where_there_is_one() {
        let api = FakeApi::new();
        let missing = Ok(ClusterKubeletConfig::Missing);
        assert_eq!(kubelet_config(&api.client()).await, missing);
        let object = json!({ "metadata": {}, "data": { "kubelet": "text" } });
        api.put(CONFIG, object);
        let text = Ok(ClusterKubeletConfig::Found("text".to_owned()));
        assert_eq!(kubelet_config(&api.client()).await, text);
        api.forbid(CONFIG);
        assert!(matches!(
            kubelet_config(&api.client()).await,
            Ok(ClusterKubeletConfig::Forbidden(_))
        ));
    }

    #[tokio::test]
    async fn only_a_ready_node_holds_its_name() {
        let api = FakeApi::new();
        let check = async || check_name_is_free(&api.client(), "up1").await;
        assert_eq!(check().await, Ok(()));
        let node = |ready: &str| {
            json!({
                "metadata": { "name": "up1" },
                "status": { "conditions": [{ "type": "Ready", "status": ready }] },
            })
        };
        api.put(NODE, node("Unknown"));
        assert_eq!(check().await, Ok(()));
        api.put(NODE, node("True"));
        let taken = Err(JoinError::NameTaken("up1".to_owned()));
        assert_eq!(check().await, taken);
        api.forbid(NODE);
        assert_eq!(check().await, Ok(()));
    }
}
