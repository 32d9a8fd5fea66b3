//! The names that a certificate must carry.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use rcgen::string::{Ia5String, PrintableString};
use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, SanType};
use thiserror::Error;

use crate::keys::{self, PrivateKey};

/// Why a request could not be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RequestError {
    #[error(
        "the DNS name \"{0}\" cannot stand in a certificate, which takes ASCII only; correct the node's addresses"
    )]
    DnsName(String),
    #[error("the certificate request for \"{common_name}\" could not be signed: {cause}")]
    Sign { common_name: String, cause: String },
}

/// An entry of the node's `status.addresses`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeAddress {
    Hostname(String),
    InternalIp(String),
    ExternalIp(String),
    InternalDns(String),
    ExternalDns(String),
}

/// The names that a certificate must carry; it may carry more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    pub common_name: String,
    pub organization: String,
    /// Sorted, each once.
    pub dns_names: Vec<String>,
    /// Sorted by their text, each once.
    pub addresses: Vec<IpAddr>,
}

impl Template {
    /// The node as a client of the API server.
    pub fn client(node_name: &str) -> Self {
        Self {
            common_name: format!("system:node:{node_name}"),
            organization: "system:nodes".to_owned(),
            dns_names: Vec::new(),
            addresses: Vec::new(),
        }
    }

    /// The node as a server. `None` until there is an address to ask for: an IP
    /// address, or, where `dns_only` allows it, a DNS name.
    pub fn serving(node_name: &str, addresses: &[NodeAddress], dns_only: bool) -> Option<Self> {
        let (dns_names, addresses) = sort(addresses);
        let enough = !addresses.is_empty() || (dns_only && !dns_names.is_empty());
        enough.then(|| Self {
            dns_names,
            addresses,
            ..Self::client(node_name)
        })
    }

    /// The PKCS#10 request for these names, signed by `key`, as PEM.
    pub fn pkcs10(&self, key: &PrivateKey) -> Result<String, RequestError> {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = self.subject();
        parameters.subject_alt_names = self.alternative_names()?;
        let request = parameters
            .serialize_request(key.signer())
            .map_err(|cause| RequestError::Sign {
                common_name: self.common_name.clone(),
                cause: cause.to_string(),
            })?;
        Ok(keys::encode(super::TAG, request.der()))
    }

    fn subject(&self) -> DistinguishedName {
        let mut subject = DistinguishedName::new();
        subject.push(
            DnType::OrganizationName,
            directory_string(&self.organization),
        );
        subject.push(DnType::CommonName, directory_string(&self.common_name));
        subject
    }

    fn alternative_names(&self) -> Result<Vec<SanType>, RequestError> {
        let dns_name = |name: &String| {
            let text = Ia5String::try_from(name.as_str());
            text.map(SanType::DnsName)
                .map_err(|_| RequestError::DnsName(name.clone()))
        };
        let mut names: Vec<_> = self
            .dns_names
            .iter()
            .map(dns_name)
            .collect::<Result<_, _>>()?;
        names.extend(self.addresses.iter().copied().map(SanType::IpAddress));
        Ok(names)
    }
}

/// The plainest string type that holds the text: Go's choice, and so the bytes
/// that signers and approvers have always seen.
pub(crate) fn directory_string(text: &str) -> DnValue {
    match PrintableString::try_from(text) {
        Ok(printable) => DnValue::PrintableString(printable),
        Err(_) => DnValue::Utf8String(text.to_owned()),
    }
}

/// An IP address as Kubernetes reads it: IPv4 numbers may have leading zeros,
/// which mean nothing.
pub(crate) fn parse_address(text: &str) -> Option<IpAddr> {
    let strict = text
        .parse::<IpAddr>()
        .ok()
        .map(|address| address.to_canonical());
    strict.or_else(|| zero_padded(text).map(IpAddr::V4))
}

fn zero_padded(text: &str) -> Option<Ipv4Addr> {
    let number = |part: &str| {
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let number = part.trim_start_matches('0');
        let number = if number.is_empty() { "0" } else { number };
        digits.then(|| number.parse::<u8>().ok()).flatten()
    };
    let octets: Vec<u8> = text.split('.').map(number).collect::<Option<_>>()?;
    <[u8; 4]>::try_from(octets).ok().map(Ipv4Addr::from)
}

fn sort(addresses: &[NodeAddress]) -> (Vec<String>, Vec<IpAddr>) {
    let mut dns_names = BTreeSet::new();
    let mut by_text = BTreeMap::new();
    for address in addresses {
        let (text, names_too) = match address {
            NodeAddress::Hostname(text) => (text, true),
            NodeAddress::InternalIp(text) | NodeAddress::ExternalIp(text) => (text, false),
            NodeAddress::InternalDns(text) | NodeAddress::ExternalDns(text) => {
                if !text.is_empty() {
                    dns_names.insert(text.clone());
                }
                continue;
            }
        };
        if let Some(address) = parse_address(text) {
            by_text.insert(address.to_string(), address);
        } else if names_too && !text.is_empty() {
            dns_names.insert(text.clone());
        }
    }
    (
        dns_names.into_iter().collect(),
        by_text.into_values().collect(),
    )
}
