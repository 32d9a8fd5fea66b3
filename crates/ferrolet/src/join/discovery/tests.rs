//! Discovery over real TLS, against a server in this process that may lie.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster::cluster_info::{ClusterInfo, sign};
use cluster::{CaPin, Token};
use linux::SystemClock;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::*;

/// Nothing of this process's environment.
fn options(clock: seams::SharedClock) -> api::transport::Options {
    let mut options = crate::connection::options("test".to_owned());
    options.surroundings.environment.clear();
    options.clock = clock;
    options
}

/// A certificate authority, and whom it vouches for.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = parameters.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(parameters, key);
        Self { pem, issuer }
    }

    fn pin(&self) -> CaPin {
        CaPin::of_pem(self.pem.as_bytes()).unwrap().remove(0)
    }

    /// A server's TLS for 127.0.0.1.
    fn acceptor(&self) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// A server that answers every request with one body, until it is dropped.
struct Server {
    url: String,
    _tasks: JoinSet<()>,
}

impl Server {
    async fn answering(acceptor: Option<TlsAcceptor>, status: &'static str, body: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Some(acceptor) = &acceptor else {
                    let mut stream = stream;
                    // It cannot make sense of a handshake, and says so.
                    let _ = stream.read_u8().await;
                    let _ = stream.write_all(respond(status, &body).as_bytes()).await;
                    continue;
                };
                if let Ok(stream) = acceptor.accept(stream).await {
                    answer(stream, status, &body).await;
                }
            }
        });
        Self { url, _tasks: tasks }
    }

    async fn with(acceptor: TlsAcceptor, info: &ClusterInfo) -> Self {
        let body = serde_json::to_string(&info.object()).unwrap();
        Self::answering(Some(acceptor), "200 OK", body).await
    }
}

/// One request of HTTP/1.1, one answer. Who has heard enough may go.
async fn answer(
    mut stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    status: &str,
    body: &str,
) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let _ = stream.write_all(respond(status, body).as_bytes()).await;
    let _ = stream.shutdown().await;
}

