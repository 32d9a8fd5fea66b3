//! `ferrolet up`: a cluster of this machine alone. An API server and a node agent in one
//! process, which know each other only over TLS: the node comes in with a token and a
//! request for a certificate, as on any cluster.

mod arguments;
mod choice;
mod cluster;
mod detach;
mod display;
mod farewell;
mod news;
mod nodes;
mod place;
mod scene;
mod story;

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use apiserver::Server;
use futures_util::StreamExt as _;
use jiff::Timestamp;
use linux::SystemClock;
use seams::{SharedClock, timeout};
use tokio::runtime;
use tokio_util::sync::CancellationToken;

use self::choice::{Chosen, choose};
use self::display::Display;
use self::farewell::{MAY_RUN, Remains, remove_pods, running_pods};
use self::nodes::Tasks;
use self::place::{Place, ready_file};
use self::scene::Scene;
use self::story::Story;
use crate::cluster_access::ClusterAccess;
use crate::end_signals::EndSignals;
use crate::join::machine::own_name;
use crate::kubelet::{self, second_signal};
use crate::log::Log;
use crate::output::{Failure, ended};

pub(crate) use self::arguments::Arguments;
pub(crate) use self::nodes::FIRST_SIMULATED;
pub(crate) use self::place::{
    LOCK, first_node_in, identity_flags, kubeconfig_in, log_file as log_file_in, machine_flags,
    node_config_in,
};

/// An API server and a node wait more than they work.
const THREADS: usize = 2;

/// How often the view is drawn.
const LOOK: Duration = Duration::from_secs(1);

/// After so long, and so much for each node, it is said where to look if one is not Ready.
const LATE: Duration = Duration::from_secs(15);
const LATE_PER_NODE: Duration = Duration::from_millis(100);

/// For each half, the nodes and the API server, to end.
const FAREWELL: Duration = Duration::from_secs(10);

/// How long work that cannot be interrupted is waited for at the end.
const LEFT_BEHIND: Duration = Duration::from_millis(100);

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    ended(begin(arguments))
}

fn begin(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.detach {
        return detach::begin(arguments);
    }
    if arguments.background.is_some() {
        detach::leave_terminal()?;
    }
    let terminal = io::stdout().is_terminal() && io::stderr().is_terminal();
    let live = terminal && arguments.verbose == 0;
    let (shown, log) = Log::start_told(arguments.verbosity(), live);
    let place = Place::open(arguments)?;
    let runtime = runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()?;
    let mut display = if live {
        Display::live(shown)
    } else {
        Display::Plain
    };
    let outcome = runtime.block_on(keep(arguments, &place, &mut display, log));
    // First, whoever still writes to the directory is given a moment to end.
    runtime.shutdown_timeout(LEFT_BEHIND);
    let root = place.root().to_owned();
    let left = place.leave();
    let (remains, failure) = match outcome {
        Ok((remains, broken)) => (remains, broken.map(Failure::Failed)),
        Err(failure) => (Remains::Unknown, Some(failure)),
    };
    // The directory is left, too, if it cannot be removed.
    let is_clean = left.is_ok() && failure.is_none();
    for line in remains.last_words(&root, is_clean) {
        display.tell(&line);
    }
    match (failure, left) {
        (None, left) => Ok(left?),
        (Some(failure), left) => {
            if let Err(error) = left {
                display.tell(&format!("warning: {error}"));
            }
            Err(failure)
        }
    }
}

/// Until it is told to end, or breaks. What remains of it, and what broke.
async fn keep(
    arguments: &Arguments,
    place: &Place,
    display: &mut Display,
    log: kubelet::Log,
) -> Result<(Remains, Option<String>), Failure> {
    let mut signals = EndSignals::new()?;
    let starting = Up::start(arguments, place, display, log);
    let mut up = tokio::select! {
        up = starting => up?,
        signal = signals.next() => return Err(Failure::Interrupted(signal)),
    };
    let broken = tokio::select! {
        broken = up.watch(place, display) => Some(broken),
        _ = signals.next() => None,
    };
    display.step(up.elapsed(), "ending");
    let hurried = hurried(up.ephemeral && !up.simulated);
    let remains = tokio::select! {
        remains = up.end() => remains,
        () = second_signal() => return Err(Failure::Failed(hurried)),
    };
    // Whoever looks for it looks for nodes that are Ready.
    let _ = std::fs::remove_file(ready_file(place.root()));
    Ok((remains, broken))
}

