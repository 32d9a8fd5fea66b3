//! Our pause program: compiled by plain `rustc` into one static file, since an
//! image holds nothing beside it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::layout::{short_hash, workspace};
use super::programs::fresh_dir;
use crate::command;

pub(super) fn build(cache: &Path) -> Result<PathBuf> {
    let source = workspace().join("lab/images/pause.rs");
    let text = fs::read(&source).with_context(|| format!("cannot read {}", source.display()))?;
    let finished = cache.join(format!("programs/pause-{}", short_hash([text], 16)));
    if finished.exists() {
        return Ok(finished);
    }
    let unfinished = fresh_dir(&finished.with_extension("new"))?;
    command::run(
        Command::new("rustc")
            .current_dir(workspace())
            .args([
                "--edition",
                "2024",
                "-C",
                "opt-level=z",
                "-C",
                "panic=abort",
            ])
            .args([
                "-C",
                "target-feature=+crt-static",
                "-C",
                "strip=symbols",
                "-o",
            ])
            .arg(unfinished.join("pause"))
            .arg(source),
    )?;
    fs::rename(&unfinished, &finished)?;
    Ok(finished)
}
