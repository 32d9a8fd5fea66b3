//! The node of this machine, as far as it can be found without changing anything:
//! the agent that runs, what it was started with, where its files are, and what the
//! API server says of it.

pub(crate) mod cluster;
mod embedded;
pub(crate) mod look;
mod process;
mod remedies;

use std::path::{Path, PathBuf};
use std::time::Duration;

use ::cluster::layout::{
    BOOTSTRAP_KUBECONFIG, CERTIFICATES, KUBECONFIG, KUBELET_CONFIG, KUBELET_DIRECTORY, is_joined,
};
use clap::Args;
use config::flags::CommandLine;
use config::load::{Loaded, built_in_defaults, judge, resolve};
use config::settings::Settings;
use identity::published::Published;
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};

pub(crate) use self::embedded::Embedded;
pub(crate) use self::process::Agent;
pub(crate) use self::remedies::Remedies;

use crate::certs::Places;
use crate::certs::process::Process;
use crate::cluster_access::ClusterArguments;
use crate::fleet::CLOSED;
use crate::join::agent::command_words;
use crate::join::machine::{has_systemd, own_name};
use crate::kubelet::{machine, working_directory};
use crate::output::Failure;

/// How long work that cannot be interrupted is waited for at the end.
const LEFT_BEHIND: Duration = Duration::from_millis(100);

/// Said below the options of commands that look at this machine's node.
pub(crate) const WHERE_FROM: &str = "\
What is not given is taken from the agent that runs on this machine, or from the
`ferrolet up` (of several, the one that KUBECONFIG names, else the newest); without
one, from the files that `ferrolet join` or kubeadm left.";

/// Which node, where the machine leaves a doubt.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct NodeArguments {
    /// The kubelet's --config
    #[arg(long, value_name = "FILE", help_heading = "Node")]
    config: Option<PathBuf>,
    /// The kubelet's --kubeconfig
    #[arg(long, value_name = "FILE", help_heading = "Node")]
    kubeconfig: Option<PathBuf>,
    /// The kubelet's --bootstrap-kubeconfig
    #[arg(long, value_name = "FILE", help_heading = "Node")]
    bootstrap_kubeconfig: Option<PathBuf>,
    /// The kubelet's --cert-dir
    #[arg(long, value_name = "DIR", help_heading = "Node")]
    cert_dir: Option<PathBuf>,
    /// The kubelet's --root-dir
    #[arg(long, value_name = "DIR", help_heading = "Node")]
    root_dir: Option<PathBuf>,
    /// The container runtime's socket
    #[arg(long, value_name = "SOCKET", help_heading = "Node")]
    runtime_endpoint: Option<String>,
    /// The node's name
    #[arg(long, value_name = "NAME", help_heading = "Node")]
    node_name: Option<String>,
    /// A kubeconfig for what the node itself may not see [default: the one that kubectl would
    /// use, if it is for the same API server]
    #[arg(long, value_name = "FILE", help_heading = "Node")]
    admin_kubeconfig: Option<PathBuf>,
}

impl NodeArguments {
    /// Whether somebody has said which node is meant.
    pub(crate) fn names_node(&self) -> bool {
        self.node_name.is_some()
    }

    /// The same, of another node.
    pub(crate) fn of_node(&self, name: String) -> Self {
        Self {
            node_name: Some(name),
            ..self.clone()
        }
    }
}

/// A node, found.
#[derive(Debug)]
pub(crate) struct LocalNode {
    pub(crate) name: String,
    /// The agent that runs.
    pub(crate) agent: Option<Agent>,
    /// That is part of a `ferrolet up`.
    pub(crate) embedded: Option<Embedded>,
    /// More agents than there should be.
    pub(crate) others: Vec<Agent>,
    pub(crate) settings: Settings,
    /// Why an agent would not start with what it is told.
    pub(crate) refused: Option<String>,
    pub(crate) config_file: Option<PathBuf>,
    pub(crate) places: Places,
    /// For what the node itself may not see, if one is known.
    pub(crate) admin_kubeconfig: Option<PathBuf>,
    pub(crate) root_directory: PathBuf,
    /// Somebody has said how an agent is to run here.
    pub(crate) is_told: bool,
    /// It belongs to a cluster, or is told to.
    pub(crate) is_member: bool,
    pub(crate) remedies: Remedies,
}

