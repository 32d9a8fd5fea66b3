//! From settings to a running node: what the process gives to the agent, and
//! what it does with how the agent ends.

use std::collections::BTreeMap;
use std::io;
use std::net::{AddrParseError, IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent::{
    Access, AgentError, Config, Membership, Place, PodFlags, PodsConfig, PodsConfigError, Rates,
    Seams, ServingSource,
};
use api::kubeconfig::ClientConfig;
use config::flags::CommandLine;
use config::gates::FeatureGates;
use config::load::Loaded;
use config::schema;
use config::settings::{Origin, Settings};
use identity::client::{Dial, Wanted};
use identity::serving::{GivenFiles, ServingFiles};
use images::credentials::plugins;
use images::records::{RecordError, Records};
use jiff::tz::TimeZone;
use linux::{LinuxHost, LinuxNet};
use node::FlagValues;
use prometheus::Registry;
use resources::garbage::{Limits, LimitsError};
use seams::SharedClock;
use serde_json::Value;
use server::{DoorConfig, DoorConfigError, Process};
use thiserror::Error;
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use types::figures::Boards;

use super::Log;
use super::limits;
use super::supervisor::Supervisor;
use crate::connection;
use crate::profiler::profiler;
use crate::version;

/// A node waits more than it works. Two are enough, and their number must not
/// follow the machine's: each has its stack and its share of the allocator.
const THREADS: usize = 2;
/// How long a thread for blocking calls waits for the next one. With tokio's ten seconds,
/// two calls at once left two threads for good: calls come every few seconds, and the
/// threads take turns.
const IDLE_THREAD: Duration = Duration::from_secs(1);
/// How long freed memory is kept for the next time.
const MEMORY_KEPT: Duration = Duration::from_secs(30);

/// How long work that cannot be interrupted is waited for at the end.
const LEFT_BEHIND: Duration = Duration::from_millis(100);

/// Signals that follow the first one sooner than this are the same wish: tools
/// like `timeout` send it to the process and to its group.
const SAME_WISH: Duration = Duration::from_secs(1);

/// Somebody is in a hurry. A terminal that is closed is not: whoever sat there is gone.
pub(crate) async fn second_signal() {
    tokio::time::sleep(SAME_WISH).await;
    let streams = signal(SignalKind::terminate()).and_then(|terminate| {
        let interrupt = signal(SignalKind::interrupt())?;
        Ok((terminate, interrupt))
    });
    let Ok((mut terminate, mut interrupt)) = streams else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// Why the node ended, or never began.
#[derive(Debug, Error)]
pub(crate) enum NodeError {
    #[error(
        "the machine's host name is empty; set one with `hostnamectl set-hostname NAME`, or give --hostname-override"
    )]
    NoName,
    #[error("told to end a second time, so ended at once")]
    Hurried,
    #[error("the process cannot be set up: {0}")]
    Process(#[from] io::Error),
    #[error(transparent)]
    Config(#[from] node::config::ConfigError),
    #[error("containerRuntimeEndpoint: {0}")]
    Endpoint(#[from] cri::EndpointError),
    #[error("healthzBindAddress {address:?} is no IP address ({cause}): change it")]
    Healthz {
        address: String,
        cause: AddrParseError,
    },
    #[error(transparent)]
    Pods(#[from] PodsConfigError),
    #[error(transparent)]
    Door(#[from] DoorConfigError),
    #[error(transparent)]
    Garbage(#[from] LimitsError),
    #[error("credential provider plugins: {0}")]
    Plugins(#[from] plugins::LoadError),
    #[error("records of pulled images: {0}")]
    Records(#[from] RecordError),
    #[error(transparent)]
    Agent(#[from] AgentError),
}

/// Runs the node until a signal ends it.
pub(crate) fn run(
    line: &CommandLine,
    loaded: &Loaded,
    directory: &Path,
    log: Log,
) -> Result<(), NodeError> {
    let config = configure(line, loaded, directory, log)?;
    limits::apply(&loaded.settings);
    let runtime = runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_keep_alive(IDLE_THREAD)
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(async {
        let shutdown = CancellationToken::new();
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let seams = seams(&loaded.settings)?;
        let (started, running) = oneshot::channel();
        let supervisor = Supervisor::of_process();
        // On a task, so that it says something of the threads that run the node.
        let mut supervision = JoinSet::new();
        supervision.spawn(
            supervisor
                .clone()
                .attend(running, seams.options.clock.clone()),
        );
        supervision.spawn(keep_little_memory(seams.options.clock.clone()));
        let node = agent::run(config, seams, started, shutdown.clone());
        let mut node = std::pin::pin!(node);
        let signal = tokio::select! {
            outcome = &mut node => return Ok(outcome?),
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        info!(signal, "ending");
        supervisor.stopping();
        shutdown.cancel();
        tokio::select! {
            outcome = &mut node => Ok(outcome?),
            () = second_signal() => Err(NodeError::Hurried),
        }
    });
    // A name server or a disk that does not answer must not keep the process.
    runtime.shutdown_timeout(LEFT_BEHIND);
    outcome
}

/// What came and went, like pods that start, leaves memory with the allocator, and pages
/// of the program that nobody needs for now.
async fn keep_little_memory(clock: SharedClock) {
    loop {
        clock.sleep(MEMORY_KEPT).await;
        linux::process::give_back_memory();
        if let Err(error) = linux::process::let_go_of_code() {
            debug!(err = %error, "the pages of this program stay in memory");
        }
    }
}

/// What the cluster has to know before it asks for it, as far as this build has it. The
/// name of each is that of its gate.
fn declared_features(gates: &FeatureGates) -> Vec<String> {
    const OURS: [&str; 4] = [
        "ExtendWebSocketsToKubelet",
        "InPlacePodLevelResourcesVerticalScaling",
        "InPlacePodVerticalScalingInitContainers",
        "RestartAllContainersOnContainerExits",
    ];
    if !gates.enabled("NodeDeclaredFeatures") {
        return Vec::new();
    }
    let declared = OURS.into_iter().filter(|gate| gates.enabled(gate));
    declared.map(str::to_owned).collect()
}

/// What an agent is given to be the node that this command line describes.
pub(crate) fn configure(
    line: &CommandLine,
    loaded: &Loaded,
    directory: &Path,
    log: Log,
) -> Result<Config, NodeError> {
    let settings = &loaded.settings;
    let given = |name: &str| line.text(name).filter(|text| !text.is_empty());
    let path = |name: &str| given(name).map(|text| directory.join(text));
    let node_name = node_name(given("hostname-override"))?;
    let pairs_directory = path("cert-dir").unwrap_or_else(|| PathBuf::from("/var/lib/kubelet/pki"));
    let flags = FlagValues {
        node_name: node_name.clone(),
        hostname: node_name.clone(),
        node_ip: given("node-ip").unwrap_or_default().to_owned(),
        node_labels: pairs(line, "node-labels"),
        cloud_provider: given("cloud-provider").unwrap_or_default().to_owned(),
        root_directory: path("root-dir").unwrap_or_else(|| PathBuf::from("/var/lib/kubelet")),
        ignore_eviction: line.bool("experimental-allocatable-ignore-eviction") == Some(true),
        kubelet_version: version::kubelet(),
        declared_features: declared_features(&loaded.gates),
    };
    let (node, notices) = node::Config::from_settings(settings, flags)?;
    for notice in notices {
        warn!("{notice}");
    }
    let pods = pods(line, loaded, directory)?;
    let membership = |kubeconfig, node| Membership {
        access: Access::Own {
            identity: Wanted {
                node_name: node_name.clone(),
                kubeconfig,
                bootstrap_kubeconfig: path("bootstrap-kubeconfig"),
                directory: pairs_directory.clone(),
                rotate: settings.bool("rotateCertificates"),
                zone: TimeZone::system(),
            },
            rates: Rates::from_settings(settings),
        },
        node,
    };
    let serving = serving(loaded, directory, &pairs_directory, node_name.clone());
    let shown = with_made_pair(settings, &serving);
    let pod_cidr = Some(settings.text("podCIDR")).filter(|text| !text.is_empty());
    let place = match path("kubeconfig") {
        Some(kubeconfig) => Place::Cluster(Box::new(membership(kubeconfig, node))),
        None => Place::Standalone {
            pod_cidr: pod_cidr.map(str::to_owned),
            node: Box::new(node),
        },
    };
    Ok(Config {
        place,
        serving: Some(serving),
        door: DoorConfig::from_settings(&shown, &loaded.gates, directory, process(line, log))?,
        healthz: healthz(settings)?,
        pods,
    })
}

/// What the node's port tells of this process, and does to it.
fn process(line: &CommandLine, log: Log) -> Process {
    let Log { verbosity, waiting } = log;
    let line = line.clone();
    Process {
        version: version::kubelet(),
        command: std::env::args().collect(),
        flags: Arc::new(move || {
            let shown = config::flags::values(&line).map(|(name, value)| {
                // Tokens are sent in headers.
                let secret = name == "manifest-url-header" && !value.is_empty();
                let value = if secret {
                    "CLASSIFIED".to_owned()
                } else {
                    value
                };
                (name.to_owned(), value)
            });
            shown.collect()
        }),
        set_verbosity: Arc::new(move |level| verbosity.set(level)),
        log: Arc::new(move || {
            if waiting.is_blocked(jiff::Timestamp::now()) {
                return Err("logging blocked".to_owned());
            }
            Ok(())
        }),
        profiler: profiler(),
    }
}

fn pods(line: &CommandLine, loaded: &Loaded, directory: &Path) -> Result<PodsConfig, NodeError> {
    let root = line.text("root-dir").filter(|text| !text.is_empty());
    let root = directory.join(root.unwrap_or("/var/lib/kubelet"));
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let flags = PodFlags {
        records: Arc::new(Records::on_disk(&root)?),
        plugins: plugins(line, loaded, directory)?,
        pod_resources: Some(root.join("pod-resources/kubelet.sock")),
        runtime_group: line
            .text("runtime-cgroups")
            .filter(|group| !group.is_empty())
            .map(PathBuf::from),
        root_directory: root,
        home: std::env::home_dir(),
        working: Some(directory.to_owned()),
        kernel: rustix::system::uname()
            .release()
            .to_string_lossy()
            .into_owned(),
        cpus,
        garbage: Limits::from_flags(line)?,
        zone: TimeZone::system(),
    };
    Ok(PodsConfig::from_settings(
        &loaded.settings,
        &loaded.gates,
        &flags,
    )?)
}

/// Either flag asks for them, and then the other has to be there, too.
fn plugins(
    line: &CommandLine,
    loaded: &Loaded,
    directory: &Path,
) -> Result<Option<plugins::Loaded>, NodeError> {
    let flag = |name: &str| line.text(name).unwrap_or_default();
    let config = flag("image-credential-provider-config");
    let programs = flag("image-credential-provider-bin-dir");
    if config.is_empty() && programs.is_empty() {
        return Ok(None);
    }
    let place = |path: &str| match path {
        "" => PathBuf::new(),
        path => directory.join(path),
    };
    let tokens = loaded
        .gates
        .enabled("KubeletServiceAccountTokenForCredentialProviders");
    let host = LinuxHost::new(PathBuf::from("/"));
    let loaded = plugins::load(&host, &place(config), &place(programs), tokens)?;
    Ok(Some(loaded))
}

/// Nobody listens on port 0; no address means all, as Go reads it.
fn healthz(settings: &Settings) -> Result<Option<SocketAddr>, NodeError> {
    let port = u16::try_from(settings.int("healthzPort")).unwrap_or_default();
    if port == 0 {
        return Ok(None);
    }
    let address = match settings.text("healthzBindAddress") {
        "" => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        text => text.parse().map_err(|cause| NodeError::Healthz {
            address: text.to_owned(),
            cause,
        })?,
    };
    Ok(Some(SocketAddr::new(address, port)))
}

fn pairs(line: &CommandLine, name: &str) -> BTreeMap<String, String> {
    let pairs = line.pairs(name).into_iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    pairs
        .map(|(key, value)| (key.to_owned(), text(value)))
        .collect()
}

fn serving(loaded: &Loaded, directory: &Path, pairs: &Path, host: String) -> ServingSource {
    let Loaded {
        settings, gates, ..
    } = loaded;
    let file = |name: &str| match settings.text(name) {
        "" => None,
        text => Some(directory.join(text)),
    };
    if settings.bool("serverTLSBootstrap") {
        return ServingSource::Signer {
            dns_only: gates.enabled("AllowDNSOnlyNodeCSR"),
            directory: pairs.to_owned(),
            zone: TimeZone::system(),
        };
    }
    match (file("tlsCertFile"), file("tlsPrivateKeyFile")) {
        (Some(certificate), Some(key)) => ServingSource::Files {
            files: GivenFiles { certificate, key },
            reload: gates.enabled("ReloadKubeletServerCertificateFile"),
        },
        _ => ServingSource::SelfSigned {
            host,
            directory: Some(pairs.to_owned()),
        },
    }
}

/// The settings as `/configz` shows them: a pair that the node makes itself has a place, too.
fn with_made_pair(settings: &Settings, serving: &ServingSource) -> Settings {
    let mut shown = settings.clone();
    if let ServingSource::SelfSigned {
        directory: Some(directory),
        ..
    } = serving
    {
        let made = ServingFiles::in_directory(directory);
        for (path, file) in [
            ("tlsCertFile", made.certificate),
            ("tlsPrivateKeyFile", made.key),
        ] {
            if let Some(field) = schema::field(path) {
                let file = Value::from(file.display().to_string());
                shown.set(field, file, Origin::Default);
            }
        }
    }
    shown
}

/// The override, or the machine's name; trimmed and in lower case.
fn node_name(given: Option<&str>) -> Result<String, NodeError> {
    let machine = rustix::system::uname();
    let name = match given {
        Some(name) => name.to_owned(),
        None => machine.nodename().to_string_lossy().into_owned(),
    };
    let name = name.trim().to_lowercase();
    if name.is_empty() {
        return Err(NodeError::NoName);
    }
    Ok(name)
}

/// To be called inside the runtime, in which the connections will live.
pub(crate) fn seams(settings: &Settings) -> Result<Seams, NodeError> {
    let options = connection::options(version::user_agent());
    let common = options.clone();
    let dial: Dial = Arc::new(move |config: &ClientConfig| {
        connection::with_proxy(&common, config).map_err(|cause| cause.to_string())
    });
    let runtime = cri::Config {
        runtime_endpoint: settings.text("containerRuntimeEndpoint").to_owned(),
        image_endpoint: settings.text("imageServiceEndpoint").to_owned(),
        request_timeout: settings
            .duration("runtimeRequestTimeout")
            .to_std()
            .unwrap_or_default(),
        ..cri::Config::default()
    };
    let runtime = cri::Client::new(&runtime, options.clock.clone())?;
    let host = Arc::new(LinuxHost::new(PathBuf::from("/")));
    Ok(Seams {
        options,
        dial,
        storage: host.clone(),
        host,
        net: Arc::new(LinuxNet),
        runtime: Arc::new(runtime),
        registry: Registry::new(),
        figures: Boards::default(),
        process_id: std::process::id(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_is_declared_while_its_gate_is_on() {
        let declared = |gates: &[(&'static str, bool)]| {
            let gates = FeatureGates::resolve(gates.iter().copied()).unwrap();
            declared_features(&gates)
        };
        let all = [
            "ExtendWebSocketsToKubelet",
            "InPlacePodLevelResourcesVerticalScaling",
            "InPlacePodVerticalScalingInitContainers",
            "RestartAllContainersOnContainerExits",
        ];
        assert_eq!(declared(&[]), all);
        let without = [("RestartAllContainersOnContainerExits", false)];
        assert_eq!(declared(&without), all[..3]);
    }

    #[test]
    fn a_pair_that_the_node_makes_is_shown_and_one_that_the_cluster_signs_is_not() {
        let shown = |serving: &ServingSource| {
            let shown = with_made_pair(&Settings::default(), serving);
            let files = ["tlsCertFile", "tlsPrivateKeyFile"];
            files.map(|file| shown.text(file).to_owned())
        };
        let directory = PathBuf::from("/pki");
        let made = ServingSource::SelfSigned {
            host: "node".to_owned(),
            directory: Some(directory.clone()),
        };
        assert_eq!(shown(&made), ["/pki/kubelet.crt", "/pki/kubelet.key"]);
        let signed = ServingSource::Signer {
            dns_only: false,
            directory,
            zone: TimeZone::UTC,
        };
        assert_eq!(shown(&signed), ["", ""]);
    }
}
