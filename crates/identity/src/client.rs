//! The node as a client of the API server: from what it was told (two
//! kubeconfigs and a directory) to connections that carry its identity.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::kubeconfig::{
    self, ClientConfig, Identity, Kubeconfig, Material, ReadError, ResolveError, Validity,
    WriteError,
};
use api::transport::{Credentials, LaneOptions, Options, Transport, TransportError};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use kube::Client;
use thiserror::Error;
use tokio::sync::watch;
use tracing::info;

use crate::bootstrap::{self, BootstrapError};
use crate::csr::Requester;
use crate::decide::kubeconfig::{MainKubeconfig, Start, Told, choose};
use crate::keeper::{Access, Findings, Keeper, NoAccess, Outlet, Standing, Way};
use crate::metrics::KeeperMetrics;
use crate::pair::{Pair, PairError};
use crate::request::{Purpose, Template};
use crate::store::{Location, PairStore, StoreError};

/// What the node was told about its identity.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub node_name: String,
    pub kubeconfig: PathBuf,
    pub bootstrap_kubeconfig: Option<PathBuf>,
    /// The certificate directory, absolute.
    pub directory: PathBuf,
    /// `rotateCertificates`.
    pub rotate: bool,
    /// The machine's, for file names.
    pub zone: TimeZone,
}

/// How transports are made: the same for the node's own and for bootstrapping.
/// The proxy depends on the server, so it is asked for.
pub type Dial = Arc<dyn Fn(&ClientConfig) -> Result<Options, String> + Send + Sync>;

/// Who the node is to the API server.
pub struct ClientIdentity {
    pub transport: Transport,
    /// Absent where the kubeconfig is used as it is.
    pub managed: Option<Managed>,
}

impl fmt::Debug for ClientIdentity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ClientIdentity")
            .finish_non_exhaustive()
    }
}

/// An identity that is kept fresh: the task that does it, and what it publishes.
pub struct Managed {
    pub keeper: Keeper,
    pub findings: Findings,
}

impl fmt::Debug for Managed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Managed").finish_non_exhaustive()
    }
}

/// Why the node has no identity.
#[derive(Debug, Error)]
pub enum EstablishError {
    #[error("{0}; correct it, or give --bootstrap-kubeconfig")]
    Main(ReadError),
    #[error("the bootstrap kubeconfig is needed, as {reason}: {cause}")]
    Bootstrap { reason: String, cause: ReadError },
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    #[error("--kubeconfig cannot be looked at: {0}")]
    Unreachable(String),
    #[error(transparent)]
    Transport(#[from] TransportError),
    #[error("the proxy for {server} is unusable: {cause}")]
    Dial { server: String, cause: String },
    #[error("the client certificate inside {} is unusable: {cause}", kubeconfig.display())]
    Embedded {
        kubeconfig: PathBuf,
        cause: PairError,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    FirstCertificate(#[from] BootstrapError),
}

/// What is needed to become somebody.
pub struct Establish<'a> {
    pub wanted: &'a Wanted,
    pub dial: Dial,
    pub outlet: Outlet,
    pub findings: Findings,
    pub metrics: KeeperMetrics,
}

impl fmt::Debug for Establish<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Establish").finish_non_exhaustive()
    }
}

