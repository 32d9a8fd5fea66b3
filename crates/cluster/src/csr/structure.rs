//! The rules that approver and signer of the control plane hold a node's request
//! to, before anybody's permission is asked.

use std::collections::BTreeSet;

use thiserror::Error;

use super::pkcs10::RequestContent;
use super::{
    CLIENT_AUTH, DIGITAL_SIGNATURE, KEY_ENCIPHERMENT, NODE_PREFIX, NODE_SERVING_SIGNER,
    NODES_GROUP, SERVER_AUTH,
};

/// A rule that a request breaks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StructuralFault {
    #[error("its organizations are [{}]; exactly [{NODES_GROUP}] is expected", .0.join(", "))]
    Organizations(Vec<String>),
    #[error("its common name is {0:?}; one that begins with {NODE_PREFIX} is expected")]
    CommonName(String),
    #[error("it asks for the names [{}]; a node's client certificate carries none", .0.join(", "))]
    Names(Vec<String>),
    #[error("it asks for no DNS name and no IP address; a serving certificate needs one")]
    NoNames,
    #[error("it asks for e-mail addresses or URIs [{}], which a node's certificate must not carry", .0.join(", "))]
    OtherNames(Vec<String>),
    #[error("its usages are [{}]; [{expected}] is expected, with or without key encipherment", found.join(", "))]
    Usages {
        found: Vec<String>,
        expected: String,
    },
}

/// Every rule of the signer that the request breaks: one of the two for nodes.
pub fn structural_faults(
    signer: &str,
    content: &RequestContent,
    usages: &[String],
) -> Vec<StructuralFault> {
    let serving = signer == NODE_SERVING_SIGNER;
    let mut faults = Vec::new();
    if content.organizations != [NODES_GROUP] {
        faults.push(StructuralFault::Organizations(
            content.organizations.clone(),
        ));
    }
    if !content.common_name.starts_with(NODE_PREFIX) {
        faults.push(StructuralFault::CommonName(content.common_name.clone()));
    }
    let names = names(content);
    match (serving, names.is_empty()) {
        (true, true) => faults.push(StructuralFault::NoNames),
        (false, false) => faults.push(StructuralFault::Names(names)),
        _ => {}
    }
    let others: Vec<_> = content
        .emails
        .iter()
        .chain(&content.uris)
        .cloned()
        .collect();
    if !others.is_empty() {
        faults.push(StructuralFault::OtherNames(others));
    }
    faults.extend(usage_fault(serving, usages));
    faults
}

fn names(content: &RequestContent) -> Vec<String> {
    let addresses = content.addresses.iter().map(ToString::to_string);
    content.dns_names.iter().cloned().chain(addresses).collect()
}

fn usage_fault(serving: bool, usages: &[String]) -> Option<StructuralFault> {
    let purpose = if serving { SERVER_AUTH } else { CLIENT_AUTH };
    let least = BTreeSet::from([DIGITAL_SIGNATURE, purpose]);
    let mut found: BTreeSet<_> = usages.iter().map(String::as_str).collect();
    found.remove(KEY_ENCIPHERMENT);
    (found != least).then(|| StructuralFault::Usages {
        found: usages.to_vec(),
        expected: format!("{DIGITAL_SIGNATURE}, {purpose}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csr::NODE_CLIENT_SIGNER;

    fn content() -> RequestContent {
        RequestContent {
            subject: String::new(),
            common_name: "system:node:a".to_owned(),
            organizations: vec!["system:nodes".to_owned()],
            dns_names: Vec::new(),
            addresses: Vec::new(),
            emails: Vec::new(),
            uris: Vec::new(),
            other_names: Vec::new(),
            key: String::new(),
            proves_possession: Some(true),
        }
    }

    fn serving() -> RequestContent {
        RequestContent {
            addresses: vec!["192.0.2.1".parse().unwrap()],
            ..content()
        }
    }

    fn faults(signer: &str, content: &RequestContent, usages: &[&str]) -> Vec<StructuralFault> {
        let usages: Vec<_> = usages.iter().map(|usage| (*usage).to_owned()).collect();
        structural_faults(signer, content, &usages)
    }

    #[test]
    fn a_nodes_requests_keep_the_rules_with_and_without_key_encipherment() {
        let (sign, encipher) = ("digital signature", "key encipherment");
        for usages in [
            &[sign, "client auth"][..],
            &["client auth", encipher, sign],
            &["client auth", sign, sign],
        ] {
            assert_eq!(faults(NODE_CLIENT_SIGNER, &content(), usages), []);
        }
        for usages in [&[sign, "server auth"][..], &["server auth", encipher, sign]] {
            assert_eq!(faults(NODE_SERVING_SIGNER, &serving(), usages), []);
        }
    }

    #[test]
    fn each_broken_rule_is_named() {
        let client = &["digital signature", "client auth"];
        let server = &["digital signature", "server auth"];
        let both = vec!["system:nodes".to_owned(), "b".to_owned()];
        let with_organizations = RequestContent {
            organizations: both.clone(),
            ..content()
        };
        assert_eq!(
            faults(NODE_CLIENT_SIGNER, &with_organizations, client),
            [StructuralFault::Organizations(both)]
        );
        let named = RequestContent {
            common_name: "mary".to_owned(),
            ..content()
        };
        assert_eq!(
            faults(NODE_CLIENT_SIGNER, &named, client),
            [StructuralFault::CommonName("mary".to_owned())]
        );
        assert_eq!(
            faults(NODE_CLIENT_SIGNER, &serving(), client),
            [StructuralFault::Names(vec!["192.0.2.1".to_owned()])]
        );
        assert_eq!(
            faults(NODE_SERVING_SIGNER, &content(), server),
            [StructuralFault::NoNames]
        );
        let with_uri = RequestContent {
            uris: vec!["spiffe://a".to_owned()],
            ..serving()
        };
        assert_eq!(
            faults(NODE_SERVING_SIGNER, &with_uri, server),
            [StructuralFault::OtherNames(vec!["spiffe://a".to_owned()])]
        );
        for usages in [&["client auth"][..], server, &["any", "client auth"], &[]] {
            let found = faults(NODE_CLIENT_SIGNER, &content(), usages);
            assert!(
                matches!(found[..], [StructuralFault::Usages { .. }]),
                "{usages:?}"
            );
        }
    }
}
