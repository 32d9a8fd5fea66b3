//! A certificate with its key.

use std::fmt;
use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData as _, SanType,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use thiserror::Error;
use time::OffsetDateTime;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::AttributeTypeAndValue;

const CERTIFICATE_TAG: &str = "CERTIFICATE";
const KEY_TAG: &str = "PRIVATE KEY";

/// Clocks differ: what is issued now has been good for a while.
pub(crate) const BACKDATE: SignedDuration = SignedDuration::from_mins(5);
/// The name of the CA, as kubeadm's.
const CA_NAME: &str = "kubernetes";

/// Why a key or a certificate could not be made or read. It never repeats what it read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PairError {
    #[error("the system's random source failed, so no key was made; start again")]
    Random,
    #[error("no certificate could be made: {0}")]
    Issue(String),
    #[error("it holds no PEM block {0:?}")]
    Missing(&'static str),
    #[error("its {tag:?} block cannot be read: {cause}")]
    Malformed { tag: &'static str, cause: String },
}

/// A certificate and the key that belongs to it. Its `Debug` shows neither.
pub struct Pair {
    certificate: CertificateDer<'static>,
    key: KeyPair,
}

impl Pair {
    pub(crate) fn new(certificate: CertificateDer<'static>, key: KeyPair) -> Self {
        Self { certificate, key }
    }

    pub fn certificate_der(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    pub fn certificate_pem(&self) -> String {
        encode(CERTIFICATE_TAG, &self.certificate)
    }

    pub fn key_pem(&self) -> String {
        key_pem(&self.key)
    }

    /// The form that a TLS stack takes.
    pub fn key_tls(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key.serialize_der()).into()
    }

    pub(crate) fn key(&self) -> &KeyPair {
        &self.key
    }
}

impl fmt::Debug for Pair {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Pair").finish_non_exhaustive()
    }
}

/// What a certificate that the cluster makes for itself is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub(crate) common_name: &'static str,
    pub(crate) organization: Option<&'static str>,
    pub(crate) purpose: Purpose,
    pub(crate) names: Vec<String>,
    pub(crate) addresses: Vec<IpAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Server,
    Client,
}

pub(crate) fn generate_key() -> Result<KeyPair, PairError> {
    KeyPair::generate().map_err(|_| PairError::Random)
}

pub(crate) fn key_pem(key: &KeyPair) -> String {
    encode(KEY_TAG, key.serialized_der())
}

pub(crate) fn public_pem(key: &KeyPair) -> String {
    encode("PUBLIC KEY", &key.subject_public_key_info())
}

pub(crate) fn parse_key(text: &str) -> Result<KeyPair, PairError> {
    let der = decode(text, KEY_TAG)?;
    KeyPair::from_pkcs8_der_and_sign_algo(&PrivatePkcs8KeyDer::from(der), &PKCS_ECDSA_P256_SHA256)
        .map_err(|cause| PairError::Malformed {
            tag: KEY_TAG,
            cause: cause.to_string(),
        })
}

/// The first certificate of a text, checked to be one.
pub(crate) fn parse_certificate(text: &str) -> Result<CertificateDer<'static>, PairError> {
    let der = decode(text, CERTIFICATE_TAG)?;
    X509Certificate::from_der(&der).map_err(|cause| PairError::Malformed {
        tag: CERTIFICATE_TAG,
        cause: cause.to_string(),
    })?;
    Ok(der.into())
}

/// A CA's own certificate, for ten years.
pub(crate) fn self_signed_ca(key: KeyPair, now: Timestamp) -> Result<Pair, PairError> {
    let mut parameters = ca_parameters();
    set_validity(&mut parameters, now, SignedDuration::from_hours(24 * 3650))?;
    parameters.subject_alt_names = vec![dns_name(CA_NAME)?];
    let certificate = parameters.self_signed(&key).map_err(issue_error)?;
    Ok(Pair::new(certificate.into(), key))
}

/// A certificate of the cluster's own, for a year.
pub(crate) fn signed_leaf(
    leaf: &Leaf,
    key: KeyPair,
    ca: &Pair,
    now: Timestamp,
) -> Result<Pair, PairError> {
    let mut parameters = CertificateParams::default();
    let mut name = DistinguishedName::new();
    if let Some(organization) = leaf.organization {
        name.push(DnType::OrganizationName, organization);
    }
    name.push(DnType::CommonName, leaf.common_name);
    parameters.distinguished_name = name;
    parameters.is_ca = IsCa::ExplicitNoCa;
    parameters.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyEncipherment,
    ];
    parameters.extended_key_usages = vec![match leaf.purpose {
        Purpose::Server => ExtendedKeyUsagePurpose::ServerAuth,
        Purpose::Client => ExtendedKeyUsagePurpose::ClientAuth,
    }];
    for name in &leaf.names {
        parameters.subject_alt_names.push(dns_name(name)?);
    }
    let addresses = leaf.addresses.iter().copied().map(SanType::IpAddress);
    parameters.subject_alt_names.extend(addresses);
    parameters.use_authority_key_identifier_extension = true;
    set_validity(&mut parameters, now, SignedDuration::from_hours(24 * 365))?;
    let issuer = Issuer::new(ca_parameters(), ca.key());
    let certificate = parameters.signed_by(&key, &issuer).map_err(issue_error)?;
    Ok(Pair::new(certificate.into(), key))
}

