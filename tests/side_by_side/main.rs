//! What the cluster sees of pods on our node and on an upstream one.
//!
//! In: the shared lab, and the scenarios that CI plays (`cargo xtask compare` plays all).
//! Out: a verdict. Nothing runs beside it: what both nodes are in the middle of when a play
//! ends depends on how busy the machine is. It knows nothing of how our agent works.

use anyhow::{Result, ensure};
use testkit::compare::{Pair, Run, Scenario, Second, all};
use testkit::lab::Lab;

#[test]
fn pods_on_our_node_look_like_pods_on_an_upstream_one() -> Result<()> {
    let lab = Lab::shared()?;
    let pair = Pair::make(&lab, "compare-ci", Second::Ferrolet)?;
    let scenarios: Vec<Scenario> = all().into_iter().filter(|scenario| scenario.ci).collect();
    let run = Run {
        pair: &pair,
        parallel: scenarios.len(),
    };
    let verdict = run.play_twice(&scenarios, |outcome| println!("{}", outcome.report()))?;
    ensure!(
        verdict.failed() == 0,
        "{} of {} scenarios differ, as said above; records are in target/compare",
        verdict.failed(),
        scenarios.len()
    );
    pair.remove()
}
