//! The program: command line, composition roots, exit codes.
//!
//! In: arguments, the working directory, the machine. Out: what a command
//! prints, and its exit code. This is the only place that reads the process's
//! surroundings and the only one that ends it; what the words mean is in the
//! crates below.

#![allow(
    clippy::disallowed_methods,
    reason = "the binary owns the process: arguments, working directory, exit code"
)]
// A print that fails would end the process in the middle of something.
#![warn(clippy::print_stderr, clippy::print_stdout)]

mod certs;
mod cluster_access;
mod completions;
mod config;
mod connection;
mod csr;
mod doctor;
mod end_signals;
mod explain;
mod fleet;
mod given;
mod heartbeat;
mod join;
mod kubeconfig;
mod kubelet;
mod local_node;
mod log;
mod logging;
mod new_file;
mod output;
mod profiler;
mod rbac;
mod reset;
mod screen;
mod sim;
mod token;
mod up;
mod version;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "ferrolet", version = version::FERROLET, about = "The Kubernetes node agent in Rust")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a cluster of this machine alone: an API server and a node, in one process
    Up(Box<up::Arguments>),
    /// Run a node: takes the kubelet's flags
    #[command(disable_help_flag = true)]
    Kubelet {
        #[arg(
            trailing_var_arg = true,
            allow_hyphen_values = true,
            value_name = "FLAGS"
        )]
        flags: Vec<String>,
    },
    /// Understand, check and convert the kubelet's configuration
    Config {
        #[command(subcommand)]
        verb: config::Verb,
    },
    /// Look at the node's certificates, and at what they wait for
    Certs {
        #[command(subcommand)]
        verb: certs::Verb,
    },
    /// Create, list and delete the cluster's bootstrap tokens
    Token {
        #[command(subcommand)]
        verb: token::Verb,
    },
    /// Get certificates signed by the cluster; look into requests, approve and deny them
    Csr {
        #[command(subcommand)]
        verb: csr::Verb,
    },
    /// Make kubeconfigs
    Kubeconfig {
        #[command(subcommand)]
        verb: kubeconfig::Verb,
    },
    /// Make the roles and bindings by which nodes come into the cluster
    Rbac {
        #[command(subcommand)]
        verb: rbac::Verb,
    },
    /// Simulate a container runtime on a CRI socket, for crictl or a kubelet to talk to
    Sim(sim::Arguments),
    /// Keep existing nodes alive with no agent behind them
    Heartbeat(heartbeat::Arguments),
    /// Run thousands of nodes in one process, on simulated machines
    Fleet(Box<fleet::Arguments>),
    /// Look at this machine and its node: what is wrong, and the command that mends it
    Doctor(Box<doctor::Arguments>),
    /// Walk through what a node does, with the objects of this machine's node
    Explain {
        #[command(subcommand)]
        topic: explain::Topic,
    },
    /// Print the completions for a shell
    #[command(after_help = "Example:\n  source <(ferrolet completions bash)")]
    Completions { shell: clap_complete::Shell },
    /// Make this machine a node of a cluster
    Join(Box<join::Arguments>),
    /// Undo a join on this machine
    Reset(reset::Arguments),
}

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_default();
    if invoked_as_kubelet(&name) {
        // Upstream's program refuses what is not UTF-8, flag by flag; the
        // replacement character is in no flag's name.
        let flags: Vec<String> = words
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        return kubelet::run(&flags);
    }
    match Arguments::parse().command {
        Command::Up(arguments) => up::run(&arguments),
        Command::Kubelet { flags } => kubelet::run(&flags),
        Command::Config { verb } => config::run(verb),
        Command::Certs { verb } => certs::run(verb),
        Command::Token { verb } => token::run(verb),
        Command::Csr { verb } => csr::run(verb),
        Command::Kubeconfig { verb } => kubeconfig::run(verb),
        Command::Rbac { verb } => rbac::run(verb),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Heartbeat(arguments) => heartbeat::run(&arguments),
        Command::Fleet(arguments) => fleet::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Explain { topic } => explain::run(&topic),
        Command::Completions { shell } => completions::run(shell),
        Command::Join(arguments) => join::run(*arguments),
        Command::Reset(arguments) => reset::run(&arguments),
    }
}

/// A link named `kubelet` makes this program a drop-in for upstream's.
fn invoked_as_kubelet(name: &OsString) -> bool {
    Path::new(name)
        .file_name()
        .is_some_and(|name| name == "kubelet")
}
