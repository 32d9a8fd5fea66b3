//! The certificate that the node's own port shows: from a signer, from files,
//! or signed by the node itself.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::events::{Recorder, Severity, about_node};
use api::transport::Options;
use identity::csr::Requester;
use identity::decide::state::State;
use identity::keeper::{Findings, Keeper, Outlet, Way};
use identity::metrics::KeeperMetrics;
use identity::request::{NodeAddress, Purpose, Template};
use identity::serving::{GivenError, GivenFiles, ServingError, ServingFiles, self_signed};
use identity::store::{Location, PairStore, StoreError};
use identity::tls::{self, TlsError};
use jiff::tz::TimeZone;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use rustls::sign::CertifiedKey;
use seams::SharedClock;
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::parts::Parts;
use crate::{AgentError, Seams};

/// Where the serving certificate comes from.
#[derive(Clone, Debug)]
pub enum ServingSource {
    /// `serverTLSBootstrap`.
    Signer {
        /// The gate `AllowDNSOnlyNodeCSR`.
        dns_only: bool,
        /// Where pairs are kept, and the zone of the times in their names.
        directory: PathBuf,
        zone: TimeZone,
    },
    /// `tlsCertFile` and `tlsPrivateKeyFile`.
    Files { files: GivenFiles, reload: bool },
    /// Nothing was configured: a pair of the node's own, for this host name.
    SelfSigned {
        host: String,
        /// Where it is kept; `None`: nowhere, and it lives as long as the agent.
        directory: Option<PathBuf>,
    },
}

/// Why there is no serving certificate, and will be none.
#[derive(Debug, Error)]
pub enum StartServingError {
    #[error(transparent)]
    Given(#[from] GivenError),
    #[error(transparent)]
    SelfSigned(#[from] ServingError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "serverTLSBootstrap asks the cluster for a serving certificate, and a node without \
         --kubeconfig has no cluster: turn it off, or give --kubeconfig"
    )]
    NoSigner,
}

/// What handshakes show; `None`: nothing, and they fail.
pub(crate) type Certificate = watch::Receiver<Option<Arc<CertifiedKey>>>;

/// A serving certificate that is there, or will be once the node is connected.
pub(crate) struct Serving {
    certificate: Certificate,
    signed: Option<Signed>,
}

struct Signed {
    outlet: Outlet,
    findings: Findings,
    metrics: KeeperMetrics,
    store: PairStore,
    dns_only: bool,
}

/// What asking a signer takes.
pub(crate) struct Connected {
    pub(crate) node_name: String,
    pub(crate) requests: Client,
    pub(crate) own_node: watch::Receiver<Option<Arc<Node>>>,
    pub(crate) recorder: Recorder,
}

/// The channels of a certificate that others sign.
pub(crate) type Channels = (Outlet, Findings);

impl ServingSource {
    /// The channels, where others sign: their state can be shown before anything
    /// is asked for.
    pub(crate) fn channels(&self) -> Option<Channels> {
        matches!(self, Self::Signer { .. }).then(|| Outlet::new(Purpose::Serving))
    }

    /// What needs no API server.
    pub(crate) fn start(
        self,
        channels: Option<Channels>,
        seams: &Seams,
        parts: &mut Parts,
    ) -> Result<Serving, AgentError> {
        let options = &seams.options;
        match self {
            Self::Signer {
                dns_only,
                directory,
                zone,
            } => {
                let (outlet, findings) = channels.unwrap_or_else(|| Outlet::new(Purpose::Serving));
                let metrics = KeeperMetrics::new(Purpose::Serving)?;
                let state = findings.state.clone();
                metrics.register(
                    &seams.registry,
                    Purpose::Serving,
                    state,
                    options.clock.clone(),
                )?;
                Ok(Serving {
                    certificate: findings.certificate.clone(),
                    signed: Some(Signed {
                        outlet,
                        findings,
                        metrics,
                        store: store(directory, zone).map_err(StartServingError::from)?,
                        dns_only,
                    }),
                })
            }
            Self::Files { files, reload } => {
                let (sender, certificate) = watch::channel(None);
                let followed = files.serve(options.provider.clone(), sender);
                let followed = followed.map_err(StartServingError::from)?;
                let clock = options.clock.clone();
                parts.start("serving files", |ending| {
                    followed.run(clock, reload, ending)
                });
                Ok(Serving::fixed(certificate))
            }
            Self::SelfSigned { host, directory } => {
                let now = options.clock.now();
                let pair = match directory {
                    Some(directory) => ServingFiles::in_directory(&directory).obtain(&host, now),
                    None => self_signed(&host, now),
                };
                let pair = pair.map_err(StartServingError::from)?;
                let certified = tls::certified(&pair, &options.provider);
                let certified = certified.map_err(StartServingError::from)?;
                Ok(Serving::fixed(watch::channel(Some(certified)).1))
            }
        }
    }
}

