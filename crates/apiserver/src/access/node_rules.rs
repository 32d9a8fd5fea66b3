//! What a node may do: its own objects, its pods, and what those refer to. Admission
//! (`node_restriction`) checks what can only be seen in the object itself.

use super::references::{References, Related};
use super::rules::NODE;
use crate::front::Attributes;

pub(crate) const LEASE_NAMESPACE: &str = "kube-node-lease";

/// Allowed, or why not; the reason may be empty.
pub(crate) type Verdict = Result<(), String>;

pub(crate) fn authorize(node: &str, asked: &Attributes, references: &References) -> Verdict {
    if node.is_empty() {
        return refused("unknown node for user \"system:node:\"");
    }
    let look = Asker {
        node,
        asked,
        references,
    };
    match (asked.group.as_str(), asked.resource.as_str()) {
        ("", "secrets") => look.read(Related::Secret),
        ("", "configmaps") => look.read(Related::ConfigMap),
        ("", "persistentvolumeclaims") if asked.subresource == "status" => look.claim_status(),
        ("", "persistentvolumeclaims") => look.get(Related::Claim),
        ("", "persistentvolumes") => look.get(Related::Volume),
        ("", "serviceaccounts") => look.service_account(),
        ("coordination.k8s.io", "leases") => look.lease(),
        ("storage.k8s.io", "csinodes") => look.csi_node(),
        ("", "nodes") => look.node(),
        ("", "pods") => look.pod(),
        _ if NODE.iter().any(|rule| rule.allows(asked)) => Ok(()),
        _ => refused(""),
    }
}

struct Asker<'a> {
    node: &'a str,
    asked: &'a Attributes,
    references: &'a References,
}

impl Asker<'_> {
    fn verb(&self) -> &str {
        &self.asked.verb
    }

    /// One object, read or followed.
    fn read(&self, kind: Related) -> Verdict {
        if !matches!(self.verb(), "get" | "list" | "watch") {
            return refused("can only read resources of this type");
        }
        if !self.asked.subresource.is_empty() {
            return refused("cannot read subresource");
        }
        if self.asked.namespace.is_empty() {
            return refused("can only read namespaced object of this type");
        }
        self.related(kind)
    }

    fn get(&self, kind: Related) -> Verdict {
        if self.verb() != "get" {
            return refused("can only get individual resources of this type");
        }
        if !self.asked.subresource.is_empty() {
            return refused("cannot get subresource");
        }
        self.related(kind)
    }

    fn claim_status(&self) -> Verdict {
        if !matches!(self.verb(), "update" | "patch") {
            return refused("can only get/update/patch this type");
        }
        self.related(Related::Claim)
    }

    fn service_account(&self) -> Verdict {
        if self.verb() == "get" && self.asked.subresource.is_empty() {
            return self.read(Related::ServiceAccount);
        }
        if self.verb() != "create" || self.name().is_empty() {
            return refused("can only create tokens for individual service accounts");
        }
        if self.asked.subresource != "token" {
            return refused("can only create token subresource of serviceaccount");
        }
        self.related(Related::ServiceAccount)
    }

    fn lease(&self) -> Verdict {
        if !is_own_object_verb(self.verb()) {
            return refused("can only get, create, update, patch, or delete a node lease");
        }
        if self.asked.namespace != LEASE_NAMESPACE {
            return refused("can only access leases in the \"kube-node-lease\" system namespace");
        }
        // The name of what is created is in the object only: admission looks at it.
        if self.verb() != "create" && self.name() != self.node {
            return refused("can only access node lease with the same name as the requesting node");
        }
        Ok(())
    }

    fn csi_node(&self) -> Verdict {
        if !self.asked.subresource.is_empty() {
            return refused("cannot authorize CSINode subresources");
        }
        if !is_own_object_verb(self.verb()) {
            return refused("can only get, create, update, patch, or delete a CSINode");
        }
        if self.verb() != "create" && self.name() != self.node {
            return refused("can only access CSINode with the same name as the requesting node");
        }
        Ok(())
    }

    fn node(&self) -> Verdict {
        let (own, name) = (self.node, self.name());
        match (self.asked.subresource.as_str(), self.verb()) {
            ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Ok(()),
            ("", "get" | "list" | "watch") if name == own => Ok(()),
            ("", "get" | "list" | "watch") if name.is_empty() => refused(&format!(
                "node '{own}' cannot read all nodes, only its own Node object"
            )),
            ("", "get" | "list" | "watch") => refused(&format!(
                "node '{own}' cannot read '{name}', only its own Node object"
            )),
            _ => refused(""),
        }
    }

    fn pod(&self) -> Verdict {
        match (self.asked.subresource.as_str(), self.verb()) {
            ("", "get") => self.get(Related::Pod),
            ("", "list" | "watch") => {
                if selects(&self.asked.field_selector, "spec.nodeName") == Some(self.node) {
                    return Ok(());
                }
                if !self.name().is_empty() {
                    return self.related(Related::Pod);
                }
                refused("can only list/watch pods with spec.nodeName field selector")
            }
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => {
                Ok(())
            }
            _ => refused(""),
        }
    }

    fn related(&self, kind: Related) -> Verdict {
        let name = self.name();
        if name.is_empty() {
            return refused("No Object name found");
        }
        if self
            .references
            .relates(self.node, kind, &self.asked.namespace, name)
        {
            return Ok(());
        }
        refused(&format!(
            "no relationship found between node '{}' and this object",
            self.node
        ))
    }

    /// The one object that is asked for, by path or by selector.
    fn name(&self) -> &str {
        object_name(self.asked)
    }
}

/// The object that a request is for: lists and watches of one name it in their selector.
pub(crate) fn object_name(asked: &Attributes) -> &str {
    let by_selector = || match asked.verb.as_str() {
        "list" | "watch" | "deletecollection" => selects(&asked.field_selector, "metadata.name"),
        _ => None,
    };
    match asked.name.as_str() {
        "" => by_selector().unwrap_or_default(),
        name => name,
    }
}

/// The one value that a field selector asks of a field.
fn selects<'a>(selector: &'a str, field: &str) -> Option<&'a str> {
    selector.split(',').find_map(|requirement| {
        let value = requirement.strip_prefix(field)?;
        value.strip_prefix("==").or_else(|| value.strip_prefix('='))
    })
}

fn is_own_object_verb(verb: &str) -> bool {
    matches!(verb, "get" | "create" | "update" | "patch" | "delete")
}

fn refused(reason: &str) -> Verdict {
    Err(reason.to_owned())
}

#[cfg(test)]
mod tests;
