//! How a command reaches the cluster: which kubeconfig, which context, and a
//! client made of them that lives as long as the command.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use api::kubeconfig::{
    AddressError, ClientConfig, Kubeconfig, ReadError, ResolveError, Trust, Unusable,
};
use api::transport::{Credentials, Lane, LaneOptions, Options, Transport, TransportError};
use clap::Args;
use cluster::kubeconfig::{DEFAULT_CLUSTER_NAME, Endpoint};
use identity::client::Dial;
use kube::Client;
use seams::SharedClock;
use thiserror::Error;
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::connection;
use crate::kubelet::{say, working_directory};
use crate::output::Failure;
use crate::version;

/// Where kubeadm leaves the administrator's kubeconfig.
const ADMIN_KUBECONFIG: &str = "/etc/kubernetes/admin.conf";

/// For one request.
const PATIENCE: Duration = Duration::from_secs(30);

/// Which cluster, and as whom.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ClusterArguments {
    /// The kubeconfig to use [default: the first file of $KUBECONFIG that exists; without it,
    /// ~/.kube/config or /etc/kubernetes/admin.conf]
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Its context [default: its current-context]
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    pub(crate) context: Option<String>,
}

/// Why the cluster cannot be asked.
#[derive(Debug, Error)]
pub(crate) enum AccessError {
    #[error(
        "there is no kubeconfig: {} not there; give one with --kubeconfig FILE, or set KUBECONFIG",
        are(tried)
    )]
    NoKubeconfig { tried: Vec<PathBuf> },
    #[error(
        "none of the files that KUBECONFIG names is there: {}; correct it, or give --kubeconfig FILE",
        listed(tried)
    )]
    Environment { tried: Vec<PathBuf> },
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("{cause}{}", contexts(cause, known))]
    Resolve {
        cause: ResolveError,
        known: Vec<String>,
    },
    #[error("the proxy that the environment names for {server} cannot be used: {cause}")]
    Proxy { server: String, cause: AddressError },
    #[error("kubeconfig {}: {cause}", path.display())]
    Transport {
        path: PathBuf,
        cause: Box<TransportError>,
    },
    #[error(
        "kubeconfig {} holds no certificate authority for {server}, so that nobody can be told whom to trust there; add certificate-authority-data to its cluster",
        path.display()
    )]
    NoAuthority { path: PathBuf, server: String },
}

/// The cluster that a command talks to.
pub(crate) struct ClusterAccess {
    pub(crate) client: Client,
    pub(crate) clock: SharedClock,
    /// What the kubeconfig says of the cluster, and its name there.
    pub(crate) config: ClientConfig,
    pub(crate) cluster_name: String,
    pub(crate) kubeconfig: PathBuf,
    /// What the connections are made with.
    pub(crate) options: Options,
    transport: Transport,
}

/// Runs `work` with the cluster that the arguments name, on a runtime of its own,
/// until it is done or a signal ends it.
pub(crate) fn run<T>(
    arguments: &ClusterArguments,
    work: impl AsyncFnOnce(&ClusterAccess) -> Result<T, Failure>,
) -> Result<T, Failure> {
    block_on(async {
        let access = ClusterAccess::open(arguments)?;
        let outcome = work(&access).await;
        access.close().await;
        outcome
    })
}

/// Runs `work` on a runtime of its own, until it is done or a signal ends it.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::select! {
            outcome = work => outcome,
            _ = terminate.recv() => Err(Failure::Interrupted("SIGTERM")),
            _ = interrupt.recv() => Err(Failure::Interrupted("SIGINT")),
        }
    })
}

impl ClusterAccess {
    /// To be called inside a runtime, in which the connections will live.
    pub(crate) fn open(arguments: &ClusterArguments) -> Result<Self, AccessError> {
        let kubeconfig = arguments.locate(&Surroundings::of_process())?;
        Self::with_kubeconfig(kubeconfig, arguments.context.as_deref())
    }

