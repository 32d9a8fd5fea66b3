//! Licences and sources of what we depend on, as `deny.toml` allows them.

use std::process::Command;

use anyhow::{Context, Result, bail};
use testkit::lab::workspace;

use crate::tools;

const VERSION: &str = "0.20.2";

pub(crate) fn run() -> Result<()> {
    let program = tools::installed("cargo-deny", VERSION)?;
    // Advisories are left out: their database is a repository of its own, which
    // a machine that reaches only the package registries cannot read.
    let status = Command::new(&program)
        .args([
            "--log-level",
            "error",
            "check",
            "bans",
            "licenses",
            "sources",
        ])
        .current_dir(workspace())
        .status()
        .with_context(|| format!("cannot run {}", program.display()))?;
    if !status.success() {
        bail!("what we depend on is not as deny.toml allows it");
    }
    Ok(())
}
