//! Our side: the program of this checkout, asked what it would run with.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use testkit::cargo;
use testkit::lab::Machine;

use crate::resolved::Outcome;

const PROGRAM: &str = "/opt/lab/tools/ferrolet";

pub(crate) struct Ours {
    program: PathBuf,
}

impl Ours {
    pub(crate) fn build() -> Result<Self> {
        let program = cargo::build("ferrolet")?
            .into_iter()
            .find(|path| path.file_stem().is_some_and(|name| name == "ferrolet"))
            .context("the package ferrolet has no program ferrolet")?;
        Ok(Self { program })
    }

    pub(crate) fn install(&self, machine: &Machine) -> Result<()> {
        let target = machine.file(PROGRAM);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::copy(&self.program, &target)
            .with_context(|| format!("cannot copy {}", self.program.display()))?;
        Ok(())
    }
}

/// Resolves the kubelet's command line in `directory` of the machine.
pub(crate) fn resolve(machine: &Machine, directory: &str, arguments: &[String]) -> Result<Outcome> {
    let output = machine
        .command("env")
        .args(["--chdir", directory])
        .arg(PROGRAM)
        .args(["config", "print", "-o", "json", "--"])
        .args(arguments)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.code() {
        Some(0) => {
            let configuration = serde_json::from_slice(&output.stdout)
                .context("cannot read the configuration that ours shows")?;
            Ok(Outcome::Accepted(configuration))
        }
        Some(exit_code) => Ok(Outcome::Refused {
            exit_code,
            message: said,
        }),
        None => bail!("ours was killed by a signal: {said}"),
    }
}
