use k8s_openapi::api::core::v1::{NodeAddress, NodeStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

use super::*;
use crate::csr::NewRequest;
use crate::csr::testdata::{first_client, object, serving, with_condition};

fn node(name: &str, addresses: &[(&str, &str)]) -> Node {
    let address = |(kind, address): &(&str, &str)| NodeAddress {
        type_: (*kind).to_owned(),
        address: (*address).to_owned(),
    };
    Node {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        status: Some(NodeStatus {
            addresses: Some(addresses.iter().map(address).collect()),
            ..NodeStatus::default()
        }),
        ..Node::default()
    }
}

fn up1() -> Node {
    node("up1", &[("InternalIP", "192.0.2.21"), ("Hostname", "up1")])
}

/// The request with other names, by the same node.
fn asking_for(subject: &str, dns_names: &[&str], addresses: &[&str]) -> CertificateSigningRequest {
    let mut csr = object(&NewRequest {
        subject: subject.parse().unwrap(),
        dns_names: dns_names.iter().map(|name| (*name).to_owned()).collect(),
        addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
        signer: NODE_SERVING_SIGNER.to_owned(),
        ..NewRequest::default()
    });
    csr.spec.username = serving().spec.username;
    csr.spec.groups = serving().spec.groups;
    csr
}

const SUBJECT: &str = "O=system:nodes,CN=system:node:up1";

fn refusals(csr: &CertificateSigningRequest, node: &Node) -> Vec<ServingRefusal> {
    serving_approvable(csr, node).unwrap_err()
}

#[test]
fn a_nodes_request_for_its_own_addresses_is_approved() {
    assert_eq!(serving_approvable(&serving(), &up1()), Ok(()));
    assert_eq!(ServingRefusal::node_of(&serving()), Some("up1"));
    // Some of them are enough.
    let one = asking_for(SUBJECT, &[], &["192.0.2.21"]);
    assert_eq!(serving_approvable(&one, &up1()), Ok(()));
    let named = node(
        "up1",
        &[
            ("ExternalIP", "2001:db8::1"),
            ("ExternalDNS", "up1.example"),
            ("InternalDNS", "up1.internal"),
        ],
    );
    let all = asking_for(SUBJECT, &["up1.example", "up1.internal"], &["2001:db8::1"]);
    assert_eq!(serving_approvable(&all, &named), Ok(()));
}

#[test]
fn a_name_that_is_not_the_nodes_is_refused() {
    for (dns_names, addresses, foreign) in [
        (
            &["kubernetes.default"][..],
            &["192.0.2.21"][..],
            "kubernetes.default",
        ),
        (&["up1"], &["192.0.2.22"], "192.0.2.22"),
        // The address of a node is no DNS name of it, and the other way round.
        (&["192.0.2.21"], &[], "192.0.2.21"),
        (&["UP1"], &[], "UP1"),
        (&["*.up1"], &[], "*.up1"),
    ] {
        let csr = asking_for(SUBJECT, dns_names, addresses);
        let found = refusals(&csr, &up1());
        assert!(
            matches!(&found[..], [ServingRefusal::ForeignName { name, .. }] if name == foreign),
            "{found:?}"
        );
    }
}

#[test]
fn somebody_who_is_not_that_node_is_refused() {
    let mut csr = serving();
    csr.spec.username = Some("mary".to_owned());
    let found = refusals(&csr, &up1());
    assert!(found.contains(&ServingRefusal::NotANode("mary".to_owned())));
    let mut csr = serving();
    csr.spec.groups = Some(vec!["system:authenticated".to_owned()]);
    assert_eq!(
        refusals(&csr, &up1()),
        [ServingRefusal::NotInGroup("system:node:up1".to_owned())]
    );
    let other = asking_for("O=system:nodes,CN=system:node:up2", &["up1"], &[]);
    assert!(matches!(
        refusals(&other, &up1())[..],
        [ServingRefusal::OtherName { .. }]
    ));
    let up2 = node("up2", &[("InternalIP", "192.0.2.21"), ("Hostname", "up1")]);
    assert!(matches!(
        refusals(&serving(), &up2)[..],
        [ServingRefusal::OtherNode { .. }]
    ));
    let mut nameless = serving();
    nameless.spec.username = Some("system:node:".to_owned());
    let found = refusals(&nameless, &node("", &[("Hostname", "up1")]));
    assert!(found.contains(&ServingRefusal::NotANode("system:node:".to_owned())));
}

#[test]
fn another_signer_a_decided_a_broken_and_an_ill_formed_request_are_refused() {
    let mut client = first_client();
    client.spec.username = Some("system:node:up1".to_owned());
    assert!(
        refusals(&client, &up1())
            .iter()
            .any(|refusal| matches!(refusal, ServingRefusal::OtherSigner(_)))
    );
    let approved = with_condition(serving(), "Approved");
    assert_eq!(
        refusals(&approved, &up1()),
        [ServingRefusal::Decided("Approved".to_owned())]
    );
    let mut broken = serving();
    broken.spec.request.0 = b"x".to_vec();
    assert!(matches!(
        refusals(&broken, &up1())[..],
        [ServingRefusal::Unreadable(_)]
    ));
    let mut usages = serving();
    usages.spec.usages = Some(vec!["client auth".to_owned()]);
    assert!(matches!(
        refusals(&usages, &up1())[..],
        [ServingRefusal::Structure(StructuralFault::Usages { .. })]
    ));
    let empty = asking_for(SUBJECT, &[], &[]);
    assert_eq!(
        refusals(&empty, &up1()),
        [ServingRefusal::Structure(StructuralFault::NoNames)]
    );
}

#[test]
fn a_node_without_addresses_is_waited_for() {
    assert_eq!(
        refusals(&serving(), &node("up1", &[])),
        [ServingRefusal::NoAddresses("up1".to_owned())]
    );
}

#[test]
fn a_request_that_does_not_prove_possession_of_its_key_is_refused() {
    let mut csr = serving();
    let block = pem::parse(&csr.spec.request.0).unwrap();
    let mut der = block.into_contents();
    // The last byte of the signature.
    *der.last_mut().unwrap() ^= 1;
    csr.spec.request.0 = pem::encode(&pem::Pem::new("CERTIFICATE REQUEST", der)).into_bytes();
    assert_eq!(refusals(&csr, &up1()), [ServingRefusal::NoPossession]);
}

#[test]
fn names_of_kinds_that_nobody_checks_are_refused() {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    for (kind, value) in [
        (DnType::OrganizationName, "system:nodes"),
        (DnType::CommonName, "system:node:up1"),
    ] {
        parameters.distinguished_name.push(kind, value);
    }
    parameters.subject_alt_names = vec![
        SanType::DnsName("up1".try_into().unwrap()),
        SanType::OtherName((vec![1, 2, 3], "x".into())),
    ];
    let request = parameters.serialize_request(&KeyPair::generate().unwrap());
    let der = request.unwrap().der().to_vec();
    let mut csr = serving();
    csr.spec.request.0 = pem::encode(&pem::Pem::new("CERTIFICATE REQUEST", der)).into_bytes();
    let found = refusals(&csr, &up1());
    assert!(
        matches!(found[..], [ServingRefusal::UnknownNames(_)]),
        "{found:?}"
    );
}
