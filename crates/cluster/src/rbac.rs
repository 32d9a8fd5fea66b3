//! The roles and bindings that let tokens ask for certificates, let the cluster
//! approve them by itself, and let the API server into the nodes.

mod apply;

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use thiserror::Error;

pub use apply::{Applied, Outcome, RbacError, apply};

use crate::token::DEFAULT_GROUP;

/// Posts and watches certificate signing requests.
pub const NODE_BOOTSTRAPPER: &str = "system:node-bootstrapper";
/// Has its requests for a node's first client certificate approved.
pub const NODE_CLIENT: &str = "system:certificates.k8s.io:certificatesigningrequests:nodeclient";
/// Has its requests for its own next client certificate approved.
pub const SELF_NODE_CLIENT: &str =
    "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient";
/// Uses the nodes' own API: logs, exec, metrics.
pub const KUBELET_API_ADMIN: &str = "system:kubelet-api-admin";
/// The user that the API server shows itself to nodes as, in kubeadm's clusters.
pub const API_SERVER_USER: &str = "kube-apiserver-kubelet-client";
pub const BOOTSTRAPPERS: &str = "system:bootstrappers";
pub const NODES: &str = "system:nodes";

const API_GROUP: &str = "rbac.authorization.k8s.io";
const GET_NODES: &str = "kubeadm:get-nodes";

/// Why no roles can be made as wished.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GroupError {
    #[error(
        "the group {0:?} is not one that bootstrap tokens carry; it must be {BOOTSTRAPPERS}, which all carry, or begin with {BOOTSTRAPPERS}:"
    )]
    NotOfTokens(String),
    #[error("no group is given; {DEFAULT_GROUP} is the one that tokens carry by default")]
    None,
}

/// What is to be allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootstrapRbac {
    /// The groups of tokens that may bring in nodes.
    groups: Vec<String>,
    /// Whom the nodes let use their API.
    pub api_server_user: String,
    /// Whether `kubeadm join` is to work too: it looks for a node of the same name.
    pub for_kubeadm: bool,
}

/// One object, by its kind.
#[derive(Clone, Debug, PartialEq)]
pub enum RbacObject {
    Role(ClusterRole),
    Binding(ClusterRoleBinding),
}

impl Default for BootstrapRbac {
    /// As `kubeadm init phase bootstrap-token` does it.
    fn default() -> Self {
        Self {
            groups: vec![DEFAULT_GROUP.to_owned()],
            api_server_user: API_SERVER_USER.to_owned(),
            for_kubeadm: true,
        }
    }
}

impl BootstrapRbac {
    pub fn for_groups(groups: &[String]) -> Result<Self, GroupError> {
        if groups.is_empty() {
            return Err(GroupError::None);
        }
        for group in groups {
            let valid = group == BOOTSTRAPPERS || crate::token::validate_group(group).is_ok();
            if !valid {
                return Err(GroupError::NotOfTokens(group.clone()));
            }
        }
        Ok(Self {
            groups: groups.to_vec(),
            ..Self::default()
        })
    }

    /// The objects, in kubeadm's order.
    pub fn objects(&self) -> Vec<RbacObject> {
        let mut objects = Vec::new();
        if self.for_kubeadm {
            objects.push(RbacObject::Role(get_nodes()));
        }
        for group in &self.groups {
            objects.extend(
                self.group_bindings(group)
                    .into_iter()
                    .map(RbacObject::Binding),
            );
        }
        let rotation = binding(
            "kubeadm:node-autoapprove-certificate-rotation",
            SELF_NODE_CLIENT,
            group_subject(NODES),
        );
        let api_server = binding(
            "kubeadm:apiserver-kubelet-client",
            KUBELET_API_ADMIN,
            Subject {
                kind: "User".to_owned(),
                ..group_subject(&self.api_server_user)
            },
        );
        objects.extend([rotation, api_server].map(RbacObject::Binding));
        objects
    }

    fn group_bindings(&self, group: &str) -> Vec<ClusterRoleBinding> {
        let bind = |purpose: &str, role: &str| {
            binding(&binding_name(purpose, group), role, group_subject(group))
        };
        let mut bindings = Vec::new();
        if self.for_kubeadm {
            bindings.push(bind("get-nodes", GET_NODES));
        }
        bindings.push(bind("kubelet-bootstrap", NODE_BOOTSTRAPPER));
        bindings.push(bind("node-autoapprove-bootstrap", NODE_CLIENT));
        bindings
    }
}

impl RbacObject {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Role(_) => "ClusterRole",
            Self::Binding(_) => "ClusterRoleBinding",
        }
    }

    pub fn name(&self) -> &str {
        let metadata = match self {
            Self::Role(role) => &role.metadata,
            Self::Binding(binding) => &binding.metadata,
        };
        metadata.name.as_deref().unwrap_or_default()
    }
}

