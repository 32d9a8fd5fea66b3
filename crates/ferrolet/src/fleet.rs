//! `ferrolet fleet`: thousands of complete nodes in one process, on simulated
//! machines, at a real API server.

mod arguments;
mod connections;
mod follow;
mod log;
mod view;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use api::objects::PodPhases;
use config::flags::CommandLine;
use config::load::load;
use config::settings::Settings;
use config::validate::Machine;
use fleet::figures::Figures;
use fleet::metrics::FleetMetrics;
use fleet::report::{History, Report, Sample};
use fleet::requests::Counted;
use fleet::roster::remove_all;
use fleet::seat::Seats;
use fleet::spec::Fleet;
use fleet::{Common, Roster};
use linux::process::resident_memory;
use prometheus::Registry;
use seams::SharedClock;
use server::{PlainPort, Purpose};
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::connections::{Joined, join};
use self::log::Log;
use self::view::View;
use crate::cluster_access::ClusterAccess;
use crate::kubelet::{say, working_directory};
use crate::output::{Failure, ended, print};
use crate::version;

pub(crate) use self::arguments::Arguments;

/// Thousands of nodes wait more than they work; more threads would each bring a
/// share of the allocator, and the API server is what limits a fleet.
const THREADS: usize = 2;

/// How often the figures are looked at. A burst of requests is told by it.
const LOOK: Duration = Duration::from_secs(1);

/// How long what is left is waited for at the end.
const FAREWELL: Duration = Duration::from_secs(10);

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    ended(begin(arguments))
}

fn begin(arguments: &Arguments) -> Result<(), Failure> {
    let fleet = arguments.fleet()?;
    let settings = settings(arguments)?;
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

/// The kubelet's configuration, which holds for every node.
fn settings(arguments: &Arguments) -> Result<Settings, Failure> {
    let given = arguments.kubelet_config.iter();
    let flags: Vec<String> = given
        .map(|path| format!("--config={}", path.display()))
        .collect();
    let line = CommandLine::parse(&flags).map_err(Failure::usage)?;
    let machine = Machine {
        cgroup_v1: false,
        has_api: true,
    };
    Ok(load(&line, &working_directory(), Some(machine))?.settings)
}

async fn keep(
    arguments: &Arguments,
    fleet: Fleet,
    settings: Settings,
    log: Option<Log>,
) -> Result<(), Failure> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let access = ClusterAccess::open(&arguments.cluster)?;
    let name = fleet.name.clone();
    let joining = join(arguments, &access, &fleet, &settings);
    let joined = tokio::select! {
        joined = joining => joined?,
        _ = terminate.recv() => return Err(Failure::Interrupted("SIGTERM")),
        _ = interrupt.recv() => return Err(Failure::Interrupted("SIGINT")),
    };
    let (wanting, wanted) = watch::channel(Arc::new(fleet));
    let mut running = Running::start(arguments, &access, joined, settings, wanted)?;
    let follow = follow::file(arguments.config.clone(), wanting, access.clock.clone());
    let told_to_end = tokio::select! {
        () = running.watch(arguments, log) => false,
        () = follow => false,
        _ = terminate.recv() => true,
        _ = interrupt.recv() => true,
    };
    let report = running.end(&access.clock).await;
    if arguments.remove_at_end {
        remove_all(&access.client, &name).await?;
    } else if report.figures.nodes > 0 {
        say(&format!(
            "the nodes stay, and will be NotReady soon; kubectl delete nodes --selector {}={name} removes them",
            fleet::spec::FLEET_LABEL
        ));
    }
    if told_to_end && arguments.span.is_none() && arguments.report.is_none() {
        return Ok(());
    }
    tell(arguments, &report)
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
    tasks: JoinSet<()>,
    shutdown: CancellationToken,
    seats: Seats,
    registry: Registry,
    history: History,
    metrics: FleetMetrics,
    pods: PodPhases,
    clock: SharedClock,
    joined: Joined,
}

impl Running {
    fn start(
        arguments: &Arguments,
        access: &ClusterAccess,
        joined: Joined,
        settings: Settings,
        wanted: watch::Receiver<Arc<Fleet>>,
    ) -> Result<Self, Failure> {
        let clock = access.clock.clone();
        let registry = Registry::new();
        access.options.metrics.register(&registry)?;
        let metrics = FleetMetrics::new(&registry)?;
        let common = Common {
            settings,
            kubelet_version: version::kubelet(),
            options: access.options.clone(),
            dial: access.dial(),
            connections: joined.connections.clone(),
            process_id: std::process::id(),
        };
        let pace = Duration::from_secs(1).div_f64(arguments.ramp);
        let roster = Roster::new(common, access.client.clone(), pace);
        let seats = roster.seats();
        let shutdown = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let counted = Counted::read(&registry);
        let history = History::begin(clock.uptime(), resident_memory()?, counted);
        if let Some(nodes) = joined.nodes() {
            tasks.spawn(nodes.run(shutdown.clone()));
        }
        let pods = PodPhases::new(access.patient_client(), clock.clone());
        tasks.spawn(pods.clone().run(shutdown.clone()));
        tasks.spawn(roster.run(wanted, shutdown.clone()));
        if let Some(address) = arguments.metrics_bind {
            let port = PlainPort {
                purpose: Purpose::Metrics(registry.clone()),
                address,
                clock: clock.clone(),
            };
            tasks.spawn(port.run(shutdown.clone()));
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
            joined,
        })
    }

    /// Looks at the fleet until its time is up.
    async fn watch(&mut self, arguments: &Arguments, log: Option<Log>) {
        let started = self.clock.uptime();
        let mut view = log.map(View::new);
        let mut told = started;
        loop {
            self.clock.sleep(LOOK).await;
            let now = self.clock.uptime();
            let sample = self.look(now);
            if let Some(view) = &mut view {
                view.draw(&sample, &self.seats);
            } else if now.saturating_sub(told) + LOOK / 2 >= arguments.interval {
                told = now;
                let line = serde_json::to_string(&self.history.line(&sample)).unwrap_or_default();
                if print(&(line + "\n")).is_err() {
                    return;
                }
            }
            let ran = now.saturating_sub(started);
            if arguments.span.is_some_and(|span| ran >= span) {
                return;
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
        if seams::timeout(&**clock, FAREWELL, all).await.is_err() {
            say("warning: parts of the fleet did not end in time");
        }
        self.joined.leave().await;
        self.history.report().clone()
    }
}
