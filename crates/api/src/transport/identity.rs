//! Who we are: the certificate in handshakes, and the `Authorization` header.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use jiff::Timestamp;
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::crypto::CryptoProvider;
use rustls::sign::CertifiedKey;
use seams::SharedClock;

use super::Options;
use crate::Secret;
use crate::kubeconfig::{
    self, Authorization, CertificateSource, ExecAuthenticator, ExecCredential, ExecError,
    ExecProblem, TlsError, TokenError, TokenFileReader,
};
use crate::metrics::ClientMetrics;

/// Why a request cannot be signed with what we have.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Plugin(#[from] ExecError),
    #[error(
        "the token or password holds characters that a header cannot carry; look for stray line breaks in it"
    )]
    NotAHeader,
}

/// The certificate of the moment: what the next handshake shows.
#[derive(Debug, Default)]
pub(super) struct ShownCertificate(RwLock<Option<Arc<CertifiedKey>>>);

impl ShownCertificate {
    /// True if this is another certificate than before.
    pub(super) fn show(&self, certificate: Option<Arc<CertifiedKey>>) -> bool {
        let mut shown = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let same = match (&*shown, &certificate) {
            (None, None) => true,
            (Some(old), Some(new)) => Arc::ptr_eq(old, new) || old.cert == new.cert,
            _ => false,
        };
        *shown = certificate;
        !same
    }

    fn current(&self) -> Option<Arc<CertifiedKey>> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl ResolvesClientCert for ShownCertificate {
    fn resolve(
        &self,
        _root_hint_subjects: &[&[u8]],
        _schemes: &[SignatureScheme],
    ) -> Option<Arc<CertifiedKey>> {
        self.current()
    }

    fn has_certs(&self) -> bool {
        self.current().is_some()
    }
}

/// What proves us to the server.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) shown: Arc<ShownCertificate>,
    /// The pair to look at again.
    files: Option<CertificateFiles>,
    authorization: Authorizer,
    clock: SharedClock,
}

#[derive(Debug)]
struct CertificateFiles {
    source: CertificateSource,
    provider: Arc<CryptoProvider>,
    // Whether the operator has been told that the files cannot be used. Held while they are read.
    complained: Mutex<bool>,
}

#[derive(Debug)]
enum Authorizer {
    Nothing,
    Fixed(HeaderValue),
    TokenFile(TokenFileReader),
    Plugin(Box<PluginCalls>),
}

/// The header of a request, and the plugin's answer that it comes from.
#[derive(Debug)]
pub(super) struct Signature {
    pub(super) header: Option<HeaderValue>,
    pub(super) credential: Option<Arc<ExecCredential>>,
}

impl Identity {
    /// Nobody but what `shown` will hold.
    pub(super) fn managed(clock: SharedClock) -> Self {
        Self {
            shown: Arc::default(),
            files: None,
            authorization: Authorizer::Nothing,
            clock,
        }
    }

    pub(super) fn configured(
        identity: &kubeconfig::Identity,
        options: &Options,
    ) -> Result<Self, IdentityError> {
        let mut this = Self::managed(Arc::clone(&options.clock));
        match identity {
            kubeconfig::Identity::Exec(plugin) => {
                let authenticator = ExecAuthenticator::new(
                    (**plugin).clone(),
                    options.surroundings.clone(),
                    Arc::clone(&options.provider),
                );
                this.authorization = Authorizer::Plugin(Box::new(PluginCalls::new(
                    authenticator,
                    options.metrics.clone(),
                )));
            }
            kubeconfig::Identity::Given(given) => {
                if let Some(source) = &given.certificate {
                    let certificate = source.load(&options.provider)?;
                    this.shown.show(Some(certificate.certified));
                    this.files = source.is_reloadable().then(|| CertificateFiles {
                        source: source.clone(),
                        provider: Arc::clone(&options.provider),
                        complained: Mutex::new(false),
                    });
                }
                this.authorization = Authorizer::given(given.authorization.as_ref())?;
            }
        }
        Ok(this)
    }

    /// There are files that may change.
    pub(super) fn is_reloadable(&self) -> bool {
        self.files.is_some()
    }

    /// Looks at the certificate's files again; true if there is another one now.
    pub(super) fn reload(&self) -> bool {
        let Some(files) = &self.files else {
            return false;
        };
        let mut complained = files
            .complained
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match files.source.load(&files.provider) {
            Ok(certificate) => {
                *complained = false;
                let changed = self.shown.show(Some(certificate.certified));
                if changed {
                    tracing::info!(file = %files.source.certificate, expires = %certificate.first_expiry, "took up the new client certificate");
                }
                changed
            }
            Err(error) => {
                // The halves of a pair are seldom written at the same moment; the next look
                // finds them whole. Nothing is lost meanwhile.
                if !*complained {
                    tracing::warn!(%error, "the client certificate cannot be read again; the old one stays in use");
                }
                *complained = true;
                false
            }
        }
    }

