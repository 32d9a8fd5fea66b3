//! `ferrolet join`: from a token to a node of a cluster.
//!
//! [`arguments`] says what is asked for, [`discovery`] finds the cluster,
//! [`files`] lays down what kubeadm would, [`agent`] and [`systemd`] start the
//! node's agent, [`wait`] waits for what others do. Each step is a line of
//! [`progress`]. What is done already is not done again, so that a second run
//! finishes what the first did not.

pub(crate) mod agent;
mod arguments;
mod connection;
mod discovery;
mod environment_file;
mod files;
pub(crate) mod machine;
mod progress;
pub(crate) mod systemd;
mod wait;

use std::fmt::Display;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use api::kubeconfig::{Kubeconfig, Trust};
use cluster::cluster_info::{DiscoveryError, Pinning};
use cluster::join::{self as questions, ClusterKubeletConfig, JoinError};
use cluster::layout::{
    self, BOOTSTRAP_KUBECONFIG, KUBECONFIG, KubeletConfigError, Plan, PlanError, ResetPlan,
};
use cluster::preflight::{
    self, Check, ClockSkew, HEALTHZ_PORT, IgnoreError, KUBELET_PORT, Outcome,
};
use cluster::token::TokenId;
use cluster::{CaPin, CallError, CallProblem, FileError};
use config::flags::CommandLine;
use config::load::{judge, resolve};
use identity::Leaf;
use kube::Client;
use kube::client::Body;
use seams::SharedClock;
use thiserror::Error;
use tokio::runtime;

pub(crate) use self::arguments::Arguments;

use self::agent::{AgentError, BackgroundAgent};
use self::arguments::{Request, Skippable, Source, Start};
use self::connection::{ConnectionError, Connections};
use self::discovery::{FindError, Found, Patience};
use self::machine::MachineError;
use self::progress::{Step, Waiting, note};
use self::systemd::{Systemd, SystemdError};
use self::wait::WaitError;
use crate::kubelet::{self, say};

const FAILURE: u8 = 1;
const USAGE: u8 = 2;

/// Why a node has not joined, or not to the end.
#[derive(Debug, Error)]
enum JoinFailure {
    #[error(
        "the checks found errors; correct them, or take the risk with --ignore-preflight-errors"
    )]
    Preflight,
    #[error(
        "{} shows that this machine is part of a control plane, whose files are not a join's; nothing was changed", .0.display()
    )]
    ControlPlane(PathBuf),
    #[error(
        "the certificate of a former node is left in the certificate directory, and the agent would go on with it; remove it: ferrolet reset --node"
    )]
    Leftover,
    #[error(
        "this machine is a node of another cluster: its kubeconfig trusts none of the pinned authorities; to leave that cluster, run `ferrolet reset --node` first"
    )]
    OtherCluster,
    #[error("{} is in the way; move it away, or undo a former join: ferrolet reset --node", .0.display())]
    InTheWay(PathBuf),
    #[error(
        "this machine is the node {has}; to join under another name, run `ferrolet reset --node` first"
    )]
    OtherName { has: String },
    #[error(transparent)]
    Ignore(#[from] IgnoreError),
    #[error(transparent)]
    Machine(#[from] MachineError),
    #[error(transparent)]
    Find(#[from] FindError),
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error(
        "the API server does not accept the token {0}: it has expired, or may sign and not log in; create one with `ferrolet token create`, and run the same command with it"
    )]
    TokenRefused(TokenId),
    #[error("with the credentials of the join, {0}")]
    Name(JoinError),
    #[error("with the credentials of the join, {0}")]
    Call(CallError),
    #[error(transparent)]
    KubeletConfig(#[from] KubeletConfigError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(
        "the agent would not start on these files: {0}; correct that, or give the agent a flag in KUBELET_EXTRA_ARGS in /etc/default/kubelet, and run the same command again"
    )]
    Refused(String),
    #[error(transparent)]
    Systemd(#[from] SystemdError),
    #[error(transparent)]
    Wait(#[from] WaitError),
    #[error(
        "this program does not know its own path: {0}; start the agent yourself, with --start no"
    )]
    OwnPath(io::Error),
    #[error("the agent cannot take the place of this command: {0}; use --start detached")]
    Exec(io::Error),
}

/// A failure, and in which step.
type StepFailure = (Step, JoinFailure);

fn within<E: Into<JoinFailure>>(step: Step) -> impl Fn(E) -> StepFailure {
    move |cause| (step, cause.into())
}

/// How a join ended well.
enum Ended {
    Done,
    /// This command is to become the agent.
    Become(Command),
}

