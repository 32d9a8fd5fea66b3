//! `ferrolet kubelet`: the node agent. It understands its command line and
//! configuration to the end, gets and keeps the node's certificates, tells the
//! cluster of the node, and runs its pods.

mod help;
mod limits;
mod node;
mod supervisor;

pub(crate) use self::help::wrapped;
pub(crate) use self::limits::apply as apply_limits;
pub(crate) use self::node::{configure, seams, second_signal};

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use config::effect::not_effective;
use config::flags::CommandLine;
use config::load::{Loaded, Refused, judge, resolve};
use config::schema::{self, GateStage};
use config::settings::Settings;
use config::validate::Machine;
use tracing::{error, info, warn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::logging::{KlogLayer, LogFormat, ModuleVerbosity, Origin, Verbosity, Waiting};
use crate::version;

/// Exit code of a kubelet that cannot start.
const FAILURE: u8 = 1;

pub(crate) fn run(flags: &[String]) -> ExitCode {
    let line = match CommandLine::parse(flags) {
        Ok(line) => line,
        Err(refused) => {
            start_logging(&Settings::default());
            error!(err = %refused, "command failed");
            return ExitCode::from(FAILURE);
        }
    };
    if line.bool("help") == Some(true) {
        return printed(&help::text());
    }
    if let Some(wanted) = line.text("version")
        && wanted != "false"
    {
        let shown = if wanted.starts_with('v') {
            wanted.to_owned()
        } else {
            version::kubelet()
        };
        return printed(&format!("Kubernetes {shown}\n"));
    }
    print_deprecations(&line);
    let machine = machine(&line);
    let directory = working_directory();
    let loaded = match resolve(&line, &directory) {
        Ok(loaded) => loaded,
        Err(refused) => {
            start_logging(&Settings::default());
            return failed(&refused);
        }
    };
    let log = start_logging(&loaded.settings);
    log_configuration(&line, &loaded);
    if let Err(refused) = judge(&line, &loaded, Some(machine)) {
        return failed(&refused);
    }
    info!(
        version = version::kubelet(),
        "configuration accepted, starting"
    );
    match node::run(&line, &loaded, &directory, log) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            error!(err = %failure, "command failed");
            ExitCode::from(FAILURE)
        }
    }
}

/// What the machine is, as far as configuration is judged by it.
pub(crate) fn machine(line: &CommandLine) -> Machine {
    Machine {
        // A machine with v2 alone has this file at the root of its tree.
        cgroup_v1: !Path::new("/sys/fs/cgroup/cgroup.controllers").exists(),
        // A bootstrap kubeconfig alone makes no node of a cluster.
        has_api: line.text("kubeconfig").is_some_and(|path| !path.is_empty()),
    }
}

pub(crate) fn working_directory() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"))
}

/// A plain line on standard error. Whoever reads it may be gone: that must not
/// end a node.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

fn failed(refused: &Refused) -> ExitCode {
    error!(err = %refused, "command failed");
    ExitCode::from(refused.exit_code)
}

fn printed(text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read it went away.
        Err(_) => ExitCode::from(FAILURE),
    }
}

/// Upstream prints these before there is a log, so they are plain lines.
fn print_deprecations(line: &CommandLine) {
    for flag in line.deprecated() {
        let advice = match flag.field {
            Some(field) => format!("set {field} in the --config file instead"),
            None => "it will go away".to_owned(),
        };
        say(&format!(
            "Flag --{} has been deprecated, {advice}",
            flag.name
        ));
    }
}

/// The process's log, as it can be changed and asked about while it runs.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub(crate) verbosity: Verbosity,
    pub(crate) waiting: Waiting,
}

fn start_logging(settings: &Settings) -> Log {
    let format = match settings.text("logging.format") {
        "json" => LogFormat::Json,
        _ => LogFormat::Text,
    };
    let level = |value: &serde_json::Value| {
        let level = value.as_u64().unwrap_or_default();
        u32::try_from(level).unwrap_or(u32::MAX)
    };
    let modules = settings
        .list("logging.vmodule")
        .iter()
        .map(|module| ModuleVerbosity {
            file_pattern: module["filePattern"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            level: level(&module["verbosity"]),
        });
    let wanted = settings.value("logging.verbosity").map_or(0, level);
    let verbosity = Verbosity::new(wanted, modules.collect());
    let layer = KlogLayer::new(format, verbosity.clone(), Origin::local(), io::stderr());
    let waiting = layer.waiting();
    // Set once in a run of the program; a second time cannot happen.
    let _ = tracing_subscriber::registry().with(layer).try_init();
    Log { verbosity, waiting }
}

fn log_configuration(line: &CommandLine, loaded: &Loaded) {
    for notice in &loaded.notices {
        warn!("{notice}");
    }
    for (name, value) in loaded.settings.entries("featureGates") {
        let stage = schema::gate(name).map(|gate| gate.stage);
        if let Some(GateStage::Ga | GateStage::Deprecated) = stage {
            warn!(featureGate = name, %value, "this feature gate will be removed in a later release");
        }
    }
    for (name, value) in config::flags::values(line) {
        info!(v = 1, "FLAG: --{name}={value:?}");
    }
    for (name, why) in not_effective() {
        info!(v = 2, setting = name, why = %why, "setting has no effect");
    }
    for file in &loaded.skipped {
        info!(v = 4, file = %file.display(), "file in --config-dir skipped: its name does not end in .conf");
    }
    info!(v = 5, configuration = %masked(&loaded.settings), "configuration");
}

/// The configuration without what may be secret.
fn masked(settings: &Settings) -> String {
    let mut shown = settings.to_json();
    if let Some(headers) = shown
        .get_mut("staticPodURLHeader")
        .and_then(|value| value.as_object_mut())
    {
        for values in headers.values_mut() {
            *values = serde_json::json!(["<masked>"]);
        }
    }
    serde_json::to_string_pretty(&shown).unwrap_or_default()
}