    /// With the kubeconfig at an absolute path.
    pub(crate) fn with_kubeconfig(
        kubeconfig: PathBuf,
        context: Option<&str>,
    ) -> Result<Self, AccessError> {
        let parsed = Kubeconfig::read(&kubeconfig)?;
        let config = parsed
            .resolve(context)
            .map_err(|cause| AccessError::Resolve {
                cause,
                known: parsed.contexts.keys().cloned().collect(),
            })?;
        if let Some(user) = &config.missing_user {
            say(&format!(
                "warning: kubeconfig {} has no user {user:?}, which its context names; going on as nobody",
                kubeconfig.display()
            ));
        }
        let options = options_for(&config)?;
        let clock = options.clock.clone();
        let transport = Transport::new(&config, Credentials::Configured, options.clone());
        let transport = transport.map_err(|cause| AccessError::Transport {
            path: kubeconfig.clone(),
            cause: Box::new(cause),
        })?;
        Ok(Self {
            client: client(&transport, Some(PATIENCE), &config.namespace),
            clock,
            cluster_name: cluster_name(&parsed, context),
            config,
            kubeconfig,
            options,
            transport,
        })
    }

    /// For watches, which have no end of their own.
    pub(crate) fn patient_client(&self) -> Client {
        client(&self.transport, None, &self.config.namespace)
    }

    pub(crate) fn lane(&self, options: LaneOptions) -> Lane {
        self.transport.lane(options)
    }

    /// How others reach servers of this cluster: like us, but as themselves.
    pub(crate) fn dial(&self) -> Dial {
        let common = self.options.clone();
        Arc::new(move |config: &ClientConfig| {
            connection::with_proxy(&common, config).map_err(|cause| cause.to_string())
        })
    }

    /// Ends the connections.
    pub(crate) async fn close(&self) {
        self.transport.close().await;
    }

    pub(crate) fn now(&self) -> SystemTime {
        self.clock.now()
    }

    /// Where the cluster is and whom to trust there, as the kubeconfig says.
    pub(crate) fn endpoint(&self) -> Result<Endpoint, Failure> {
        let server = &self.config.server.text;
        let certificates = self.authority()?.ok_or_else(|| AccessError::NoAuthority {
            path: self.kubeconfig.clone(),
            server: server.clone(),
        })?;
        Ok(Endpoint::new(server, certificates.as_bytes())?)
    }

    /// Whom to trust there, in PEM form; `None`: the kubeconfig names nobody.
    pub(crate) fn authority(&self) -> Result<Option<String>, Failure> {
        let trust = self.config.tls.as_ref().map(|tls| &tls.trust);
        let Some(Trust::Authority(authority)) = trust else {
            return Ok(None);
        };
        let line_ending = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
        let certificates: String = authority
            .load()?
            .iter()
            .map(|der| pem::Pem::new("CERTIFICATE", der.to_vec()))
            .map(|block| pem::encode_config(&block, line_ending))
            .collect();
        Ok(Some(certificates))
    }
}

/// What the process was started with, as far as kubeconfigs are found by it.
struct Surroundings {
    /// `KUBECONFIG`.
    named: Option<OsString>,
    home: Option<PathBuf>,
    directory: PathBuf,
    admin: PathBuf,
}

impl Surroundings {
    fn of_process() -> Self {
        Self {
            named: std::env::var_os("KUBECONFIG").filter(|named| !named.is_empty()),
            home: std::env::var_os("HOME").map(PathBuf::from),
            directory: working_directory(),
            admin: PathBuf::from(ADMIN_KUBECONFIG),
        }
    }
}

impl ClusterArguments {
    /// The kubeconfig that would be used, if one is there.
    pub(crate) fn kubeconfig_file(&self) -> Option<PathBuf> {
        self.locate(&Surroundings::of_process()).ok()
    }

