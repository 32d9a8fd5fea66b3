//! What the node is given, from what was found out.

use std::fs;
use std::path::{Path, PathBuf};

use api::kubeconfig::Kubeconfig;
use cluster::join::ClusterKubeletConfig;
use cluster::kubeconfig::{BOOTSTRAP_USER, KubeconfigText};
use cluster::layout::{
    BOOTSTRAP_KUBECONFIG, ClusterDefaults, JoinedNode, KubeletConfigError, KubeletConfigText,
    NodeSettings,
};

use super::below;
use super::discovery::Found;

/// What this node's own files depend on.
pub(super) struct Wanted<'a> {
    pub(super) node_name: &'a str,
    pub(super) machine_name: &'a str,
    pub(super) runtime_endpoint: String,
    pub(super) resolved_active: bool,
    /// For the service; `None` where there is none.
    pub(super) program: Option<PathBuf>,
}

pub(super) fn joined_node(
    found: &Found,
    config: ClusterKubeletConfig,
    wanted: Wanted<'_>,
) -> Result<JoinedNode, KubeletConfigError> {
    let settings = NodeSettings {
        runtime_endpoint: wanted.runtime_endpoint.clone(),
        resolved_active: wanted.resolved_active,
    };
    let kubelet_config = match config {
        ClusterKubeletConfig::Found(text) => KubeletConfigText::of_cluster(&text, &settings)?,
        ClusterKubeletConfig::Missing | ClusterKubeletConfig::Forbidden(_) => {
            KubeletConfigText::of_defaults(&kubeadm_defaults(), &settings)?
        }
    };
    // As kubeadm: only where the agent would not find the name by itself.
    let renamed = wanted.node_name != wanted.machine_name;
    let flag = ("hostname-override".to_owned(), wanted.node_name.to_owned());
    Ok(JoinedNode {
        bootstrap: Some(found.bootstrap.clone()),
        authority_pem: found.endpoint.authority_pem().to_vec(),
        kubelet_config,
        runtime_endpoint: wanted.runtime_endpoint,
        flags: renamed.then_some(flag).into_iter().collect(),
        program: wanted.program,
    })
}

/// The tenth address of kubeadm's service network, and its domain.
fn kubeadm_defaults() -> ClusterDefaults {
    ClusterDefaults {
        cluster_dns: vec!["10.96.0.10".to_owned()],
        cluster_domain: "cluster.local".to_owned(),
    }
}

/// Whether a run before this one left another token for the same cluster: it may
/// have expired since, and the new one is meant to take its place.
pub(super) fn holds_former_token(root: &Path, wanted: &KubeconfigText) -> bool {
    let Ok(former) = fs::read(below(root, BOOTSTRAP_KUBECONFIG)) else {
        return false;
    };
    if former == wanted.expose().as_bytes() {
        return false;
    }
    let cluster = |text: &[u8]| {
        let kubeconfig = Kubeconfig::parse(text, Path::new(BOOTSTRAP_KUBECONFIG)).ok()?;
        kubeconfig.users.get(BOOTSTRAP_USER)?.token.as_ref()?;
        let cluster = kubeconfig.clusters.into_values().next()?;
        Some((cluster.server?, cluster.certificate_authority_data?))
    };
    let former = cluster(&former);
    former.is_some() && former == cluster(wanted.expose().as_bytes())
}

#[cfg(test)]
mod tests {
    use cluster::kubeconfig::{self, Endpoint};
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn authority() -> String {
        let key = KeyPair::generate().unwrap();
        let made = CertificateParams::default().self_signed(&key).unwrap();
        made.pem()
    }

    fn bootstrap(server: &str, authority: &str, token: &str) -> KubeconfigText {
        let endpoint = Endpoint::new(server, authority.as_bytes()).unwrap();
        kubeconfig::bootstrap(&endpoint, "kubernetes", &token.parse().unwrap()).unwrap()
    }

    #[test]
    fn only_another_token_for_the_same_cluster_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let path = below(root, BOOTSTRAP_KUBECONFIG);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let authority = authority();
        let (old, new) = ("abcdef.0123456789abcdef", "bcdefg.0123456789abcdef");
        let wanted = bootstrap("https://h:1", &authority, new);
        assert!(!holds_former_token(root, &wanted));
        let holds = |text: &str| {
            fs::write(&path, text).unwrap();
            holds_former_token(root, &wanted)
        };
        assert!(holds(bootstrap("https://h:1", &authority, old).expose()));
        assert!(!holds(wanted.expose()), "the same is left");
        assert!(!holds(
            bootstrap("https://other:1", &authority, old).expose()
        ));
        assert!(!holds("not a kubeconfig: ["));
        assert!(!holds(""));
    }

    #[test]
    fn the_name_is_a_flag_only_where_the_machine_has_another() {
        let authority = authority();
        let found = Found {
            endpoint: Endpoint::new("https://h:1", authority.as_bytes()).unwrap(),
            bootstrap: bootstrap("https://h:1", &authority, "abcdef.0123456789abcdef"),
            proven: "",
        };
        let flags = |node_name| {
            let wanted = Wanted {
                node_name,
                machine_name: "up1",
                runtime_endpoint: "unix:///run/cri.sock".to_owned(),
                resolved_active: false,
                program: None,
            };
            let node = joined_node(&found, ClusterKubeletConfig::Missing, wanted).unwrap();
            assert!(node.kubelet_config.as_str().contains("10.96.0.10"));
            node.flags
        };
        assert!(flags("up1").is_empty());
        let flag = ("hostname-override".to_owned(), "up2".to_owned());
        assert_eq!(flags("up2"), [flag]);
    }
}
