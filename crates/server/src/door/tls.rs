//! Handshakes: what may be agreed on, and who has to prove what. A client that shows
//! a certificate proves that it has its key; whether that certificate counts is decided
//! for each request.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, ResolvesServerCert, ServerConfig};
use rustls::time_provider::TimeProvider;
use rustls::version::{TLS12, TLS13};
use rustls::{
    DigitallySignedStruct, DistinguishedName, NamedGroup, ProtocolVersion, SignatureScheme,
    SupportedCipherSuite,
};
use seams::SharedClock;
use thiserror::Error;
use tracing::warn;

use super::config::TlsConfig;

/// Why no handshake could succeed.
#[derive(Debug, Error)]
pub enum TlsSetupError {
    #[error(
        "tlsCipherSuites names no suite that can be offered ({0}), and TLS 1.2 would have none: \
         leave it empty, or name one with ECDHE and GCM or CHACHA20"
    )]
    NoSuites(String),
    #[error(
        "tlsCurvePreferences names no group that can be offered ({0}): leave it empty, or name \
         23, 24 or 29 (P-256, P-384, X25519)"
    )]
    NoGroups(String),
    #[error("TLS cannot be set up: {0}")]
    Refused(#[from] rustls::Error),
}

/// What all handshakes have in common; what differs is whom clients are asked for.
#[derive(Clone, Debug)]
pub(crate) struct Handshakes {
    provider: Arc<CryptoProvider>,
    only_newest: bool,
    clock: SharedClock,
    certificate: Arc<dyn ResolvesServerCert>,
}

impl Handshakes {
    pub(crate) fn new(
        config: &TlsConfig,
        provider: &CryptoProvider,
        clock: SharedClock,
        certificate: Arc<dyn ResolvesServerCert>,
    ) -> Result<Self, TlsSetupError> {
        Ok(Self {
            provider: Arc::new(offered(config, provider)?),
            only_newest: config.only_newest,
            clock,
            certificate,
        })
    }

    /// `trusted` says who is asked for; `None`: nobody is.
    pub(crate) fn with_clients(
        &self,
        trusted: Option<Arc<dyn ClientCertVerifier>>,
    ) -> Result<Arc<ServerConfig>, TlsSetupError> {
        let versions: &[_] = if self.only_newest {
            &[&TLS13]
        } else {
            &[&TLS13, &TLS12]
        };
        let time = Arc::new(ClockTime(Arc::clone(&self.clock)));
        let builder = ServerConfig::builder_with_details(Arc::clone(&self.provider), time)
            .with_protocol_versions(versions)?;
        let builder = match trusted {
            Some(trusted) => builder.with_client_cert_verifier(Arc::new(Possession(trusted))),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::clone(&self.certificate));
        // Clients keep their connections; remembered sessions would cost memory for
        // everybody who ever came, and outlive the certificate that they began with.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }
}

/// The provider, less what the configuration does not want.
fn offered(config: &TlsConfig, provider: &CryptoProvider) -> Result<CryptoProvider, TlsSetupError> {
    let mut offered = provider.clone();
    if !config.cipher_suites.is_empty() {
        let wanted = |name: &str| config.cipher_suites.iter().any(|wanted| *wanted == name);
        offered.cipher_suites.retain(|suite| {
            let newest = suite.version().version == ProtocolVersion::TLSv1_3;
            newest || go_names(*suite).iter().any(|name| wanted(name))
        });
        let has = |name: &str| {
            let suites = provider.cipher_suites.iter();
            suites
                .into_iter()
                .any(|suite| go_names(*suite).contains(&name))
        };
        let missing = config.cipher_suites.iter().filter(|name| !has(name));
        let missing: Vec<&str> = missing.map(String::as_str).collect();
        if !missing.is_empty() {
            warn!(
                suites = missing.join(", "),
                "these of tlsCipherSuites are not offered"
            );
        }
        let old = |suite: &SupportedCipherSuite| suite.tls13().is_none();
        if !config.only_newest && !offered.cipher_suites.iter().any(old) {
            return Err(TlsSetupError::NoSuites(config.cipher_suites.join(", ")));
        }
    }
    if !config.groups.is_empty() {
        let wanted = |group: NamedGroup| config.groups.contains(&u16::from(group));
        offered.kx_groups.retain(|group| wanted(group.name()));
        let has = |number: &u16| {
            let mut groups = provider.kx_groups.iter();
            groups.any(|group| u16::from(group.name()) == *number)
        };
        let missing = config.groups.iter().filter(|number| !has(number));
        let missing: Vec<String> = missing.map(u16::to_string).collect();
        if !missing.is_empty() {
            warn!(
                groups = missing.join(", "),
                "these of tlsCurvePreferences are not offered"
            );
        }
        if offered.kx_groups.is_empty() {
            return Err(TlsSetupError::NoGroups(missing.join(", ")));
        }
    }
    Ok(offered)
}

/// What configuration calls a suite, which is how Go calls it; older Go had other names for
/// some.
fn go_names(suite: SupportedCipherSuite) -> &'static [&'static str] {
    use rustls::CipherSuite as Suite;
    match suite.suite() {
        Suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => {
            &["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"]
        }
        Suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => {
            &["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"]
        }
        Suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => &["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"],
        Suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => &["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"],
        Suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => &[
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
        ],
        Suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => &[
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
        ],
        Suite::TLS13_AES_128_GCM_SHA256 => &["TLS_AES_128_GCM_SHA256"],
        Suite::TLS13_AES_256_GCM_SHA384 => &["TLS_AES_256_GCM_SHA384"],
        Suite::TLS13_CHACHA20_POLY1305_SHA256 => &["TLS_CHACHA20_POLY1305_SHA256"],
        _ => &[],
    }
}

