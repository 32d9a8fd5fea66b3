//! The parts of a server, wired, started and ended.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use thiserror::Error;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::access::pki::PkiError;
use crate::access::{Authenticator, Authorizer, ClientTrust, Pki, ServingNames};
use crate::clock::Clock;
use crate::controllers::Controllers;
use crate::failure::Failure;
use crate::faults::Faults;
use crate::front::{
    BindError, Connections, Desk, DeskParts, HandshakeError, KubeletClient, Port, server_config,
};
use crate::rest::{Objects, expire_events};
use crate::store::{OpenError, Store, Window};

/// Whom service-account tokens name as their issuer; upstream's default in kubeadm.
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// For each of the two halves to end.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub struct Options {
    pub listen: SocketAddr,
    /// Keys and objects are kept here; without it everything is gone with the process.
    pub data_dir: Option<PathBuf>,
    /// What the server is called and reached by.
    pub names: ServingNames,
    pub clock: Clock,
    pub window: Window,
}

/// Why there is no server.
#[derive(Debug, Error)]
pub enum StartError {
    #[error(transparent)]
    Pki(#[from] PkiError),
    #[error(transparent)]
    Store(#[from] OpenError),
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
    #[error("the first objects could not be made: {0}")]
    Furnish(Failure),
    #[error("the start was broken off: {0}")]
    Broken(String),
}

/// A server that runs. Dropped, it ends at once; [`Server::run`] ends it in order.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    pki: Arc<Pki>,
    objects: Objects,
    faults: Faults,
    /// Who asks, and what happens by itself.
    front: Half,
    /// Who writes, which has to outlive all that.
    back: Half,
}

/// Tasks that end together.
#[derive(Debug)]
struct Half {
    tasks: JoinSet<&'static str>,
    shutdown: CancellationToken,
}

impl Half {
    fn new() -> Self {
        Self {
            tasks: JoinSet::new(),
            shutdown: CancellationToken::new(),
        }
    }

    fn spawn(&mut self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(async move {
            work.await;
            name
        });
    }

    /// Those that are left when the time is up are named and dropped.
    async fn end(mut self, clock: &Clock) {
        self.shutdown.cancel();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        let late = tokio::select! {
            () = all => false,
            () = clock.sleep(PATIENCE) => true,
        };
        if late {
            warn!(
                tasks = self.tasks.len(),
                "parts of the API server did not end in time"
            );
        }
    }
}

impl Server {
    /// Opens the data, listens, and answers.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let Options { clock, .. } = &options;
        let port = Port::bind(options.listen).await?;
        let address = port.address();
        let (pki, store, writer) = open(&options).await?;
        let mut back = Half::new();
        back.spawn("the writer", writer.run(back.shutdown.clone()));
        let objects = Objects::new(store.clone(), clock.clone());

        let mut front = Half::new();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let trust = ClientTrust::new(pki.ca.certificate_der(), &provider)
            .map_err(|error| StartError::Tls(error.to_string()))?;
        let token_key = Arc::clone(&pki.token_key);
        let issuer = ISSUER.to_owned();
        let authenticator = Authenticator::new(trust, token_key, issuer, store, clock.clone());
        let authorizer = Authorizer::default();
        let controllers = Controllers {
            objects: objects.clone(),
            authorizer: authorizer.clone(),
            pki: Arc::clone(&pki),
            server: format!("https://{address}"),
            port: address.port(),
            service_address: options.names.service_address,
        };
        let kubelet_client = &pki.kubelet_client;
        let kubelets = KubeletClient::new(
            kubelet_client.certificate_der().clone(),
            kubelet_client.key_tls(),
        );
        let faults = Faults::default();
        let desk = Desk::new(DeskParts {
            objects: objects.clone(),
            authenticator,
            authorizer: authorizer.clone(),
            kubelets: kubelets.map_err(|error| StartError::Tls(error.to_string()))?,
            faults: faults.clone(),
            address: address.to_string(),
            shutdown: front.shutdown.clone(),
        });
        let chain = vec![pki.serving.certificate_der().clone()];
        let tls = server_config(chain, pki.serving.key_tls())?;
        let connections = Connections::new(port, tls, Arc::new(desk));
        if let Err(failure) = controllers.furnish().await {
            // Only a store that keeps nothing is the end. What has another cause, such as a
            // namespace that is still going, is tried again while the server runs.
            if failure.code.is_server_error() {
                return Err(StartError::Furnish(failure));
            }
            warn!(err = %failure, "what every cluster has could not be made, it is tried again");
        }
        controllers.start(&mut front.tasks, &front.shutdown);
        let expiry = expire_events(objects.clone());
        let ending = front.shutdown.clone();
        front.spawn("the expiry of events", async move {
            ending.run_until_cancelled(expiry).await;
        });
        front.spawn("the port", connections.run(front.shutdown.clone()));
        Ok(Self {
            address,
            pki,
            objects,
            faults,
            front,
            back,
        })
    }

    /// Answers until told to end: first those who ask, then the store.
    pub async fn run(self, shutdown: CancellationToken) {
        shutdown.cancelled().await;
        let clock = self.objects.clock().clone();
        self.front.end(&clock).await;
        self.back.end(&clock).await;
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// What clients are to meet; for tests.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    pub fn ca_pem(&self) -> String {
        self.pki.ca.certificate_pem()
    }

    /// For a person who may do everything. It is JSON, which is YAML as well.
    pub fn admin_kubeconfig(&self) -> String {
        use base64::Engine as _;
        let encoded = |text: String| base64::engine::general_purpose::STANDARD.encode(text);
        let admin = &self.pki.admin;
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "ferrolet",
            "clusters": [{"name": "ferrolet", "cluster": {
                "server": format!("https://{}", self.address),
                "certificate-authority-data": encoded(self.ca_pem()),
            }}],
            "users": [{"name": "kubernetes-admin", "user": {
                "client-certificate-data": encoded(admin.certificate_pem()),
                "client-key-data": encoded(admin.key_pem()),
            }}],
            "contexts": [{"name": "ferrolet", "context": {
                "cluster": "ferrolet", "user": "kubernetes-admin",
            }}],
        });
        format!("{kubeconfig:#}\n")
    }
}

type Opened = (Arc<Pki>, Store, crate::store::Writer);

async fn open(options: &Options) -> Result<Opened, StartError> {
    let Options {
        data_dir,
        names,
        clock,
        window,
        ..
    } = options.clone();
    let opening = tokio::task::spawn_blocking(move || {
        let keys = data_dir.as_ref().map(|directory| directory.join("pki"));
        let pki = Pki::open(keys.as_deref(), &names, clock.timestamp())?;
        let (store, writer) = Store::open(data_dir.as_deref(), window)?;
        Ok((Arc::new(pki), store, writer))
    });
    opening
        .await
        .map_err(|error| StartError::Broken(error.to_string()))?
}

#[cfg(test)]
mod tests;