fn store(directory: PathBuf, zone: TimeZone) -> Result<PairStore, StoreError> {
    PairStore::open(Location {
        directory,
        prefix: Purpose::Serving.store_prefix().to_owned(),
        fallback: None,
        zone,
    })
}

impl Serving {
    fn fixed(certificate: Certificate) -> Self {
        Self {
            certificate,
            signed: None,
        }
    }

    pub(crate) fn certificate(&self) -> Certificate {
        self.certificate.clone()
    }

    /// What needs the API server: asking its signer, for the addresses that it
    /// has seen of this node.
    pub(crate) fn connect(self, node: Connected, options: &Options, parts: &mut Parts) {
        let Some(signed) = self.signed else {
            return;
        };
        let (templates, wanted_names) = watch::channel(None);
        let names = Names {
            node_name: node.node_name.clone(),
            dns_only: signed.dns_only,
            own_node: node.own_node,
            templates,
        };
        let client = node.requests;
        let keeper = Keeper {
            purpose: Purpose::Serving,
            store: signed.store,
            templates: wanted_names,
            access: Box::new(move |_| {
                Ok(Way {
                    client: client.clone(),
                    requester: Requester::Node,
                })
            }),
            embedded: None,
            clock: options.clock.clone(),
            provider: options.provider.clone(),
            outlet: signed.outlet,
            metrics: signed.metrics,
        };
        let pending = PendingEvents {
            node_name: node.node_name,
            recorder: node.recorder,
            clock: options.clock.clone(),
            state: signed.findings.state,
        };
        parts.start("serving names", |ending| names.run(ending));
        parts.start("serving events", |ending| pending.run(ending));
        parts.start_fallible("serving certificate", |ending| keeper.run(ending));
    }
}

/// From the node's addresses to the names that its certificate must carry.
struct Names {
    node_name: String,
    dns_only: bool,
    own_node: watch::Receiver<Option<Arc<Node>>>,
    templates: watch::Sender<Option<Template>>,
}

impl Names {
    async fn run(mut self, shutdown: CancellationToken) {
        loop {
            // A node that is gone for a moment keeps the names it had.
            let node = self.own_node.borrow_and_update().clone();
            let template = node.and_then(|node| {
                let addresses = addresses(&node);
                Template::serving(&self.node_name, &addresses, self.dns_only)
            });
            if let Some(template) = template {
                self.templates.send_if_modified(|current| {
                    let changed = current.as_ref() != Some(&template);
                    *current = Some(template);
                    changed
                });
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                changed = self.own_node.changed() => if changed.is_err() {
                    return;
                }
            }
        }
    }
}

fn addresses(node: &Node) -> Vec<NodeAddress> {
    let addresses = node
        .status
        .as_ref()
        .and_then(|status| status.addresses.as_ref());
    let read = |address: &k8s_openapi::api::core::v1::NodeAddress| {
        let text = address.address.clone();
        Some(match address.type_.as_str() {
            "Hostname" => NodeAddress::Hostname(text),
            "InternalIP" => NodeAddress::InternalIp(text),
            "ExternalIP" => NodeAddress::ExternalIp(text),
            "InternalDNS" => NodeAddress::InternalDns(text),
            "ExternalDNS" => NodeAddress::ExternalDns(text),
            _ => return None,
        })
    };
    addresses.into_iter().flatten().filter_map(read).collect()
}

/// How long a request may wait before people are told: an approver that runs
/// by itself is faster.
const UNANSWERED: Duration = Duration::from_secs(5);

/// The least time between two events: a node that waits for weeks must not fill
/// the cluster's memory with it.
const BETWEEN_EVENTS: Duration = Duration::from_secs(3600);

/// Tells the cluster's people of a request that only they can answer.
struct PendingEvents {
    node_name: String,
    recorder: Recorder,
    clock: SharedClock,
    state: watch::Receiver<State>,
}

impl PendingEvents {
    async fn run(mut self, shutdown: CancellationToken) {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.tell_of_each() => {}
        }
    }

    async fn tell_of_each(&mut self) {
        loop {
            let waiting = |state: &State| state.unapproved().is_some();
            if self.state.wait_for(waiting).await.is_err() {
                return std::future::pending().await;
            }
            self.clock.sleep(UNANSWERED).await;
            let csr = self.state.borrow().unapproved().map(str::to_owned);
            let Some(csr) = csr else {
                continue;
            };
            self.tell(&csr);
            self.clock.sleep(BETWEEN_EVENTS).await;
        }
    }

    fn tell(&self, csr: &str) {
        let message = format!(
            "CSR {csr} for the serving certificate is waiting for approval: kubectl certificate approve {csr}"
        );
        let node = about_node(&self.node_name);
        let reason = "ServingCertificatePending";
        self.recorder
            .record(node, Severity::Warning, reason, message);
    }
}
