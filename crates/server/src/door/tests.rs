//! The port as clients meet it, with an API server in memory behind it.

mod bodies;
mod crowds;
mod endpoints;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair,
};
use rustls::client::ResolvesClientCert;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, RootCertStore, SignatureScheme, SupportedProtocolVersion};
use seams::host::HostError;
use serde_json::{Value, json};
use testkit::clock::TokioClock;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::process::Process;

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Somebody who signs certificates.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    der: CertificateDer<'static>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self {
            pem: certificate.pem(),
            der: certificate.der().clone(),
            issuer: Issuer::new(params, key),
        }
    }

    fn sign(
        &self,
        change: impl FnOnce(&mut CertificateParams),
    ) -> (CertificateDer<'static>, KeyPair) {
        let mut params = CertificateParams::default();
        // Which has a name by default.
        params.distinguished_name = DistinguishedName::new();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.der().clone(), key)
    }

    fn client(&self, name: &str, groups: &[&str]) -> Shown {
        Shown::new(self.sign(|params| named(params, name, groups)))
    }

    /// One who signs in its name.
    fn intermediate(&self) -> Self {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "between");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Self {
            pem: certificate.pem(),
            der: certificate.der().clone(),
            issuer: Issuer::new(params, key),
        }
    }
}

fn named(params: &mut CertificateParams, name: &str, groups: &[&str]) {
    if !name.is_empty() {
        params.distinguished_name.push(DnType::CommonName, name);
    }
    for &group in groups {
        params
            .distinguished_name
            .push(DnType::OrganizationName, group);
    }
}

/// What a client shows in the handshake, whether it has the key to it or not.
#[derive(Clone, Debug)]
struct Shown(Arc<CertifiedKey>);

