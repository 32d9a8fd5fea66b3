//! Whose client certificates count: the CA file, followed as it changes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use seams::{SharedClock, SharedHost, host::HostError};
use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// The longest that a change goes unseen when no hint tells of it.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Whoever writes a file does it in more than one step.
const SETTLE: Duration = Duration::from_millis(100);

/// Why nobody can be known by a certificate.
#[derive(Debug, Error)]
pub enum TrustError {
    #[error("clientCAFile: {0}; see that the node can read it")]
    Read(HostError),
    #[error("clientCAFile {0} is not there: put the cluster's CA there, or change the setting")]
    Missing(PathBuf),
    #[error("clientCAFile {path}: {cause}; certificates in PEM form are expected")]
    Unusable { path: PathBuf, cause: String },
}

/// Who says whether a certificate counts. Clones see the same.
pub(crate) type Trusted = watch::Receiver<Arc<dyn ClientCertVerifier>>;

/// The file, and what was last made of it.
#[derive(Debug)]
pub(crate) struct FollowedTrust {
    path: PathBuf,
    host: SharedHost,
    clock: SharedClock,
    provider: Arc<CryptoProvider>,
    published: watch::Sender<Arc<dyn ClientCertVerifier>>,
    in_use: [u8; 32],
    /// What the last look found wrong, so that it is said once.
    problem: Option<String>,
}

impl FollowedTrust {
    /// A node that is told of a CA and cannot read it does not start, as upstream.
    pub(crate) fn read(
        path: PathBuf,
        host: SharedHost,
        clock: SharedClock,
        provider: Arc<CryptoProvider>,
    ) -> Result<(Self, Trusted), TrustError> {
        let content = content(&*host, &path)?;
        let (published, trusted) = watch::channel(verifier(&path, &content, &provider)?);
        let followed = Self {
            in_use: Sha256::digest(&content).into(),
            path,
            host,
            clock,
            provider,
            published,
            problem: None,
        };
        Ok((followed, trusted))
    }

    /// Looks at each hint, and each minute. What cannot be used leaves the old in place.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        loop {
            let hint = self.host.hint(&self.path);
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = hint => self.clock.sleep(SETTLE).await,
                () = self.clock.sleep(LOOK_EVERY) => {}
            }
            self.look();
        }
    }

    fn look(&mut self) {
        let looked = content(&*self.host, &self.path).and_then(|content| {
            let digest = Sha256::digest(&content).into();
            if digest == self.in_use {
                return Ok(());
            }
            let verifier = verifier(&self.path, &content, &self.provider)?;
            self.in_use = digest;
            self.published.send_replace(verifier);
            info!(file = %self.path.display(), "the CA of clients has changed and is in use");
            Ok(())
        });
        let problem = looked.err().map(|error| error.to_string());
        if let Some(problem) = problem.as_ref().filter(|_| self.problem != problem) {
            warn!(
                err = problem,
                "the CA of clients cannot be read anew, the old one stays in use"
            );
        }
        self.problem = problem;
    }
}

fn content(host: &dyn seams::Host, path: &Path) -> Result<Vec<u8>, TrustError> {
    let content = host.read(path).map_err(TrustError::Read)?;
    content.ok_or_else(|| TrustError::Missing(path.to_owned()))
}

fn verifier(
    path: &Path,
    content: &[u8],
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TrustError> {
    let unusable = |cause: String| TrustError::Unusable {
        path: path.to_owned(),
        cause,
    };
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(content).collect();
    let certificates = certificates.map_err(|cause| unusable(cause.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        let added = roots.add(certificate);
        added.map_err(|cause| unusable(cause.to_string()))?;
    }
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    verifier
        .build()
        .map_err(|cause| unusable(cause.to_string()))
}
