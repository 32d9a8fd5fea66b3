//! `cargo xtask fuzz`: the fuzz targets, for as long as one likes. Their short
//! form runs with the unit tests.

use std::process::Command;

use anyhow::{Context, Result, bail};
use testkit::lab::workspace;

use crate::tools;

const VERSION: &str = "0.13.2";
const TARGETS: [&str; 3] = ["config_file", "drop_ins", "flags"];

pub(crate) fn run(wanted: Option<&str>, seconds: u64) -> Result<()> {
    let targets: Vec<&str> = match wanted {
        Some(name) if TARGETS.contains(&name) => vec![name],
        Some(name) => bail!(
            "there is no fuzz target {name}; there are {}",
            TARGETS.join(", ")
        ),
        None => TARGETS.to_vec(),
    };
    let program = tools::installed("cargo-fuzz", VERSION)?;
    for target in targets {
        println!("== fuzz {target}, {seconds} s");
        let status = Command::new(&program)
            .args([
                "fuzz",
                "run",
                target,
                "--",
                "-print_final_stats=1",
                "-verbosity=0",
            ])
            .arg(format!("-max_total_time={seconds}"))
            .current_dir(workspace())
            .env("RUSTUP_TOOLCHAIN", "nightly")
            // Cargo tells its children which it is; here it must be another.
            .env_remove("CARGO")
            .status()
            .context("cannot run cargo-fuzz")?;
        if !status.success() {
            bail!(
                "fuzz target {target} failed (it needs a nightly toolchain: rustup toolchain install nightly); what it found is in fuzz/artifacts"
            );
        }
    }
    Ok(())
}
