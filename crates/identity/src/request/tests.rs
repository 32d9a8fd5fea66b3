use std::net::IpAddr;
use std::time::SystemTime;

use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer;

use super::*;
use crate::testdata::{at, pair_for};

const NODE: &str = "n1";

fn generator_key() -> PrivateKey {
    PrivateKey::from_pem(include_bytes!("../../testdata/p256-sec1.pem")).unwrap()
}

fn rsa_key() -> PrivateKey {
    PrivateKey::from_pem(include_bytes!("../../testdata/rsa2048-pkcs1.pem")).unwrap()
}

fn issued_csr() -> Value {
    serde_json::from_str(include_str!("../../testdata/issued-csr.json")).unwrap()
}

#[test]
fn the_bootstrap_name_follows_from_key_subject_and_usages() {
    // Computed by upstream's own function, for keys of every kind.
    let cases = [
        (
            include_str!("../../testdata/p256-sec1.pem"),
            "node-csr-ZAK5k7jaDenZEG-dy61F8D3gFX4vUqfMLVTvaJKpRuw",
        ),
        (
            include_str!("../../testdata/p384-sec1.pem"),
            "node-csr-rncrUrT-mtvhEyxpaCDyHzS3iiwOKk3uKZGM--8EXPE",
        ),
        (
            include_str!("../../testdata/rsa2048-pkcs1.pem"),
            "node-csr-lOEKp7L9-B_2sj8_kskHj-chNJh9EGivdaaYVq-n0OY",
        ),
        (
            include_str!("../../testdata/rsa3072-pkcs1.pem"),
            "node-csr-gidtcguwmS3yroqBnAplzn38bS2hrbAT6UeB-DL8mro",
        ),
        (
            include_str!("../../testdata/ed25519-pkcs8.pem"),
            "node-csr-SJYpoG5nu-M5geH_K2IcRxNFcGzplw4q12JBdx-jPt8",
        ),
    ];
    for (pem, name) in cases {
        let key = PrivateKey::from_pem(pem.as_bytes()).unwrap();
        let request = SigningRequest::bootstrap(NODE, &key).unwrap();
        assert_eq!(request.name(), Some(name), "{:?}", key.kind());
    }
    let other_node = SigningRequest::bootstrap("n2", &generator_key()).unwrap();
    assert_ne!(other_node.name(), Some(cases[0].1));
}

#[test]
fn usages_depend_on_the_purpose_and_the_kind_of_key_in_upstreams_order() {
    let usages = |purpose: Purpose, kind| purpose.usages(kind).join(", ");
    let (ec, rsa) = (KeyKind::EcdsaP256, KeyKind::Rsa);
    let client_rsa = "digital signature, key encipherment, client auth";
    let serving_rsa = "digital signature, key encipherment, server auth";
    let bootstrap_rsa = "digital signature, client auth, key encipherment";
    assert_eq!(
        usages(Purpose::Client, ec),
        "digital signature, client auth"
    );
    assert_eq!(usages(Purpose::Client, rsa), client_rsa);
    assert_eq!(
        usages(Purpose::Serving, ec),
        "digital signature, server auth"
    );
    assert_eq!(usages(Purpose::Serving, rsa), serving_rsa);
    assert_eq!(
        bootstrap_usages(ec).join(", "),
        "digital signature, client auth"
    );
    assert_eq!(bootstrap_usages(rsa).join(", "), bootstrap_rsa);
}

#[test]
fn the_object_is_the_one_that_upstream_creates() {
    let upstream = issued_csr();
    let key = PrivateKey::generate().unwrap();
    let request = SigningRequest::generated(Purpose::Client, &Template::client("up1"), &key);
    let request = request.unwrap();
    let object = request.object();
    for field in ["/apiVersion", "/kind", "/spec/signerName", "/spec/usages"] {
        assert_eq!(object.pointer(field), upstream.pointer(field), "{field}");
    }
    assert_eq!(object["metadata"], json!({ "generateName": "csr-" }));
    let spec = object["spec"].as_object().unwrap();
    assert_eq!(spec.len(), 3, "no user, groups or lifetime: {spec:?}");
    let sent = STANDARD
        .decode(object["spec"]["request"].as_str().unwrap())
        .unwrap();
    assert_eq!(sent, request.pem().as_bytes());

    let named = SigningRequest::bootstrap(NODE, &generator_key())
        .unwrap()
        .object();
    let name = "node-csr-ZAK5k7jaDenZEG-dy61F8D3gFX4vUqfMLVTvaJKpRuw";
    assert_eq!(named["metadata"], json!({ "name": name }));
}