impl NodeArguments {
    /// As the kubelet's flags, which are told to whoever wrote others before.
    fn flags(&self, here: &Path) -> Vec<String> {
        let paths = [
            ("config", &self.config),
            ("kubeconfig", &self.kubeconfig),
            ("bootstrap-kubeconfig", &self.bootstrap_kubeconfig),
            ("cert-dir", &self.cert_dir),
            ("root-dir", &self.root_dir),
        ];
        let paths = paths.into_iter().filter_map(|(flag, path)| {
            let path = here.join(path.as_ref()?);
            Some(format!("--{flag}={}", path.display()))
        });
        let endpoint = self.runtime_endpoint.as_ref().map(|given| {
            let endpoint = match given.strip_prefix('/') {
                Some(path) => format!("unix:///{path}"),
                None => given.clone(),
            };
            format!("--container-runtime-endpoint={endpoint}")
        });
        let name = self.node_name.as_ref();
        let name = name.map(|name| format!("--hostname-override={name}"));
        paths.chain(endpoint).chain(name).collect()
    }

    /// Whether the node is told by its files: then it is no other.
    fn names_files(&self) -> bool {
        let files = [
            &self.config,
            &self.kubeconfig,
            &self.bootstrap_kubeconfig,
            &self.cert_dir,
        ];
        files.iter().any(|file| file.is_some())
    }

    /// Part of a `ferrolet up`, if one runs here and is meant.
    fn embedded(&self, kubelet_runs: bool) -> Option<(Agent, Embedded)> {
        if self.names_files() {
            return None;
        }
        let keepers = process::keepers(Path::new("/proc"));
        let kubectls = ClusterArguments {
            kubeconfig: self.admin_kubeconfig.clone(),
            context: None,
        };
        let kubectls = kubectls.kubeconfig_file();
        let name = self.node_name.as_deref();
        embedded::find(&keepers, kubectls.as_deref(), kubelet_runs, name)
    }
}

impl LocalNode {
    pub(crate) fn find(arguments: &NodeArguments) -> Self {
        let here = working_directory();
        let given = arguments.flags(&here);
        let mut agents = process::agents(Path::new("/proc")).into_iter();
        let agent = agents.next();
        let (agent, embedded) = match arguments.embedded(agent.is_some()) {
            Some((agent, embedded)) => (Some(agent), Some(embedded)),
            None => (agent, None),
        };
        let (base, directory) = match &agent {
            Some(agent) => (agent.flags.clone(), agent.directory.clone()),
            None => (flags_of_files(), PathBuf::from("/")),
        };
        let told = [base, given].concat();
        let is_told = agent.is_some() || !told.is_empty();
        let is_simulated = embedded.as_ref().is_some_and(|node| node.simulated);
        let (line, settings, refused) = if is_simulated {
            of_simulated(&told)
        } else if is_told {
            let (line, loaded, refused) = understood(&told, &directory);
            (line, loaded.map(|loaded| loaded.settings), refused)
        } else {
            (CommandLine::default(), None, None)
        };
        let path = |name: &str| {
            let text = line.text(name).filter(|text| !text.is_empty());
            text.map(|text| directory.join(text))
        };
        let places = Places {
            cert_dir: path("cert-dir").unwrap_or_else(|| CERTIFICATES.into()),
            kubeconfig: path("kubeconfig").unwrap_or_else(|| KUBECONFIG.into()),
            bootstrap_kubeconfig: path("bootstrap-kubeconfig")
                .unwrap_or_else(|| BOOTSTRAP_KUBECONFIG.into()),
        };
        // An agent that is part of another program tells of itself in its files only.
        let agent = agent.or_else(|| published(&places.cert_dir));
        let name = line.text("hostname-override").map(str::trim);
        let name = name.filter(|name| !name.is_empty());
        let config_file = path("config");
        let remedies = match (&embedded, &agent) {
            (Some(embedded), Some(agent)) => Remedies::of_up(agent.id, embedded),
            _ => Remedies::new(has_systemd(Path::new("/")), agent.as_ref(), &told),
        };
        let given = arguments.admin_kubeconfig.as_ref();
        let given = given.map(|path| here.join(path));
        Self {
            name: name.map_or_else(own_name, str::to_lowercase),
            // Those beside a cluster of its own are no matter of that.
            others: agents.filter(|_| embedded.is_none()).collect(),
            settings: settings.unwrap_or_else(|| built_in_defaults(false)),
            refused,
            is_told,
            is_member: path("kubeconfig").is_some(),
            root_directory: path("root-dir").unwrap_or_else(|| KUBELET_DIRECTORY.into()),
            admin_kubeconfig: given.or_else(|| Some(embedded.as_ref()?.kubeconfig())),
            remedies,
            agent,
            embedded,
            config_file,
            places,
        }
    }

