//! A request made for somebody: key, PKCS#10, object.

use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use identity::{KeyKind, PrivateKey};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client};
use pkcs8::der::asn1::AnyRef;
use pkcs8::der::{Decode as _, Encode as _, Reader as _, SliceReader, Tag};
use rcgen::string::Ia5String;
use rcgen::{CertificateParams, DnType, KeyPair, SanType, SigningKey as _};
use thiserror::Error;

use super::subject::{Attribute, Subject};
use super::{
    CLIENT_AUTH, CLIENT_SIGNER, DIGITAL_SIGNATURE, KEY_ENCIPHERMENT, LEGACY_SIGNER,
    NODE_CLIENT_SIGNER, NODE_SERVING_SIGNER, SERVER_AUTH,
};
use crate::call::CallError;

/// The shortest life that the API takes.
const SHORTEST_LIFE: Duration = Duration::from_secs(600);

/// Every usage that the API knows.
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// Why a request could not be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CreateError {
    #[error("the key type {0:?} is not known; the types are ecdsa-p256, ecdsa-p384 and ed25519")]
    KeyType(String),
    #[error(
        "RSA keys cannot be made here, only used: make one with `openssl genrsa -out KEY.pem 2048` and give that file, or choose ecdsa-p256, which every Kubernetes takes"
    )]
    Rsa,
    #[error("the key was not made: {0}")]
    Key(String),
    #[error("the certificate would live {}s; the API takes no less than 600s", .0.as_secs())]
    ShortLife(Duration),
    #[error("the certificate would live {}s, which is more than the API can count", .0.as_secs())]
    LongLife(Duration),
    #[error("the signer {0:?} is not of the form DOMAIN/NAME")]
    Signer(String),
    #[error(
        "the signer {LEGACY_SIGNER} is refused by certificates.k8s.io/v1; choose {CLIENT_SIGNER} or a signer of your own"
    )]
    LegacySigner,
    #[error("what certificates of the signer {0} are for is not known here; say it with --usages")]
    NoUsages(String),
    #[error("the usage {0:?} is not known; the usages are {all}", all = USAGES.join(", "))]
    Usage(String),
    #[error("the usage {0:?} is given twice")]
    UsageTwice(String),
    #[error("the DNS name {0:?} cannot stand in a certificate, which takes ASCII only")]
    DnsName(String),
    #[error("the request for {subject} could not be signed: {cause}")]
    Sign { subject: String, cause: String },
}

/// What kind of key is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyType {
    #[default]
    EcdsaP256,
    EcdsaP384,
    /// Not every signer takes it: Go's does.
    Ed25519,
}

impl FromStr for KeyType {
    type Err = CreateError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "ecdsa" | "ecdsa-p256" => Ok(Self::EcdsaP256),
            "ecdsa-p384" => Ok(Self::EcdsaP384),
            "ed25519" => Ok(Self::Ed25519),
            rsa if rsa.starts_with("rsa") => Err(CreateError::Rsa),
            _ => Err(CreateError::KeyType(text.to_owned())),
        }
    }
}

