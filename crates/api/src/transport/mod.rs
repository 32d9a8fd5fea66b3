//! The way to the API server: connections, and what every request needs.
//!
//! A [`Transport`] is made of one [`ClientConfig`]. Requests go over [`Lane`]s, which differ in
//! rate and patience and share HTTP/2 connections, but for a lane that wants its own. When the
//! certificate or the CA changes, connections are drained, not cut.
//!
//! What waits, waits on the [`seams::Clock`]; what runs, runs on tasks that [`Transport::close`]
//! waits for.

mod body;
mod dial;
mod identity;
mod keeper;
mod lane;
mod limit;
mod link;
mod pool;
mod proxy;
mod request;
mod trust;

use std::fmt;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::UnixTime;
use rustls::sign::CertifiedKey;
use rustls::time_provider::TimeProvider;
use seams::SharedClock;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::kubeconfig::{self, ClientConfig, Proxy, Tls};
use crate::metrics::ClientMetrics;
use dial::{Dialer, Target, TlsSide, server_name};
use identity::{Identity, Signature};
use keeper::Pools;
use link::Tasks;
use pool::Pool;
use request::Addressing;
use trust::ServerTrust;

pub use body::ResponseBody;
pub use dial::{DialError, DialProblem};
pub use identity::{CredentialError, IdentityError};
pub use lane::{Lane, LaneOptions, SendError};
pub use limit::Limits;
pub use request::AddressingError;
pub use trust::TrustError;

/// Who we are in handshakes and headers.
pub enum Credentials {
    /// What the kubeconfig says. Certificate files are looked at again on a timer.
    Configured,
    /// Certificates that somebody else manages, instead of the kubeconfig's identity; `None` is a
    /// handshake without one. Each change drains the connections.
    Managed(watch::Receiver<Option<Arc<CertifiedKey>>>),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Configured => "Configured",
            Self::Managed(_) => "Managed",
        })
    }
}

/// What a transport is given.
#[derive(Debug, Clone)]
pub struct Options {
    pub clock: SharedClock,
    pub provider: Arc<CryptoProvider>,
    pub user_agent: String,
    /// For credential plugins.
    pub surroundings: kubeconfig::Surroundings,
    /// What the caller's environment says for this server; used if the kubeconfig names none.
    pub environment_proxy: Option<Proxy>,
    pub metrics: ClientMetrics,
}

/// Why there is no transport.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    #[error("a transport can only be made inside a tokio runtime")]
    NoRuntime,
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error(transparent)]
    Addressing(#[from] AddressingError),
    #[error(
        "{0:?} is no name that a server's certificate can have; correct server or tls-server-name in the kubeconfig"
    )]
    ServerName(String),
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
}

/// The connections to one API server. Clones share them; they end with the last of the clones
/// and of their lanes.
#[derive(Debug, Clone)]
pub struct Transport {
    inner: Arc<Inner>,
}

/// What a transport and its lanes share. Its tasks do not hold it, so that they end with it.
#[derive(Debug)]
struct Inner {
    server: Arc<str>,
    host: Arc<str>,
    addressing: Addressing,
    identity: Arc<Identity>,
    dialer: Arc<Dialer>,
    common: Arc<Pool>,
    pools: Arc<Pools>,
    tasks: Tasks,
    /// What the owner of the certificate says at this moment.
    managed: Option<watch::Receiver<Option<Arc<CertifiedKey>>>>,
    clock: SharedClock,
    metrics: ClientMetrics,
    _end: DropGuard,
}

