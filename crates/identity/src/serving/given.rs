//! The pair that an operator gave, followed as its files change.
//!
//! Whoever renews such files does it in their own way: writing over them one
//! after the other, renaming new ones over them, or turning a symlink (as volumes
//! of secrets do). So an event in their directories only says "look again", a
//! look a minute backs it, and what counts is the content: two files that fit
//! each other and differ from those in use are taken up, anything else waits.

mod hints;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::CryptoProvider;
use rustls::sign::CertifiedKey;
use seams::SharedClock;
use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::hints::Hints;
use crate::files::{self, FileError};
use crate::pair::{Pair, PairError};
use crate::tls::{self, TlsError};

/// The longest that a change goes unseen when no event tells of it.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// One renewal is a burst of events; this is how long a burst may take before it
/// costs a second look.
const SETTLE: Duration = Duration::from_millis(100);

/// Why the given pair cannot be served.
#[derive(Debug, Error)]
pub enum GivenError {
    #[error("the serving certificate (tlsCertFile) or its key (tlsPrivateKeyFile): {0}")]
    Read(#[from] FileError),
    #[error("tlsCertFile {} and tlsPrivateKeyFile {}: {cause}", files.certificate.display(), files.key.display())]
    NoPair { files: GivenFiles, cause: PairError },
    #[error("tlsCertFile {} and tlsPrivateKeyFile {}: {cause}", files.certificate.display(), files.key.display())]
    Refused { files: GivenFiles, cause: TlsError },
}

/// `tlsCertFile` and `tlsPrivateKeyFile`, absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl GivenFiles {
    /// Reads the pair and publishes it. A node that was given files it cannot
    /// serve does not start.
    pub fn serve(
        self,
        provider: Arc<CryptoProvider>,
        published: watch::Sender<Option<Arc<CertifiedKey>>>,
    ) -> Result<FollowedFiles, GivenError> {
        let content = self.read()?;
        published.send_replace(Some(self.certified(&content, &provider)?));
        Ok(FollowedFiles {
            in_use: content.digest(),
            files: self,
            provider,
            published,
            problem: None,
        })
    }

    fn read(&self) -> Result<Content, FileError> {
        Ok(Content {
            certificate: files::read(&self.certificate)?,
            key: files::read(&self.key)?,
        })
    }

    fn certified(
        &self,
        content: &Content,
        provider: &CryptoProvider,
    ) -> Result<Arc<CertifiedKey>, GivenError> {
        let pair = Pair::from_pem(&content.certificate, &content.key);
        let pair = pair.map_err(|cause| GivenError::NoPair {
            files: self.clone(),
            cause,
        })?;
        tls::certified(&pair, provider).map_err(|cause| GivenError::Refused {
            files: self.clone(),
            cause,
        })
    }
}

/// Both files as read, whether they fit each other or not.
struct Content {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Content {
    /// What is kept in memory to compare with, rather than one more copy of a key.
    fn digest(&self) -> [u8; 32] {
        let halves = [&self.certificate, &self.key].map(Sha256::digest);
        Sha256::digest(halves.concat()).into()
    }
}

/// A given pair that is being served.
#[derive(Debug)]
pub struct FollowedFiles {
    files: GivenFiles,
    provider: Arc<CryptoProvider>,
    published: watch::Sender<Option<Arc<CertifiedKey>>>,
    in_use: [u8; 32],
    /// What the last look found wrong, so that it is said once.
    problem: Option<String>,
}

impl FollowedFiles {
    /// Takes up what the files become, until the shutdown. Where reloading is
    /// off (`ReloadKubeletServerCertificateFile`) the first pair stays.
    pub async fn run(mut self, clock: SharedClock, reload: bool, shutdown: CancellationToken) {
        if reload {
            shutdown.run_until_cancelled(self.follow(clock)).await;
        }
    }

    async fn follow(&mut self, clock: SharedClock) {
        let mut without_events = false;
        loop {
            // Anew for each look, as directories come and go; and before it, so
            // that no change falls between.
            let mut hints = Hints::of([&self.files.certificate, &self.files.key]);
            if let Err(cause) = &hints
                && !without_events
            {
                warn!(%cause, "no events of certificate files can be had; changes are seen within a minute");
            }
            without_events = hints.is_err();
            self.look().log(&self.files);
            let tick = clock.sleep(LOOK_EVERY);
            match &mut hints {
                Err(_) => tick.await,
                Ok(hints) => tokio::select! {
                    () = tick => {}
                    () = hints.next() => clock.sleep(SETTLE).await,
                },
            }
        }
    }

    fn look(&mut self) -> Look {
        match self.changed() {
            Ok(None) => {
                self.problem = None;
                Look::Nothing
            }
            Ok(Some(fresh)) => {
                self.in_use = fresh.digest;
                self.problem = None;
                self.published.send_replace(Some(fresh.certified));
                Look::TakenUp
            }
            Err(error) => {
                let problem = error.to_string();
                if self.problem.as_ref() == Some(&problem) {
                    return Look::Nothing;
                }
                self.problem = Some(problem.clone());
                Look::Wrong(problem)
            }
        }
    }

    /// The pair in the files, if it is not the one in use.
    fn changed(&self) -> Result<Option<Fresh>, GivenError> {
        let content = self.files.read()?;
        let digest = content.digest();
        if digest == self.in_use {
            return Ok(None);
        }
        let certified = self.files.certified(&content, &self.provider)?;
        Ok(Some(Fresh { digest, certified }))
    }
}

/// A pair that is not in use yet.
struct Fresh {
    digest: [u8; 32],
    certified: Arc<CertifiedKey>,
}

/// What a look found that it had not found before.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    Nothing,
    TakenUp,
    Wrong(String),
}

impl Look {
    fn log(&self, files: &GivenFiles) {
        match self {
            Self::Nothing => {}
            Self::TakenUp => info!(
                file = %files.certificate.display(),
                "serving certificate taken up from its changed files"
            ),
            Self::Wrong(problem) => warn!(
                err = %problem,
                "changed serving certificate files are left alone until they fit each other; the earlier pair stays in use"
            ),
        }
    }
}

#[cfg(test)]
mod tests;