impl Shown {
    fn new((certificate, key): (CertificateDer<'static>, KeyPair)) -> Self {
        Self::chain(vec![certificate], &key)
    }

    fn chain(chain: Vec<CertificateDer<'static>>, key: &KeyPair) -> Self {
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let key = provider().key_provider.load_private_key(key).unwrap();
        Self(Arc::new(CertifiedKey::new(chain, key)))
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

/// What the API server says, and was asked.
#[derive(Default)]
struct Api {
    /// Who may what: `user verb subresource`.
    allowed: Vec<&'static str>,
    tokens: BTreeMap<&'static str, &'static str>,
    /// The next answers, in place of those.
    failures: Vec<u16>,
    asked: Vec<Value>,
    pause: Duration,
}

type SharedApi = Arc<Mutex<Api>>;

fn client(api: &SharedApi, clock: &SharedClock) -> Client {
    let (api, clock) = (Arc::clone(api), Arc::clone(clock));
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (api, clock) = (Arc::clone(&api), Arc::clone(&clock));
        async move {
            let path = request.uri().path().to_owned();
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let mut review: Value = serde_json::from_slice(&body).unwrap();
            let pause = api.lock().unwrap().pause;
            clock.sleep(pause).await;
            let mut api = api.lock().unwrap();
            api.asked.push(review["spec"].clone());
            if let Some(code) = api.failures.pop() {
                let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": "InternalError", "message": "no"});
                let answer = http::Response::builder().status(code);
                return Ok::<_, std::io::Error>(
                    answer
                        .body(Full::new(Bytes::from(status.to_string())))
                        .unwrap(),
                );
            }
            review["status"] = if path.ends_with("tokenreviews") {
                let token = review["spec"]["token"].as_str().unwrap();
                match api.tokens.get(token) {
                    Some(user) => {
                        json!({"authenticated": true, "user": {"username": user, "uid": "7", "groups": ["g"], "extra": {"k": ["v"]}}})
                    }
                    None => json!({"authenticated": false}),
                }
            } else {
                let spec = &review["spec"];
                let wish = &spec["resourceAttributes"];
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let key = format!(
                    "{} {} {}",
                    text(&spec["user"]),
                    text(&wish["verb"]),
                    text(&wish["subresource"])
                );
                json!({"allowed": api.allowed.iter().any(|allowed| *allowed == key)})
            };
            let answer = http::Response::builder().status(201);
            Ok(answer
                .body(Full::new(Bytes::from(review.to_string())))
                .unwrap())
        }
    });
    Client::new(service, "default")
}

struct Node {
    address: SocketAddr,
    api: SharedApi,
    authority: Authority,
    directory: tempfile::TempDir,
    server: RootCertStore,
    shutdown: CancellationToken,
    serving: JoinSet<Result<(), DoorError>>,
    registry: Registry,
}

impl Node {
    async fn start(change: impl FnOnce(&mut DoorConfig)) -> Self {
        // Certificates that were made just now are to be good.
        let clock: SharedClock = Arc::new(TokioClock::starting_at(now()));
        let authority = Authority::new("clients");
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("ca.crt");
        std::fs::write(&file, &authority.pem).unwrap();
        let servers = Authority::new("servers");
        let (certificate, key) = servers.sign(|params| {
            params.subject_alt_names = vec![rcgen::SanType::IpAddress(Ipv4Addr::LOCALHOST.into())];
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        });
        let mut server = RootCertStore::empty();
        server.add(servers.der.clone()).unwrap();
        let api = SharedApi::default();
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let process = Process {
            version: "v1.36.4+test".to_owned(),
            command: Vec::new(),
            flags: Arc::new(BTreeMap::new),
            set_verbosity: Arc::new(|_| ()),
            log: Arc::new(|| Ok(())),
            profiler: Arc::new(|| Err("not in tests".to_owned())),
        };
        let mut config = DoorConfig {
            address,
            read_only: None,
            tls: TlsConfig::default(),
            authentication: AuthenticationConfig {
                client_ca_file: Some(file),
                tokens: Some(Duration::from_secs(120)),
                anonymous: false,
                uid_of_certificate: true,
            },
            authorization: AuthorizationConfig::Webhook {
                allowed: Duration::from_secs(300),
                denied: Duration::from_secs(30),
            },
            handlers: Handlers {
                debugging: true,
                system_logs: true,
                system_log_query: false,
                profiling: true,
                debug_flags: true,
                checkpoint: true,
                flagz: true,
                statusz: true,
                split_streams: false,
            },
            websockets: true,
            configz: Bytes::from_static(b"{}"),
            process,
        };
        change(&mut config);
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let key = provider().key_provider.load_private_key(key).unwrap();
        let certified = CertifiedKey::new(vec![certificate], key);
        let registry = Registry::new();
        let on = DoorFoundations {
            node_name: "n1".to_owned(),
            clock: clock.clone(),
            host: Arc::new(Files),
            provider: provider(),
            certificate: Arc::new(SingleCertAndKey::from(certified)),
            client: Some(client(&api, &clock)),
            registry: &registry,
            endpoints: endpoints::of_no_pods(&config, &clock),
        };
        let door = Door::build(config, on).unwrap();
        let shutdown = CancellationToken::new();
        let mut serving = JoinSet::new();
        serving.spawn(door.run(shutdown.clone()));
        Self {
            address,
            api,
            authority,
            directory,
            server,
            shutdown,
            serving,
            registry,
        }
    }

    async fn connect(&self, shown: Option<&Shown>) -> std::io::Result<TlsStream<TcpStream>> {
        self.connect_over(shown, rustls::DEFAULT_VERSIONS).await
    }

    async fn connect_over(
        &self,
        shown: Option<&Shown>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(self.server.clone());
        let config = match shown {
            Some(shown) => builder.with_client_cert_resolver(Arc::new(shown.clone())),
            None => builder.with_no_client_auth(),
        };
        let stream = loop {
            match TcpStream::connect(self.address).await {
                Ok(stream) => break stream,
                // It is about to listen.
                Err(_) => tokio::task::yield_now().await,
            }
        };
        let name = ServerName::from(std::net::IpAddr::from(Ipv4Addr::LOCALHOST));
        TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
    }

