//! The serving certificate as clients of the node's port meet it: in handshakes.
//!
//! In: pairs and files, made here and changed while a server runs. Out: a verdict
//! on which certificate a client is shown, if any. It must not know how files are
//! watched.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "the client compares validity with the real clock, and a test may fail"
)]

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use identity::Pair;
use identity::serving::{GivenFiles, ServingFiles, self_signed};
use identity::tls::{ServingResolver, certified};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use seams::SharedClock;
use tempfile::TempDir;
use testkit::clock::TokioClock;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};
use tokio_util::sync::CancellationToken;

const HOST: &str = "n1";

fn provider() -> Arc<CryptoProvider> {
    Arc::new(default_provider())
}

fn pair() -> Pair {
    self_signed(HOST, SystemTime::now()).unwrap()
}

/// A server whose certificate is whatever is published.
struct Port {
    publish: watch::Sender<Option<Arc<CertifiedKey>>>,
    acceptor: TlsAcceptor,
}

/// Both ends of a connection that came about.
struct Connection {
    client: client::TlsStream<DuplexStream>,
    server: server::TlsStream<DuplexStream>,
}

impl Port {
    fn open() -> Self {
        let (publish, published) = watch::channel(None);
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(ServingResolver::new(published)));
        Self {
            publish,
            acceptor: TlsAcceptor::from(Arc::new(config)),
        }
    }

    fn publish(&self, pair: &Pair) {
        let certified = certified(pair, &default_provider()).unwrap();
        self.publish.send_replace(Some(certified));
    }

    async fn shake_hands(&self, client: &Arc<ClientConfig>) -> io::Result<Connection> {
        let (near, far) = duplex(64 * 1024);
        let name = ServerName::try_from(HOST).unwrap();
        let connector = TlsConnector::from(Arc::clone(client));
        let (client, server) =
            tokio::join!(connector.connect(name, near), self.acceptor.accept(far));
        Ok(Connection {
            client: client?,
            server: server?,
        })
    }

    /// The certificate that a client who trusts `pair` is shown.
    async fn shown_to(&self, client: &Arc<ClientConfig>) -> io::Result<CertificateDer<'static>> {
        let connection = self.shake_hands(client).await?;
        Ok(connection.shown())
    }
}

impl Connection {
    fn shown(&self) -> CertificateDer<'static> {
        let (_, session) = self.client.get_ref();
        session.peer_certificates().unwrap()[0].clone()
    }

    async fn echo(&mut self) {
        self.client.write_all(b"ping").await.unwrap();
        let mut buffer = [0; 4];
        self.server.read_exact(&mut buffer).await.unwrap();
        self.server.write_all(&buffer).await.unwrap();
        self.client.read_exact(&mut buffer).await.unwrap();
        assert_eq!(&buffer, b"ping");
    }
}

/// A client that trusts the CAs of these pairs, and remembers no session of another client.
fn client(pairs: &[&Pair]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for pair in pairs {
        roots.add(pair.chain()[1].clone()).unwrap();
    }
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

#[tokio::test]
async fn without_a_certificate_every_handshake_fails_and_with_one_the_next_succeeds() {
    let port = Port::open();
    let pair = pair();
    for _ in 0..3 {
        let refused = port.shown_to(&client(&[&pair])).await.unwrap_err();
        assert!(refused.to_string().contains("alert"), "{refused}");
    }
    port.publish(&pair);
    let shown = port.shown_to(&client(&[&pair])).await.unwrap();
    assert_eq!(shown, pair.chain()[0]);
}

#[tokio::test]
async fn when_the_certificate_is_withdrawn_known_clients_are_refused_too() {
    let port = Port::open();
    let pair = pair();
    port.publish(&pair);
    let client = client(&[&pair]);
    // Data brings the client the ticket by which it could resume.
    port.shake_hands(&client).await.unwrap().echo().await;
    port.publish.send_replace(None);
    assert!(port.shown_to(&client).await.is_err());
}

#[tokio::test]
async fn a_swap_leaves_open_connections_alone_and_shows_new_ones_the_new_certificate() {
    let port = Port::open();
    let (first, second) = (pair(), pair());
    let trusting = || client(&[&first, &second]);
    port.publish(&first);
    let mut open = port.shake_hands(&trusting()).await.unwrap();
    open.echo().await;
    port.publish(&second);
    assert_eq!(port.shown_to(&trusting()).await.unwrap(), second.chain()[0]);
    open.echo().await;
    assert_eq!(open.shown(), first.chain()[0]);
}

#[tokio::test]
async fn the_self_signed_pair_serves_and_its_key_is_for_its_owner_only() {
    let root = tempfile::tempdir().unwrap();
    let files = ServingFiles::in_directory(root.path());
    let first = files.obtain(HOST, SystemTime::now()).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&files.key), 0o600);
    assert_eq!(mode(&files.certificate), 0o644);
    // What is served is what is found at the next start.
    let found = files.obtain(HOST, SystemTime::now()).unwrap();
    let port = Port::open();
    port.publish(&found);
    let shown = port.shown_to(&client(&[&first])).await.unwrap();
    assert_eq!(shown, first.chain()[0]);
}

/// Files of an operator, served and followed.
struct Given {
    root: TempDir,
    port: Port,
    clock: SharedClock,
    task: JoinSet<()>,
    shutdown: CancellationToken,
}

