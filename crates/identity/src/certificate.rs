//! Certificates as they are read: chains from PEM, and what a leaf says.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, SystemTime};

use rustls_pki_types::CertificateDer;
use thiserror::Error;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;
use x509_parser::x509::X509Name;

pub(crate) const TAG: &str = "CERTIFICATE";

/// Why certificates could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CertificateError {
    #[error("it holds no certificate; at least one PEM block \"CERTIFICATE\" is expected")]
    Missing,
    #[error("it is not PEM text: {0}")]
    NotPem(String),
    #[error("certificate {index} in it cannot be read: {cause}")]
    Malformed { index: usize, cause: String },
}

/// What one certificate says, as far as the node's identity depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    pub common_name: String,
    pub organizations: Vec<String>,
    pub dns_names: Vec<String>,
    pub addresses: Vec<IpAddr>,
    pub not_before: SystemTime,
    pub not_after: SystemTime,
    /// PKIX `SubjectPublicKeyInfo`, DER.
    pub public_der: Vec<u8>,
}

impl Leaf {
    pub fn from_der(der: &[u8]) -> Result<Self, String> {
        let (rest, certificate) =
            X509Certificate::from_der(der).map_err(|cause| cause.to_string())?;
        if !rest.is_empty() {
            return Err("it is followed by other data".to_owned());
        }
        let (dns_names, addresses) = alternative_names(&certificate)?;
        let validity = certificate.validity();
        Ok(Self {
            common_name: common_name(certificate.subject()),
            organizations: organizations(certificate.subject()),
            dns_names,
            addresses,
            not_before: system_time(validity.not_before)?,
            not_after: system_time(validity.not_after)?,
            public_der: certificate.public_key().raw.to_vec(),
        })
    }

    /// Past its end. The very second of the end still counts as valid, and the
    /// beginning is not looked at: both as upstream.
    pub fn is_expired(&self, now: SystemTime) -> bool {
        now > self.not_after
    }
}

/// The certificates in PEM text, in their order; other blocks are passed over.
pub fn read_chain(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let blocks =
        pem::parse_many(text).map_err(|cause| CertificateError::NotPem(cause.to_string()))?;
    let chain: Vec<_> = blocks
        .into_iter()
        .filter(|block| block.tag() == TAG && block.headers().iter().next().is_none())
        .map(|block| CertificateDer::from(block.into_contents()))
        .collect();
    if chain.is_empty() {
        return Err(CertificateError::Missing);
    }
    Ok(chain)
}

/// The certificates in PEM text, each read to its end.
pub fn read_leaves(text: &[u8]) -> Result<Vec<Leaf>, CertificateError> {
    let chain = read_chain(text)?;
    let numbered = chain.iter().zip(1..);
    let read = |(der, index): (&CertificateDer<'_>, usize)| {
        Leaf::from_der(der).map_err(|cause| CertificateError::Malformed { index, cause })
    };
    numbered.map(read).collect()
}

/// The last one, should there be several: upstream's reading.
pub(crate) fn common_name(name: &X509Name<'_>) -> String {
    let values = name.iter_common_name();
    values
        .filter_map(|value| value.as_str().ok())
        .last()
        .unwrap_or_default()
        .to_owned()
}

pub(crate) fn organizations(name: &X509Name<'_>) -> Vec<String> {
    let values = name.iter_organization();
    values
        .filter_map(|value| value.as_str().ok())
        .map(str::to_owned)
        .collect()
}

fn alternative_names(
    certificate: &X509Certificate<'_>,
) -> Result<(Vec<String>, Vec<IpAddr>), String> {
    let mut dns_names = Vec::new();
    let mut addresses = Vec::new();
    let extension = certificate
        .subject_alternative_name()
        .map_err(|cause| cause.to_string())?;
    for name in extension
        .iter()
        .flat_map(|found| &found.value.general_names)
    {
        match name {
            GeneralName::DNSName(dns_name) => dns_names.push((*dns_name).to_owned()),
            GeneralName::IPAddress(bytes) => addresses.extend(address(bytes)),
            _ => {}
        }
    }
    Ok((dns_names, addresses))
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|octets| Ipv4Addr::from(octets).into());
    let v6 = <[u8; 16]>::try_from(bytes).map(|octets| Ipv6Addr::from(octets).into());
    v4.or(v6).ok()
}

fn system_time(time: ASN1Time) -> Result<SystemTime, String> {
    let seconds = time.timestamp();
    let distance = Duration::from_secs(seconds.unsigned_abs());
    let moment = if seconds >= 0 {
        SystemTime::UNIX_EPOCH.checked_add(distance)
    } else {
        SystemTime::UNIX_EPOCH.checked_sub(distance)
    };
    moment.ok_or_else(|| format!("the time {time} is out of range"))
}