#[test]
fn a_client_request_names_the_node_as_upstream_does_to_the_byte() {
    let upstream_pem = STANDARD
        .decode(issued_csr()["spec"]["request"].as_str().unwrap())
        .unwrap();
    let upstream = pem::parse(upstream_pem).unwrap();
    let (_, upstream) = X509CertificationRequest::from_der(upstream.contents()).unwrap();
    for key in [generator_key(), rsa_key()] {
        let ours = pem::parse(Template::client("up1").pkcs10(&key).unwrap()).unwrap();
        assert_eq!(ours.tag(), "CERTIFICATE REQUEST");
        let (_, ours) = X509CertificationRequest::from_der(ours.contents()).unwrap();
        assert!(ours.verify_signature().is_ok());
        let (ours, upstream) = (
            &ours.certification_request_info,
            &upstream.certification_request_info,
        );
        assert_eq!(ours.subject.as_raw(), upstream.subject.as_raw());
        assert_eq!(ours.subject_pki.raw, key.public_der());
        assert!(ours.attributes().is_empty());
    }
}

#[test]
fn a_serving_request_carries_the_nodes_names_sorted_and_once() {
    use NodeAddress::{ExternalDns, ExternalIp, Hostname, InternalDns, InternalIp};
    let text = str::to_owned;
    let addresses = [
        InternalIp(text("10.0.0.9")),
        InternalIp(text("10.0.0.10")),
        ExternalIp(text("fd00::1")),
        ExternalIp(text("010.0.0.009")),
        ExternalIp(text("not an address")),
        ExternalIp(text("")),
        Hostname(text("n1")),
        InternalDns(text("n1")),
        ExternalDns(text("a.example")),
        InternalDns(text("")),
        Hostname(text("192.0.2.1")),
    ];
    let template = Template::serving(NODE, &addresses, false).unwrap();
    assert_eq!(template.common_name, "system:node:n1");
    assert_eq!(template.organization, "system:nodes");
    assert_eq!(template.dns_names, ["a.example", "n1"]);
    let sorted: Vec<String> = template.addresses.iter().map(IpAddr::to_string).collect();
    assert_eq!(sorted, ["10.0.0.10", "10.0.0.9", "192.0.2.1", "fd00::1"]);

    let pem = pem::parse(template.pkcs10(&generator_key()).unwrap()).unwrap();
    let (_, request) = X509CertificationRequest::from_der(pem.contents()).unwrap();
    let extensions: Vec<_> = request.requested_extensions().unwrap().collect();
    let [ParsedExtension::SubjectAlternativeName(names)] = extensions[..] else {
        panic!("{extensions:?}")
    };
    let ten = [10, 0, 0, 10];
    assert_eq!(names.general_names.len(), 6);
    assert_eq!(names.general_names[0], GeneralName::DNSName("a.example"));
    assert_eq!(names.general_names[2], GeneralName::IPAddress(&ten));
}

#[test]
fn a_serving_request_waits_for_an_ip_address() {
    let name = [NodeAddress::Hostname("n1".to_owned())];
    assert_eq!(Template::serving(NODE, &name, false), None);
    let dns_only = Template::serving(NODE, &name, true).unwrap();
    assert_eq!(dns_only.dns_names, ["n1"]);
    assert_eq!(Template::serving(NODE, &[], true), None);
    let address = [NodeAddress::InternalIp("10.0.0.1".to_owned())];
    assert!(Template::serving(NODE, &address, false).is_some());
}

#[test]
fn a_name_that_no_certificate_can_carry_is_refused() {
    let mut template = Template::client(NODE);
    template.dns_names.push("knöten".to_owned());
    let error = template.pkcs10(&generator_key()).unwrap_err();
    assert_eq!(error, RequestError::DnsName("knöten".to_owned()));
}

/// What the API server keeps under the request's name.
fn kept(request: &SigningRequest) -> Value {
    let mut object = request.object();
    object["metadata"]["uid"] = json!("u-1");
    object
}