    /// The kubeconfig to use, as an absolute path. Where none is named, the places
    /// are kubeadm's: the user's own goes before the administrator's.
    fn locate(&self, surroundings: &Surroundings) -> Result<PathBuf, AccessError> {
        let directory = &surroundings.directory;
        if let Some(given) = &self.kubeconfig {
            return Ok(directory.join(given));
        }
        let first = |candidates: &[PathBuf]| candidates.iter().find(|path| path.exists()).cloned();
        if let Some(named) = &surroundings.named {
            let named = std::env::split_paths(named).filter(|path| !path.as_os_str().is_empty());
            let tried: Vec<PathBuf> = named.map(|path| directory.join(path)).collect();
            return first(&tried).ok_or(AccessError::Environment { tried });
        }
        let home = surroundings.home.as_deref();
        let own = home.map(|home| directory.join(home).join(".kube/config"));
        let tried: Vec<PathBuf> = own
            .into_iter()
            .chain([surroundings.admin.clone()])
            .collect();
        first(&tried).ok_or(AccessError::NoKubeconfig { tried })
    }
}

fn options_for(config: &ClientConfig) -> Result<Options, AccessError> {
    let options = connection::options(version::command_user_agent());
    connection::with_proxy(&options, config).map_err(|cause| AccessError::Proxy {
        server: config.server.text.clone(),
        cause,
    })
}

fn client(transport: &Transport, timeout: Option<Duration>, namespace: &str) -> Client {
    let lane = transport.lane(LaneOptions {
        name: "command",
        limits: None,
        timeout,
        own_connections: false,
    });
    lane.client(namespace)
}

fn cluster_name(parsed: &Kubeconfig, context: Option<&str>) -> String {
    let context = context.or(parsed.current_context.as_deref());
    let context = context.and_then(|name| parsed.contexts.get(name));
    let name = context.and_then(|context| context.cluster.clone());
    name.unwrap_or_else(|| DEFAULT_CLUSTER_NAME.to_owned())
}

fn contexts(cause: &ResolveError, known: &[String]) -> String {
    match cause.problem {
        Unusable::UnknownContext { .. } | Unusable::NoContext if !known.is_empty() => {
            format!("; it has {}", known.join(", "))
        }
        _ => String::new(),
    }
}

fn listed(paths: &[PathBuf]) -> String {
    let paths: Vec<_> = paths.iter().map(|path| shown(path)).collect();
    paths.join(", ")
}

fn are(paths: &[PathBuf]) -> String {
    let verb = if paths.len() == 1 { "is" } else { "are" };
    let paths: Vec<_> = paths.iter().map(|path| shown(path)).collect();
    format!("{} {verb}", paths.join(" and "))
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    struct Place {
        directory: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            fs::create_dir_all(directory.path().join("home/.kube")).unwrap();
            Self { directory }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.directory.path().join(name)
        }

        fn make(&self, name: &str) -> PathBuf {
            let path = self.path(name);
            fs::write(&path, "").unwrap();
            path
        }

        fn locate(&self, given: Option<&str>, named: Option<&str>) -> Result<PathBuf, AccessError> {
            let arguments = ClusterArguments {
                kubeconfig: given.map(PathBuf::from),
                context: None,
            };
            arguments.locate(&Surroundings {
                named: named.map(OsString::from),
                home: Some(self.path("home")),
                directory: self.directory.path().to_owned(),
                admin: self.path("admin.conf"),
            })
        }
    }

    #[test]
    fn what_is_given_goes_before_what_the_environment_names() {
        let place = Place::new();
        place.make("named");
        let found = place.locate(Some("given"), Some("named")).unwrap();
        assert_eq!(found, place.path("given"));
    }

    #[test]
    fn of_the_files_in_the_environment_the_first_that_exists_counts() {
        let place = Place::new();
        let (second, _) = (place.make("second"), place.make("third"));
        place.make("admin.conf");
        let found = place.locate(None, Some(":first:second:third")).unwrap();
        assert_eq!(found, second);
        let error = place.locate(None, Some("first")).unwrap_err().to_string();
        assert!(
            error.contains("KUBECONFIG") && error.contains("first"),
            "{error}"
        );
    }

    #[test]
    fn the_users_own_goes_before_the_administrators() {
        let place = Place::new();
        let error = place.locate(None, None).unwrap_err().to_string();
        assert!(
            error.contains("admin.conf") && error.contains("--kubeconfig"),
            "{error}"
        );
        let admin = place.make("admin.conf");
        assert_eq!(place.locate(None, None).unwrap(), admin);
        let own = place.make("home/.kube/config");
        assert_eq!(place.locate(None, None).unwrap(), own);
    }
}
