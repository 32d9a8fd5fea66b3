//! Our side: the program of this checkout, asked what it would run with.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use testkit::cargo;
use testkit::lab::{FERROLET, Machine};

use crate::resolved::Outcome;

pub(crate) struct Ours {
    program: PathBuf,
}

impl Ours {
    pub(crate) fn build() -> Result<Self> {
        Ok(Self {
            program: cargo::program("ferrolet")?,
        })
    }

    pub(crate) fn install(&self, machine: &Machine) -> Result<()> {
        cargo::install(&self.program, &machine.file(FERROLET))
    }
}

/// What our kubelet says to a command line in `directory` of the machine, and
/// the configuration that it resolves to.
pub(crate) fn resolve(machine: &Machine, directory: &str, arguments: &[String]) -> Result<Outcome> {
    // With an API server to ask: without one we say at once what upstream
    // finds later, in every case.
    let judged = run(
        machine,
        directory,
        &["kubelet", "--kubeconfig=/there"],
        arguments,
    )?;
    let accepted = judged.said.contains(ACCEPTED) || judged.exit_code == 0;
    if !accepted {
        return Ok(Outcome::Refused {
            exit_code: judged.exit_code,
            message: judged.said,
        });
    }
    let shown = run(
        machine,
        directory,
        &["config", "print", "-o", "json", "--"],
        arguments,
    )?;
    if shown.exit_code != 0 {
        bail!(
            "the kubelet accepts what config print refuses: {}",
            shown.said
        );
    }
    let configuration = serde_json::from_slice(&shown.stdout)
        .context("cannot read the configuration that ours shows")?;
    Ok(Outcome::Accepted(configuration))
}

/// How our kubelet ends, so far, when its configuration is fine.
const ACCEPTED: &str = "configuration accepted, starting";

struct Run {
    exit_code: i32,
    stdout: Vec<u8>,
    said: String,
}

fn run(machine: &Machine, directory: &str, verb: &[&str], arguments: &[String]) -> Result<Run> {
    let output = machine
        .command("env")
        .args(["--chdir", directory])
        .arg(FERROLET)
        .args(verb)
        .args(arguments)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.code() {
        Some(exit_code) => Ok(Run {
            exit_code,
            stdout: output.stdout,
            said,
        }),
        None => bail!("ours was killed by a signal: {said}"),
    }
}
