//! `cargo xtask rotation`: certificates are replaced under load for minutes,
//! where the tests look at one. Prints what was seen.

use std::process::Command;

use anyhow::{Context, Result, bail};
use testkit::lab::{InstanceId, Lab, Layout, Options, saved_logs_dir, workspace};

pub(crate) fn run(minutes: u64) -> Result<()> {
    let layout = Layout::new(InstanceId::from_env()?)?;
    let was_up = Lab::open(&layout)?.is_some();
    let lab = Lab::up(layout.clone(), &Options::default())?;
    println!("== rotation, {minutes} minutes");
    let outcome = test(minutes);
    if outcome.is_err() {
        lab.save_logs(&saved_logs_dir())?;
        println!("logs of the lab: {}", saved_logs_dir().display());
    }
    if was_up {
        return outcome;
    }
    outcome.and(Lab::down(&layout))
}

fn test(minutes: u64) -> Result<()> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(program)
        .args(["test", "--locked", "--package", "e2e"])
        .args(["--test", "identity_live", "rotation::", "--", "--nocapture"])
        .env("FERROLET_ROTATION_MINUTES", minutes.to_string())
        .current_dir(workspace())
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("a rotation was noticed: see above");
    }
    Ok(())
}
