//! A live test for longer, or with more, than in the tests: in the lab of this
//! checkout, with its figures printed.

use anyhow::{Context, Result, bail};
use testkit::cargo::cargo;
use testkit::lab::{InstanceId, Lab, Layout, Options, saved_logs_dir};

/// Which, and how large.
pub(crate) struct LongRun {
    pub(crate) title: String,
    /// The test binary, and the module in it.
    pub(crate) test: [&'static str; 2],
    /// The variable that says for how long, or with how many.
    pub(crate) size: (&'static str, u64),
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
        let (variable, size) = self.size;
        let [binary, module] = self.test;
        let status = cargo()
            .args(["test", "--locked", "--package", "e2e"])
            .args(["--test", binary, module])
            .args(["--", "--nocapture"])
            .env(variable, size.to_string())
            .status()
            .context("cannot run cargo")?;
        if !status.success() {
            bail!("{}: see above", self.failure);
        }
        Ok(())
    }
}