pub(crate) fn run(arguments: Arguments) -> ExitCode {
    let request = match arguments.request() {
        Ok(request) => request,
        Err(error) => {
            say(&format!("error: {error}"));
            return ExitCode::from(USAGE);
        }
    };
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            say(&format!("error: the process cannot be set up: {error}"));
            return ExitCode::from(FAILURE);
        }
    };
    let options = crate::connection::options(crate::version::command_user_agent());
    let clock = Arc::clone(&options.clock);
    let join = Join {
        connections: Connections::new(options),
        clock,
        request,
    };
    let outcome = match runtime.block_on(join.run()) {
        Ok(Ended::Done) => return ExitCode::SUCCESS,
        // Comes back only if it failed.
        Ok(Ended::Become(mut agent)) => (Step::Start, JoinFailure::Exec(agent.exec())),
        Err(failure) => failure,
    };
    let (step, failure) = outcome;
    say(&format!("error: {}: {failure}", step.name()));
    ExitCode::from(FAILURE)
}

/// One join.
struct Join {
    request: Request,
    connections: Connections,
    clock: SharedClock,
}

impl Join {
    async fn run(&self) -> Result<Ended, StepFailure> {
        let root = &self.request.root;
        let name = machine::node_name(self.request.node_name.as_deref())
            .map_err(within(Step::Preflight))?;
        let former = ResetPlan::look(root).map_err(within(Step::Preflight))?;
        if let Some(sign) = former.control_plane() {
            return Err((Step::Preflight, JoinFailure::ControlPlane(sign.to_owned())));
        }
        let now = self.clock.now();
        if wait::has_leftover(root, now) {
            return Err((Step::Preflight, JoinFailure::Leftover));
        }
        let joined = wait::has_certificate(root, now);
        if joined {
            self.check_same_cluster().map_err(within(Step::Preflight))?;
            say(&format!(
                "this node has joined before: {KUBECONFIG} is there; to join anew, run `ferrolet reset --node` first"
            ));
            if self.request.dry_run {
                return Ok(Ended::Done);
            }
        } else {
            let plan = self.prepare(&name).await?;
            if self.request.dry_run {
                self.show(&plan);
                // As the join itself would end; a former token is replaced.
                let former_token = Path::new(BOOTSTRAP_KUBECONFIG);
                let mut in_the_way = plan.conflicts().into_iter();
                return match in_the_way.find(|path| path != former_token) {
                    None => Ok(Ended::Done),
                    Some(path) => Err((Step::Files, JoinFailure::InTheWay(path))),
                };
            }
            plan.execute().map_err(within(Step::Files))?;
            Step::Files.say(&format!("ok, {} files", plan.entries().len()));
        }
        self.finish(&name, joined).await
    }

    /// A machine that is a node of another cluster, or under another name, stays
    /// what it is.
    fn check_same_cluster(&self) -> Result<(), JoinFailure> {
        let root = &self.request.root;
        if let (Some(wanted), Some(has)) = (&self.request.node_name, wait::certified_name(root))
            && *wanted != has
        {
            return Err(JoinFailure::OtherName { has });
        }
        let Source::Token {
            pinning: Pinning::Pins(pins),
            ..
        } = &self.request.source
        else {
            return Ok(());
        };
        let kubeconfig = Kubeconfig::read(&below(root, KUBECONFIG)).ok();
        let config = kubeconfig.and_then(|kubeconfig| kubeconfig.resolve(None).ok());
        let trust = config.and_then(|config| config.tls).map(|tls| tls.trust);
        let Some(Trust::Authority(authority)) = trust else {
            return Ok(());
        };
        let authorities = authority.load().unwrap_or_default();
        let leaves = authorities
            .iter()
            .filter_map(|der| Leaf::from_der(der).ok());
        let known: Vec<_> = leaves.map(|leaf| CaPin::of(&leaf)).collect();
        if CaPin::any_matches(pins, &known) {
            return Ok(());
        }
        Err(JoinFailure::OtherCluster)
    }