impl KeyType {
    pub fn generate(self) -> Result<PrivateKey, CreateError> {
        let algorithm = match self {
            Self::EcdsaP256 => &rcgen::PKCS_ECDSA_P256_SHA256,
            Self::EcdsaP384 => &rcgen::PKCS_ECDSA_P384_SHA384,
            Self::Ed25519 => &rcgen::PKCS_ED25519,
        };
        let failed = |cause: &dyn std::fmt::Display| CreateError::Key(cause.to_string());
        let pair = KeyPair::generate_for(algorithm).map_err(|cause| failed(&cause))?;
        let text = pem::encode(&pem::Pem::new("PRIVATE KEY", pair.serialize_der()));
        PrivateKey::from_pem(text.as_bytes()).map_err(|cause| failed(&cause))
    }
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRequest {
    /// `None`: the API server makes one up (`csr-…`).
    pub name: Option<String>,
    pub subject: Subject,
    pub dns_names: Vec<String>,
    pub addresses: Vec<IpAddr>,
    pub signer: String,
    /// `None`: those that the signer is for.
    pub usages: Option<Vec<String>>,
    /// `None`: as long as the signer likes.
    pub life: Option<Duration>,
}

impl Default for NewRequest {
    fn default() -> Self {
        Self {
            name: None,
            subject: Subject::default(),
            dns_names: Vec::new(),
            addresses: Vec::new(),
            signer: CLIENT_SIGNER.to_owned(),
            usages: None,
            life: None,
        }
    }
}

impl NewRequest {
    /// The object to create, with the request signed by `key`.
    pub fn object(&self, key: &PrivateKey) -> Result<CertificateSigningRequest, CreateError> {
        check_signer(&self.signer)?;
        let usages = match &self.usages {
            Some(usages) => usages.clone(),
            None => default_usages(&self.signer, key.kind())?,
        };
        check_usages(&usages)?;
        let metadata = match &self.name {
            Some(name) => ObjectMeta {
                name: Some(name.clone()),
                ..ObjectMeta::default()
            },
            None => ObjectMeta {
                generate_name: Some("csr-".to_owned()),
                ..ObjectMeta::default()
            },
        };
        Ok(CertificateSigningRequest {
            metadata,
            spec: CertificateSigningRequestSpec {
                request: ByteString(self.pkcs10(key)?.into_bytes()),
                signer_name: self.signer.clone(),
                usages: Some(usages),
                expiration_seconds: self.life.map(expiration_seconds).transpose()?,
                ..CertificateSigningRequestSpec::default()
            },
            status: None,
        })
    }

    /// The PKCS#10 request, PEM.
    pub fn pkcs10(&self, key: &PrivateKey) -> Result<String, CreateError> {
        let failed = |cause: &dyn std::fmt::Display| CreateError::Sign {
            subject: self.subject.to_string(),
            cause: cause.to_string(),
        };
        let signer = KeyPair::try_from(&key.to_tls()).map_err(|cause| failed(&cause))?;
        let mut parameters = CertificateParams::default();
        // Without any subject, the names would be marked as critical.
        parameters
            .distinguished_name
            .push(DnType::CommonName, self.subject.common_name());
        parameters.subject_alt_names = self.alternative_names()?;
        let partial = parameters
            .serialize_request(&signer)
            .map_err(|cause| failed(&cause))?;
        let der =
            with_subject(partial.der(), &self.subject, &signer).map_err(|cause| failed(&cause))?;
        let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
        let block = pem::Pem::new("CERTIFICATE REQUEST", der);
        Ok(pem::encode_config(&block, config))
    }

