use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};
use rustls_pki_types::CertificateDer;

use super::*;
use crate::access::pki::Pki;
use crate::access::pki::tests_support::{names, now};

/// A request as a client makes it.
pub(crate) fn request_pem(common_name: &str, organization: &str, names: &[&str]) -> String {
    let mut parameters = CertificateParams::default();
    let mut name = DistinguishedName::new();
    if !organization.is_empty() {
        name.push(DnType::OrganizationName, organization);
    }
    name.push(DnType::CommonName, common_name);
    parameters.distinguished_name = name;
    for name in names {
        parameters.subject_alt_names.push(match name.parse() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) if name.contains("://") => SanType::URI((*name).try_into().unwrap()),
            Err(_) => SanType::DnsName((*name).try_into().unwrap()),
        });
    }
    let key = KeyPair::generate().unwrap();
    let request = parameters.serialize_request(&key).unwrap();
    encode(TAG, request.der())
}

#[test]
fn a_request_is_read_and_its_signature_checked() {
    let text = request_pem(
        "system:node:one",
        "system:nodes",
        &["one.example", "192.0.2.1", "spiffe://a"],
    );
    let request = CertificateRequest::of_pem(text.as_bytes()).unwrap();
    assert_eq!(request.common_name, "system:node:one");
    assert_eq!(request.organizations, ["system:nodes"]);
    assert_eq!(request.dns_names, ["one.example"]);
    assert_eq!(request.addresses, ["192.0.2.1".parse::<IpAddr>().unwrap()]);
    assert_eq!(request.uris, ["spiffe://a"]);

    let mut der = pem::parse(&text).unwrap().into_contents();
    *der.last_mut().unwrap() ^= 1;
    let forged = CertificateRequest::of_pem(encode(TAG, &der).as_bytes());
    assert_eq!(forged, Err(RequestFault::NoPossession));
    for text in ["", "nonsense", &encode("CERTIFICATE", &[1])] {
        assert_eq!(
            CertificateRequest::of_pem(text.as_bytes()),
            Err(RequestFault::NotPem)
        );
    }
    let empty = CertificateRequest::of_pem(encode(TAG, &[0x30, 0]).as_bytes());
    assert!(matches!(empty, Err(RequestFault::Malformed(_))));
}

#[test]
fn a_certificate_says_what_was_asked_for_and_is_trusted() {
    let pki = Pki::open(None, &names(), now()).unwrap();
    let text = request_pem("jane", "dev", &["one.example", "2001:db8::1"]);
    let request = CertificateRequest::of_pem(text.as_bytes()).unwrap();
    let usages = [Usage::DigitalSignature, Usage::ClientAuth];
    let until = "2027-11-16T12:00:00Z".parse().unwrap();
    let issued = issue(&request, &usages, now(), until, &pki.ca).unwrap();
    let der = pem::parse(&issued).unwrap().into_contents();
    let (_, certificate) = X509Certificate::from_der(&der).unwrap();
    assert_eq!(certificate.subject().to_string(), "O=dev, CN=jane");
    assert_eq!(
        certificate.validity().not_before.timestamp(),
        now().as_second()
    );
    assert_eq!(certificate.validity().not_after.to_datetime().year(), 2027);
    let usage = certificate.key_usage().unwrap().unwrap().value;
    assert!(usage.digital_signature() && !usage.key_encipherment() && !usage.key_cert_sign());
    let purposes = certificate.extended_key_usage().unwrap().unwrap().value;
    assert!(purposes.client_auth && !purposes.server_auth);
    assert!(!certificate.is_ca());
    let names = certificate
        .subject_alternative_name()
        .unwrap()
        .unwrap()
        .value;
    assert_eq!(names.general_names.len(), 2);

    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let trust = crate::access::ClientTrust::new(pki.ca.certificate_der(), &provider).unwrap();
    let user = trust
        .user(&[CertificateDer::from(der)], now())
        .unwrap()
        .unwrap();
    assert_eq!(
        (user.name.as_str(), user.groups[0].as_str()),
        ("jane", "dev")
    );
}