    /// Everything up to the files, and nothing changed yet.
    async fn prepare(&self, name: &str) -> Result<Plan, StepFailure> {
        let request = &self.request;
        let runtime_endpoint =
            machine::runtime_endpoint(&request.root, request.cri_socket.as_deref())
                .map_err(within(Step::Preflight))?;
        self.check_machine(name, &runtime_endpoint).await?;
        let found = self.find_cluster().await?;
        let client = self.connections.as_told(found.bootstrap.expose());
        let client = client.map_err(within(Step::Discovery))?;
        self.check_name(&client, name).await?;
        let config = self.kubelet_config(&client).await?;
        let program = match self.start_way() {
            Start::Systemd => Some(own_path()?),
            _ => None,
        };
        let wanted = files::Wanted {
            node_name: name,
            machine_name: &machine::own_name(),
            runtime_endpoint,
            resolved_active: machine::resolved_active(&request.root),
            program,
        };
        let node =
            files::joined_node(&found, config, wanted).map_err(within(Step::KubeletConfig))?;
        let look = || Plan::look(&request.root, node.files()).map_err(within(Step::Files));
        let plan = look()?;
        let only_the_token = plan.conflicts() == [Path::new(BOOTSTRAP_KUBECONFIG)];
        if !only_the_token || !files::holds_former_token(&request.root, &found.bootstrap) {
            return Ok(plan);
        }
        note("the token that a former run left in bootstrap-kubelet.conf is replaced");
        if request.dry_run {
            return Ok(plan);
        }
        layout::remove_bootstrap_kubeconfig(&request.root).map_err(within(Step::Files))?;
        look()
    }

    async fn check_machine(&self, name: &str, runtime_endpoint: &str) -> Result<(), StepFailure> {
        let request = &self.request;
        if request.skips(Skippable::Preflight) {
            Step::Preflight.say("skipped");
            return Ok(());
        }
        let skew = self.clock_skew().await;
        let mut facts = preflight::gather(&request.root, runtime_endpoint, skew);
        if self.agent_runs() {
            // Its own ports are not in its way.
            facts.listening_ports.clear();
        }
        let wanted = preflight::Wanted {
            node_name: name.to_owned(),
            files: Vec::new(),
        };
        let mut checks = preflight::judge(&facts, &wanted);
        preflight::ignore(&mut checks, &request.ignored_checks).map_err(within(Step::Preflight))?;
        let count = |outcome| {
            checks
                .iter()
                .filter(|check| check.outcome == outcome)
                .count()
        };
        let (warnings, errors) = (count(Outcome::Warning), count(Outcome::Error));
        let passed = preflight::may_go_on(&checks);
        let outcome = if passed { "ok" } else { "failed" };
        let seen = checks.len();
        Step::Preflight.say(&format!(
            "{outcome}, {seen} checks: {errors} errors, {warnings} to look at"
        ));
        let findings = checks.iter().filter(|check| check.outcome != Outcome::Ok);
        findings
            .map(Check::to_string)
            .for_each(|check| note(&check));
        if passed {
            Ok(())
        } else {
            Err((Step::Preflight, JoinFailure::Preflight))
        }
    }

    /// How the clocks compare, if the server answers. Whoever answers need not be
    /// trusted with that: a wrong date stops a join, and no more.
    async fn clock_skew(&self) -> Option<ClockSkew> {
        let client = self.connections.unverified(self.request.server()).ok()?;
        let request = http::Request::get("/version").body(Body::empty()).ok()?;
        let answer = client.send(request).await.ok()?;
        let date = answer.headers().get(http::header::DATE)?.to_str().ok()?;
        ClockSkew::of_date_header(date, self.clock.now())
    }

    async fn find_cluster(&self) -> Result<Found, StepFailure> {
        let request = &self.request;
        let mut waiting = Waiting::on(Step::Discovery);
        let on_wait = |cause: &DiscoveryError| waiting.for_sake_of(&cause.to_string());
        let found = match &request.source {
            Source::Token {
                server,
                token,
                pinning,
            } => {
                let login = request.token.as_ref().unwrap_or(token);
                let connections = &self.connections;
                let patience = self.patience();
                discovery::by_token(
                    connections,
                    server,
                    token,
                    pinning,
                    login,
                    patience,
                    on_wait,
                )
                .await
            }
            Source::File(file) => {
                let login = request.token.as_ref();
                discovery::by_file(&self.connections, file, login, self.patience(), on_wait).await
            }
        };
        let found = found.map_err(within(Step::Discovery))?;
        let server = found.endpoint.server();
        Step::Discovery.say(&format!("ok, the cluster at {server}: {}", found.proven));
        Ok(found)
    }

    async fn check_name(&self, client: &Client, name: &str) -> Result<(), StepFailure> {
        if self.request.skips(Skippable::NodeName) {
            Step::NodeName.say("skipped");
            return Ok(());
        }
        let free = questions::check_name_is_free(client, name).await;
        free.map_err(|error| match error {
            JoinError::Call(call) => (Step::NodeName, self.call_failure(call)),
            taken @ JoinError::NameTaken(_) => (Step::NodeName, JoinFailure::Name(taken)),
        })?;
        Step::NodeName.say(&format!("ok, {name} is free"));
        Ok(())
    }