    /// The status and the body; `more` are headers.
    async fn ask(&self, shown: Option<&Shown>, what: &str, more: &str) -> (u16, String) {
        let mut stream = self.connect(shown).await.unwrap();
        let request = format!("{what} HTTP/1.1\r\nHost: n1\r\nConnection: close\r\n{more}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said).await;
        parsed(&said)
    }

    async fn get(&self, shown: Option<&Shown>, path: &str) -> (u16, String) {
        self.ask(shown, &format!("GET {path}"), "").await
    }

    fn asked(&self) -> Vec<Value> {
        std::mem::take(&mut self.api.lock().unwrap().asked)
    }

    /// What a figure says that is told by a status.
    fn figure(&self, name: &str, status: &str) -> Option<f64> {
        let families = self.registry.gather();
        let family = families.iter().find(|family| family.name() == name)?;
        let metric = family.get_metric().iter().find(|metric| {
            let labels = metric.get_label();
            labels.iter().any(|label| label.value() == status)
        })?;
        Some(metric.get_counter().get_value() + metric.get_gauge().get_value())
    }

    fn allow(&self, allowed: &[&'static str]) {
        self.api.lock().unwrap().allowed = allowed.to_vec();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "certificates of a test are judged by the machine's clock"
)]
fn now() -> SystemTime {
    SystemTime::now()
}

/// The machine, as far as files are read from it.
#[derive(Debug)]
struct Files;

impl seams::Host for Files {
    fn machine(&self) -> Result<seams::host::MachineFacts, HostError> {
        unreachable!()
    }

    fn disk(&self, _: &Path) -> Result<seams::host::DiskFigures, HostError> {
        unreachable!()
    }

    fn interfaces(&self) -> Result<Vec<seams::host::Interface>, HostError> {
        unreachable!()
    }

    fn default_routes(&self) -> Result<Option<Vec<seams::host::DefaultRoute>>, HostError> {
        unreachable!()
    }

    fn resolve<'a>(&'a self, _: &'a str) -> seams::host::Answer<'a, Vec<std::net::IpAddr>> {
        unreachable!()
    }

    fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, HostError> {
        Ok(std::fs::read(path).ok())
    }

    fn list(&self, _: &Path) -> Result<Option<seams::host::Listing>, HostError> {
        unreachable!()
    }

    fn hint(&self, _: &Path) -> seams::host::Hint {
        Box::pin(std::future::pending())
    }

    fn write(&self, _: &Path, _: &[u8], _: u32) -> Result<(), HostError> {
        unreachable!()
    }
}

fn parsed(said: &[u8]) -> (u16, String) {
    let said = String::from_utf8_lossy(said);
    let (head, body) = said.split_once("\r\n\r\n").unwrap_or((&said, ""));
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    (code.unwrap_or_default(), body.to_owned())
}

/// Connections are real: time stands still only while it is moved on.
async fn pass(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

/// Some times faster than it would, and not so fast that a handshake on a busy machine is late.
async fn while_time_passes<T>(work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        let real = std::time::Duration::from_millis(5);
        let some = tokio::task::spawn_blocking(move || std::thread::park_timeout(real));
        tokio::select! {
            output = work.as_mut() => return output,
            done = some => done.unwrap(),
        }
        // Never cut short: a clock that stays paused runs ahead of whoever waits for a socket.
        tokio::time::pause();
        tokio::time::advance(Duration::from_millis(25)).await;
        tokio::time::resume();
    }
}

const UNAUTHORIZED: (u16, &str) = (401, "Unauthorized");

fn said(answer: &(u16, String)) -> (u16, &str) {
    (answer.0, answer.1.as_str())
}

#[tokio::test]
async fn who_is_trusted_and_allowed_is_answered_and_the_api_server_is_asked_exactly_this() {
    let node = Node::start(|_| ()).await;
    node.allow(&["ann get proxy"]);
    let ann = node.authority.client("ann", &["ops"]);
    let answer = node.get(Some(&ann), "/healthz").await;
    assert_eq!(said(&answer), (200, "ok"));
    let asked = node.asked();
    let resource = |name| json!({"verb": "get", "version": "v1", "resource": "nodes", "subresource": name, "name": "n1"});
    assert_eq!(asked[0]["user"], "ann");
    assert_eq!(asked[0]["groups"], json!(["ops", "system:authenticated"]));
    assert_eq!(asked[0]["uid"], Value::Null);
    let id = asked[0]["extra"]["authentication.kubernetes.io/credential-id"][0].as_str();
    assert!(id.unwrap().starts_with("X509SHA256="), "{asked:?}");
    assert_eq!(asked[0]["resourceAttributes"], resource("healthz"));
    assert_eq!(asked[1]["resourceAttributes"], resource("proxy"));
    assert_eq!(asked.len(), 2);
    // Both answers are remembered: the no for half a minute, the yes for five.
    node.get(Some(&ann), "/healthz/ping").await;
    assert_eq!(node.asked().len(), 0);
    node.allow(&[]);
    for (seconds, again, status) in [
        (25, None, 200),
        (6, Some("healthz"), 200),
        (264, Some("healthz"), 200),
        (6, Some("proxy"), 403),
        (15, None, 403),
    ] {
        pass(seconds).await;
        let answer = node.get(Some(&ann), "/healthz").await;
        assert_eq!(answer.0, status, "{seconds} s later");
        let asked = node.asked();
        let asked: Vec<&Value> = asked
            .iter()
            .map(|spec| &spec["resourceAttributes"])
            .collect();
        let again: Vec<Value> = again.map(resource).into_iter().collect();
        assert_eq!(asked, again.iter().collect::<Vec<_>>(), "{seconds} s later");
    }
}

#[tokio::test]
async fn nobody_else_gets_in() {
    let node = Node::start(|_| ()).await;
    let good = |name: &str| node.authority.client(name, &["system:masters"]);
    let stranger = Authority::new("clients");
    let sign = |change: fn(&mut CertificateParams)| {
        Shown::new(node.authority.sign(|params| {
            named(params, "ann", &[]);
            change(params);
        }))
    };
    let expired = sign(|params| params.not_after = rcgen::date_time_ymd(2020, 1, 1));
    let of_the_future = sign(|params| params.not_before = rcgen::date_time_ymd(2090, 1, 1));
    let of_a_server = sign(|params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    });
    let nameless = node.authority.client("", &["system:masters"]);
    for (who, shown) in [
        ("nobody", None),
        (
            "another CA of the same name",
            Some(stranger.client("ann", &[])),
        ),
        ("expired", Some(expired)),
        ("not yet", Some(of_the_future)),
        ("a server", Some(of_a_server)),
        ("nameless", Some(nameless)),
    ] {
        let answer = node.get(shown.as_ref(), "/pods").await;
        assert_eq!(said(&answer), UNAUTHORIZED, "{who}");
    }
    assert_eq!(node.asked().len(), 0);
    // Known, and not allowed.
    let answer = node.ask(Some(&good("bob")), "HEAD /logs/x", "").await;
    assert_eq!(answer.0, 403);
    let answer = node.ask(Some(&good("bob")), "POST /pods", "").await;
    let words = "Forbidden (user=bob, verb=create, resource=nodes, subresource(s)=[pods proxy])\n";
    assert_eq!(said(&answer), (403, words));
    // What is not there is told to everybody.
    assert_eq!(node.get(None, "/nope").await.0, 404);
}

#[tokio::test]
async fn who_has_seen_a_certificate_and_has_no_key_to_it_does_not_get_through_the_handshake() {
    let node = Node::start(|_| ()).await;
    node.allow(&["ann get pods"]);
    let ann = node.authority.client("ann", &[]);
    let get = b"GET /pods HTTP/1.1\r\nHost: n1\r\nConnection: close\r\n\r\n";
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let mut stream = node.connect_over(Some(&ann), &[version]).await.unwrap();
        stream.write_all(get).await.unwrap();
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard).await;
        assert_eq!(parsed(&heard).0, 200, "{version:?}");
        node.asked();
        let seen = ann.0.cert[0].clone();
        let thief = Shown::chain(vec![seen], &KeyPair::generate().unwrap());
        // The newer version has the client go on before the server has looked.
        if let Ok(mut stream) = node.connect_over(Some(&thief), &[version]).await {
            let _ = stream.write_all(get).await;
            let mut heard = Vec::new();
            let _ = stream.read_to_end(&mut heard).await;
            assert_eq!(String::from_utf8_lossy(&heard), "", "{version:?}");
        }
        assert_eq!(node.asked().len(), 0, "{version:?}");
    }
}

