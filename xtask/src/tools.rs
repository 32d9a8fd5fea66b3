//! Cargo tools that a task needs: built once, kept in the user's cache.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use testkit::command;
use testkit::lab::{InstanceId, Layout};

/// The program of a tool of that version.
pub(crate) fn installed(tool: &str, version: &str) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let layout = Layout::new(InstanceId::from_env()?)?;
    let place = layout.cache.join(format!("{tool}-{version}"));
    let program = place.join("bin").join(tool);
    if !program.exists() {
        println!("installing {tool} {version}, once, in a few minutes …");
        command::run(
            Command::new(cargo)
                .args([
                    "install",
                    tool,
                    "--locked",
                    "--quiet",
                    // Built in half the time, and quick enough.
                    "--debug",
                    "--version",
                    version,
                    "--root",
                ])
                .arg(&place),
        )
        .with_context(|| format!("cannot install {tool}"))?;
    }
    Ok(program)
}
