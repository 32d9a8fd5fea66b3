//! What the cluster sees of pods on our node and on an upstream one, and what a runtime is
//! asked there (`wire`).
//!
//! In: the shared lab, and the scenarios that CI plays (`cargo xtask compare` plays all).
//! Out: verdicts. Nothing runs beside either: what both nodes are in the middle of when a play
//! ends depends on how busy the machine is. It knows nothing of how our agent works.

mod wire;

use std::sync::{Mutex, PoisonError};

use anyhow::{Result, ensure};
use testkit::compare::{Pair, Run, Scenario, Second, all};
use testkit::lab::Lab;

/// Who plays has the machine.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn pods_on_our_node_look_like_pods_on_an_upstream_one() -> Result<()> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::shared()?;
    let pair = Pair::make(&lab, "compare-ci", Second::Ferrolet)?;
    let scenarios: Vec<Scenario> = all().into_iter().filter(|scenario| scenario.ci).collect();
    let run = Run {
        pair: &pair,
        parallel: scenarios.len(),
    };
    let verdict = run.play(&scenarios, |outcome| println!("{}", outcome.report()))?;
    ensure!(
        verdict.failed() == 0,
        "{} of {} scenarios differ, as said above; records are in target/compare",
        verdict.failed(),
        scenarios.len()
    );
    pair.remove()
}
