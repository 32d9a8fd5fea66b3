//! A live test for longer than the tests look: in the lab of this checkout, with its
//! figures printed.

use anyhow::{Context, Result, bail};
use testkit::cargo::cargo;
use testkit::lab::{InstanceId, Lab, Layout, Options, saved_logs_dir};

/// Which, and for how long.
pub(crate) struct LongRun {
    pub(crate) title: String,
    /// The module of `identity_live`.
    pub(crate) module: &'static str,
    /// The variable that says for how long.
    pub(crate) lasting: (&'static str, u64),
    /// What a failure means.
    pub(crate) failure: &'static str,
}

impl LongRun {
    /// Leaves a lab that was up as it was.
    pub(crate) fn run(&self) -> Result<()> {
        let layout = Layout::new(InstanceId::from_env()?)?;
        let was_up = Lab::open(&layout)?.is_some();
        let lab = Lab::up(layout.clone(), &Options::default())?;
        println!("== {}", self.title);
        let outcome = self.test();
        if outcome.is_err() {
            lab.save_logs(&saved_logs_dir())?;
            println!("logs of the lab: {}", saved_logs_dir().display());
        }
        if was_up {
            return outcome;
        }
        outcome.and(Lab::down(&layout))
    }

    fn test(&self) -> Result<()> {
        let (variable, lasting) = self.lasting;
        let status = cargo()
            .args(["test", "--locked", "--package", "e2e"])
            .args(["--test", "identity_live", self.module])
            .args(["--", "--nocapture"])
            .env(variable, lasting.to_string())
            .status()
            .context("cannot run cargo")?;
        if !status.success() {
            bail!("{}: see above", self.failure);
        }
        Ok(())
    }
}
