//! Our own lab programs, built from this checkout.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::layout::workspace;
use crate::command;

/// Builds package `lab-tools` and answers its programs.
pub(super) fn build() -> Result<Vec<PathBuf>> {
    // Cargo says which it is to those that it runs.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let said = command::run(
        Command::new(cargo)
            .current_dir(workspace())
            .args(["build", "--quiet", "--package", "lab-tools", "--bins"])
            .arg("--message-format=json-render-diagnostics"),
    )
    .context("cannot build the lab's own programs")?;
    Ok(said
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|message| Some(PathBuf::from(message["executable"].as_str()?)))
        .collect())
}
