//! Whom we believe to be the API server. The CA bundle can be swapped while connections stand.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::kubeconfig::{Authority, TlsError, Trust};

/// Why there is nobody to trust.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error("the CA bundle cannot be used: {0}")]
    Authority(#[from] TlsError),
    #[error(
        "the kubeconfig has no certificate-authority, and this machine has no CA certificates; add one of them"
    )]
    NoSystemAuthorities,
    #[error("the CA bundle cannot be used: {0}")]
    Unusable(String),
}

/// The judge of the server's certificate, and how to bring it up to date.
#[derive(Debug)]
pub(super) struct ServerTrust {
    judge: Arc<Judge>,
    provider: Arc<CryptoProvider>,
    bundle: Option<Bundle>,
}

/// A CA bundle that lies in a file.
#[derive(Debug)]
struct Bundle {
    authority: Authority,
    // Held while a small local file is read.
    reading: Mutex<Reading>,
}

#[derive(Debug)]
struct Reading {
    certificates: Vec<CertificateDer<'static>>,
    /// The operator has been told that the file cannot be used; once is enough.
    complained: bool,
}

impl ServerTrust {
    pub(super) fn new(trust: &Trust, provider: &Arc<CryptoProvider>) -> Result<Self, TrustError> {
        let mut bundle = None;
        let verifier: Arc<dyn ServerCertVerifier> = match trust {
            Trust::Unverified => Arc::new(Unverified(Arc::clone(provider))),
            Trust::System => {
                let found = rustls_native_certs::load_native_certs();
                verifier(&found.certs, provider).map_err(|_| TrustError::NoSystemAuthorities)?
            }
            Trust::Authority(authority) => {
                let certificates = authority.load()?;
                let verifier = verifier(&certificates, provider)?;
                bundle = authority.0.is_file().then(|| Bundle {
                    authority: authority.clone(),
                    reading: Mutex::new(Reading {
                        certificates,
                        complained: false,
                    }),
                });
                verifier
            }
        };
        Ok(Self {
            judge: Arc::new(Judge(RwLock::new(verifier))),
            provider: Arc::clone(provider),
            bundle,
        })
    }

    pub(super) fn verifier(&self) -> Arc<dyn ServerCertVerifier> {
        Arc::clone(&self.judge) as _
    }

    /// There is a file that may change.
    pub(super) fn is_reloadable(&self) -> bool {
        self.bundle.is_some()
    }

    /// Looks at the file again; true if it holds other certificates now. One that cannot be used
    /// leaves the bundle as it was.
    pub(super) fn reload(&self) -> bool {
        let Some(bundle) = &self.bundle else {
            return false;
        };
        let mut reading = bundle
            .reading
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let loaded = bundle.authority.load().map_err(TrustError::from);
        let loaded = loaded.and_then(|certificates| {
            let same = certificates == reading.certificates;
            let fresh = (!same).then(|| verifier(&certificates, &self.provider));
            Ok((certificates, fresh.transpose()?))
        });
        match loaded {
            Ok((certificates, Some(verifier))) => {
                tracing::info!(file = %bundle.authority.0, certificates = certificates.len(), "took up the new CA bundle of the API server");
                *reading = Reading {
                    certificates,
                    complained: false,
                };
                self.judge.replace(verifier);
                true
            }
            Ok((_, None)) => {
                reading.complained = false;
                false
            }
            Err(error) => {
                if !reading.complained {
                    tracing::warn!(file = %bundle.authority.0, %error, "the CA bundle of the API server cannot be read again; the old one stays in use");
                }
                reading.complained = true;
                false
            }
        }
    }
}

fn verifier(
    certificates: &[CertificateDer<'static>],
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, TrustError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates.iter().cloned());
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
            .build()
            .map_err(|error| TrustError::Unusable(error.to_string()))?;
    Ok(verifier)
}

/// Passes every question on to the verifier of the day.
#[derive(Debug)]
struct Judge(RwLock<Arc<dyn ServerCertVerifier>>);

impl Judge {
    fn current(&self) -> Arc<dyn ServerCertVerifier> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn replace(&self, verifier: Arc<dyn ServerCertVerifier>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = verifier;
    }
}

impl ServerCertVerifier for Judge {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.current().verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        )
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.current()
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.current()
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.current().supported_verify_schemes()
    }
}

/// `insecure-skip-tls-verify`: any certificate will do, but the server must hold its key.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
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
