//! `cargo xtask lab`: the lab at the command line.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::process::{Command, ExitCode};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Subcommand, ValueEnum};
use testkit::lab::{Daemon, InstanceId, Lab, Layout, Machine, Options, Runtime, require_root};

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Start the lab, building what is not built yet
    Up {
        /// How long certificates from CSRs are valid (e.g. 15m)
        #[arg(long, value_name = "DURATION", value_parser = go_duration)]
        signing_duration: Option<String>,
    },
    /// End the lab and remove all that it made
    Down,
    /// Show what runs
    Status,
    /// Print the log of a daemon
    Logs {
        /// The daemon, e.g. kube-apiserver, or NODE/kubelet
        daemon: String,
        /// Go on printing as the log grows
        #[arg(short, long)]
        follow: bool,
    },
    /// Open a shell with kubectl set up, or inside a machine of the lab
    Shell {
        /// control-plane or a node; left out: on the host
        machine: Option<String>,
        /// Run this instead of a shell
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// Add and remove nodes
    Node {
        #[command(subcommand)]
        verb: NodeVerb,
    },
}

#[derive(Subcommand)]
pub(crate) enum NodeVerb {
    /// Make a node: a container runtime, a pod network, and no kubelet
    Add {
        name: String,
        #[arg(long, value_enum, default_value_t = RuntimeName::Containerd2)]
        runtime: RuntimeName,
        /// Start the upstream kubelet in it and wait until it is Ready
        #[arg(long)]
        upstream_kubelet: bool,
        /// Start our node agent in it
        #[arg(long, conflicts_with = "upstream_kubelet")]
        ferrolet: bool,
    },
    /// End a node with all that runs in it
    Remove { name: String },
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum RuntimeName {
    /// The pinned containerd 2.x
    #[value(name = "containerd-2")]
    Containerd2,
    /// Debian's containerd 1.6
    #[value(name = "containerd-1.6")]
    Containerd16,
}

/// Checked here: a controller manager that does not understand it would end
/// later, with less to say.
fn go_duration(text: &str) -> Result<String, String> {
    let digits = text.trim_end_matches(['h', 'm', 's']);
    let fits = digits.len() < text.len()
        && !digits.is_empty()
        && digits
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b".hms".contains(&byte))
        && digits.starts_with(|first: char| first.is_ascii_digit());
    if fits {
        Ok(text.to_owned())
    } else {
        Err("it must be a duration such as 15m or 1h30m".to_owned())
    }
}

pub(crate) fn run(verb: Verb) -> Result<ExitCode> {
    require_root()?;
    let layout = Layout::new(InstanceId::from_env()?)?;
    match verb {
        Verb::Up { signing_duration } => up(layout, signing_duration),
        Verb::Down => Lab::down(&layout),
        Verb::Status => status(&layout),
        Verb::Logs { daemon, follow } => logs(&layout, &daemon, follow),
        Verb::Shell { machine, command } => return shell(&layout, machine.as_deref(), &command),
        Verb::Node { verb } => node(&layout, verb),
    }?;
    Ok(ExitCode::SUCCESS)
}

fn up(layout: Layout, signing_duration: Option<String>) -> Result<()> {
    let mut options = Options::default();
    if let Some(duration) = signing_duration {
        options.signing_duration = duration;
    }
    let lab = Lab::up(layout, &options)?;
    println!("KUBECONFIG={}", lab.admin_kubeconfig().display());
    println!(
        "next: cargo xtask lab shell, or cargo xtask lab node add NAME --ferrolet (or --upstream-kubelet)"
    );
    Ok(())
}

fn running(layout: &Layout) -> Result<Lab> {
    Lab::open(layout)?
        .with_context(|| format!("lab {} does not run: cargo xtask lab up", layout.id))
}

fn status(layout: &Layout) -> Result<()> {
    let lab = running(layout)?;
    println!("lab {} at {}", layout.id, lab.url());
    println!("KUBECONFIG={}", lab.admin_kubeconfig().display());
    for (name, machine) in lab.machines()? {
        let Some(machine) = machine else {
            println!("{name} has died: cargo xtask lab node remove {name}");
            continue;
        };
        println!("{name}");
        for daemon in machine.daemons()? {
            let state = match daemon.pid() {
                Some(pid) => format!("runs (process {})", pid.as_raw_nonzero()),
                None => format!("has ended: cargo xtask lab logs {name}/{}", daemon.name()),
            };
            println!("  {:<24} {state}", daemon.name());
        }
    }
    Ok(())
}