impl Transport {
    /// To be called inside a runtime, in which the connections will live.
    pub fn new(
        config: &ClientConfig,
        credentials: Credentials,
        options: Options,
    ) -> Result<Self, TransportError> {
        let tasks = Tasks {
            tracker: TaskTracker::new(),
            runtime: Handle::try_current().map_err(|_| TransportError::NoRuntime)?,
            ending: CancellationToken::new(),
        };
        let (identity, managed) = match credentials {
            Credentials::Configured => (Identity::configured(&config.identity, &options)?, None),
            Credentials::Managed(mut managed) => {
                let identity = Identity::managed(Arc::clone(&options.clock));
                identity.shown.show(managed.borrow_and_update().clone());
                (identity, Some(managed))
            }
        };
        let identity = Arc::new(identity);
        let target = Target::new(&config.server.uri);
        let tls = config.tls.as_ref();
        let tls = tls.map(|tls| tls_side(tls, &target, &identity, &options));
        let proxy = config.proxy.clone().or(options.environment_proxy);
        let clock = options.clock;
        let dialer = Arc::new(Dialer::new(
            target,
            proxy,
            tls.transpose()?,
            Arc::clone(&clock),
        ));
        let pools = Arc::new(Pools::default());
        let common = Pool::new(Arc::clone(&dialer), tasks.clone(), Arc::clone(&clock));
        pools.add(&common);
        let impersonation = config.impersonation.as_ref();
        let addressing = Addressing::new(&config.server, &options.user_agent, impersonation)?;
        let followed = managed.clone();
        keeper::start(&pools, &dialer, followed, &identity.shown, &tasks, &clock);
        Ok(Self {
            inner: Arc::new(Inner {
                server: Arc::from(dialer.server()),
                host: Arc::from(addressing.host.as_str()),
                addressing,
                identity,
                dialer,
                common,
                pools,
                _end: tasks.ending.clone().drop_guard(),
                tasks,
                managed,
                clock,
                metrics: options.metrics,
            }),
        })
    }

    pub fn lane(&self, options: LaneOptions) -> Lane {
        Lane::new(Arc::clone(&self.inner), options)
    }

    /// Ends every connection and waits for the tasks. Requests fail from now on.
    pub async fn close(&self) {
        let tasks = &self.inner.tasks;
        tasks.ending.cancel();
        tasks.tracker.close();
        tasks.tracker.wait().await;
    }

    /// How many connections are open, of all lanes, those that drain included.
    pub fn connections(&self) -> usize {
        self.inner.pools.connections()
    }
}

impl Inner {
    fn new_pool(&self) -> Arc<Pool> {
        let pool = Pool::new(
            Arc::clone(&self.dialer),
            self.tasks.clone(),
            Arc::clone(&self.clock),
        );
        self.pools.add(&pool);
        pool
    }

    /// What the next request is signed with. A plugin may have a new certificate for the
    /// handshake, too.
    async fn sign(&self) -> Result<Signature, CredentialError> {
        self.look_at_managed();
        let signature = self.identity.sign().await?;
        if let Some(credential) = &signature.credential {
            let certificate = credential.certificate.as_ref();
            let certified = certificate.map(|it| Arc::clone(&it.certified));
            if self.identity.shown.show(certified) {
                self.dialer.changes.happened();
            }
        }
        Ok(signature)
    }

    /// Whoever has seen the new certificate makes the next request with it: the task that
    /// follows may not have had its turn.
    fn look_at_managed(&self) {
        let Some(managed) = &self.managed else {
            return;
        };
        // Held until it is shown, so that nothing newer is covered by it.
        let certificate = managed.borrow();
        if self.identity.shown.show(certificate.clone()) {
            self.dialer.changes.happened();
        }
    }
}

fn tls_side(
    tls: &Tls,
    target: &Target,
    identity: &Arc<Identity>,
    options: &Options,
) -> Result<TlsSide, TransportError> {
    let name = tls.server_name.as_deref().unwrap_or(&target.host);
    let trust = ServerTrust::new(&tls.trust, &options.provider)?;
    let builder = || {
        let time = Arc::new(ClockTime(Arc::clone(&options.clock)));
        let builder =
            rustls::ClientConfig::builder_with_details(Arc::clone(&options.provider), time)
                .with_safe_default_protocol_versions()?;
        Ok::<_, rustls::Error>(
            builder
                .dangerous()
                .with_custom_certificate_verifier(trust.verifier()),
        )
    };
    let mut to_server = builder()?.with_client_cert_resolver(Arc::clone(&identity.shown) as _);
    to_server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // A resumed session would still speak for the certificate that it began with.
    to_server.resumption = Resumption::disabled();
    let mut to_proxy = builder()?.with_no_client_auth();
    to_proxy.resumption = Resumption::disabled();
    Ok(TlsSide {
        to_server: TlsConnector::from(Arc::new(to_server)),
        to_proxy: TlsConnector::from(Arc::new(to_proxy)),
        server_name: server_name(name).map_err(|_| TransportError::ServerName(name.to_owned()))?,
        trust,
        identity: Arc::clone(identity),
    })
}

/// The time that certificates are judged by.
#[derive(Debug)]
struct ClockTime(SharedClock);

impl TimeProvider for ClockTime {
    fn current_time(&self) -> Option<UnixTime> {
        let since = self.0.now().duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(UnixTime::since_unix_epoch(since))
    }
}