impl Given {
    /// `lay` puts the first pair there. The files are being followed on return.
    async fn start(reload: bool, lay: impl FnOnce(&Path)) -> Self {
        let root = tempfile::tempdir().unwrap();
        lay(root.path());
        let port = Port::open();
        let clock: SharedClock = Arc::new(TokioClock::starting_at(SystemTime::now()));
        let shutdown = CancellationToken::new();
        let files = GivenFiles {
            certificate: root.path().join("tls.crt"),
            key: root.path().join("tls.key"),
        };
        let followed = files.serve(provider(), port.publish.clone()).unwrap();
        let mut task = JoinSet::new();
        task.spawn(followed.run(Arc::clone(&clock), reload, shutdown.clone()));
        // On a runtime of one thread: the task gets as far as its first wait.
        tokio::task::yield_now().await;
        Self {
            root,
            port,
            clock,
            task,
            shutdown,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Waits until a pair is published. An event is what must tell of it: the
    /// limit is shorter than the periodic look, on a clock that is not paused.
    async fn until_published(&self, pair: &Pair) {
        let mut published = self.port.publish.subscribe();
        let wanted = |shown: &Option<Arc<CertifiedKey>>| {
            let shown = shown.as_ref();
            shown.is_some_and(|certified| certified.cert == pair.chain())
        };
        let limit = Duration::from_secs(40);
        seams::timeout(&*self.clock, limit, published.wait_for(wanted))
            .await
            .expect("the new pair is taken up before the periodic look")
            .unwrap();
    }

    async fn stop(mut self) {
        self.shutdown.cancel();
        self.task.join_next().await.unwrap().unwrap();
    }
}

fn lay(directory: &Path, pair: &Pair) {
    fs::write(directory.join("tls.crt"), pair.certificate_pem()).unwrap();
    fs::write(directory.join("tls.key"), pair.key().to_pem().unwrap()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn halves_written_one_after_the_other_are_taken_up_when_they_fit() {
    let (first, second) = (pair(), pair());
    let given = Given::start(true, |root| lay(root, &first)).await;
    let trusting = || client(&[&first, &second]);
    fs::write(given.path("tls.crt"), second.certificate_pem()).unwrap();
    // The periodic look has seen the change for sure.
    given.clock.sleep(Duration::from_secs(61)).await;
    let shown = given.port.shown_to(&trusting()).await.unwrap();
    assert_eq!(shown, first.chain()[0], "the key does not fit yet");
    let mut published = given.port.publish.subscribe();
    fs::write(given.path("tls.key"), second.key().to_pem().unwrap()).unwrap();
    published.changed().await.unwrap();
    let shown = given.port.shown_to(&trusting()).await.unwrap();
    assert_eq!(shown, second.chain()[0]);
    given.stop().await;
}

#[tokio::test]
async fn files_renamed_over_the_old_ones_are_taken_up() {
    let (first, second) = (pair(), pair());
    let given = Given::start(true, |root| lay(root, &first)).await;
    let beside = tempfile::tempdir_in(given.root.path()).unwrap();
    lay(beside.path(), &second);
    for name in ["tls.key", "tls.crt"] {
        fs::rename(beside.path().join(name), given.path(name)).unwrap();
    }
    given.until_published(&second).await;
    given.stop().await;
}

#[tokio::test]
async fn a_turned_symlink_is_taken_up_as_often_as_it_is_turned() {
    let (first, second, third) = (pair(), pair(), pair());
    // As the kubelet lays out a volume of a secret.
    let turn = |root: &Path, version: &str, pair: &Pair| {
        fs::create_dir(root.join(version)).unwrap();
        lay(&root.join(version), pair);
        symlink(version, root.join("..data_tmp")).unwrap();
        fs::rename(root.join("..data_tmp"), root.join("..data")).unwrap();
    };
    let given = Given::start(true, |root| {
        turn(root, "..1", &first);
        for name in ["tls.crt", "tls.key"] {
            symlink(Path::new("..data").join(name), root.join(name)).unwrap();
        }
    })
    .await;
    for (version, gone, pair) in [("..2", "..1", &second), ("..3", "..2", &third)] {
        turn(given.root.path(), version, pair);
        fs::remove_dir_all(given.path(gone)).unwrap();
        given.until_published(pair).await;
    }
    given.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_that_no_event_tells_of_is_found_within_a_minute() {
    let (first, second) = (pair(), pair());
    let elsewhere = tempfile::tempdir().unwrap();
    let given = Given::start(true, |root| {
        lay(elsewhere.path(), &first);
        for name in ["tls.crt", "tls.key"] {
            fs::hard_link(elsewhere.path().join(name), root.join(name)).unwrap();
        }
    })
    .await;
    let before = given.clock.uptime();
    // Events go to the directory through which a file is written.
    lay(elsewhere.path(), &second);
    let mut published = given.port.publish.subscribe();
    published.changed().await.unwrap();
    let shown = published.borrow().clone().unwrap();
    assert_eq!(shown.cert, second.chain());
    let took = given.clock.uptime().saturating_sub(before);
    assert!(
        took > Duration::from_secs(50) && took < Duration::from_secs(61),
        "{took:?}"
    );
    given.stop().await;
}

#[tokio::test(start_paused = true)]
async fn with_reloading_off_the_first_pair_stays() {
    let (first, second) = (pair(), pair());
    let given = Given::start(false, |root| lay(root, &first)).await;
    lay(given.root.path(), &second);
    given.clock.sleep(Duration::from_secs(3600)).await;
    let shown = given.port.shown_to(&client(&[&first])).await.unwrap();
    assert_eq!(shown, first.chain()[0]);
    given.stop().await;
}
