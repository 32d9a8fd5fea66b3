//! Private keys: made fresh (ECDSA P-256), read from every form that kubelets
//! have written or been given, and written as upstream writes them.

use std::fmt;

use pkcs8::der::asn1::{AnyRef, BitStringRef, ObjectIdentifier, OctetStringRef};
use pkcs8::{AlgorithmIdentifierRef, PrivateKeyInfoRef, SecretDocument};
use rcgen::{KeyPair, PublicKeyData, SignatureAlgorithm};
use ring::signature::RsaKeyPair;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use sec1::{EcParameters, EcPrivateKey};
use thiserror::Error;

const SEC1_TAG: &str = "EC PRIVATE KEY";
const PKCS1_TAG: &str = "RSA PRIVATE KEY";
const PKCS8_TAG: &str = "PRIVATE KEY";
const ENCRYPTED_TAG: &str = "ENCRYPTED PRIVATE KEY";

const EC_PUBLIC_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

/// What a key can do, as far as certificate usages and file formats depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    EcdsaP256,
    EcdsaP384,
    Ed25519,
    Rsa,
}

impl KeyKind {
    pub fn is_rsa(self) -> bool {
        self == Self::Rsa
    }
}

/// Why a key could not be read or made. It never repeats what it read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    #[error(
        "it holds no private key; a PEM block \"{SEC1_TAG}\", \"{PKCS1_TAG}\" or \"{PKCS8_TAG}\" is expected"
    )]
    Missing,
    #[error("it is not PEM text: {0}")]
    NotPem(String),
    #[error(
        "its private key is encrypted, and there is nobody to ask for the passphrase; decrypt it with `openssl pkey`"
    )]
    Encrypted,
    #[error("its \"{tag}\" block cannot be read: {cause}")]
    Malformed { tag: &'static str, cause: String },
    #[error(
        "its private key is of an unsupported kind ({0}); ECDSA P-256 or P-384, Ed25519, or RSA from 2048 bits is expected"
    )]
    Unsupported(String),
    #[error(
        "its private key lacks the public half; rewrite it with `openssl pkey -in OLD -out NEW`, which adds it"
    )]
    WithoutPublicHalf,
    #[error("the system's random source failed, so no key was made; try again")]
    Random,
}

/// A private key that can sign. Its `Debug` shows the kind and nothing else.
pub struct PrivateKey {
    kind: KeyKind,
    signer: KeyPair,
}

impl PrivateKey {
    /// A fresh ECDSA P-256 key.
    pub fn generate() -> Result<Self, KeyError> {
        let signer = KeyPair::generate().map_err(|_| KeyError::Random)?;
        Ok(Self {
            kind: KeyKind::EcdsaP256,
            signer,
        })
    }

    /// The first private key in PEM text. Other blocks (certificates, curve
    /// parameters) and text between blocks are passed over.
    pub fn from_pem(text: &[u8]) -> Result<Self, KeyError> {
        let blocks = pem::parse_many(text).map_err(|cause| KeyError::NotPem(cause.to_string()))?;
        for block in blocks {
            let encrypted = block.headers().get("DEK-Info").is_some();
            match block.tag() {
                ENCRYPTED_TAG => return Err(KeyError::Encrypted),
                SEC1_TAG | PKCS1_TAG if encrypted => return Err(KeyError::Encrypted),
                SEC1_TAG => return Self::from_sec1(block.contents(), None, None),
                PKCS1_TAG => return Self::from_pkcs1(block.contents(), PKCS1_TAG),
                PKCS8_TAG => return Self::from_pkcs8(block.contents()),
                _ => {}
            }
        }
        Err(KeyError::Missing)
    }

    /// As upstream writes it: SEC1 for elliptic curves, PKCS#1 for RSA; what has
    /// no such form (Ed25519) as PKCS#8.
    pub fn to_pem(&self) -> Result<String, KeyError> {
        let malformed = |cause: &dyn fmt::Display| KeyError::Malformed {
            tag: PKCS8_TAG,
            cause: cause.to_string(),
        };
        let pkcs8 = self.signer.serialized_der();
        let info = PrivateKeyInfoRef::try_from(pkcs8).map_err(|cause| malformed(&cause))?;
        let inner = info.private_key.as_bytes();
        let curve = match self.kind {
            KeyKind::EcdsaP256 => P256,
            KeyKind::EcdsaP384 => P384,
            KeyKind::Rsa => return Ok(encode(PKCS1_TAG, inner)),
            KeyKind::Ed25519 => return Ok(encode(PKCS8_TAG, pkcs8)),
        };
        let mut key = EcPrivateKey::try_from(inner).map_err(|cause| malformed(&cause))?;
        key.parameters = Some(EcParameters::NamedCurve(curve));
        let document = SecretDocument::try_from(&key).map_err(|cause| malformed(&cause))?;
        Ok(encode(SEC1_TAG, document.as_bytes()))
    }

    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// The public half, as the DER of a PKIX `SubjectPublicKeyInfo`.
    pub fn public_der(&self) -> Vec<u8> {
        self.signer.subject_public_key_info()
    }

    /// Whether a certificate with this public key (PKIX DER) is this key's.
    pub fn matches(&self, certificate_public_der: &[u8]) -> bool {
        self.public_der() == certificate_public_der
    }

