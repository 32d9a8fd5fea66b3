//! Licences and sources of what we depend on, as `deny.toml` allows them. The
//! tool is built once and kept in the user's cache.

use std::process::Command;

use anyhow::{Context, Result, bail};
use testkit::command;
use testkit::lab::{InstanceId, Layout, workspace};

const VERSION: &str = "0.20.2";

pub(crate) fn run() -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let place = Layout::new(InstanceId::from_env()?)?
        .cache
        .join(format!("cargo-deny-{VERSION}"));
    let program = place.join("bin/cargo-deny");
    if !program.exists() {
        println!("installing cargo-deny {VERSION}, once, in about three minutes …");
        command::run(
            Command::new(cargo)
                .args([
                    "install",
                    "cargo-deny",
                    "--locked",
                    "--quiet",
                    "--version",
                    VERSION,
                    "--root",
                ])
                .arg(&place),
        )
        .context("cannot install cargo-deny")?;
    }
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