#[tokio::test]
async fn a_node_that_wants_the_newest_tls_has_no_handshake_with_who_has_only_the_one_before() {
    let words = ["--tls-min-version=VersionTLS13".to_owned()];
    let line = ::config::flags::CommandLine::parse(&words).unwrap();
    let settings = ::config::load::resolve(&line, Path::new("/"))
        .unwrap()
        .settings;
    for (wanted, older) in [
        (TlsConfig::default(), true),
        (TlsConfig::of(&settings), false),
    ] {
        let node = Node::start(|config| config.tls = wanted).await;
        node.allow(&["ann get pods"]);
        let ann = node.authority.client("ann", &[]);
        let with = async |version| node.connect_over(Some(&ann), &[version]).await;
        assert!(with(&rustls::version::TLS13).await.is_ok());
        assert_eq!(node.get(Some(&ann), "/pods").await.0, 200);
        let refused = with(&rustls::version::TLS12).await.err();
        assert_eq!(refused.is_none(), older, "{refused:?}");
        if let Some(error) = refused {
            assert!(error.to_string().contains("ProtocolVersion"), "{error}");
        }
    }
}

#[tokio::test]
async fn a_certificate_counts_with_those_between_it_and_the_authority() {
    let node = Node::start(|_| ()).await;
    node.allow(&["ann get pods"]);
    let between = node.authority.intermediate();
    let (certificate, key) = between.sign(|params| named(params, "ann", &[]));
    let whole = Shown::chain(vec![certificate.clone(), between.der.clone()], &key);
    let alone = Shown::chain(vec![certificate], &key);
    assert_eq!(node.get(Some(&whole), "/pods").await.0, 200);
    assert_eq!(said(&node.get(Some(&alone), "/pods").await), UNAUTHORIZED);
}

