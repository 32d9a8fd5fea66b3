//! `cargo xtask test`: the one test command. Says what it runs and how long
//! each part took; the first failure ends it.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use testkit::lab::{
    InstanceId, Lab, Layout, Options, build_programs, install_packages, require_root,
    saved_logs_dir,
};

use crate::bench::{density, fleet, idle, pods, probes, server};
use crate::{deny, tidy};

/// In this order: the last one counts what is on the whole machine.
const LAB_TESTS: [&str; 7] = [
    "shared_lab",
    "side_by_side",
    "two_servers",
    "config_differential",
    "identity_live",
    "fleet_live",
    "lab_itself",
];

/// Lab tests wait more than they work: more of them than there are cores.
const LAB_TEST_THREADS: &str = "--test-threads=8";

pub(crate) fn run(fast: bool, keep_lab: bool) -> Result<()> {
    if !fast {
        require_root().map_err(|error| {
            anyhow!("{error}, or run what needs no lab: cargo xtask test --fast")
        })?;
    }
    let mut parts = Parts::default();
    if !fast {
        parts.run("packages", install_packages)?;
        parts.run("programs of the lab", || build_programs().map(drop))?;
    }
    let outcome = checks(&mut parts).and_then(|()| {
        if fast {
            return Ok(());
        }
        lab_tests(&mut parts, keep_lab)
    });
    parts.print();
    outcome
}

fn checks(parts: &mut Parts) -> Result<()> {
    parts.run("format", || {
        cargo(&["fmt", "--all", "--check"]).context("mend it with: cargo fmt --all")
    })?;
    parts.run("tidy", tidy::run)?;
    parts.run("clippy", || {
        cargo(&[
            "clippy",
            "--locked",
            "--workspace",
            "--all-targets",
            "--quiet",
            "--",
            "--deny",
            "warnings",
        ])
    })?;
    parts.run("licences", deny::run)?;
    parts.run("unit tests", || {
        cargo(&[
            "test",
            "--locked",
            "--workspace",
            "--exclude",
            "e2e",
            "--quiet",
        ])
    })?;
    // The tests of that package that need no lab.
    parts.run("pod loop", || {
        cargo(&[
            "test",
            "--locked",
            "--package",
            "e2e",
            "--test",
            "pod_loop",
            "--test",
            "machine",
            "--quiet",
        ])
    })?;
    parts.run("embedded API server", || {
        cargo(&[
            "test",
            "--locked",
            "--package",
            "e2e",
            "--test",
            "embedded",
            "--quiet",
        ])
    })?;
    parts.run("bench fleet, embedded", || {
        fleet::run(&fleet::Plan::short(true))
    })
}

fn lab_tests(parts: &mut Parts, keep_lab: bool) -> Result<()> {
    let layout = Layout::new(InstanceId::from_env()?)?;
    let _ = fs::remove_dir_all(saved_logs_dir());
    let outcome = parts.run("lab up", || {
        // What an earlier run left, perhaps in the middle, must not decide
        // over this one.
        Lab::down(&layout)?;
        Lab::up(layout.clone(), &Options::default()).map(drop)
    });
    let outcome = outcome.and_then(|()| {
        LAB_TESTS
            .iter()
            .try_for_each(|name| parts.run(&format!("lab tests: {name}"), || lab_test(name)))
    });
    // What the long runs measure, in their short forms: that they still work.
    let outcome = outcome
        .and_then(|()| parts.run("bench idle, short", || idle::run(&idle::Plan::short())))
        .and_then(|()| {
            parts.run("bench fleet, short", || {
                fleet::run(&fleet::Plan::short(false))
            })
        })
        .and_then(|()| {
            parts.run("bench density, short", || {
                density::run(&density::Plan::short())
            })
        })
        .and_then(|()| parts.run("bench pods, short", || pods::run(&pods::Plan::short())))
        .and_then(|()| {
            parts.run(
                "bench probes, short",
                || probes::run(&probes::Plan::short()),
            )
        })
        .and_then(|()| {
            parts.run(
                "bench server, short",
                || server::run(&server::Plan::short()),
            )
        })
        // They have built the release that people are told to run.
        .and_then(|()| parts.run("README's commands", || lab_test("readme")));
    if outcome.is_err()
        && let Some(lab) = Lab::open(&layout)?
    {
        lab.save_logs(&saved_logs_dir())?;
        println!("logs of the lab: {}", saved_logs_dir().display());
    }
    if keep_lab {
        println!("the lab still runs: cargo xtask lab status");
        return outcome;
    }
    let down = parts.run("lab down", || Lab::down(&layout));
    outcome.and(down)
}

fn lab_test(name: &str) -> Result<()> {
    cargo(&[
        "test",
        "--locked",
        "--package",
        "e2e",
        "--test",
        name,
        "--",
        LAB_TEST_THREADS,
    ])
}

fn cargo(arguments: &[&str]) -> Result<()> {
    let status = testkit::cargo::cargo()
        .args(arguments)
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("cargo {} failed", arguments.join(" "));
    }
    Ok(())
}

/// What was run, and how long it took.
#[derive(Default)]
struct Parts {
    done: Vec<(String, Duration, bool)>,
}

impl Parts {
    fn run(&mut self, name: &str, part: impl FnOnce() -> Result<()>) -> Result<()> {
        println!("== {name}");
        let start = Instant::now();
        let outcome = part().with_context(|| format!("in part \"{name}\""));
        self.done
            .push((name.to_owned(), start.elapsed(), outcome.is_ok()));
        outcome
    }

    fn print(&self) {
        println!("== parts");
        for (name, took, passed) in &self.done {
            let verdict = if *passed { "passed" } else { "FAILED" };
            println!("{name:<24} {:>7.1} s  {verdict}", took.as_secs_f64());
        }
        let total: Duration = self.done.iter().map(|(_, took, _)| *took).sum();
        println!("{:<24} {:>7.1} s", "together", total.as_secs_f64());
    }
}
