//! `cargo xtask bench`: what our agent costs, beside upstream's programs, in
//! one run in the lab. Prints a table, keeps it in `bench/`, and fails where a
//! bar of the design is missed.

mod crowd;
pub(crate) mod density;
mod embedded;
pub(crate) mod fleet;
mod heartbeats;
pub(crate) mod idle;
pub(crate) mod pods;
pub(crate) mod probes;
mod process;
pub(crate) mod server;
mod table;

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use testkit::command;
use testkit::lab::workspace;

/// What a start leaves behind is gone by then.
const SETTLED: Duration = Duration::from_secs(30);
const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * KIB;

/// When, and on what machine.
fn circumstances() -> Result<String> {
    let date = command::run(Command::new("date").args(["--utc", "+%Y-%m-%d"]))?;
    let cores = std::thread::available_parallelism()?;
    let system = command::run(Command::new("uname").args(["--kernel-name", "--machine"]))?;
    Ok(format!(
        "on {}, {cores} cores, {}",
        date.trim(),
        system.trim()
    ))
}

/// The last run, for whoever wants to know without running it.
fn keep(name: &str, text: &str) -> Result<()> {
    let place = workspace().join("bench");
    fs::create_dir_all(&place)?;
    let file = place.join(name);
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    println!("kept in {}", file.display());
    Ok(())
}