impl Establish<'_> {
    /// Chooses the kubeconfig, and takes it as far as it can be taken at start.
    /// With rotation that is at once; without, it waits for the first certificate.
    pub async fn run(self, options: &Options) -> Result<ClientIdentity, EstablishError> {
        let (start, reason) = self.choose(options);
        match start {
            Start::Stop { cause } => Err(EstablishError::Unreachable(cause)),
            Start::UseMain => self.use_main(),
            Start::RotateFromMain => self.rotate_from_main(),
            Start::BootstrapInBackground => self.bootstrap_in_background(reason),
            Start::BootstrapFirst => self.bootstrap_first(reason, options).await,
        }
    }

    fn choose(&self, options: &Options) -> (Start, String) {
        let wanted = self.wanted;
        let told = Told {
            bootstrap: wanted.bootstrap_kubeconfig.is_some(),
            rotate: wanted.rotate,
        };
        // Only looked at beside a bootstrap kubeconfig, as upstream.
        if !told.bootstrap {
            return (choose(told, &MainKubeconfig::Absent), String::new());
        }
        let now = Timestamp::try_from(options.clock.now()).unwrap_or_default();
        let validity = kubeconfig::judge(&wanted.kubeconfig, now, &options.provider);
        let reason = format!("{}: {validity}", wanted.kubeconfig.display());
        let start = choose(told, &main_kubeconfig(&validity));
        if matches!(start, Start::BootstrapFirst | Start::BootstrapInBackground) {
            info!(kubeconfig = %wanted.kubeconfig.display(), reason = %validity, "bootstrapping");
        }
        (start, reason)
    }

    fn use_main(self) -> Result<ClientIdentity, EstablishError> {
        let config = self.main()?;
        let options = dial(&self.dial, &config)?;
        Ok(ClientIdentity {
            transport: Transport::new(&config, Credentials::Configured, options)?,
            managed: None,
        })
    }

    fn rotate_from_main(self) -> Result<ClientIdentity, EstablishError> {
        let config = self.main()?;
        let (fallback, embedded) = self.given_pair(&config)?;
        let store = self.store(fallback)?;
        self.managed(&config, store, embedded)
    }

    fn bootstrap_in_background(self, reason: String) -> Result<ClientIdentity, EstablishError> {
        let bootstrap = self.bootstrap(reason)?;
        let store = self.store(None)?;
        let main = &self.wanted.kubeconfig;
        kubeconfig::write_bootstrapped(main, &bootstrap, &store.current_path())?;
        self.managed(&bootstrap, store, None)
    }

    async fn bootstrap_first(
        self,
        reason: String,
        options: &Options,
    ) -> Result<ClientIdentity, EstablishError> {
        let wanted = self.wanted;
        let config = self.bootstrap(reason)?;
        let store = self.store(None)?;
        let dialed = dial(&self.dial, &config)?;
        let transport = Transport::new(&config, Credentials::Configured, dialed)?;
        let client = unlimited(&transport);
        let place = (&store, wanted.directory.as_path());
        let clock = &*options.clock;
        let outcome =
            bootstrap::first_certificate(&client, clock, &wanted.node_name, place, &self.outlet)
                .await;
        transport.close().await;
        outcome?;
        kubeconfig::write_bootstrapped(&wanted.kubeconfig, &config, &store.current_path())?;
        self.use_main()
    }

    /// The same server, with an identity that the keeper provides.
    fn managed(
        self,
        config: &ClientConfig,
        store: PairStore,
        embedded: Option<Pair>,
    ) -> Result<ClientIdentity, EstablishError> {
        let config = config.anonymous();
        let options = dial(&self.dial, &config)?;
        let (clock, provider) = (options.clock.clone(), options.provider.clone());
        let certificates = self.findings.certificate.clone();
        let transport = Transport::new(&config, Credentials::Managed(certificates), options)?;
        let template = Template::client(&self.wanted.node_name);
        let keeper = Keeper {
            purpose: Purpose::Client,
            store,
            // The node's name does not change while it runs.
            templates: watch::channel(Some(template)).1,
            access: access(&transport, self.wanted, self.dial),
            embedded,
            clock,
            provider,
            outlet: self.outlet,
            metrics: self.metrics,
        };
        Ok(ClientIdentity {
            transport,
            managed: Some(Managed {
                keeper,
                findings: self.findings,
            }),
        })
    }

    fn main(&self) -> Result<ClientConfig, EstablishError> {
        let main = Kubeconfig::read(&self.wanted.kubeconfig).map_err(EstablishError::Main)?;
        Ok(main.resolve(None)?)
    }

    fn bootstrap(&self, reason: String) -> Result<ClientConfig, EstablishError> {
        let path = self.wanted.bootstrap_kubeconfig.clone().unwrap_or_default();
        let read = Kubeconfig::read(&path);
        let read = read.map_err(|cause| EstablishError::Bootstrap { reason, cause })?;
        Ok(read.resolve(None)?)
    }

    /// The kubeconfig's own pair: as files to read while the store is empty, or
    /// as the pair itself.
    fn given_pair(&self, config: &ClientConfig) -> Result<GivenPair, EstablishError> {
        let Identity::Given(given) = &config.identity else {
            return Ok((None, None));
        };
        Ok(
            match given
                .certificate
                .as_ref()
                .map(|source| (&source.certificate, &source.key))
            {
                Some((Material::File(certificate), Material::File(key))) => {
                    (Some((certificate.clone(), key.clone())), None)
                }
                Some((Material::Data(_, certificate), Material::Data(_, key))) => {
                    let pair = Pair::from_pem(certificate.expose(), key.expose());
                    let pair = pair.map_err(|cause| EstablishError::Embedded {
                        kubeconfig: self.wanted.kubeconfig.clone(),
                        cause,
                    })?;
                    (None, Some(pair))
                }
                // Half a pair in either form is of no use to upstream either.
                _ => (None, None),
            },
        )
    }

    fn store(&self, fallback: Option<(PathBuf, PathBuf)>) -> Result<PairStore, StoreError> {
        PairStore::open(Location {
            directory: self.wanted.directory.clone(),
            prefix: Purpose::Client.store_prefix().to_owned(),
            fallback,
            zone: self.wanted.zone.clone(),
        })
    }
}