/// Takes every certificate whose key the client has.
#[derive(Debug)]
struct Possession(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for Possession {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        // Trust is decided by each request; see `authenticate`.
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// The time that certificates are judged by.
#[derive(Debug)]
struct ClockTime(SharedClock);

impl TimeProvider for ClockTime {
    fn current_time(&self) -> Option<UnixTime> {
        unix_time(&self.0)
    }
}

pub(crate) fn unix_time(clock: &SharedClock) -> Option<UnixTime> {
    let since = clock.now().duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(UnixTime::since_unix_epoch(since))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(
        suites: &[&str],
        groups: &[u16],
        only_newest: bool,
    ) -> Result<[Vec<String>; 2], String> {
        let config = TlsConfig {
            only_newest,
            cipher_suites: suites.iter().map(|&suite| suite.to_owned()).collect(),
            groups: groups.to_vec(),
        };
        let provider = rustls::crypto::ring::default_provider();
        let offered = offered(&config, &provider).map_err(|error| error.to_string())?;
        let suites = offered.cipher_suites.iter();
        let suites = suites.filter(|suite| suite.tls13().is_none());
        let groups = offered.kx_groups.iter();
        Ok([
            suites.map(|suite| go_names(*suite)[0].to_owned()).collect(),
            groups
                .map(|group| u16::from(group.name()).to_string())
                .collect(),
        ])
    }

    #[test]
    fn what_is_configured_is_offered_as_far_as_it_is_safe() {
        let everything = made(&[], &[], false).unwrap();
        assert_eq!(everything.each_ref().map(Vec::len), [6, 3]);
        let one = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";
        let old_name = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305";
        let weak = "TLS_RSA_WITH_AES_128_CBC_SHA";
        let two = made(&[one, old_name, weak], &[29, 25], false).unwrap();
        let whole_name = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256";
        assert_eq!(two[0], [whole_name, one]);
        assert_eq!(two[1], ["29"]);
        assert!(made(&[weak], &[], false).is_err_and(|words| words.contains(weak)));
        assert!(made(&[weak], &[], true).is_ok());
        assert!(made(&[], &[25], false).is_err_and(|words| words.contains("25")));
    }
}
