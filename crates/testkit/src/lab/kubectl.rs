//! The real kubectl, on the host, against the lab.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::command;

#[derive(Clone, Debug)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
}

impl Kubectl {
    pub(super) fn new(program: PathBuf, kubeconfig: PathBuf) -> Self {
        Self {
            program,
            kubeconfig,
        }
    }

    /// The same program as another user.
    #[must_use]
    pub fn with_kubeconfig(&self, kubeconfig: &Path) -> Self {
        Self::new(self.program.clone(), kubeconfig.to_path_buf())
    }

    /// To be completed and run by the caller.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        command
    }

    /// One that ends before its garbage is worth collecting.
    fn short_lived(&self) -> Command {
        let mut command = self.command();
        command.env("GOGC", "off");
        command
    }

    /// Runs to the end and answers what was printed.
    pub fn run<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Result<String> {
        command::run(self.short_lived().args(arguments))
    }

    /// Like [`Kubectl::run`] with `-o json`.
    pub fn json<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Result<Value> {
        let said = command::run(self.short_lived().args(arguments).args(["-o", "json"]))?;
        serde_json::from_str(&said).context("kubectl did not print JSON")
    }

    /// Applies a manifest, YAML or JSON.
    pub fn apply(&self, manifest: &str) -> Result<String> {
        command::run_with_input(
            self.short_lived().args(["apply", "-f", "-"]),
            manifest.as_bytes(),
        )
    }
}