/// kubeadm's name for its own group. Another group's name goes into the
/// binding's, so that groups do not take each other's bindings away.
fn binding_name(purpose: &str, group: &str) -> String {
    if group == DEFAULT_GROUP {
        format!("kubeadm:{purpose}")
    } else {
        format!("ferrolet:{purpose}:{group}")
    }
}

fn get_nodes() -> ClusterRole {
    let one = |text: &str| vec![text.to_owned()];
    ClusterRole {
        metadata: named(GET_NODES),
        rules: Some(vec![PolicyRule {
            api_groups: Some(one("")),
            resources: Some(one("nodes")),
            verbs: one("get"),
            ..PolicyRule::default()
        }]),
        ..ClusterRole::default()
    }
}

fn binding(name: &str, role: &str, subject: Subject) -> ClusterRoleBinding {
    ClusterRoleBinding {
        metadata: named(name),
        role_ref: RoleRef {
            api_group: Some(API_GROUP.to_owned()),
            kind: "ClusterRole".to_owned(),
            name: role.to_owned(),
        },
        subjects: Some(vec![subject]),
    }
}

fn group_subject(group: &str) -> Subject {
    Subject {
        kind: "Group".to_owned(),
        name: group.to_owned(),
        ..Subject::default()
    }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rows(objects: &[RbacObject]) -> Vec<(String, String, String)> {
        let bindings = objects.iter().filter_map(|object| match object {
            RbacObject::Binding(binding) => Some(serde_json::to_value(binding).unwrap()),
            RbacObject::Role(_) => None,
        });
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        bindings
            .map(|binding| {
                let subject = &binding["subjects"][0];
                (
                    text(&binding["metadata"]["name"]),
                    text(&binding["roleRef"]["name"]),
                    format!("{} {}", text(&subject["kind"]), text(&subject["name"])),
                )
            })
            .collect()
    }

    fn row(name: &str, role: &str, subject: &str) -> (String, String, String) {
        (name.to_owned(), role.to_owned(), subject.to_owned())
    }

    #[test]
    fn the_objects_are_those_that_kubeadm_makes() {
        let objects = BootstrapRbac::default().objects();
        let group = "Group system:bootstrappers:kubeadm:default-node-token";
        assert_eq!(
            rows(&objects),
            [
                row("kubeadm:get-nodes", "kubeadm:get-nodes", group),
                row(
                    "kubeadm:kubelet-bootstrap",
                    "system:node-bootstrapper",
                    group
                ),
                row(
                    "kubeadm:node-autoapprove-bootstrap",
                    "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
                    group
                ),
                row(
                    "kubeadm:node-autoapprove-certificate-rotation",
                    "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
                    "Group system:nodes"
                ),
                row(
                    "kubeadm:apiserver-kubelet-client",
                    "system:kubelet-api-admin",
                    "User kube-apiserver-kubelet-client"
                ),
            ]
        );
        let RbacObject::Role(role) = &objects[0] else {
            panic!("the role comes first");
        };
        assert_eq!(
            serde_json::to_value(role).unwrap(),
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "metadata": { "name": "kubeadm:get-nodes" },
                "rules": [{ "apiGroups": [""], "resources": ["nodes"], "verbs": ["get"] }],
            })
        );
        let RbacObject::Binding(binding) = &objects[1] else {
            panic!("its binding follows");
        };
        assert_eq!(
            serde_json::to_value(binding).unwrap(),
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": { "name": "kubeadm:get-nodes" },
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": "kubeadm:get-nodes",
                },
                "subjects": [{
                    "kind": "Group",
                    "name": "system:bootstrappers:kubeadm:default-node-token",
                }],
            })
        );
    }

    #[test]
    fn another_group_has_names_of_its_own() {
        let rack = "system:bootstrappers:rack-1".to_owned();
        let rbac = BootstrapRbac {
            for_kubeadm: false,
            ..BootstrapRbac::for_groups(&[rack, BOOTSTRAPPERS.to_owned()]).unwrap()
        };
        let names: Vec<_> = rows(&rbac.objects())
            .into_iter()
            .map(|(name, _, _)| name)
            .collect();
        assert_eq!(
            names,
            [
                "ferrolet:kubelet-bootstrap:system:bootstrappers:rack-1",
                "ferrolet:node-autoapprove-bootstrap:system:bootstrappers:rack-1",
                "ferrolet:kubelet-bootstrap:system:bootstrappers",
                "ferrolet:node-autoapprove-bootstrap:system:bootstrappers",
                "kubeadm:node-autoapprove-certificate-rotation",
                "kubeadm:apiserver-kubelet-client",
            ]
        );
    }

    #[test]
    fn groups_that_no_token_carries_are_refused() {
        for bad in [
            "",
            "system:masters",
            "system:bootstrappers:",
            "system:nodes",
        ] {
            let outcome = BootstrapRbac::for_groups(&[bad.to_owned()]);
            assert_eq!(outcome, Err(GroupError::NotOfTokens(bad.to_owned())));
        }
        assert_eq!(BootstrapRbac::for_groups(&[]), Err(GroupError::None));
    }
}