type GivenPair = (Option<(PathBuf, PathBuf)>, Option<Pair>);

/// With a certificate, the node's own connections. Without one, the bootstrap
/// kubeconfig; where there is none, whatever the main one holds beside
/// certificates. Both are read anew each time: an operator may have put a fresh
/// token there. What cannot be read leaves the node to ask as nobody, and to
/// learn from the answer whether the server is there.
fn access(transport: &Transport, wanted: &Wanted, options: Dial) -> Access {
    let own = unlimited(transport);
    let main = wanted.kubeconfig.clone();
    let bootstrap = wanted.bootstrap_kubeconfig.clone();
    Box::new(move |standing| {
        let (client, requester) = match (standing, &bootstrap) {
            (Standing::Certified, _) => (own.clone(), Requester::Node),
            (Standing::Uncertified, Some(path)) if path.exists() => {
                let client = client_of(path, &options);
                let client = client.map_err(|cause| NoAccess(cause.to_string()))?;
                (client, Requester::Bootstrap)
            }
            (Standing::Uncertified, _) => {
                let client = client_of(&main, &options).unwrap_or_else(|_| own.clone());
                (client, Requester::Kubeconfig)
            }
        };
        Ok(Way { client, requester })
    })
}

/// A client with all that a kubeconfig has to say.
fn client_of(path: &Path, options: &Dial) -> Result<Client, EstablishError> {
    let read = Kubeconfig::read(path).map_err(EstablishError::Main)?;
    let config = read.resolve(None)?;
    let transport = Transport::new(&config, Credentials::Configured, dial(options, &config)?)?;
    Ok(unlimited(&transport))
}

/// Requests for certificates are few and must not wait behind others.
fn unlimited(transport: &Transport) -> Client {
    let lane = transport.lane(LaneOptions {
        name: "certificates",
        limits: None,
        timeout: None,
        own_connections: false,
    });
    lane.client("default")
}

fn dial(options: &Dial, config: &ClientConfig) -> Result<Options, EstablishError> {
    options(config).map_err(|cause| EstablishError::Dial {
        server: config.server.text.clone(),
        cause,
    })
}

fn main_kubeconfig(validity: &Validity) -> MainKubeconfig {
    let cause = validity.to_string();
    match validity {
        Validity::Absent => MainKubeconfig::Absent,
        Validity::Inaccessible(_) => MainKubeconfig::Unreachable { cause },
        Validity::Unreadable(_) | Validity::Unusable(_) => MainKubeconfig::Unusable { cause },
        Validity::Material(_) => MainKubeconfig::TlsUnusable { cause },
        Validity::NoCertificate => MainKubeconfig::NoCertificate,
        Validity::Expired { at } => MainKubeconfig::Expired {
            since: (*at).into(),
        },
        Validity::Valid { .. } => MainKubeconfig::Valid,
    }
}