    fn alternative_names(&self) -> Result<Vec<SanType>, CreateError> {
        let dns_name = |name: &String| {
            let text = Ia5String::try_from(name.as_str());
            text.map(SanType::DnsName)
                .map_err(|_| CreateError::DnsName(name.clone()))
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

/// Hands the request in. The object that comes back has its name and uid.
pub async fn submit(
    client: &Client,
    object: &CertificateSigningRequest,
) -> Result<CertificateSigningRequest, CallError> {
    let requests: Api<CertificateSigningRequest> = Api::all(client.clone());
    let created = requests.create(&PostParams::default(), object).await;
    created.map_err(|cause| {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let named = format!("the CertificateSigningRequest {name}");
        CallError::new("create", named.trim_end(), &cause)
    })
}

/// What certificates of the signer are for.
pub fn default_usages(signer: &str, kind: KeyKind) -> Result<Vec<String>, CreateError> {
    let purpose = match signer {
        CLIENT_SIGNER | NODE_CLIENT_SIGNER => CLIENT_AUTH,
        NODE_SERVING_SIGNER => SERVER_AUTH,
        other => return Err(CreateError::NoUsages(other.to_owned())),
    };
    let mut usages = vec![DIGITAL_SIGNATURE];
    // Only RSA keys can encipher keys.
    usages.extend(kind.is_rsa().then_some(KEY_ENCIPHERMENT));
    usages.push(purpose);
    Ok(usages.into_iter().map(str::to_owned).collect())
}

fn check_signer(signer: &str) -> Result<(), CreateError> {
    if signer == LEGACY_SIGNER {
        return Err(CreateError::LegacySigner);
    }
    let valid = signer
        .split_once('/')
        .is_some_and(|(domain, name)| domain.contains('.') && !name.is_empty());
    if valid {
        Ok(())
    } else {
        Err(CreateError::Signer(signer.to_owned()))
    }
}

fn check_usages(usages: &[String]) -> Result<(), CreateError> {
    for (index, usage) in usages.iter().enumerate() {
        if !USAGES.contains(&usage.as_str()) {
            return Err(CreateError::Usage(usage.clone()));
        }
        if usages[..index].contains(usage) {
            return Err(CreateError::UsageTwice(usage.clone()));
        }
    }
    Ok(())
}

fn expiration_seconds(life: Duration) -> Result<i32, CreateError> {
    if life < SHORTEST_LIFE {
        return Err(CreateError::ShortLife(life));
    }
    i32::try_from(life.as_secs()).map_err(|_| CreateError::LongLife(life))
}

/// The request with the subject put in, signed anew. The library that makes
/// requests takes one organization at most, and each is a group of the user.
fn with_subject(
    request: &[u8],
    subject: &Subject,
    signer: &KeyPair,
) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let [info, algorithm, _signature] = children(request)?[..] else {
        return Err("a request has three parts".into());
    };
    let info = info.to_der()?;
    let [version, _subject, key, attributes] = children(&info)?[..] else {
        return Err("a request's body has four parts".into());
    };
    let name = encode_name(subject)?;
    let body = [version.to_der()?, name, key.to_der()?, attributes.to_der()?];
    let info = tlv(Tag::Sequence, &body.concat())?;
    let mut bits = vec![0];
    bits.extend(signer.sign(&info)?);
    let signature = tlv(Tag::BitString, &bits)?;
    let whole = [info, algorithm.to_der()?, signature].concat();
    Ok(tlv(Tag::Sequence, &whole)?)
}

fn children(sequence: &[u8]) -> Result<Vec<AnyRef<'_>>, pkcs8::der::Error> {
    let mut reader = SliceReader::new(AnyRef::from_der(sequence)?.value())?;
    let mut children = Vec::new();
    while !reader.is_finished() {
        children.push(AnyRef::decode(&mut reader)?);
    }
    Ok(children)
}

fn encode_name(subject: &Subject) -> Result<Vec<u8>, pkcs8::der::Error> {
    let mut parts = Vec::new();
    for (attribute, value) in subject.parts() {
        let identifier = tlv(Tag::ObjectIdentifier, &identifier(*attribute))?;
        let text = tlv(string_tag(value), value.as_bytes())?;
        let pair = tlv(Tag::Sequence, &[identifier, text].concat())?;
        parts.extend(tlv(Tag::Set, &pair)?);
    }
    tlv(Tag::Sequence, &parts)
}

/// X.520's 2.5.4.N.
fn identifier(attribute: Attribute) -> [u8; 3] {
    [0x55, 0x04, attribute.x520()]
}

/// The plainest string type that holds the text: Go's choice.
fn string_tag(text: &str) -> Tag {
    let printable = |byte: u8| byte.is_ascii_alphanumeric() || b" '()+,-./:=?".contains(&byte);
    if text.bytes().all(printable) {
        Tag::PrintableString
    } else {
        Tag::Utf8String
    }
}

fn tlv(tag: Tag, content: &[u8]) -> Result<Vec<u8>, pkcs8::der::Error> {
    AnyRef::new(tag, content)?.to_der()
}

#[cfg(test)]
mod tests;
