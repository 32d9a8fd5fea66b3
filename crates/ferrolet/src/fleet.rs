//! `ferrolet fleet`: thousands of complete nodes in one process, on simulated
//! machines, at a real API server.

mod arguments;
mod connections;
mod doors;
mod follow;
mod view;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use api::objects::PodPhases;
use config::flags::CommandLine;
use config::gates::FeatureGates;
use config::load::load;
use config::settings::Settings;
use config::validate::Machine;
use fleet::figures::Figures;
use fleet::metrics::FleetMetrics;
use fleet::report::{History, Report, Sample};
use fleet::requests::Counted;
use fleet::roster::remove_all;
use fleet::seat::Seats;
use fleet::spec::{FLEET_LABEL, Fleet};
use fleet::{Common, Roster};
use linux::process::resident_memory;
use prometheus::Registry;
use seams::{SharedClock, timeout};
use server::{PlainPort, Purpose};
use tokio::runtime;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::JoinMap;

use self::connections::{Joined, join, limited};
use self::view::View;
use crate::cluster_access::ClusterAccess;
use crate::end_signals::EndSignals;
use crate::kubelet::{say, second_signal, working_directory};
use crate::log::Log;
use crate::output::{Failure, ended, print};
use crate::version;

pub(crate) use self::arguments::Arguments;
pub(crate) use self::doors::{AUTHORITY, process};

/// Thousands of nodes wait more than they work; more threads would each bring a
/// share of the allocator, and the API server is what limits a fleet.
const THREADS: usize = 2;

/// How often the figures are looked at. A burst of requests is told by it.
const LOOK: Duration = Duration::from_secs(1);

/// How long the parts are waited for at the end.
const FAREWELL: Duration = Duration::from_secs(10);

/// How long the end may take in all: objects may have to be removed.
const LAST_CHANCE: Duration = Duration::from_secs(120);

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    ended(begin(arguments))
}

fn begin(arguments: &Arguments) -> Result<(), Failure> {
    let fleet = arguments.fleet()?;
    let settings = settings(arguments.kubelet_config.as_deref())?;
    let shown = io::stdout().is_terminal() && !arguments.json;
    let log = Log::start(arguments.verbosity, shown);
    let runtime = runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(keep(arguments, fleet, settings, shown.then_some(log)));
    runtime.shutdown_timeout(Duration::from_millis(100));
    outcome
}

/// Without a file a kubelet lets everybody in; a node of a fleet is as one with a file that
/// says nothing.
pub(crate) const CLOSED: [&str; 4] = [
    "--anonymous-auth=false",
    "--authentication-token-webhook=true",
    "--authorization-mode=Webhook",
    "--read-only-port=0",
];

/// The kubelet's configuration, which holds for every node.
pub(crate) fn settings(file: Option<&Path>) -> Result<(Settings, FeatureGates), Failure> {
    let flags = match file {
        Some(path) => vec![format!("--config={}", path.display())],
        None => CLOSED.map(str::to_owned).to_vec(),
    };
    let line = CommandLine::parse(&flags).map_err(Failure::usage)?;
    let machine = Machine {
        cgroup_v1: false,
        has_api: true,
    };
    let loaded = load(&line, &working_directory(), Some(machine))?;
    Ok((loaded.settings, loaded.gates))
}

async fn keep(
    arguments: &Arguments,
    fleet: Fleet,
    settings: (Settings, FeatureGates),
    log: Option<Log>,
) -> Result<(), Failure> {
    let mut signals = EndSignals::new()?;
    let access = ClusterAccess::open(&arguments.cluster)?;
    let name = fleet.name.clone();
    let joining = join(arguments, &access, &fleet, &settings.0);
    let mut joined = tokio::select! {
        joined = joining => joined?,
        signal = signals.next() => return Err(Failure::Interrupted(signal)),
    };
    let (wanting, wanted) = watch::channel(Arc::new(fleet));
    let started = Running::start(arguments, &access, &mut joined, settings, wanted);
    let mut running = match started.await {
        Ok(running) => running,
        Err(failure) => {
            joined.leave().await;
            return Err(failure);
        }
    };
    let follow = follow::file(arguments.config.clone(), wanting, access.clock.clone());
    let ending = tokio::select! {
        ending = running.watch(arguments, log) => ending,
        () = follow => Ending::Over,
        _ = signals.next() => Ending::Told,
    };
    let farewell = async {
        let report = running.end(&access.clock).await;
        joined.leave().await;
        let told = ending == Ending::Told && arguments.span.is_none() && arguments.report.is_none();
        let reported = if told {
            Ok(())
        } else {
            tell(arguments, &report)
        };
        let nodes = report.figures.nodes;
        reported.and(say_goodbye(arguments, &access, &name, nodes).await)
    };
    let outcome = tokio::select! {
        outcome = timeout(&*access.clock, LAST_CHANCE, farewell) => {
            outcome.unwrap_or_else(|_| Err(Failure::Failed(unfinished(&name))))
        }
        () = second_signal() => Err(Failure::Failed(unfinished(&name))),
    };
    match ending {
        Ending::Broken(part) => Err(Failure::Failed(format!(
            "a part of the fleet has died ({part}); this is a fault of ours, please report it"
        ))),
        _ => outcome,
    }
}