fn respond(status: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

fn token() -> Token {
    "abcdef.0123456789abcdef".parse().unwrap()
}

/// What a cluster with this authority says, signed with `token`.
fn info(authority: &Authority, token: &Token) -> ClusterInfo {
    let endpoint = Endpoint::new("https://10.0.0.1:6443", authority.pem.as_bytes()).unwrap();
    let kubeconfig = kubeconfig::cluster_info(&endpoint).unwrap();
    let kubeconfig = kubeconfig.expose().to_owned();
    let signature = sign(&kubeconfig, token);
    ClusterInfo {
        signatures: BTreeMap::from([(token.id().to_string(), signature)]),
        kubeconfig,
    }
}

/// Looks for the cluster with the pin of `authority`, without waiting for anything.
async fn find(server: &Server, authority: &Authority) -> Result<Found, FindError> {
    let clock = Arc::new(SystemClock::start());
    let connections = Connections::new(options(clock.clone()));
    let patience = Patience {
        clock: &*clock,
        limit: Duration::from_secs(4),
    };
    let pinning = Pinning::Pins(vec![authority.pin()]);
    let login = token();
    let never = |cause: &DiscoveryError| panic!("it waits because of {cause}");
    let url = &server.url;
    by_token(&connections, url, &login, &pinning, &login, patience, never).await
}

async fn refusal(server: &Server, authority: &Authority) -> DiscoveryError {
    match find(server, authority).await {
        Err(FindError::Discovery(error)) => error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was believed"),
    }
}

#[tokio::test]
async fn a_cluster_that_proves_itself_is_found() {
    let authority = Authority::new();
    let server = Server::with(authority.acceptor(), &info(&authority, &token())).await;
    let found = find(&server, &authority).await.ok().unwrap();
    assert_eq!(found.endpoint.server(), "https://10.0.0.1:6443");
    let login = found.bootstrap.expose();
    assert!(login.contains("tls-bootstrap-token-user"));
    assert!(login.contains(&token().expose()));
}

#[tokio::test]
async fn a_man_in_the_middle_with_a_copy_of_cluster_info_cannot_prove_himself() {
    let (authority, his) = (Authority::new(), Authority::new());
    let server = Server::with(his.acceptor(), &info(&authority, &token())).await;
    let error = refusal(&server, &authority).await;
    assert!(matches!(error, DiscoveryError::NotProven { .. }), "{error}");
}

#[tokio::test]
async fn a_man_in_the_middle_who_knows_the_token_has_another_authority() {
    let (authority, his) = (Authority::new(), Authority::new());
    let server = Server::with(his.acceptor(), &info(&his, &token())).await;
    let error = refusal(&server, &authority).await;
    let DiscoveryError::OtherAuthority { found, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(*found, his.pin().to_string());
}

#[tokio::test]
async fn a_man_in_the_middle_without_the_token_cannot_sign() {
    let (authority, his) = (Authority::new(), Authority::new());
    let guessed = "abcdef.aaaaaaaaaaaaaaaa".parse().unwrap();
    let server = Server::with(his.acceptor(), &info(&his, &guessed)).await;
    let error = refusal(&server, &authority).await;
    assert!(matches!(error, DiscoveryError::Tampered { .. }), "{error}");
}

#[tokio::test]
async fn cluster_info_that_was_changed_after_the_signature_is_refused() {
    let authority = Authority::new();
    let mut changed = info(&authority, &token());
    changed.kubeconfig = changed.kubeconfig.replace("10.0.0.1", "10.6.6.6");
    let server = Server::with(authority.acceptor(), &changed).await;
    let error = refusal(&server, &authority).await;
    assert!(matches!(error, DiscoveryError::Tampered { .. }), "{error}");
}

#[tokio::test]
async fn what_is_not_an_api_server_is_told_at_once() {
    let authority = Authority::new();
    let page = "<html>hello</html>".to_owned();
    let web = Server::answering(Some(authority.acceptor()), "200 OK", page.clone()).await;
    let plain = Server::answering(None, "400 Bad Request", page).await;
    for server in [web, plain] {
        let error = refusal(&server, &authority).await;
        let told = matches!(
            error,
            DiscoveryError::Fetch {
                cause: FetchError::NotApiServer(_),
                ..
            }
        );
        assert!(told, "{error}");
    }
}

#[tokio::test]
async fn a_discovery_file_is_believed_as_far_as_its_authority() {
    let (authority, his) = (Authority::new(), Authority::new());
    let clock = Arc::new(SystemClock::start());
    let connections = Connections::new(options(clock.clone()));
    let patience = Patience {
        clock: &*clock,
        limit: Duration::from_secs(4),
    };
    let look = async |server: &Server, credentials, login: Option<&Token>| {
        let endpoint = Endpoint::new(&server.url, authority.pem.as_bytes()).unwrap();
        let file = DiscoveryFile {
            endpoint,
            credentials,
        };
        by_file(&connections, &file, login, patience, |_| {}).await
    };
    let info = info(&authority, &token());
    let ours = Server::with(authority.acceptor(), &info).await;
    let found = look(&ours, Credentials::None, Some(&token()))
        .await
        .ok()
        .unwrap();
    assert!(found.bootstrap.expose().contains(&token().expose()));
    let nobody = look(&ours, Credentials::None, None).await;
    assert!(matches!(nobody, Err(FindError::NoCredentials)));
    let service_account = Credentials::Token(api::Secret::new("ey.J.x".to_owned()));
    let other = look(&ours, service_account, None).await;
    assert!(matches!(other, Err(FindError::OtherToken)));
    let theirs = Server::with(his.acceptor(), &info).await;
    let error = look(&theirs, Credentials::None, Some(&token())).await;
    assert!(matches!(
        error,
        Err(FindError::Discovery(DiscoveryError::NotProven { .. }))
    ));
}