fn hurried(leaves_pods: bool) -> String {
    let said = "told to end a second time, so ended at once";
    if leaves_pods {
        format!("{said}; {MAY_RUN}")
    } else {
        said.to_owned()
    }
}

/// A cluster that runs.
struct Up {
    access: ClusterAccess,
    /// Started with it.
    clock: SharedClock,
    first: String,
    wanted: usize,
    since: Timestamp,
    simulated: bool,
    ephemeral: bool,
    background: bool,
    nodes: Tasks,
    nodes_end: CancellationToken,
    server: Tasks,
    server_end: CancellationToken,
}

impl Up {
    async fn start(
        arguments: &Arguments,
        place: &Place,
        display: &mut Display,
        log: kubelet::Log,
    ) -> Result<Self, Failure> {
        let clock: SharedClock = Arc::new(SystemClock::start());
        let since = Timestamp::now();
        let mut step = |told: &str| display.step(clock.uptime(), told);
        let own = place.pods_of_node(&own_name());
        let chosen = choose(arguments.runtime, own.as_ref(), &clock).await?;
        if matches!(chosen, Chosen::Containerd { .. }) {
            nodes::refuse_taken_port()?;
        }
        let resumes = place.last_server().is_some();
        let server = cluster::serve(arguments, place).await?;
        let verb = if resumes { "resumes" } else { "begins" };
        let root = place.root().display();
        step(&format!(
            "a cluster {verb} in {root}: certificate authority {root}/ca.crt"
        ));
        step(&format!(
            "the API server answers at https://{}",
            server.address()
        ));
        let access = cluster::reach(&server, place)?;
        step(&format!(
            "kubeconfig for people: {}",
            place.kubeconfig().display()
        ));
        let mut up = Self {
            clock: clock.clone(),
            since,
            wanted: usize::from(arguments.nodes),
            simulated: matches!(chosen, Chosen::Simulated { .. }),
            ephemeral: arguments.ephemeral,
            background: arguments.background.is_some(),
            first: match &chosen {
                Chosen::Containerd { .. } => own_name(),
                Chosen::Simulated { .. } => FIRST_SIMULATED.to_owned(),
            },
            access,
            nodes: Tasks::new(),
            nodes_end: CancellationToken::new(),
            server: Tasks::new(),
            server_end: CancellationToken::new(),
        };
        up.keep_server(server);
        place.keep_first_node(&up.first)?;
        let token = cluster::invite(&up.access, place).await?;
        step(&format!(
            "a bootstrap token for nodes: Secret kube-system/{token}"
        ));
        step(&runtime_told(&chosen, &up.first));
        // The first is this machine, unless it is simulated, too.
        let simulated = up.wanted - usize::from(!up.simulated);
        let former = nodes::remove_former(&up.access.client, simulated).await?;
        if !former.is_empty() {
            step(&format!(
                "nodes of the last start that are not wanted any more are removed: {}",
                former.join(", ")
            ));
        }
        if let Chosen::Containerd { endpoint, .. } = &chosen {
            nodes::run(
                &up.first,
                endpoint,
                place,
                log,
                &mut up.nodes,
                &up.nodes_end,
            )?;
        }
        if simulated > 0 {
            if simulated < up.wanted {
                step(&format!(
                    "{simulated} more nodes are simulated, from {FIRST_SIMULATED} on: containers of pods that go there are told of, not run"
                ));
            }
            let (tasks, ending) = (&mut up.nodes, &up.nodes_end);
            let doors = nodes::simulate(simulated, &up.access, place, tasks, ending)?;
            if !doors {
                step(
                    "this machine has no address but its loopback's, so simulated nodes have no ports: kubectl logs and exec do not reach them",
                );
            }
        }
        Ok(up)
    }

    /// Answers until it is told to end, which is when nobody asks any more.
    fn keep_server(&mut self, server: Server) {
        let ending = self.server_end.clone();
        self.server.spawn("the API server", async move {
            server.run(ending).await;
            Ok(())
        });
    }

    fn elapsed(&self) -> Duration {
        self.clock.uptime()
    }