/// Whether a certificate that was found can go on being used: made by this CA for
/// this key, saying what is wanted, and with a good part of its life before it.
pub(crate) fn serves(
    certificate: &CertificateDer<'_>,
    leaf: &Leaf,
    key: &KeyPair,
    ca: &Pair,
    now: Timestamp,
) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else {
        return false;
    };
    let Ok((_, authority)) = X509Certificate::from_der(ca.certificate_der()) else {
        return false;
    };
    let validity = certificate.validity();
    let (begin, end) = (
        validity.not_before.timestamp(),
        validity.not_after.timestamp(),
    );
    // As a kubelet does: not in the last fifth of its life.
    let fresh = now.as_second() >= begin && now.as_second() < begin + (end - begin) / 5 * 4;
    let subject = certificate.subject();
    let mut common_names = subject
        .iter_common_name()
        .flat_map(AttributeTypeAndValue::as_str);
    let mut organizations = subject
        .iter_organization()
        .flat_map(AttributeTypeAndValue::as_str);
    fresh
        && certificate.public_key().raw == key.subject_public_key_info()
        && certificate
            .verify_signature(Some(authority.public_key()))
            .is_ok()
        && common_names.next() == Some(leaf.common_name)
        && organizations.next() == leaf.organization
        && has_names(&certificate, leaf)
}

/// Whether the key is that of the CA's certificate, and that has not ended.
pub(crate) fn is_ca_with(
    certificate: &CertificateDer<'_>,
    key: &KeyPair,
    now: Timestamp,
) -> Result<bool, PairError> {
    let (_, certificate) =
        X509Certificate::from_der(certificate).map_err(|cause| PairError::Malformed {
            tag: CERTIFICATE_TAG,
            cause: cause.to_string(),
        })?;
    Ok(certificate.is_ca()
        && certificate.public_key().raw == key.subject_public_key_info()
        && certificate.validity().not_after.timestamp() > now.as_second())
}

fn has_names(certificate: &X509Certificate<'_>, leaf: &Leaf) -> bool {
    let extension = certificate.subject_alternative_name().ok().flatten();
    let found = extension.map(|names| names.value.general_names.as_slice());
    let found = found.unwrap_or_default();
    let has_name = |wanted: &String| {
        let mut found = found.iter();
        found.any(|name| matches!(name, GeneralName::DNSName(name) if name == wanted))
    };
    let has_address = |wanted: &IpAddr| {
        let wanted = match wanted {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        let mut found = found.iter();
        found.any(|name| matches!(name, GeneralName::IPAddress(bytes) if *bytes == wanted))
    };
    leaf.names.iter().all(has_name) && leaf.addresses.iter().all(has_address)
}

fn ca_parameters() -> CertificateParams {
    let mut parameters = CertificateParams::default();
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, CA_NAME);
    parameters.distinguished_name = name;
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyEncipherment,
        KeyUsagePurpose::KeyCertSign,
    ];
    parameters
}

fn set_validity(
    parameters: &mut CertificateParams,
    now: Timestamp,
    life: SignedDuration,
) -> Result<(), PairError> {
    let moment = |timestamp: Timestamp| {
        OffsetDateTime::from_unix_timestamp(timestamp.as_second())
            .map_err(|cause| PairError::Issue(cause.to_string()))
    };
    let out_of_range = |cause: jiff::Error| PairError::Issue(cause.to_string());
    parameters.not_before = moment(now.checked_sub(BACKDATE).map_err(out_of_range)?)?;
    parameters.not_after = moment(now.checked_add(life).map_err(out_of_range)?)?;
    Ok(())
}

fn dns_name(name: &str) -> Result<SanType, PairError> {
    name.try_into().map(SanType::DnsName).map_err(issue_error)
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the form that `map_err` takes"
)]
fn issue_error(cause: rcgen::Error) -> PairError {
    PairError::Issue(cause.to_string())
}

fn decode(text: &str, tag: &'static str) -> Result<Vec<u8>, PairError> {
    let blocks = pem::parse_many(text).map_err(|cause| PairError::Malformed {
        tag,
        cause: cause.to_string(),
    })?;
    let block = blocks.into_iter().find(|block| block.tag() == tag);
    block
        .map(pem::Pem::into_contents)
        .ok_or(PairError::Missing(tag))
}

/// PEM as Go writes it: 64 columns, line feeds.
pub(crate) fn encode(tag: &str, der: &[u8]) -> String {
    let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_config(&pem::Pem::new(tag, der), config)
}