    /// Which node this is, for a sentence.
    pub(crate) fn told(&self) -> String {
        let cluster = self.embedded.as_ref();
        let cluster = cluster.map(|node| format!(" of the cluster in {}", node.root.display()));
        format!("{}{}", self.name, cluster.unwrap_or_default())
    }
}

/// Runs `work` on a runtime of its own, until it is done or a signal ends it. A disk that
/// hangs does not keep the process.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::select! {
            outcome = work => outcome,
            _ = terminate.recv() => Err(Failure::Interrupted("SIGTERM")),
            _ = interrupt.recv() => Err(Failure::Interrupted("SIGINT")),
        }
    });
    runtime.shutdown_timeout(LEFT_BEHIND);
    outcome
}

/// What a joined machine's agent would be started with; nothing on one that has not
/// joined.
fn flags_of_files() -> Vec<String> {
    let joined = is_joined(Path::new("/")) || Path::new(BOOTSTRAP_KUBECONFIG).exists();
    if !joined {
        return Vec::new();
    }
    let mut words = command_words(Path::new("/")).unwrap_or_default();
    if !words.is_empty() {
        // The command itself.
        words.remove(0);
    }
    // Who set the node up in another way has no such file.
    let config = format!("--config={KUBELET_CONFIG}");
    if !Path::new(KUBELET_CONFIG).exists() {
        words.retain(|word| *word != config);
    }
    words
}

/// What the words mean to an agent, and why it would not start with them.
fn understood(words: &[String], directory: &Path) -> (CommandLine, Option<Loaded>, Option<String>) {
    let line = match CommandLine::parse(words) {
        Ok(line) => line,
        Err(error) => return (CommandLine::default(), None, Some(error.to_string())),
    };
    match resolve(&line, directory) {
        Err(refused) => (line, None, Some(refused.to_string())),
        Ok(loaded) => {
            let judged = judge(&line, &loaded, Some(machine(&line)));
            let refused = judged.err().map(|refused| refused.to_string());
            (line, Some(loaded), refused)
        }
    }
}

/// What a simulated node is told, which has its settings in common with all of its cluster.
/// Its certificate is renewed whatever they say.
fn of_simulated(words: &[String]) -> (CommandLine, Option<Settings>, Option<String>) {
    let line = CommandLine::parse(words).unwrap_or_default();
    let common = CLOSED.iter().chain(&["--rotate-certificates=true"]);
    let common: Vec<String> = common.map(|&flag| flag.to_owned()).collect();
    let (_, loaded, _) = understood(&common, Path::new("/"));
    (line, loaded.map(|loaded| loaded.settings), None)
}

fn published(directory: &Path) -> Option<Agent> {
    let published = Published::read(&Published::path(directory)).ok()?;
    let runs = Process::of(published.process_id) == Process::Runs;
    runs.then(|| Agent::untold(published.process_id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_is_told_as_the_kubelets_flags() {
        let arguments = NodeArguments {
            config: Some("a.yaml".into()),
            root_dir: Some("/var/lib/other".into()),
            runtime_endpoint: Some("/run/crio/crio.sock".to_owned()),
            node_name: Some("N1".to_owned()),
            ..NodeArguments::default()
        };
        assert_eq!(
            arguments.flags(Path::new("/here")),
            [
                "--config=/here/a.yaml",
                "--root-dir=/var/lib/other",
                "--container-runtime-endpoint=unix:///run/crio/crio.sock",
                "--hostname-override=N1",
            ]
        );
    }

    #[test]
    fn words_that_an_agent_would_refuse_are_told_with_the_reason() {
        let words = |words: &[&str]| {
            words
                .iter()
                .map(|&word| word.to_owned())
                .collect::<Vec<_>>()
        };
        let (_, loaded, refused) = understood(&words(&["--no-such-flag"]), Path::new("/"));
        assert!(loaded.is_none() && refused.unwrap().contains("no-such-flag"));
        let absent = words(&["--config=/nonexistent/config.yaml", "--root-dir=/r"]);
        let (line, loaded, refused) = understood(&absent, Path::new("/"));
        assert!(loaded.is_none() && refused.unwrap().contains("/nonexistent"));
        assert_eq!(line.text("root-dir"), Some("/r"), "the rest still counts");
    }
}
