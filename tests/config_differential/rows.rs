//! The tables of values, a good and a bad one for every field and every flag
//! (`crates/config/testdata`), which the tests of our crate believe: upstream
//! must judge each value as they say. What it accepts, ours must resolve to
//! the same configuration.
//!
//! A run takes time, so good values are tried many at once; a bad one is tried
//! alone, and what must be given along with it is tried without it.

#[path = "../../crates/config/tests/every_row/table.rs"]
mod table;

use std::collections::BTreeSet;
use std::fs;

use anyhow::Result;
use testkit::lab::{Lab, Machine, Runtime};

use crate::case::{self, SHOWING, Verdict};
use crate::compare::{self, Baseline};
use crate::ours::{self, Ours};
use crate::upstream;
use crate::workers::examine_all;
use table::{Given, Row};

/// `SHOWING`, where there is nothing to show.
const QUIET: [&str; 1] = ["--fail-cgroupv1=false"];

#[test]
fn every_row_is_judged_alike() -> Result<()> {
    let trials = trials();
    let ours = Ours::build()?;
    let node = Lab::shared()?.node("config-rows", Runtime::Containerd2)?;
    ours.install(node.machine())?;
    let baseline = Baseline::of(node.machine())?;

    examine_all(&trials, |index, trial| {
        let directory = format!("/opt/rows/{index}");
        let found = examine(trial, node.machine(), &directory, &baseline)?;
        Ok(found
            .iter()
            .map(|what| format!("{:?}: {what}", trial.given))
            .collect())
    })
}

/// Values that are given together.
struct Trial {
    by: By,
    given: Vec<Given>,
    good: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum By {
    File,
    Flags,
}

fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (by, rows) in [(By::File, table::fields()), (By::Flags, table::flags())] {
        let mut good = pack(&rows);
        let bad: Vec<_> = rows.into_iter().filter_map(|row| row.bad).collect();
        let companions = bad.iter().map(|given| given[..given.len() - 1].to_vec());
        let companions: BTreeSet<_> = companions.filter(|some| !some.is_empty()).collect();
        good.extend(companions);
        let trial = |good| move |given| Trial { by, given, good };
        trials.extend(good.into_iter().map(trial(true)));
        trials.extend(bad.into_iter().map(trial(false)));
    }
    trials
}

/// The good values, in as few groups as there can be without one contradicting
/// another.
fn pack(rows: &[Row]) -> Vec<Vec<Given>> {
    let mut groups: Vec<Vec<Given>> = Vec::new();
    for row in rows {
        let fits = |group: &&mut Vec<Given>| {
            let mut pairs = group
                .iter()
                .flat_map(|one| row.good.iter().map(move |other| (one, other)));
            pairs.all(|(one, other)| go_together(*one, *other))
        };
        match groups.iter_mut().find(fits) {
            Some(group) => {
                let new = row.good.iter().filter(|given| !group.contains(given));
                let new: Vec<_> = new.copied().collect();
                group.extend(new);
            }
            None => groups.push(row.good.clone()),
        }
    }
    groups
}

fn go_together(one: Given, other: Given) -> bool {
    // A list or an object may have its own row, and rows for what is in it.
    let holds = |outer: Given, inner: Given| {
        let rest = inner.0.strip_prefix(outer.0);
        rest.is_some_and(|rest| rest.starts_with(['.', '['])) && outer.1 != "{}"
    };
    let contradict = one.0 == other.0 && one.1 != other.1;
    !contradict && !holds(one, other) && !holds(other, one)
}

fn examine(
    trial: &Trial,
    machine: &Machine,
    directory: &str,
    baseline: &Baseline,
) -> Result<Vec<String>> {
    let (file, flags) = match trial.by {
        By::File => (
            table::file(&trial.given),
            vec!["--config=config.yaml".to_owned()],
        ),
        By::Flags => (table::file(&[]), table::command_line(&trial.given)),
    };
    // Flags have these to name, too.
    fs::create_dir_all(machine.root(&format!("{directory}/conf.d")))?;
    machine.write(&format!("{directory}/config.yaml"), file)?;
    // A flag for verbosity would hide what the file says of it.
    let first: &[_] = if trial.good { &SHOWING } else { &QUIET };
    let mut arguments = case::arguments(first, &[]);
    arguments.extend(flags);

    let theirs = upstream::resolve(machine, directory, &arguments)?;
    if (theirs.verdict() == Verdict::Accepts) != trial.good {
        return Ok(vec![format!("upstream {theirs}")]);
    }
    if !trial.good {
        return Ok(Vec::new());
    }
    let ours = ours::resolve(machine, directory, &arguments)?;
    let differences = compare::outcomes(baseline, &theirs, &ours);
    let said = differences
        .iter()
        .map(|difference| format!("{difference}\n    ours {ours}"));
    Ok(said.collect())
}