    async fn kubelet_config(&self, client: &Client) -> Result<ClusterKubeletConfig, StepFailure> {
        if self.request.skips(Skippable::KubeletConfig) {
            Step::KubeletConfig.say("skipped: kubeadm's defaults are used");
            return Ok(ClusterKubeletConfig::Missing);
        }
        let config = questions::kubelet_config(client).await;
        let config = config.map_err(|error| (Step::KubeletConfig, self.call_failure(error)))?;
        let defaults = "kubeadm's defaults are used (DNS at 10.96.0.10): check clusterDNS in /var/lib/kubelet/config.yaml";
        Step::KubeletConfig.say(&match &config {
            ClusterKubeletConfig::Found(_) => "ok, the cluster's".to_owned(),
            ClusterKubeletConfig::Missing => {
                format!("the cluster has no ConfigMap kube-system/kubelet-config; {defaults}")
            }
            ClusterKubeletConfig::Forbidden(why) => {
                format!("the cluster does not show its own ({why}); {defaults}")
            }
        });
        Ok(config)
    }

    /// What a failed call means for somebody who came with a token.
    fn call_failure(&self, error: CallError) -> JoinFailure {
        match (&error.problem, &self.request.token) {
            (CallProblem::Unauthorized, Some(token)) => {
                JoinFailure::TokenRefused(token.id().clone())
            }
            _ => JoinFailure::Call(error),
        }
    }

    /// `--dry-run`: what would be written and started.
    fn show(&self, plan: &Plan) {
        let way = match self.start_way() {
            Start::Systemd => "the service kubelet with systemd",
            Start::Foreground => "the agent, in the place of this command",
            Start::Detached => "the agent in the background",
            Start::No => "nothing",
        };
        // Whoever read it may be gone.
        let _ = writeln!(io::stdout(), "{plan}start       {way}");
        Step::Files.say("dry run: nothing was written or started");
    }

    /// From files to a node. `joined`: it has had its certificate before.
    async fn finish(&self, name: &str, joined: bool) -> Result<Ended, StepFailure> {
        let request = &self.request;
        let way = self.start_way();
        let ran = self.at_work(joined);
        let agent = match &ran {
            Some(at_work) => {
                Step::Start.say(&format!("ok, {at_work}"));
                BackgroundAgent::find(&request.root)
            }
            None => self.start(way, joined)?,
        };
        if !joined && (way == Start::No || request.skips(Skippable::Certificate)) {
            self.leave_to_others(way)?;
            return self.ended(way, agent).await;
        }
        self.wait_for_certificate(agent.as_ref()).await?;
        let name = wait::certified_name(&request.root).unwrap_or_else(|| name.to_owned());
        self.wait_for_ready(&name).await?;
        say(&match (joined, ran) {
            (true, Some(_)) => format!("{name} is a node of the cluster; nothing was left to do"),
            _ => format!("{name} has joined the cluster"),
        });
        self.ended(way, agent).await
    }

    /// Says who takes it from here.
    fn leave_to_others(&self, way: Start) -> Result<(), StepFailure> {
        Step::Certificate.say("skipped");
        Step::Ready.say("skipped");
        if way == Start::No {
            let words = agent::command_words(&self.request.root).map_err(within(Step::Start))?;
            note("start the agent with:");
            note(&format!("  ferrolet {}", words.join(" ")));
        }
        note("the same command, run again, takes the token off the disk and waits for Ready");
        Ok(())
    }

    /// Who is at work here as a kubelet, if anybody is. A second agent on the same
    /// files would fight with the first, whoever started that.
    fn at_work(&self, joined: bool) -> Option<String> {
        let root = &self.request.root;
        if let Some(agent) = BackgroundAgent::find(root) {
            return Some(format!("the agent runs already as process {}", agent.id()));
        }
        if !joined {
            return None;
        }
        if machine::has_systemd(root) && Systemd::new().is_active() {
            return Some("the service kubelet runs already".to_owned());
        }
        let ports = preflight::gather(root, "", None).listening_ports;
        let taken = [KUBELET_PORT, HEALTHZ_PORT]
            .into_iter()
            .find(|port| ports.contains(port))?;
        Some(format!("a kubelet runs already: port {taken} is in use"))
    }