#[tokio::test]
async fn another_authority_counts_within_a_minute_also_over_connections_that_are_there() {
    let node = Node::start(|_| ()).await;
    node.allow(&["ann get pods"]);
    let (old, next) = (node.authority.client("ann", &[]), Authority::new("next"));
    let new = next.client("ann", &[]);
    let mut before = node.connect(Some(&old)).await.unwrap();
    let get = b"GET /pods HTTP/1.1\r\nHost: n1\r\n\r\n";
    let mut answer = [0; 12];
    before.write_all(get).await.unwrap();
    before.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    let file = node.directory.path().join("ca.crt");
    // What is no certificate changes nothing.
    std::fs::write(&file, "nothing").unwrap();
    pass(61).await;
    assert_eq!(node.get(Some(&old), "/pods").await.0, 200);
    std::fs::write(&file, &next.pem).unwrap();
    pass(61).await;
    while node.get(Some(&new), "/pods").await.0 != 200 {
        // It is being read.
        tokio::task::yield_now().await;
    }
    assert_eq!(said(&node.get(Some(&old), "/pods").await), UNAUTHORIZED);
}

#[tokio::test]
async fn tokens_are_asked_about_once_while_the_answer_holds() {
    let node = Node::start(|_| ()).await;
    node.allow(&["robot get pods"]);
    node.api.lock().unwrap().tokens = BTreeMap::from([("t1", "robot")]);
    let with = |token: &str| format!("Authorization: Bearer {token}\r\n");
    assert_eq!(node.ask(None, "GET /pods", &with("t1")).await.0, 200);
    let asked = node.asked();
    assert_eq!(asked[0], json!({"token": "t1"}));
    assert_eq!(asked[1]["user"], "robot");
    assert_eq!(asked[1]["uid"], "7");
    assert_eq!(asked[1]["groups"], json!(["g", "system:authenticated"]));
    assert_eq!(asked[1]["extra"], json!({"k": ["v"]}));
    pass(119).await;
    assert_eq!(node.ask(None, "GET /pods", &with("t1")).await.0, 200);
    assert_eq!(node.asked().len(), 0);
    pass(2).await;
    // The token is asked about again, the right is remembered for longer.
    assert_eq!(node.ask(None, "GET /pods", &with("t1")).await.0, 200);
    assert_eq!(node.asked(), [json!({"token": "t1"})]);
    let refused = node.ask(None, "GET /pods", &with("t2")).await;
    assert_eq!(said(&refused), UNAUTHORIZED);
    for (name, status, wanted) in [
        ("request_total", "hit", 1.0),
        ("request_total", "miss", 3.0),
        ("fetch_total", "ok", 3.0),
        ("active_fetch_count", "blocked", 0.0),
        ("active_fetch_count", "in_flight", 0.0),
    ] {
        let name = format!("authentication_token_cache_{name}");
        assert_eq!(node.figure(&name, status), Some(wanted), "{name} {status}");
    }
}