    /// The form that a TLS stack takes.
    pub fn to_tls(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.signer.serialize_der()).into()
    }

    pub(crate) fn signer(&self) -> &KeyPair {
        &self.signer
    }

    fn from_pkcs8(der: &[u8]) -> Result<Self, KeyError> {
        let info = PrivateKeyInfoRef::try_from(der).map_err(|cause| KeyError::Malformed {
            tag: PKCS8_TAG,
            cause: cause.to_string(),
        })?;
        let inner = info.private_key.as_bytes();
        match info.algorithm.oid {
            RSA => Self::from_pkcs1(inner, PKCS8_TAG),
            EC_PUBLIC_KEY => {
                let curve = info.algorithm.parameters_oid().ok();
                let public = info.public_key.as_ref().and_then(BitStringRef::as_bytes);
                Self::from_sec1(inner, curve, public)
            }
            ED25519 => Self::from_signer(KeyKind::Ed25519, der, &rcgen::PKCS_ED25519, PKCS8_TAG),
            other => Err(KeyError::Unsupported(format!("algorithm {other}"))),
        }
    }

    /// An elliptic curve key. Its curve and public half may stand in the key
    /// itself or in the PKCS#8 around it.
    fn from_sec1(
        der: &[u8],
        outer_curve: Option<ObjectIdentifier>,
        outer_public: Option<&[u8]>,
    ) -> Result<Self, KeyError> {
        let malformed = |cause: &dyn fmt::Display| KeyError::Malformed {
            tag: SEC1_TAG,
            cause: cause.to_string(),
        };
        let mut key = EcPrivateKey::try_from(der).map_err(|cause| malformed(&cause))?;
        let inner_curve = key.parameters.and_then(EcParameters::named_curve);
        let (curve, kind, algorithm) = match outer_curve.or(inner_curve) {
            Some(P256) => (P256, KeyKind::EcdsaP256, &rcgen::PKCS_ECDSA_P256_SHA256),
            Some(P384) => (P384, KeyKind::EcdsaP384, &rcgen::PKCS_ECDSA_P384_SHA384),
            Some(other) => return Err(KeyError::Unsupported(format!("curve {other}"))),
            None => return Err(KeyError::Unsupported("unnamed curve".to_owned())),
        };
        key.public_key = key.public_key.or(outer_public);
        if key.public_key.is_none() {
            return Err(KeyError::WithoutPublicHalf);
        }
        // The signer wants the curve named once, around the key.
        key.parameters = None;
        let inner = SecretDocument::try_from(&key).map_err(|cause| malformed(&cause))?;
        let parameters = AnyRef::from(&curve);
        let pkcs8 = wrap(EC_PUBLIC_KEY, parameters, inner.as_bytes(), SEC1_TAG)?;
        Self::from_signer(kind, pkcs8.as_bytes(), algorithm, SEC1_TAG)
    }

    fn from_pkcs1(der: &[u8], tag: &'static str) -> Result<Self, KeyError> {
        let rejected = |cause: &dyn fmt::Display| KeyError::Malformed {
            tag,
            cause: cause.to_string(),
        };
        let bytes = RsaKeyPair::from_der(der)
            .map_err(|cause| rejected(&cause))?
            .public()
            .modulus_len();
        // The digest grows with the key, as upstream has it.
        let algorithm = match bytes * 8 {
            4096.. => &rcgen::PKCS_RSA_SHA512,
            3072.. => &rcgen::PKCS_RSA_SHA384,
            _ => &rcgen::PKCS_RSA_SHA256,
        };
        let pkcs8 = wrap(RSA, AnyRef::NULL, der, tag)?;
        Self::from_signer(KeyKind::Rsa, pkcs8.as_bytes(), algorithm, tag)
    }

    fn from_signer(
        kind: KeyKind,
        pkcs8: &[u8],
        algorithm: &'static SignatureAlgorithm,
        tag: &'static str,
    ) -> Result<Self, KeyError> {
        let signer =
            KeyPair::from_pkcs8_der_and_sign_algo(&pkcs8.into(), algorithm).map_err(|cause| {
                KeyError::Malformed {
                    tag,
                    cause: cause.to_string(),
                }
            })?;
        Ok(Self { kind, signer })
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PrivateKey")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// PEM as Go writes it: 64 columns, line feeds.
pub(crate) fn encode(tag: &str, der: &[u8]) -> String {
    let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_config(&pem::Pem::new(tag, der), config)
}

fn wrap(
    oid: ObjectIdentifier,
    parameters: AnyRef<'_>,
    inner: &[u8],
    tag: &'static str,
) -> Result<SecretDocument, KeyError> {
    let malformed = |cause: &dyn fmt::Display| KeyError::Malformed {
        tag,
        cause: cause.to_string(),
    };
    let algorithm = AlgorithmIdentifierRef {
        oid,
        parameters: Some(parameters),
    };
    let inner = OctetStringRef::new(inner).map_err(|cause| malformed(&cause))?;
    let info = PrivateKeyInfoRef::new(algorithm, inner);
    SecretDocument::try_from(info).map_err(|cause| malformed(&cause))
}

#[cfg(test)]
mod tests;
