//! Whose client certificates count: the CA file, followed as it changes. Of the authorities
//! in it those count whose time it is, as with upstream.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme,
};
use seams::{SharedClock, SharedHost, host::HostError};
use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use x509_parser::prelude::{FromDer as _, X509Certificate};

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

/// What a verifier was made of: the content of the file, and which of its authorities count.
#[derive(Debug, PartialEq, Eq)]
struct InUse {
    digest: [u8; 32],
    count: Vec<bool>,
}

/// The file, and what was last made of it.
#[derive(Debug)]
pub(crate) struct FollowedTrust {
    path: PathBuf,
    host: SharedHost,
    clock: SharedClock,
    provider: Arc<CryptoProvider>,
    published: watch::Sender<Arc<dyn ClientCertVerifier>>,
    in_use: InUse,
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
        let authorities = Authorities::of(&path, &content, clock.now())?;
        authorities.warn(&path);
        let (published, trusted) = watch::channel(authorities.verifier(&path, &provider)?);
        let followed = Self {
            in_use: authorities.in_use,
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
            let authorities = Authorities::of(&self.path, &content, self.clock.now())?;
            if authorities.in_use == self.in_use {
                return Ok(());
            }
            let verifier = authorities.verifier(&self.path, &self.provider)?;
            authorities.warn(&self.path);
            self.in_use = authorities.in_use;
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

/// What is in the file.
struct Authorities {
    certificates: Vec<CertificateDer<'static>>,
    in_use: InUse,
}

impl Authorities {
    fn of(path: &Path, content: &[u8], now: SystemTime) -> Result<Self, TrustError> {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(content).collect();
        let certificates = certificates.map_err(|cause| unusable(path, &cause))?;
        let count = certificates.iter().map(|one| counts(one, now)).collect();
        Ok(Self {
            in_use: InUse {
                digest: Sha256::digest(content).into(),
                count,
            },
            certificates,
        })
    }

    fn verifier(
        &self,
        path: &Path,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ClientCertVerifier>, TrustError> {
        let mut roots = RootCertStore::empty();
        for (certificate, counts) in self.certificates.iter().zip(&self.in_use.count) {
            let mut one = RootCertStore::empty();
            // A file with something else in it is refused, whoever counts.
            let added = one.add(certificate.clone());
            added.map_err(|cause| unusable(path, &cause))?;
            if *counts {
                roots.roots.append(&mut one.roots);
            }
        }
        if roots.is_empty() && !self.certificates.is_empty() {
            return Ok(Arc::new(Nobody(Arc::clone(provider))));
        }
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        let verifier = verifier.build().map_err(|cause| unusable(path, &cause))?;
        Ok(verifier)
    }

    fn warn(&self, path: &Path) {
        let out = self.in_use.count.iter().filter(|counts| !**counts).count();
        if out > 0 {
            warn!(
                file = %path.display(),
                "{out} of {} authorities of clients have expired or are not valid yet: nobody \
                 whom they vouch for is known; put valid ones into clientCAFile",
                self.certificates.len()
            );
        }
    }
}

fn unusable(path: &Path, cause: &dyn std::fmt::Display) -> TrustError {
    TrustError::Unusable {
        path: path.to_owned(),
        cause: cause.to_string(),
    }
}

/// Whether it is the time of an authority. What does not say is judged by what comes next.
fn counts(certificate: &CertificateDer<'_>, now: SystemTime) -> bool {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
        return true;
    };
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let validity = parsed.validity();
    (validity.not_before.timestamp()..=validity.not_after.timestamp()).contains(&now)
}

/// No authority counts: who shows a certificate is as unknown as who shows none.
#[derive(Debug)]
struct Nobody(Arc<CryptoProvider>);

impl ClientCertVerifier for Nobody {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Err(CertificateError::UnknownIssuer.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
        date_time_ymd,
    };
    use testkit::clock::TokioClock;
    use testkit::host::LinuxHost;

    use super::*;

    /// Somebody who signs certificates from the beginning of one year to that of another.
    struct Authority {
        issuer: Issuer<'static, KeyPair>,
        pem: String,
    }

    impl Authority {
        fn of(from: i32, until: i32) -> Self {
            let mut params = CertificateParams::default();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.not_before = date_time_ymd(from, 1, 1);
            params.not_after = date_time_ymd(until, 1, 1);
            let key = KeyPair::generate().unwrap();
            let pem = params.self_signed(&key).unwrap().pem();
            let issuer = Issuer::new(params, key);
            Self { issuer, pem }
        }

        fn client(&self) -> CertificateDer<'static> {
            let mut params = CertificateParams::default();
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            let key = KeyPair::generate().unwrap();
            let certificate = params.signed_by(&key, &self.issuer).unwrap();
            certificate.der().clone()
        }
    }

    /// The middle of a year.
    fn of_year(year: u64) -> Duration {
        Duration::from_secs((year - 1970) * 31_556_952 + 15_778_476)
    }

    struct Scene {
        root: tempfile::TempDir,
        clock: SharedClock,
        followed: FollowedTrust,
        trusted: Trusted,
    }

    impl Scene {
        fn with(authorities: &[&Authority]) -> Self {
            let root = tempfile::tempdir().unwrap();
            write(&root, authorities);
            let host = Arc::new(LinuxHost::new(root.path().to_owned()));
            let clock: SharedClock = Arc::new(TokioClock::starting_at(UNIX_EPOCH + of_year(2026)));
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let (followed, trusted) =
                FollowedTrust::read("/ca.crt".into(), host, clock.clone(), provider).unwrap();
            Self {
                root,
                clock,
                followed,
                trusted,
            }
        }

        fn knows(&self, authority: &Authority) -> bool {
            let now = self.clock.now().duration_since(UNIX_EPOCH).unwrap();
            let now = UnixTime::since_unix_epoch(now);
            let verifier = Arc::clone(&self.trusted.borrow());
            let judged = verifier.verify_client_cert(&authority.client(), &[], now);
            judged.is_ok()
        }
    }

    fn write(root: &tempfile::TempDir, authorities: &[&Authority]) {
        let content: String = authorities.iter().map(|one| one.pem.as_str()).collect();
        std::fs::write(root.path().join("ca.crt"), content).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_authority_counts_in_its_time() {
        let [old, present, coming] = [(2015, 2020), (2020, 2030), (2028, 2040)]
            .map(|(from, until)| Authority::of(from, until));
        let mut scene = Scene::with(&[&old, &present, &coming]);
        let known = |scene: &Scene| [&old, &present, &coming].map(|one| scene.knows(one));
        assert_eq!(known(&scene), [false, true, false]);
        for (years, wanted) in [(3, [false, true, true]), (3, [false, false, true])] {
            tokio::time::advance(Duration::from_secs(years * 31_556_952)).await;
            scene.followed.look();
            assert_eq!(known(&scene), wanted);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_whose_only_authority_has_expired_starts_and_knows_nobody_until_there_is_another()
     {
        let [old, present] =
            [(2015, 2020), (2020, 2030)].map(|(from, until)| Authority::of(from, until));
        let mut scene = Scene::with(&[&old]);
        assert!(!scene.knows(&old) && !scene.knows(&present));
        write(&scene.root, &[&present]);
        scene.followed.look();
        assert!(!scene.knows(&old) && scene.knows(&present));
    }
}
