//! Connections to the ports of nodes.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tracing::debug;

use super::Work;
use super::target::Target;
use crate::failure::Failure;
use crate::front::answer::Body;

/// For a node to take a connection; upstream's.
const DIAL: Duration = Duration::from_secs(30);

/// Asks nodes in the server's name.
#[derive(Clone)]
pub struct KubeletClient(TlsConnector);

impl KubeletClient {
    pub fn new(
        certificate: CertificateDer<'static>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, rustls::Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyNode(provider)))
            .with_client_auth_cert(vec![certificate], key)?;
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// A connection for one request, and what keeps it going.
    pub(super) async fn dial(&self, target: &Target) -> Result<(SendRequest<Body>, Work), Failure> {
        let authority = target.authority();
        let failed = |cause: String| Failure::internal(format!("error dialing backend: {cause}"));
        let connecting = self.connect(target, &authority);
        let stream = tokio::time::timeout(DIAL, connecting).await;
        let stream = stream
            .map_err(|_| failed(format!("dial tcp {authority}: i/o timeout")))?
            .map_err(|cause| failed(format!("dial tcp {authority}: {cause}")))?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|cause| failed(cause.to_string()))?;
        let work = async move {
            if let Err(error) = connection.with_upgrades().await {
                debug!(err = %error, "a connection to a node broke");
            }
        };
        Ok((sender, Box::pin(work)))
    }

    async fn connect(
        &self,
        target: &Target,
        authority: &str,
    ) -> io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
        let stream = TcpStream::connect(authority).await?;
        let _ = stream.set_nodelay(true);
        let name = ServerName::try_from(target.host.clone()).map_err(io::Error::other)?;
        self.0.connect(name, stream).await
    }
}

impl std::fmt::Debug for KubeletClient {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("KubeletClient")
    }
}

/// Takes every node's certificate, as upstream does when it is told of no CA of theirs: by
/// default nodes sign their own.
#[derive(Debug)]
struct AnyNode(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyNode {
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
