//! The tasks of this repository: `cargo xtask --help` lists them.
//!
//! In: the command line. Out: what the task prints, and an exit code. The work
//! itself is elsewhere: the lab in crate `testkit`, the rules of the
//! repository in `tidy`, the order of the tests in `test`.

#![allow(
    clippy::disallowed_methods,
    reason = "a task owns its process: it reads the environment and the clock"
)]

mod lab;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The tasks of this repository")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Start, stop and look at a real cluster for tests
    Lab {
        #[command(subcommand)]
        verb: lab::Verb,
    },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Lab { verb } => lab::run(verb),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