#[tokio::test]
async fn the_api_server_is_asked_again_when_it_fails_and_its_silence_lets_nobody_in() {
    let node = Node::start(|_| ()).await;
    node.allow(&["ann get pods"]);
    let ann = node.authority.client("ann", &[]);
    node.api.lock().unwrap().failures = vec![500, 429];
    let asking = node.get(Some(&ann), "/pods");
    assert_eq!(while_time_passes(asking).await.0, 200);
    assert_eq!(node.asked().len(), 3);
    node.api.lock().unwrap().failures = vec![500; 5];
    let answer = while_time_passes(node.get(Some(&ann), "/metrics")).await;
    let words = "Authorization error (user=ann, verb=get, resource=nodes, subresource=metrics)";
    assert_eq!(said(&answer), (500, words));
    assert_eq!(node.asked().len(), 5);
    node.api.lock().unwrap().failures = vec![403];
    assert_eq!(node.get(Some(&ann), "/stats/summary").await.0, 500);
    assert_eq!(node.asked().len(), 1);
    node.api.lock().unwrap().failures = vec![500; 5];
    let token = "Authorization: Bearer t1\r\n";
    let answer = while_time_passes(node.ask(None, "GET /pods", token)).await;
    assert_eq!(said(&answer), UNAUTHORIZED);
    let failed = node.figure("authentication_token_cache_fetch_total", "error");
    assert_eq!(failed, Some(1.0));
}

#[tokio::test]
async fn who_says_nothing_is_anonymous_where_that_is_allowed_and_who_lies_is_not() {
    let node = Node::start(|config| config.authentication.anonymous = true).await;
    node.allow(&["system:anonymous get healthz"]);
    assert_eq!(node.get(None, "/healthz").await.0, 200);
    assert_eq!(node.asked()[0]["groups"], json!(["system:unauthenticated"]));
    let liar = Authority::new("clients").client("ann", &[]);
    assert_eq!(said(&node.get(Some(&liar), "/healthz").await), UNAUTHORIZED);
    let token = "Authorization: Bearer t2\r\n";
    let answer = node.ask(None, "GET /healthz", token).await;
    assert_eq!(said(&answer), UNAUTHORIZED);
}