    fn start(&self, way: Start, joined: bool) -> Result<Option<BackgroundAgent>, StepFailure> {
        let root = &self.request.root;
        let step = Step::Start;
        if way != Start::No {
            self.check_configuration()?;
        }
        match way {
            Start::No => {
                step.say("skipped");
                Ok(None)
            }
            Start::Systemd => {
                Systemd::new().start(!joined).map_err(within(step))?;
                step.say("ok, the service kubelet");
                Ok(None)
            }
            Start::Detached | Start::Foreground => {
                let agent = BackgroundAgent::start(root, &own_path()?).map_err(within(step))?;
                let told = format!("ok, process {}, log {}", agent.id(), agent::LOG_FILE);
                step.say(&told);
                Ok(Some(agent))
            }
        }
    }

    /// Judges the files as the agent will: a service that ends at every start
    /// would only be found out when the time is up.
    fn check_configuration(&self) -> Result<(), StepFailure> {
        let words = agent::command_words(&self.request.root).map_err(within(Step::Start))?;
        let refused = |cause: &dyn Display| (Step::Start, JoinFailure::Refused(cause.to_string()));
        let line = CommandLine::parse(&words[1..]).map_err(|cause| refused(&cause))?;
        let loaded = resolve(&line, Path::new("/")).map_err(|cause| refused(&cause))?;
        let machine = Some(kubelet::machine(&line));
        judge(&line, &loaded, machine).map_err(|cause| refused(&cause))
    }

    async fn wait_for_certificate(
        &self,
        agent: Option<&BackgroundAgent>,
    ) -> Result<(), StepFailure> {
        let step = Step::Certificate;
        let root = &self.request.root;
        let mut waiting = Waiting::on(step);
        let service = self.start_way() == Start::Systemd;
        let alive = || match agent {
            Some(agent) => agent.check(),
            None if service && !Systemd::new().is_active() => Err(AgentError::ServiceEnded),
            None => Ok(()),
        };
        let on_wait = |last: &str| waiting.for_sake_of(last);
        let outcome = wait::for_certificate(root, self.patience(), alive, on_wait).await;
        outcome.map_err(within(step))?;
        layout::remove_bootstrap_kubeconfig(root).map_err(within(step))?;
        step.say(&format!(
            "ok, {KUBECONFIG} is there; the token is off the disk"
        ));
        Ok(())
    }

    async fn wait_for_ready(&self, name: &str) -> Result<(), StepFailure> {
        let step = Step::Ready;
        if self.request.skips(Skippable::Ready) {
            step.say("skipped");
            return Ok(());
        }
        let kubeconfig = below(&self.request.root, KUBECONFIG);
        let client = self
            .connections
            .as_file_says(&kubeconfig)
            .map_err(within(step))?;
        let mut waiting = Waiting::on(step);
        let on_wait = |last: &str| waiting.for_sake_of(last);
        let outcome = wait::for_ready(&client, name, self.patience(), on_wait).await;
        outcome.map_err(within(step))?;
        step.say(&format!("ok, {name} is Ready"));
        Ok(())
    }

    /// In the foreground, the agent that ran so far makes room for this process.
    async fn ended(
        &self,
        way: Start,
        agent: Option<BackgroundAgent>,
    ) -> Result<Ended, StepFailure> {
        let (Start::Foreground, Some(agent)) = (way, agent) else {
            return Ok(Ended::Done);
        };
        agent
            .stop(&*self.clock)
            .await
            .map_err(within(Step::Start))?;
        let mut command = Command::new(own_path()?);
        let words = agent::command_words(&self.request.root).map_err(within(Step::Start))?;
        command.args(words);
        Ok(Ended::Become(command))
    }

    fn start_way(&self) -> Start {
        let default = || {
            if machine::has_systemd(&self.request.root) {
                Start::Systemd
            } else {
                Start::Detached
            }
        };
        self.request.start.unwrap_or_else(default)
    }

    /// Whether an agent that a former run started is at work.
    fn agent_runs(&self) -> bool {
        match self.start_way() {
            Start::Systemd => Systemd::new().is_active(),
            _ => BackgroundAgent::find(&self.request.root).is_some(),
        }
    }

    fn patience(&self) -> Patience<'_> {
        Patience {
            clock: &*self.clock,
            limit: self.request.timeout,
        }
    }
}

fn own_path() -> Result<PathBuf, StepFailure> {
    std::env::current_exe().map_err(|cause| (Step::Start, JoinFailure::OwnPath(cause)))
}

/// The node's path `path`, seen from outside of a node that lives below `root`.
pub(crate) fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}
