//! `ferrolet sim`: the simulated container runtime on a CRI socket, for crictl, a
//! kubelet, or whoever wants to see what those two say to each other. It needs no
//! API server, no root, and no containers.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use ::sim::record::{RecordError, Recorder, Recording};
use ::sim::socket::Socket;
use ::sim::{Faults, Logs, Runtime, RuntimeShape};
use clap::{Args, ValueEnum};
use linux::SystemClock;
use seams::SharedClock;
use seams::cri::CgroupDriver;
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::logging::{KlogLayer, LogFormat, Origin, Verbosity};
use crate::output::{Failure, ended, lines, print};

const EXAMPLES: &str = "\
Examples:
  ferrolet sim --listen /tmp/sim.sock --record calls.jsonl &
  crictl --runtime-endpoint unix:///tmp/sim.sock ps
  kubelet --container-runtime-endpoint=unix:///tmp/sim.sock ...

A recording has one JSON object to a line: time, call, request, code, duration_ms, and the message
of a call that failed, in the order in which calls end. Requests are in protobuf's JSON, in which
bytes, such as the values of a container's environment, are base64. Passwords and tokens for
registries are masked; the environment is not, so the file is made for its owner only.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The socket to listen on: a path, or unix:// and an absolute one. A socket that a dead
    /// process left there is replaced
    #[arg(long, value_name = "SOCKET", value_parser = socket_path)]
    listen: PathBuf,
    /// Append every request to this file, as JSON lines
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// What a kubelet shall make the cgroups of pods with [default: systemd where it runs, else
    /// cgroupfs]
    #[arg(long, value_name = "DRIVER")]
    cgroup_driver: Option<Driver>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Driver {
    Cgroupfs,
    Systemd,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let layer = KlogLayer::new(
        LogFormat::Text,
        Verbosity::new(0, Vec::new()),
        Origin::local(),
        io::stderr(),
    );
    // Set once in a run of the program; a second time cannot happen.
    let _ = tracing_subscriber::registry().with(layer).try_init();
    ended(simulate(arguments))
}

fn simulate(arguments: &Arguments) -> Result<(), Failure> {
    let executor = runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    executor.block_on(async {
        // From here on a signal is a wish, heard when everything stands.
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let shutdown = CancellationToken::new();
        let serving = serve(arguments, shutdown.clone());
        let mut serving = std::pin::pin!(serving);
        tokio::select! {
            outcome = &mut serving => return outcome,
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        shutdown.cancel();
        serving.await
    })
}

/// Until it is told to end, or cannot go on.
async fn serve(arguments: &Arguments, shutdown: CancellationToken) -> Result<(), Failure> {
    let clock: SharedClock = Arc::new(SystemClock::start());
    let socket = Socket::bind(&arguments.listen).await?;
    let mut records = JoinSet::new();
    let recorder = record(arguments, &clock, &mut records, &shutdown).await?;
    // Nothing ails it, as long as nobody can say what.
    let (_faults, faults) = watch::channel(Faults::default());
    let shape = RuntimeShape {
        logs: Logs::Files,
        cgroup_driver: cgroup_driver(arguments),
        tells_features: true,
        ..RuntimeShape::default()
    };
    let runtime = Arc::new(Runtime::new(Arc::new(shape), clock.clone(), faults));
    let streams = runtime.open_streams_port().await?;
    announce(arguments)?;
    tokio::join!(
        runtime.keep_logs(shutdown.cancelled()),
        streams.serve(shutdown.clone()),
        socket.serve(runtime.clone(), recorder, clock, shutdown.clone()),
    );
    // The last lines are written once nobody is left who could make another.
    match records.join_next().await {
        Some(kept) => Ok(kept??),
        None => Ok(()),
    }
}

/// Starts the recording, if one is wanted. If it fails, so does the whole: half a
/// recording would mislead whoever reads it.
async fn record(
    arguments: &Arguments,
    clock: &SharedClock,
    records: &mut JoinSet<Result<(), RecordError>>,
    shutdown: &CancellationToken,
) -> Result<Option<Recorder>, Failure> {
    let Some(file) = &arguments.record else {
        return Ok(None);
    };
    let (recorder, recording) = Recording::open(file, clock.clone()).await?;
    let shutdown = shutdown.clone();
    records.spawn(async move {
        let kept = recording.keep().await;
        shutdown.cancel();
        kept
    });
    Ok(Some(recorder))
}

/// A kubelet cannot do without the one that its machine has, and asks the runtime
/// which it is.
fn cgroup_driver(arguments: &Arguments) -> CgroupDriver {
    match arguments.cgroup_driver {
        Some(Driver::Systemd) => CgroupDriver::Systemd,
        // The sign that systemd gives to programs like this one.
        None if Path::new("/run/systemd/system").is_dir() => CgroupDriver::Systemd,
        Some(Driver::Cgroupfs) | None => CgroupDriver::Cgroupfs,
    }
}

fn announce(arguments: &Arguments) -> Result<(), Failure> {
    let socket = std::path::absolute(&arguments.listen)?;
    let mut line = format!("listening on unix://{}", socket.display());
    if let Some(file) = &arguments.record {
        // Writing to a string cannot fail.
        let _ = write!(line, "; requests go to {}", file.display());
    }
    print(&lines([line]))
}

/// A path as it is; a URL as a kubelet reads it.
fn socket_path(text: &str) -> Result<PathBuf, String> {
    match text {
        "" => Err("it names no socket".to_owned()),
        _ if !text.starts_with("unix:") => Ok(PathBuf::from(text)),
        _ => match cri::Endpoint::parse(text) {
            Ok(endpoint) => Ok(endpoint.path().to_owned()),
            Err(_) => Err("write unix:// and the absolute path of the socket".to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_named_by_a_path_or_by_the_url_that_a_kubelet_takes() {
        for (given, path) in [
            ("/run/sim.sock", Some("/run/sim.sock")),
            ("sim.sock", Some("sim.sock")),
            ("unix:///run/sim.sock", Some("/run/sim.sock")),
            ("unix:/run/sim.sock", Some("/run/sim.sock")),
            ("unix://sim.sock", None),
            ("", None),
        ] {
            assert_eq!(socket_path(given).ok(), path.map(PathBuf::from), "{given}");
        }
    }
}