#[tokio::test]
async fn everybody_may_do_everything_where_the_configuration_says_so() {
    let node = Node::start(|config| config.authorization = AuthorizationConfig::AlwaysAllow).await;
    let ann = node.authority.client("ann", &[]);
    assert_eq!(node.get(Some(&ann), "/configz").await.0, 200);
    assert_eq!(node.asked().len(), 0);
    assert_eq!(said(&node.get(None, "/configz").await), UNAUTHORIZED);
    let verbosity = "Content-Length: 1\r\n\r\n4";
    let put = node.ask(Some(&ann), "PUT /debug/flags/v", verbosity).await;
    let words = "successfully set klog.logging.verbosity to 4\n";
    assert_eq!(said(&put), (200, words));
    assert_eq!(node.get(Some(&ann), "/debug/flags/v").await.0, 406);
}

#[tokio::test]
async fn what_is_too_large_too_slow_or_no_http_is_cut_off() {
    let node = Node::start(|_| ()).await;
    let huge = format!("X: {}\r\n", "x".repeat(2 << 20));
    let mut stream = node.connect(None).await.unwrap();
    let request = format!("GET /pods HTTP/1.1\r\nHost: n1\r\n{huge}\r\n");
    let _ = stream.write_all(request.as_bytes()).await;
    let mut heard = Vec::new();
    let _ = stream.read_to_end(&mut heard).await;
    assert!(matches!(parsed(&heard).0, 431 | 0), "{:?}", parsed(&heard));
    let mut stream = node.connect(None).await.unwrap();
    stream.write_all(b"nonsense\r\n\r\n").await.unwrap();
    let mut heard = Vec::new();
    let _ = stream.read_to_end(&mut heard).await;
    assert_eq!(parsed(&heard).0, 400);
    // Somebody who says nothing, in TLS and before.
    let mut silent = node.connect(None).await.unwrap();
    let mut plain = TcpStream::connect(node.address).await.unwrap();
    tokio::task::yield_now().await;
    pass(11).await;
    assert_eq!(plain.read(&mut [0]).await.unwrap_or(0), 0);
    pass(70).await;
    silent
        .write_all(b"GET /nope HTTP/1.1\r\nHost: n1\r\n\r\n")
        .await
        .unwrap();
    let mut heard = [0; 12];
    silent.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"HTTP/1.1 404");
    // It was idle for 81 seconds, then busy, and is idle for longer now.
    pass(95).await;
    let mut rest = Vec::new();
    let _ = silent.read_to_end(&mut rest).await;
}

#[tokio::test]
async fn the_read_only_port_shows_to_everybody_what_upstream_shows_there() {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let node = Node::start(|config| config.read_only = Some(address)).await;
    // Both are open by then.
    node.get(None, "/nope").await;
    for (path, status) in [
        ("/healthz", 200),
        ("/pods", 200),
        ("/configz", 404),
        ("/statusz", 404),
        ("/exec/n/p/c", 405),
        ("/logs/", 405),
        ("/runningpods/", 405),
    ] {
        let mut stream = loop {
            match TcpStream::connect(address).await {
                Ok(stream) => break stream,
                Err(_) => tokio::task::yield_now().await,
            }
        };
        let request = format!("GET {path} HTTP/1.1\r\nHost: n1\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).await.unwrap();
        assert_eq!(parsed(&heard).0, status, "{path}");
    }
    assert_eq!(node.asked().len(), 0);
}

#[tokio::test]
async fn a_port_that_is_taken_ends_the_node_with_words_that_say_what_to_do() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = taken.local_addr().unwrap();
    let mut node = Node::start(|config| config.address = address).await;
    let outcome = node.serving.join_next().await.unwrap().unwrap();
    let words = outcome.unwrap_err().to_string();
    assert!(
        words.contains("is taken, perhaps by another kubelet"),
        "{words}"
    );
    assert!(words.ends_with("or choose another port"), "{words}");
}
