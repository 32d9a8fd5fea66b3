//! Pairs in the hands of the TLS stack: which certificate a handshake shows is
//! decided when it happens, so that a new pair needs no new listener.

use std::fmt;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use thiserror::Error;
use tokio::sync::watch;

use crate::pair::Pair;

/// A pair that the TLS stack refuses.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "the key of the certificate of \"{common_name}\" cannot be used for TLS ({cause}); ECDSA P-256 or P-384, Ed25519, or RSA from 2048 bits is expected"
)]
pub struct TlsError {
    pub common_name: String,
    pub cause: String,
}

/// The pair in the form that handshakes take.
pub fn certified(pair: &Pair, provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, TlsError> {
    let key = provider
        .key_provider
        .load_private_key(pair.key().to_tls())
        .map_err(|cause| TlsError {
            common_name: pair.leaf().common_name.clone(),
            cause: cause.to_string(),
        })?;
    Ok(Arc::new(CertifiedKey::new(pair.chain().to_vec(), key)))
}

/// The certificate of the node's own port: whatever is published when a client
/// says hello. While there is none, every handshake fails, resumed ones too, as
/// with upstream before approval.
///
/// Nothing here looks at dates: upstream shows files of an operator even past
/// their end, and an issued certificate only up to it. Whoever publishes knows
/// which of the two it has, and sends `None` when an issued one expires.
pub struct ServingResolver {
    published: watch::Receiver<Option<Arc<CertifiedKey>>>,
}

impl ServingResolver {
    pub fn new(published: watch::Receiver<Option<Arc<CertifiedKey>>>) -> Self {
        Self { published }
    }
}

impl ResolvesServerCert for ServingResolver {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.published.borrow().clone()
    }
}

// Whether there is one, and no more: it holds a key.
impl fmt::Debug for ServingResolver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ServingResolver")
            .field("has_certificate", &self.published.borrow().is_some())
            .finish()
    }
}
