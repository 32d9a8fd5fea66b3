//! The configuration of our kubelet against upstream's: the same files,
//! drop-in directories and command lines are given to both.
//!
//! In: the cases in `cases/`, the upstream kubelet of the lab, our program of
//! this checkout. Out: a verdict for each case: whether both accept it, with
//! which exit code they refuse it, and whether they resolve it to the same
//! configuration. What shall differ is listed in `differences.rs`, with the
//! reason; a difference that is not listed fails, and so does a listed one
//! that no longer occurs. `cases/README.md` tells how to add a case.
//!
//! The tests know command lines, files and JSON, and nothing of how our crates
//! work inside.

mod case;
mod compare;
mod configz;
mod differences;
mod ours;
mod resolved;
mod rows;
mod upstream;
mod workers;

use anyhow::{Result, ensure};
use testkit::lab::{Lab, Machine, Runtime};

use case::{Case, Verdict};
use compare::Baseline;
use ours::Ours;
use workers::examine_all;

#[test]
fn both_kubelets_take_the_same_configuration_the_same_way() -> Result<()> {
    let cases = case::read("cases", &case::SHOWING)?;
    let ours = Ours::build()?;
    let node = Lab::shared()?.node("config-diff", Runtime::Containerd2)?;
    ours.install(node.machine())?;
    // The first run also makes the certificate that the others find.
    let baseline = Baseline::of(node.machine())?;

    let stale = stale_differences(&cases);
    ensure!(stale.is_empty(), "{}", stale.join("\n"));
    examine_all(&cases, |_, case| {
        let found = examine(case, node.machine(), &baseline)?;
        Ok(found
            .iter()
            .map(|what| format!("{}: {what}", case.name))
            .collect())
    })
}

/// What is wrong with a case: a difference that is not intended, an intended
/// one that is not there, or a case that does not show what it says.
fn examine(case: &Case, machine: &Machine, baseline: &Baseline) -> Result<Vec<String>> {
    let directory = case.install(machine)?;
    let theirs = upstream::resolve(machine, &directory, &case.arguments)?;
    let ours = ours::resolve(machine, &directory, &case.arguments)?;
    let mut problems = Vec::new();
    if theirs.verdict() != case.expected {
        problems.push(format!(
            "the case says that upstream {}, but it {theirs}",
            case.expected
        ));
    }
    if case.expected != Verdict::Accepts {
        // Whether both refuse for the same cause is for a person to see.
        println!("{}\n  upstream {theirs}\n  ours     {ours}", case.name);
    }
    let found = compare::outcomes(baseline, &theirs, &ours);
    let intended = differences::of(&case.name);
    for difference in &found {
        let what = difference.what();
        if !intended.iter().any(|intended| intended.what == what) {
            problems.push(format!(
                "{difference}\n    upstream {theirs}\n    ours     {ours}"
            ));
        }
    }
    for intended in intended {
        if !found
            .iter()
            .any(|difference| difference.what() == intended.what)
        {
            problems.push(format!("no longer differs: {intended}"));
        } else if intended.found_at_start {
            upstream::fails_to_start(machine, &directory, &case.arguments)?;
        }
    }
    Ok(problems)
}

/// Listed differences of cases that do not exist.
fn stale_differences(cases: &[Case]) -> Vec<String> {
    differences::names()
        .filter(|&name| !cases.iter().any(|case| case.name == name))
        .map(|name| format!("{name}: differences.rs lists it, but there is no such case"))
        .collect()
}
