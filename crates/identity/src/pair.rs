//! A certificate chain with the private key of its first certificate.

use rustls_pki_types::CertificateDer;
use thiserror::Error;

use crate::certificate::{self, CertificateError, Leaf};
use crate::keys::{self, KeyError, PrivateKey};

/// Why a certificate and a key are no pair.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PairError {
    #[error("the certificate is unusable: {0}")]
    Certificate(#[from] CertificateError),
    #[error("the private key is unusable: {0}")]
    Key(#[from] KeyError),
    #[error(
        "the private key does not belong to the certificate of \"{common_name}\"; put the key and the certificate of one request together"
    )]
    Mismatch { common_name: String },
}

/// A certificate chain and its key, known to belong together.
#[derive(Debug)]
pub struct Pair {
    chain: Vec<CertificateDer<'static>>,
    leaf: Leaf,
    key: PrivateKey,
}

impl Pair {
    /// Reads both halves; one text that holds both may be given twice.
    pub fn from_pem(certificate_pem: &[u8], key_pem: &[u8]) -> Result<Self, PairError> {
        let chain = certificate::read_chain(certificate_pem)?;
        Self::new(chain, PrivateKey::from_pem(key_pem)?)
    }

    /// A freshly issued certificate joined with the key it was asked for with.
    pub fn issued(certificate_pem: &[u8], key: PrivateKey) -> Result<Self, PairError> {
        Self::new(certificate::read_chain(certificate_pem)?, key)
    }

    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    pub fn leaf(&self) -> &Leaf {
        &self.leaf
    }

    pub fn key(&self) -> &PrivateKey {
        &self.key
    }

    pub fn into_key(self) -> PrivateKey {
        self.key
    }

    pub fn certificate_pem(&self) -> String {
        let blocks = self.chain.iter();
        blocks
            .map(|der| keys::encode(certificate::TAG, der))
            .collect()
    }

    /// Leaf, intermediates, key: the content of a store file.
    pub(crate) fn to_combined_pem(&self) -> Result<String, KeyError> {
        Ok(self.certificate_pem() + &self.key.to_pem()?)
    }

    fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKey) -> Result<Self, PairError> {
        // Intermediates are sent along unread, as upstream does.
        let first = chain.first().ok_or(CertificateError::Missing)?;
        let leaf = Leaf::from_der(first)
            .map_err(|cause| CertificateError::Malformed { index: 1, cause })?;
        if !key.matches(&leaf.public_der) {
            return Err(PairError::Mismatch {
                common_name: leaf.common_name,
            });
        }
        Ok(Self { chain, leaf, key })
    }
}