/// Why a fleet ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Its time is up, or nobody reads its figures any more.
    Over,
    /// By a signal.
    Told,
    /// A part of it is gone.
    Broken(&'static str),
}

/// Removes the objects, or says how.
async fn say_goodbye(
    arguments: &Arguments,
    access: &ClusterAccess,
    name: &str,
    nodes: usize,
) -> Result<(), Failure> {
    if arguments.remove_at_end {
        remove_all(&access.client, name).await?;
    } else if nodes > 0 {
        say(&format!(
            "the nodes stay, and will be NotReady soon; kubectl delete nodes --selector {FLEET_LABEL}={name} removes them"
        ));
    }
    Ok(())
}

fn unfinished(name: &str) -> String {
    format!(
        "ended before everything was given back: kubectl delete nodes --selector {FLEET_LABEL}={name} removes the nodes, `ferrolet token list` shows a token that may be left"
    )
}

/// The report, for people and for programs.
fn tell(arguments: &Arguments, report: &Report) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(report)? + "\n";
    if let Some(path) = &arguments.report {
        std::fs::write(path, &json).map_err(|error| {
            Failure::Failed(format!(
                "the report cannot be written to {}: {error}",
                path.display()
            ))
        })?;
    }
    if arguments.json {
        return print(&(serde_json::to_string(report)? + "\n"));
    }
    print(&format!("\n{}", report.table()))
}

/// A fleet that runs.
struct Running {
    tasks: JoinMap<&'static str, ()>,
    shutdown: CancellationToken,
    seats: Seats,
    registry: Registry,
    history: History,
    metrics: FleetMetrics,
    pods: PodPhases,
    clock: SharedClock,
}

impl Running {
    async fn start(
        arguments: &Arguments,
        access: &ClusterAccess,
        joined: &mut Joined,
        (settings, gates): (Settings, FeatureGates),
        wanted: watch::Receiver<Arc<Fleet>>,
    ) -> Result<Self, Failure> {
        let clock = access.clock.clone();
        let registry = Registry::new();
        access.options.metrics.register(&registry)?;
        let metrics = FleetMetrics::new(&registry)?;
        let nodes = wanted.borrow().nodes().count();
        let doors = doors::open(arguments, access, (&settings, &gates), nodes).await?;
        let common = Common {
            doors,
            settings,
            gates,
            kubelet_version: version::kubelet(),
            options: access.options.clone(),
            dial: access.dial(),
            connections: joined.connections.clone(),
            process_id: std::process::id(),
        };
        let pace = Duration::from_secs(1).div_f64(arguments.ramp);
        let client = limited(arguments, access);
        let roster = Roster::new(common, client, &wanted.borrow().name, pace);
        let seats = roster.seats();
        let shutdown = CancellationToken::new();
        let mut tasks = JoinMap::new();
        let counted = Counted::read(&registry);
        let history = History::begin(clock.uptime(), resident_memory()?, counted);
        if let Some(followers) = joined.followers() {
            tasks.spawn("nodes and pods", followers.run(shutdown.clone()));
        }
        let pods = PodPhases::new(access.patient_client(), clock.clone());
        tasks.spawn("pods", pods.clone().run(shutdown.clone()));
        tasks.spawn("roster", roster.run(wanted, shutdown.clone()));
        if let Some(address) = arguments.metrics_bind {
            let port = PlainPort {
                purpose: Purpose::Metrics(registry.clone()),
                address,
                clock: clock.clone(),
            };
            tasks.spawn("metrics port", port.run(shutdown.clone()));
        }
        Ok(Self {
            tasks,
            shutdown,
            seats,
            registry,
            history,
            metrics,
            pods,
            clock,
        })
    }

    /// Looks at the fleet until its time is up.
    async fn watch(&mut self, arguments: &Arguments, log: Option<Log>) -> Ending {
        let started = self.clock.uptime();
        let mut view = log.map(View::new);
        let mut told = started;
        loop {
            tokio::select! {
                () = self.clock.sleep(LOOK) => {}
                // None of them ends before it is told to.
                Some((part, _)) = self.tasks.join_next() => return Ending::Broken(part),
            }
            let now = self.clock.uptime();
            let sample = self.look(now);
            if let Some(view) = &mut view {
                view.draw(&sample, &self.seats);
            } else if now.saturating_sub(told) + LOOK / 2 >= arguments.interval {
                told = now;
                let line = serde_json::to_string(&self.history.line(&sample)).unwrap_or_default();
                if print(&(line + "\n")).is_err() {
                    return Ending::Over;
                }
            }
            let ran = now.saturating_sub(started);
            if arguments.span.is_some_and(|span| ran >= span) {
                return Ending::Over;
            }
        }
    }

    fn look(&mut self, now: Duration) -> Sample {
        let figures = Figures::look(&self.seats, &self.pods, now);
        let counted = Counted::read(&self.registry);
        let resident = resident_memory().unwrap_or_default();
        let sample = self.history.sample(now, figures, counted, resident);
        self.metrics.set(&sample);
        sample
    }

    async fn end(mut self, clock: &SharedClock) -> Report {
        self.shutdown.cancel();
        let tasks = &mut self.tasks;
        let all = async { while tasks.join_next().await.is_some() {} };
        if timeout(&**clock, FAREWELL, all).await.is_err() {
            say("warning: parts of the fleet did not end in time");
        }
        self.history.report().clone()
    }
}
