//! What a PKCS#10 request says.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use thiserror::Error;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::cri_attributes::ParsedCriAttribute;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer as _;
use x509_parser::public_key::PublicKey;

const TAG: &str = "CERTIFICATE REQUEST";

/// Why a request could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RequestFault {
    #[error("it is not PEM text: {0}")]
    NotPem(String),
    #[error("it is a PEM block {0:?} where {TAG:?} is expected")]
    OtherBlock(String),
    #[error("it cannot be read: {0}")]
    Malformed(String),
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestContent {
    /// The whole subject, as text.
    pub subject: String,
    pub common_name: String,
    pub organizations: Vec<String>,
    pub dns_names: Vec<String>,
    pub addresses: Vec<IpAddr>,
    pub emails: Vec<String>,
    pub uris: Vec<String>,
    /// Alternative names that Kubernetes does not know; a signer leaves them out.
    pub other_names: Vec<String>,
    /// The key's kind and size, as text.
    pub key: String,
    /// Whether whoever made it holds the key. `None` where the algorithm is one
    /// that we cannot check.
    pub proves_possession: Option<bool>,
}

impl RequestContent {
    pub fn of_pem(text: &[u8]) -> Result<Self, RequestFault> {
        let block = pem::parse(text).map_err(|cause| RequestFault::NotPem(cause.to_string()))?;
        if block.tag() != TAG {
            return Err(RequestFault::OtherBlock(block.tag().to_owned()));
        }
        Self::of_der(block.contents())
    }

    fn of_der(der: &[u8]) -> Result<Self, RequestFault> {
        let malformed = |cause: &dyn std::fmt::Display| RequestFault::Malformed(cause.to_string());
        let (rest, request) =
            X509CertificationRequest::from_der(der).map_err(|cause| malformed(&cause))?;
        if !rest.is_empty() {
            return Err(malformed(&"it is followed by other data"));
        }
        let info = &request.certification_request_info;
        // A name that we cannot read and a signer can would be hidden from whoever
        // decides.
        let texts =
            |values: &mut dyn Iterator<Item = &x509_parser::x509::AttributeTypeAndValue>| {
                let read = |value: &x509_parser::x509::AttributeTypeAndValue| {
                    let text = value.as_str().map(str::to_owned);
                    text.map_err(|_| malformed(&"a name in it is in a form that is not read"))
                };
                values.map(read).collect::<Result<Vec<_>, _>>()
            };
        let asked_for = info.iter_attributes().filter(|attribute| {
            let parsed = attribute.parsed_attribute();
            matches!(parsed, ParsedCriAttribute::ExtensionRequest(_))
        });
        if asked_for.count() > 1 {
            return Err(malformed(&"it asks for extensions twice"));
        }
        let mut content = Self {
            subject: info.subject.to_string(),
            // The last one, should there be several: upstream's reading.
            common_name: texts(&mut info.subject.iter_common_name())?
                .pop()
                .unwrap_or_default(),
            organizations: texts(&mut info.subject.iter_organization())?,
            dns_names: Vec::new(),
            addresses: Vec::new(),
            emails: Vec::new(),
            uris: Vec::new(),
            other_names: Vec::new(),
            key: key_text(&info.subject_pki),
            proves_possession: possession(&request),
        };
        for extension in request.requested_extensions().into_iter().flatten() {
            if let ParsedExtension::SubjectAlternativeName(names) = extension {
                content.add_names(&names.general_names);
            }
        }
        Ok(content)
    }

    fn add_names(&mut self, names: &[GeneralName<'_>]) {
        for name in names {
            match name {
                GeneralName::DNSName(name) => self.dns_names.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => match address(bytes) {
                    Some(address) => self.addresses.push(address),
                    None => self.other_names.push(name.to_string()),
                },
                GeneralName::RFC822Name(name) => self.emails.push((*name).to_owned()),
                GeneralName::URI(name) => self.uris.push((*name).to_owned()),
                other => self.other_names.push(other.to_string()),
            }
        }
    }
}

fn possession(request: &X509CertificationRequest<'_>) -> Option<bool> {
    use x509_parser::error::X509Error;
    match request.verify_signature() {
        Ok(()) => Some(true),
        Err(X509Error::SignatureUnsupportedAlgorithm) => None,
        Err(_) => Some(false),
    }
}

fn key_text(key: &x509_parser::x509::SubjectPublicKeyInfo<'_>) -> String {
    match key.parsed() {
        Ok(PublicKey::RSA(rsa)) => format!("RSA {}", rsa.key_size()),
        Ok(PublicKey::EC(point)) => format!("ECDSA P-{}", point.key_size()),
        _ if key.algorithm.algorithm.to_id_string() == "1.3.101.112" => "Ed25519".to_owned(),
        _ => format!("of algorithm {}", key.algorithm.algorithm),
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|octets| Ipv4Addr::from(octets).into());
    let v6 = <[u8; 16]>::try_from(bytes).map(|octets| Ipv6Addr::from(octets).into());
    v4.or(v6).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an upstream kubelet has sent.
    const RECORDED: &str = include_str!("../../testdata/kubelet-client.csr");

    #[test]
    fn a_name_that_we_cannot_read_is_not_passed_over() {
        use rcgen::string::TeletexString;
        use rcgen::{CertificateParams, DnType, DnValue, KeyPair};
        let mut parameters = CertificateParams::default();
        let name = TeletexString::try_from("kubeadm:cluster-admins").unwrap();
        parameters
            .distinguished_name
            .push(DnType::OrganizationName, DnValue::TeletexString(name));
        let key = KeyPair::generate().unwrap();
        let request = parameters.serialize_request(&key).unwrap();
        let read = RequestContent::of_der(request.der());
        assert!(matches!(read, Err(RequestFault::Malformed(_))), "{read:?}");
    }

    #[test]
    fn a_kubelets_request_is_read() {
        let content = RequestContent::of_pem(RECORDED.as_bytes()).unwrap();
        assert_eq!(
            content,
            RequestContent {
                subject: "O=system:nodes, CN=system:node:up1".to_owned(),
                common_name: "system:node:up1".to_owned(),
                organizations: vec!["system:nodes".to_owned()],
                dns_names: Vec::new(),
                addresses: Vec::new(),
                emails: Vec::new(),
                uris: Vec::new(),
                other_names: Vec::new(),
                key: "ECDSA P-256".to_owned(),
                proves_possession: Some(true),
            }
        );
    }

    #[test]
    fn a_request_that_was_changed_does_not_prove_possession() {
        let mut der = pem::parse(RECORDED).unwrap().into_contents();
        let place = der.windows(3).position(|part| part == b"up1").unwrap();
        der[place + 2] = b'2';
        let content = RequestContent::of_der(&der).unwrap();
        assert_eq!(content.common_name, "system:node:up2");
        assert_eq!(content.proves_possession, Some(false));
    }

    #[test]
    fn what_is_no_request_is_told_apart() {
        let other = RECORDED.replace("CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST");
        assert_eq!(
            RequestContent::of_pem(other.as_bytes()),
            Err(RequestFault::OtherBlock(
                "NEW CERTIFICATE REQUEST".to_owned()
            ))
        );
        assert!(matches!(
            RequestContent::of_pem(b"hello"),
            Err(RequestFault::NotPem(_))
        ));
        assert!(matches!(
            RequestContent::of_der(b"\x30\x00"),
            Err(RequestFault::Malformed(_))
        ));
    }
}
