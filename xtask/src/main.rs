//! The tasks of this repository: `cargo xtask --help` lists them.
//!
//! In: the command line. Out: what the task prints, and an exit code. The work
//! itself is elsewhere: the lab in crate `testkit`, the rules of the
//! repository in `tidy`, the order of the tests in `test`.

#![allow(
    clippy::disallowed_methods,
    reason = "a task owns its process: it reads the environment and the clock"
)]

mod agent;
mod bench;
mod chaos;
mod compare;
mod deny;
mod fuzz;
mod lab;
mod long_run;
mod outage;
mod rotation;
mod test;
mod tidy;
mod tools;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use testkit::chaos::World;

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    about = "The tasks of this repository"
)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run every check and test of this repository
    Test {
        /// Only what needs no root and no lab
        #[arg(long)]
        fast: bool,
        /// Leave the lab running afterwards
        #[arg(long, conflicts_with = "fast")]
        keep_lab: bool,
    },
    /// Check the rules of this repository: imports, sizes, head comments, READMEs
    Tidy {
        /// Take the figures of bench/ over into the READMEs first
        #[arg(long)]
        figures: bool,
    },
    /// Run the fuzz targets (needs a nightly toolchain)
    Fuzz {
        /// One of them; left out: all
        target: Option<String>,
        /// For how long each
        #[arg(long, default_value_t = 300)]
        seconds: u64,
    },
    /// Replace certificates under load for minutes, and tell what was seen
    Rotation {
        /// For how long; a certificate lasts one to two
        #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..))]
        minutes: u64,
    },
    /// Take the API server from a node in every way, and tell how the node comes back
    Outage {
        /// For how long each
        #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(12..))]
        seconds: u64,
    },
    /// Restart the API server under a fleet, and tell how soon all of it is back
    Restart {
        /// How many nodes
        #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..))]
        nodes: u64,
    },
    /// Play scenarios on our node and on an upstream one, and compare what the cluster saw
    Compare(compare::Plan),
    /// Measure what our agent costs, beside upstream's programs
    Bench {
        #[command(subcommand)]
        what: Bench,
    },
    /// Kill a part of a node or of a cluster over and over, and tell what held
    Chaos {
        #[command(subcommand)]
        what: Chaos,
    },
    /// Start, stop and look at a real cluster for tests
    Lab {
        #[command(subcommand)]
        verb: lab::Verb,
    },
}

#[derive(Subcommand)]
enum Bench {
    /// A node without pods (builds a release first)
    Idle(bench::idle::Plan),
    /// A node with a hundred pods (builds a release first)
    Density(bench::density::Plan),
    /// Hollow nodes in one process, beside kubemark (builds a release first)
    Fleet(bench::fleet::Plan),
    /// Hollow nodes with pods, in one process (builds a release first)
    Pods(bench::pods::Plan),
    /// Five hundred simulated containers with two probes each (builds a release first)
    Probes(bench::probes::Plan),
    /// A node with a hundred pods that is asked for figures, pods and logs (builds a release first)
    Server(bench::server::Plan),
    /// What `probes` runs in a node to compare with
    #[command(hide = true)]
    BareProbes(bench::probes::bare::Loop),
}

#[derive(Subcommand)]
enum Chaos {
    /// The node's agent, while pods come, run and go
    Agent(chaos::Plan),
    /// The node's agent, while volumes of every kind are mounted, changed and unmounted
    Volumes(chaos::Plan),
    /// `ferrolet up`, while people write to its API server (needs no lab)
    Server(chaos::Kills),
}

fn main() -> ExitCode {
    let done = |result: Result<()>| result.map(|()| ExitCode::SUCCESS);
    let result = match Arguments::parse().task {
        Task::Test { fast, keep_lab } => done(test::run(fast, keep_lab)),
        Task::Tidy { figures: false } => done(tidy::run()),
        Task::Tidy { figures: true } => done(tidy::take_figures_over().and_then(|()| tidy::run())),
        Task::Fuzz { target, seconds } => done(fuzz::run(target.as_deref(), seconds)),
        Task::Rotation { minutes } => done(rotation::run(minutes)),
        Task::Outage { seconds } => done(outage::run(seconds)),
        Task::Restart { nodes } => done(outage::restart(nodes)),
        Task::Compare(plan) => done(compare::run(&plan)),
        Task::Bench { what } => done(match what {
            Bench::Idle(plan) => bench::idle::run(&plan),
            Bench::Density(plan) => bench::density::run(&plan),
            Bench::Fleet(plan) => bench::fleet::run(&plan),
            Bench::Pods(plan) => bench::pods::run(&plan),
            Bench::Probes(plan) => bench::probes::run(&plan),
            Bench::Server(plan) => bench::server::run(&plan),
            Bench::BareProbes(plan) => bench::probes::bare::run(&plan),
        }),
        Task::Chaos { what } => done(match what {
            Chaos::Agent(plan) => chaos::run(&plan, World::Pods),
            Chaos::Volumes(plan) => chaos::run(&plan, World::Volumes),
            Chaos::Server(kills) => chaos::server(&kills),
        }),
        Task::Lab { verb } => lab::run(verb),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
