//! A live test for longer, or with more, than in the tests: in the lab of this
//! checkout, with its figures printed.

use std::time::SystemTime;

use anyhow::{Context, Result, anyhow, bail};
use testkit::cargo::cargo;
use testkit::lab::{InstanceId, Lab, Layout, Options, saved_logs_dir};

/// Which, and how large.
pub(crate) struct LongRun {
    pub(crate) title: String,
    /// The test binary, and the module in it.
    pub(crate) test: [&'static str; 2],
    /// The variable that says for how long, or with how many.
    pub(crate) size: (&'static str, u64),
    /// Of what is random in it, which is the same again with the same seed.
    pub(crate) seed: Option<u64>,
    /// What a failure means.
    pub(crate) failure: &'static str,
}

impl LongRun {
    pub(crate) fn run(&self) -> Result<()> {
        in_lab(|_| self.test())
    }

    /// The same for one that needs no lab.
    pub(crate) fn test(&self) -> Result<()> {
        println!("== {}", self.title);
        let (variable, size) = self.size;
        let [binary, module] = self.test;
        let mut cargo = cargo();
        cargo
            .args(["test", "--locked", "--package", "e2e"])
            .args(["--test", binary, module])
            .args(["--", "--nocapture"])
            .env(variable, size.to_string());
        if let Some(seed) = self.seed {
            cargo.env("FERROLET_SEED", seed.to_string());
        }
        let status = cargo.status().context("cannot run cargo")?;
        if !status.success() {
            bail!("{}: see above", self.failure);
        }
        Ok(())
    }
}

/// Works in the lab that is up, or in one that is up for that long; what it said is kept when
/// the work fails.
pub(crate) fn in_lab<T>(work: impl FnOnce(&Lab) -> Result<T>) -> Result<T> {
    let layout = Layout::new(InstanceId::from_env()?)?;
    let was_up = Lab::open(&layout)?.is_some();
    let lab = Lab::up(layout.clone(), &Options::default())?;
    let outcome = work(&lab);
    if outcome.is_err() {
        lab.save_logs(&saved_logs_dir())?;
        println!("logs of the lab: {}", saved_logs_dir().display());
    }
    let down = if was_up { Ok(()) } else { Lab::down(&layout) };
    let done = outcome?;
    down?;
    Ok(done)
}

/// Another one each time.
pub(crate) fn seed_of_the_moment() -> Result<u64> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Ok(since
        .map_err(|_| anyhow!("the clock is before 1970"))?
        .as_secs())
}