    pub(super) async fn sign(&self) -> Result<Signature, CredentialError> {
        let header = match &self.authorization {
            Authorizer::Nothing => None,
            Authorizer::Fixed(header) => Some(header.clone()),
            Authorizer::TokenFile(reader) => Some(bearer(&reader.token(self.now())?)?),
            Authorizer::Plugin(calls) => {
                let credential = calls.credential(self.now()).await?;
                let header = credential.token.as_ref().map(bearer).transpose()?;
                return Ok(Signature {
                    header,
                    credential: Some(credential),
                });
            }
        };
        Ok(Signature {
            header,
            credential: None,
        })
    }

    /// The server said 401 to this signature: the next one shall be another.
    pub(super) async fn rejected(&self, signature: &Signature) {
        if let (Authorizer::Plugin(calls), Some(credential)) =
            (&self.authorization, &signature.credential)
            && let Err(error) = calls.replace(credential).await
        {
            tracing::warn!(%error, "the API server refused the plugin's credential, and the plugin gave no other");
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::try_from(self.clock.now()).unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

/// Why the kubeconfig's identity cannot be taken up.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("the client certificate cannot be used: {0}")]
    Certificate(#[from] TlsError),
    #[error(transparent)]
    Credential(#[from] CredentialError),
}

impl Authorizer {
    fn given(authorization: Option<&Authorization>) -> Result<Self, CredentialError> {
        Ok(match authorization {
            None => Self::Nothing,
            Some(Authorization::Token(token)) => Self::Fixed(bearer(token)?),
            Some(Authorization::TokenFile { path, fallback }) => {
                Self::TokenFile(TokenFileReader::new(path.clone(), fallback.clone()))
            }
            Some(Authorization::Basic { username, password }) => {
                Self::Fixed(basic(username, password)?)
            }
        })
    }
}

/// A plugin, and the count of its runs.
#[derive(Debug)]
struct PluginCalls {
    authenticator: ExecAuthenticator,
    metrics: ClientMetrics,
    // Whose answer was seen last, to tell a run from a kept answer. Held for a comparison.
    seen: Mutex<Option<Arc<ExecCredential>>>,
}

impl PluginCalls {
    fn new(authenticator: ExecAuthenticator, metrics: ClientMetrics) -> Self {
        Self {
            authenticator,
            metrics,
            seen: Mutex::new(None),
        }
    }

    async fn credential(&self, now: Timestamp) -> Result<Arc<ExecCredential>, ExecError> {
        self.counted(self.authenticator.credential(now).await)
    }

    async fn replace(&self, rejected: &Arc<ExecCredential>) -> Result<(), ExecError> {
        self.counted(self.authenticator.replace(rejected).await)?;
        Ok(())
    }

    fn counted(
        &self,
        outcome: Result<Arc<ExecCredential>, ExecError>,
    ) -> Result<Arc<ExecCredential>, ExecError> {
        match &outcome {
            Ok(credential) => {
                let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                let known = seen
                    .as_ref()
                    .is_some_and(|old| Arc::ptr_eq(old, credential));
                if !known {
                    self.metrics.plugin_called(0, "no_error");
                    *seen = Some(Arc::clone(credential));
                }
            }
            Err(error) => {
                let (code, status) = match &error.problem {
                    ExecProblem::Failed { status, .. } => {
                        (status.code().unwrap_or(-1), "plugin_execution_error")
                    }
                    ExecProblem::NotFound { .. } => (1, "plugin_not_found_error"),
                    _ => (1, "client_internal_error"),
                };
                self.metrics.plugin_called(code, status);
            }
        }
        outcome
    }
}

fn bearer(token: &Secret<String>) -> Result<HeaderValue, CredentialError> {
    hidden(&format!("Bearer {}", token.expose()))
}

/// Also what a proxy wants to see.
pub(super) fn basic(user: &str, password: &Secret<String>) -> Result<HeaderValue, CredentialError> {
    let pair = STANDARD.encode(format!("{user}:{}", password.expose()));
    hidden(&format!("Basic {pair}"))
}

fn hidden(text: &str) -> Result<HeaderValue, CredentialError> {
    let mut header = HeaderValue::from_str(text).map_err(|_| CredentialError::NotAHeader)?;
    header.set_sensitive(true);
    Ok(header)
}
