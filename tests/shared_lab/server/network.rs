//! Connections from inside a lab machine's network, made by the test itself.

use std::fs::File;
use std::net::TcpStream;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result, anyhow};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use rustls::client::ResolvesClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned,
};
use testkit::lab::Machine;

/// Runs `work` on a thread whose network is the machine's.
pub(crate) fn inside<T: Send>(
    machine: &Machine,
    work: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    let path = format!("/proc/{}/ns/net", machine.init().as_raw_nonzero());
    let network = File::open(&path).with_context(|| path.clone())?;
    thread::scope(|scope| {
        let working = scope.spawn(|| {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(network.as_fd(), kind)?;
            work()
        });
        working.join().map_err(|_| anyhow!("it panicked"))?
    })
}

/// What a client shows, whether it has the key to it or not.
#[derive(Debug)]
struct Shown(Arc<CertifiedKey>);

impl Shown {
    fn new(certificates: &str, key: &str) -> Result<Self> {
        let chain: Result<Vec<_>, _> =
            CertificateDer::pem_slice_iter(certificates.as_bytes()).collect();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
        let key = ring::default_provider()
            .key_provider
            .load_private_key(key)?;
        Ok(Self(Arc::new(CertifiedKey::new(chain?, key))))
    }
}

impl ResolvesClientCert for Shown {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// The node shows whatever it likes: it is the client that is judged here.
#[derive(Debug)]
struct Whoever;

impl ServerCertVerifier for Whoever {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// What a client that shows this does in handshakes.
pub(crate) fn client(shown: Option<(&str, &str)>) -> Result<Arc<ClientConfig>> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Whoever));
    let config = match shown {
        Some((certificates, key)) => {
            builder.with_client_cert_resolver(Arc::new(Shown::new(certificates, key)?))
        }
        None => builder.with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

/// A connection to the port of the node that this thread is in.
pub(crate) fn connect(
    config: &Arc<ClientConfig>,
) -> Result<StreamOwned<ClientConnection, TcpStream>> {
    let stream = TcpStream::connect("127.0.0.1:10250")?;
    stream.set_read_timeout(Some(std::time::Duration::from_secs(20)))?;
    stream.set_write_timeout(Some(std::time::Duration::from_secs(20)))?;
    let name = ServerName::try_from("node")?;
    let connection = ClientConnection::new(Arc::clone(config), name)?;
    Ok(StreamOwned::new(connection, stream))
}
