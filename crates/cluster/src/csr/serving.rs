//! Whether a node's serving certificate may be approved without a person: only
//! what the node itself asks for, for names that the cluster knows as its own.
//!
//! Every name in the request must be an address of the Node; it need not ask for
//! all of them. A node never gets a name that is not its own this way, and one
//! whose addresses have just grown is not left without a certificate. Mind that a
//! node reports its addresses itself (unless a cloud provider does): whoever has
//! taken over a node can claim other addresses first.

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Node;
use thiserror::Error;

use super::describe::Condition;
use super::pkcs10::{RequestContent, RequestFault};
use super::structure::{StructuralFault, structural_faults};
use super::{NODE_PREFIX, NODE_SERVING_SIGNER, NODES_GROUP};

/// Why a request is not approved.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ServingRefusal {
    #[error("it is for the signer {0}, not {NODE_SERVING_SIGNER}")]
    OtherSigner(String),
    #[error("it is decided already: {0}")]
    Decided(String),
    #[error("its requester {0:?} is not a node")]
    NotANode(String),
    #[error("its requester {0} is not in the group {NODES_GROUP}")]
    NotInGroup(String),
    #[error("it cannot be read: {0}")]
    Unreadable(RequestFault),
    #[error("it is not signed by the key that it carries")]
    NoPossession,
    #[error("it asks for names of unknown kinds: {}", .0.join(", "))]
    UnknownNames(Vec<String>),
    #[error("{0}")]
    Structure(StructuralFault),
    #[error("its common name is {common_name:?}, and {requester} asks for it")]
    OtherName {
        common_name: String,
        requester: String,
    },
    #[error("it was compared with the Node {found:?} instead of {expected:?}")]
    OtherNode { found: String, expected: String },
    #[error("there is no Node {0} yet")]
    UnknownNode(String),
    #[error("the Node {0} has no addresses yet")]
    NoAddresses(String),
    #[error("{name} is not an address of the Node {node} (it has {})", addresses.join(", "))]
    ForeignName {
        name: String,
        node: String,
        addresses: Vec<String>,
    },
}

impl ServingRefusal {
    /// The node that a request says it is from, to be looked up.
    pub fn node_of(csr: &CertificateSigningRequest) -> Option<&str> {
        let name = csr.spec.username.as_deref()?.strip_prefix(NODE_PREFIX)?;
        Some(name).filter(|name| !name.is_empty())
    }
}

/// Nothing, or every reason why the request is not to be approved.
pub fn serving_approvable(
    csr: &CertificateSigningRequest,
    node: &Node,
) -> Result<(), Vec<ServingRefusal>> {
    let mut refusals = requester_refusals(csr);
    match RequestContent::of_pem(&csr.spec.request.0) {
        Ok(content) => refusals.extend(content_refusals(csr, &content, node)),
        Err(fault) => refusals.push(ServingRefusal::Unreadable(fault)),
    }
    if refusals.is_empty() {
        Ok(())
    } else {
        Err(refusals)
    }
}

fn requester_refusals(csr: &CertificateSigningRequest) -> Vec<ServingRefusal> {
    let mut refusals = Vec::new();
    if csr.spec.signer_name != NODE_SERVING_SIGNER {
        refusals.push(ServingRefusal::OtherSigner(csr.spec.signer_name.clone()));
    }
    let condition = Condition::of(csr);
    if !condition.is_pending() {
        refusals.push(ServingRefusal::Decided(condition.to_string()));
    }
    let requester = csr.spec.username.clone().unwrap_or_default();
    if ServingRefusal::node_of(csr).is_none() {
        refusals.push(ServingRefusal::NotANode(requester));
    } else if !csr
        .spec
        .groups
        .iter()
        .flatten()
        .any(|group| group == NODES_GROUP)
    {
        refusals.push(ServingRefusal::NotInGroup(requester));
    }
    refusals
}

fn content_refusals(
    csr: &CertificateSigningRequest,
    content: &RequestContent,
    node: &Node,
) -> Vec<ServingRefusal> {
    let mut refusals = Vec::new();
    if content.proves_possession == Some(false) {
        refusals.push(ServingRefusal::NoPossession);
    }
    if !content.other_names.is_empty() {
        refusals.push(ServingRefusal::UnknownNames(content.other_names.clone()));
    }
    let usages = csr.spec.usages.as_deref().unwrap_or_default();
    let faults = structural_faults(NODE_SERVING_SIGNER, content, usages);
    refusals.extend(faults.into_iter().map(ServingRefusal::Structure));
    let requester = csr.spec.username.clone().unwrap_or_default();
    if content.common_name != requester {
        refusals.push(ServingRefusal::OtherName {
            common_name: content.common_name.clone(),
            requester,
        });
    }
    refusals.extend(name_refusals(csr, content, node));
    refusals
}

fn name_refusals(
    csr: &CertificateSigningRequest,
    content: &RequestContent,
    node: &Node,
) -> Vec<ServingRefusal> {
    let found = node.metadata.name.clone().unwrap_or_default();
    let expected = ServingRefusal::node_of(csr).unwrap_or_default();
    if found != expected {
        return vec![ServingRefusal::OtherNode {
            found,
            expected: expected.to_owned(),
        }];
    }
    let known = NodeNames::of(node);
    if known.texts.is_empty() {
        return vec![ServingRefusal::NoAddresses(found)];
    }
    let foreign_names = content
        .dns_names
        .iter()
        .filter(|name| !known.names.contains(name.as_str()))
        .cloned();
    let foreign_addresses = content
        .addresses
        .iter()
        .filter(|address| !known.addresses.contains(&address.to_canonical()))
        .map(ToString::to_string);
    foreign_names
        .chain(foreign_addresses)
        .map(|name| ServingRefusal::ForeignName {
            name,
            node: found.clone(),
            addresses: known.texts.clone(),
        })
        .collect()
}

/// What a Node is known by.
struct NodeNames<'a> {
    names: BTreeSet<&'a str>,
    addresses: BTreeSet<IpAddr>,
    texts: Vec<String>,
}

impl<'a> NodeNames<'a> {
    fn of(node: &'a Node) -> Self {
        let status = node.status.as_ref();
        let entries = status.and_then(|status| status.addresses.as_deref());
        let mut known = Self {
            names: BTreeSet::new(),
            addresses: BTreeSet::new(),
            texts: Vec::new(),
        };
        for entry in entries.unwrap_or_default() {
            let text = entry.address.as_str();
            let address = text.parse::<IpAddr>().ok();
            match (entry.type_.as_str(), address) {
                ("InternalIP" | "ExternalIP" | "Hostname", Some(address)) => {
                    known.addresses.insert(address.to_canonical());
                }
                ("Hostname" | "InternalDNS" | "ExternalDNS", None) if !text.is_empty() => {
                    known.names.insert(text);
                }
                _ => continue,
            }
            known.texts.push(text.to_owned());
        }
        known
    }
}

#[cfg(test)]
mod tests;