#[test]
fn our_own_request_is_waited_for_again() {
    let key = generator_key();
    let before = SigningRequest::bootstrap(NODE, &key).unwrap();
    let again = SigningRequest::bootstrap(NODE, &key).unwrap();
    assert_ne!(before.pem(), again.pem(), "signatures are random");
    let mut existing = kept(&before);
    let reused = again.reuse(&existing, &key, at(50)).unwrap();
    assert_eq!(Some(reused.name.as_str()), again.name());
    assert_eq!(reused.uid, "u-1");

    let certificate = pair_for(generator_key(), "system:node:n1", at(0), 100).certificate_pem();
    existing["status"] = json!({ "certificate": STANDARD.encode(certificate) });
    assert!(again.reuse(&existing, &key, at(100)).is_ok());
    let late = again.reuse(&existing, &key, at(101)).unwrap_err();
    assert_eq!(late.cause, "the certificate issued for it has expired");
    let name = again.name().unwrap();
    assert!(
        late.to_string()
            .ends_with(&format!(": kubectl delete csr {name}")),
        "{late}"
    );
}

#[test]
fn a_request_of_our_name_that_is_not_ours_is_refused_with_its_reason() {
    let key = generator_key();
    let ours = SigningRequest::bootstrap(NODE, &key).unwrap();
    let reason = |existing: &Value| ours.reuse(existing, &key, at(0)).unwrap_err().cause;

    let other_node = SigningRequest::bootstrap("n2", &key).unwrap();
    assert!(reason(&kept(&other_node)).starts_with("its subject is"));

    let other_key = PrivateKey::generate().unwrap();
    let other_key = SigningRequest::bootstrap(NODE, &other_key).unwrap();
    assert_eq!(reason(&kept(&other_key)), "it was not signed with our key");

    let mut other_signer = kept(&ours);
    other_signer["spec"]["signerName"] = json!("example.com/signer");
    assert!(reason(&other_signer).starts_with("its signer is example.com/signer"));
    other_signer["spec"]["signerName"] = json!("");
    assert!(
        ours.reuse(&other_signer, &key, SystemTime::UNIX_EPOCH)
            .is_ok()
    );

    let mut forged = pem::parse(ours.pem()).unwrap().into_contents();
    let last = forged.len() - 1;
    forged[last] ^= 1;
    let mut object = kept(&ours);
    object["spec"]["request"] = json!(STANDARD.encode(crate::keys::encode(TAG, &forged)));
    assert_eq!(reason(&object), "it was not signed with our key");

    for (broken, expected) in [
        (json!("%"), "it is not base64"),
        (json!(STANDARD.encode("text")), "it is not PEM text"),
        (
            json!(STANDARD.encode(include_str!("../../testdata/ca.pem"))),
            "it holds a",
        ),
        (json!(null), "it is not PEM text"),
    ] {
        object["spec"]["request"] = broken;
        let found = reason(&object);
        assert!(found.starts_with(expected), "{found}");
    }
    assert!(ours.reuse(&Value::Null, &key, at(0)).is_err());
}

#[test]
fn a_certificate_counts_once_its_request_is_approved_and_not_refused() {
    let issued = issued_csr();
    let uid = "27836b6b-e493-4193-9212-7ec8d9829ab1";
    let Verdict::Issued(pem) = Verdict::of(&issued, uid) else {
        panic!("it is issued")
    };
    assert!(pem.starts_with(b"-----BEGIN CERTIFICATE-----"));
    assert_eq!(Verdict::of(&issued, "another"), Verdict::Replaced);

    let with = |conditions: Value, certificate: &str| {
        let mut object = issued.clone();
        object["status"] = json!({ "conditions": conditions, "certificate": certificate });
        Verdict::of(&object, uid)
    };
    let approved = json!({ "type": "Approved" });
    let denied = json!({ "type": "Denied", "reason": "No", "message": "not you" });
    let failed = json!({ "type": "Failed", "reason": "SignerValidationFailure" });
    assert_eq!(with(json!([]), ""), Verdict::Waiting);
    assert_eq!(with(json!(null), "eA=="), Verdict::Waiting);
    assert_eq!(with(json!([approved]), ""), Verdict::Approved);
    let refusal = Verdict::Denied {
        reason: "No".to_owned(),
        message: "not you".to_owned(),
    };
    assert_eq!(with(json!([denied]), ""), refusal);
    assert_eq!(with(json!([approved, denied]), "eA=="), refusal);
    let failure = Verdict::Failed {
        reason: "SignerValidationFailure".to_owned(),
        message: String::new(),
    };
    assert_eq!(with(json!([approved, failed]), ""), failure);
}
