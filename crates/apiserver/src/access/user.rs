//! Who makes a request.

use std::collections::BTreeMap;

pub const MASTERS: &str = "system:masters";
pub const NODES: &str = "system:nodes";
pub const NODE_PREFIX: &str = "system:node:";
pub const BOOTSTRAPPERS: &str = "system:bootstrappers";
pub const BOOTSTRAP_PREFIX: &str = "system:bootstrap:";
pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
pub const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
pub const AUTHENTICATED: &str = "system:authenticated";
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
pub const ANONYMOUS: &str = "system:anonymous";
/// As whom the API server asks kubelets (kubeadm's name).
pub const KUBELET_CLIENT: &str = "kube-apiserver-kubelet-client";

/// A user as authentication found it, or as a review describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// One who has proven who they are; the group of all such is added.
    pub fn authenticated(name: impl Into<String>, groups: Vec<String>) -> Self {
        let mut user = Self {
            name: name.into(),
            groups,
            ..Self::default()
        };
        if !user.is_in(AUTHENTICATED) && !user.is_in(UNAUTHENTICATED) {
            user.groups.push(AUTHENTICATED.to_owned());
        }
        user
    }

    pub fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    /// The node that speaks. A name alone does not make a node: its group has to say so.
    pub fn node(&self) -> Option<&str> {
        let name = self.name.strip_prefix(NODE_PREFIX)?;
        self.is_in(NODES).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_known_by_its_name_and_its_group() {
        let node = |name: &str, group: &str| User::authenticated(name, vec![group.to_owned()]);
        assert_eq!(node("system:node:a", NODES).node(), Some("a"));
        assert_eq!(node("system:node:", NODES).node(), Some(""));
        assert_eq!(node("system:node:a", "other").node(), None);
        assert_eq!(node("a", NODES).node(), None);
    }

    #[test]
    fn the_groups_of_all_are_added_once() {
        let user = User::authenticated("mary", vec![AUTHENTICATED.to_owned()]);
        assert_eq!(user.groups, [AUTHENTICATED]);
        assert_eq!(User::authenticated("mary", Vec::new()), user);
        assert_eq!(User::anonymous().groups, [UNAUTHENTICATED]);
    }
}