    /// Tells what happens, for as long as nothing breaks. What did.
    async fn watch(&mut self, place: &Place, display: &mut Display) -> String {
        let clock = self.clock.clone();
        let mut news = news::follow(&self.access.patient_client());
        let mut story = Story::new(self.since, &self.first, self.wanted);
        let mut scene = Scene::default();
        let (mut is_told, mut asked) = (false, false);
        let late = LATE + LATE_PER_NODE * u32::try_from(self.wanted).unwrap_or(u32::MAX);
        loop {
            tokio::select! {
                Some((part, ended)) = self.nodes.join_next() => return broken(part, ended),
                Some((part, ended)) = self.server.join_next() => return broken(part, ended),
                Some(heard) = news.next() => {
                    // Nobody sees it otherwise, and a fleet has thousands of nodes.
                    if display.is_live() {
                        scene.hear(&heard);
                    }
                    let pods = matches!(heard, news::News::Pod(_));
                    for line in story.hear(&heard) {
                        if !(pods && display.is_live()) {
                            display.step(self.elapsed(), &line);
                        }
                    }
                }
                () = clock.sleep(LOOK) => {}
            }
            if story.is_told() && !is_told {
                is_told = true;
                self.invite(place, display);
                if let Err(error) = place.put(&ready_file(place.root()), "") {
                    display.tell(&format!("warning: {error}"));
                }
            }
            if !story.is_told() && !asked && self.elapsed() > late {
                asked = true;
                display.tell(&format!(
                    "not every node is Ready yet; `kubectl --kubeconfig {} get nodes,csr` shows how far they are, -v each request",
                    place.kubeconfig().display()
                ));
            }
            display.draw(&scene, Timestamp::now());
        }
    }

    /// What to do with it.
    fn invite(&self, place: &Place, display: &mut Display) {
        let kubeconfig = place.kubeconfig();
        // Who runs it by cargo has no ferrolet on the path.
        let ferrolet = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("ferrolet"));
        let ferrolet = ferrolet.display();
        let run = if self.simulated {
            "kubectl run hello --image=busybox --annotations=sim.ferrolet.dev/log-lines=1/s"
        } else {
            "kubectl run hello --image=busybox -- sh -c 'while true; do date; sleep 1; done'"
        };
        display.tell("");
        display.tell("Try, in another terminal:");
        for command in [
            &format!("export KUBECONFIG={}", kubeconfig.display()),
            "kubectl get nodes -o wide",
            run,
            "kubectl wait --for=condition=Ready pod/hello",
            "kubectl logs hello",
            "kubectl exec hello -- echo hello",
            "kubectl describe pod hello",
            &format!("{ferrolet} explain pod hello"),
            &format!("{ferrolet} doctor"),
            "kubectl delete pod hello",
        ] {
            display.tell(&format!("  {command}"));
        }
        if self.background {
            return;
        }
        display.tell("Ctrl-C ends it.");
    }

    /// First the pods, if nobody comes back for them; then the nodes, which have things to say to the API server until their end.
    async fn end(self) -> Remains {
        let clock = self.clock.clone();
        let remains = self.remains().await;
        self.nodes_end.cancel();
        joined("nodes", self.nodes, &clock).await;
        self.access.close().await;
        self.server_end.cancel();
        joined("the API server", self.server, &clock).await;
        remains
    }

    async fn remains(&self) -> Remains {
        let (client, clock) = (&self.access.client, &*self.clock);
        match (self.ephemeral, self.simulated) {
            (true, true) => Remains::Nothing,
            (true, false) => match remove_pods(client, clock).await {
                Ok(()) => Remains::Nothing,
                Err(cause) => Remains::Pods(cause),
            },
            (false, true) => Remains::Cluster { running: 0 },
            (false, false) => Remains::Cluster {
                running: running_pods(client, clock, &self.first).await,
            },
        }
    }
}

async fn joined(what: &str, mut tasks: Tasks, clock: &SharedClock) {
    let all = async { while tasks.join_next().await.is_some() {} };
    if timeout(&**clock, FAREWELL, all).await.is_err() {
        kubelet::say(&format!("warning: {what} did not end in time"));
    }
}

/// None of them ends before it is told to.
fn broken(part: &str, ended: Result<Result<(), String>, tokio::task::JoinError>) -> String {
    match ended {
        Ok(Err(cause)) => format!("{part} cannot go on: {cause}"),
        Ok(Ok(())) => format!("{part} has ended; this is a fault of ours, please report it"),
        Err(panic) => {
            format!("{part} has died: {panic}; this is a fault of ours, please report it")
        }
    }
}

fn runtime_told(chosen: &Chosen, first: &str) -> String {
    match chosen {
        Chosen::Containerd { endpoint, version } => {
            format!(
                "{first} is this machine, and runs containers with containerd {version} at {endpoint}"
            )
        }
        Chosen::Simulated { why: None } => {
            format!("{first} is simulated, as asked: its containers are told of, not run")
        }
        Chosen::Simulated { why: Some(why) } => {
            format!("{first} is simulated: its containers are told of, not run ({why})")
        }
    }
}
