//! Programs of ours, built from this checkout.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::command;
use crate::lab::workspace;

/// Cargo, in this checkout. It must not learn from the variables that it sets for those whom it
/// runs who it was that runs: a build script that reads them would have all that stands on it
/// built anew.
pub fn cargo() -> Command {
    // Which cargo it is, it says, too.
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(workspace());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// What this process has built, by its arguments: asked once more, cargo would look at every
/// crate again, and one caller after the other.
static BUILT: Mutex<BTreeMap<String, Vec<PathBuf>>> = Mutex::new(BTreeMap::new());

/// Builds the programs of a package, as `cargo test` builds them, and answers
/// where they are.
pub fn build(package: &str) -> Result<Vec<PathBuf>> {
    once(package, &[])
}

fn once(package: &str, profile: &[&str]) -> Result<Vec<PathBuf>> {
    let key = format!("{package} {}", profile.join(" "));
    // Who comes meanwhile waits here instead of in cargo.
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(programs) = built.get(&key) {
        return Ok(programs.clone());
    }
    let programs = build_as(package, profile)?;
    built.insert(key, programs.clone());
    Ok(programs)
}

fn build_as(package: &str, profile: &[&str]) -> Result<Vec<PathBuf>> {
    let said = command::run(
        cargo()
            .args(["build", "--quiet", "--package", package, "--bins"])
            .args(profile)
            .arg("--message-format=json-render-diagnostics"),
    )
    .with_context(|| format!("cannot build package {package}"))?;
    let mut programs: Vec<PathBuf> = said
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|message| Some(PathBuf::from(message["executable"].as_str()?)))
        .collect();
    // Cargo names them in the order in which it finished them.
    programs.sort();
    Ok(programs)
}

/// Builds a package and answers where its program of the same name is.
pub fn program(package: &str) -> Result<PathBuf> {
    named(build(package)?, package)
}

/// The same as it is released: small and fast, and minutes to build.
pub fn release_program(package: &str) -> Result<PathBuf> {
    named(once(package, &["--release"])?, package)
}

fn named(programs: Vec<PathBuf>, package: &str) -> Result<PathBuf> {
    let named = |path: &PathBuf| path.file_stem().is_some_and(|name| name == package);
    let found = programs.into_iter().find(named);
    found.with_context(|| format!("package {package} has no program {package}"))
}

/// Puts a program at `target`, for a machine of the lab to find it.
pub fn install(program: &Path, target: &Path) -> Result<()> {
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent)?;
    }
    // By another process: a file that this one writes may be open in a child that
    // another thread starts at that moment, and then it cannot be executed.
    let mut copy = Command::new("cp");
    copy.arg("--remove-destination").arg(program).arg(target);
    command::run(&mut copy)?;
    Ok(())
}