fn logs(layout: &Layout, wanted: &str, follow: bool) -> Result<()> {
    let lab = running(layout)?;
    let daemon = find_daemon(&lab, wanted)?;
    let mut file = File::open(daemon.log_file()).with_context(|| format!("{wanted} has no log"))?;
    let mut place = 0;
    loop {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(place))?;
        place += file.read_to_end(&mut bytes)? as u64;
        std::io::stdout().write_all(&bytes)?;
        std::io::stdout().flush()?;
        if !follow {
            return Ok(());
        }
        sleep(Duration::from_millis(300));
    }
}

fn find_daemon(lab: &Lab, wanted: &str) -> Result<Daemon> {
    let (machine, name) = wanted.split_once('/').unwrap_or(("control-plane", wanted));
    let daemons = find_machine(lab, machine)?.daemons()?;
    let names: Vec<String> = daemons
        .iter()
        .map(|daemon| daemon.name().to_owned())
        .collect();
    daemons
        .into_iter()
        .find(|daemon| daemon.name() == name)
        .with_context(|| {
            format!(
                "{machine} has no daemon {name}; it has {}. One of a node is NODE/DAEMON",
                names.join(", ")
            )
        })
}

fn find_machine(lab: &Lab, wanted: &str) -> Result<Machine> {
    let machines = lab.machines()?;
    let names: Vec<&str> = machines.iter().map(|(name, _)| name.as_str()).collect();
    let names = names.join(", ");
    machines
        .into_iter()
        .find(|(name, _)| name == wanted)
        .with_context(|| format!("the lab has no machine {wanted}; it has {names}"))?
        .1
        .with_context(|| format!("machine {wanted} has died"))
}

fn shell(layout: &Layout, machine: Option<&str>, words: &[String]) -> Result<ExitCode> {
    let lab = running(layout)?;
    let shell = || std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned());
    let shell = vec![shell()];
    let (program, arguments) = if words.is_empty() { &shell } else { words }
        .split_first()
        .context("no command")?;
    let mut command = if let Some(name) = machine {
        let mut command = find_machine(&lab, name)?.command(program);
        command.env("TERM", std::env::var_os("TERM").unwrap_or_default());
        if name == "control-plane" {
            command.env("KUBECONFIG", "/etc/kubernetes/admin.conf");
        }
        command
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut places = vec![lab.programs().to_path_buf()];
        places.extend(std::env::split_paths(&path));
        let mut command = Command::new(program);
        command.env("PATH", std::env::join_paths(places)?);
        command.env("KUBECONFIG", lab.admin_kubeconfig());
        command
    };
    let status = command
        .args(arguments)
        .status()
        .with_context(|| format!("cannot run {program}"))?;
    // What was run has said what is wrong; its code goes on to the caller.
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}

fn node(layout: &Layout, verb: NodeVerb) -> Result<()> {
    let lab = running(layout)?;
    match verb {
        NodeVerb::Add {
            name,
            runtime,
            upstream_kubelet,
            ferrolet,
        } => {
            let runtime = match runtime {
                RuntimeName::Containerd2 => Runtime::Containerd2,
                RuntimeName::Containerd16 => Runtime::Containerd16,
            };
            let mut node = lab.node(&name, runtime)?;
            node.keep();
            println!(
                "node {name} at {}: cargo xtask lab shell {name}",
                node.address()
            );
            if ferrolet {
                node.start_ferrolet("")?;
                println!("its log: cargo xtask lab logs --follow {name}/kubelet");
            }
            if upstream_kubelet {
                node.start_upstream_kubelet("")?;
                node.wait_ready(Duration::from_secs(60))?;
                println!("node {name} is Ready");
            }
            Ok(())
        }
        NodeVerb::Remove { name } => lab.remove_node(&name),
    }
}
