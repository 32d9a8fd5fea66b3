//! What our agent asks of a container runtime, beside what the upstream kubelet
//! asks for the same pods: every spec of `cargo xtask compare cri`.

use std::sync::PoisonError;

use anyhow::{Result, ensure};
use testkit::compare::Second;
use testkit::lab::{Lab, workspace};
use testkit::wire::{Run, Wires, all};

#[test]
fn a_runtime_is_asked_the_same_by_our_agent_and_by_the_upstream_kubelet() -> Result<()> {
    let _alone = super::ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::shared()?;
    let wires = Wires::make(&lab, "wire-ci", Second::Ferrolet)?;
    let verdict = Run { wires: &wires }.play(&all())?;
    let directory = workspace().join("target/compare/cri");
    verdict.save(&directory)?;
    println!("{}", verdict.report());
    let stale = verdict.stale();
    ensure!(
        stale.is_empty(),
        "lines of wire/differences.rs that explained nothing: {}",
        stale.join("; ")
    );
    ensure!(
        verdict.failed() == 0,
        "{} of {} specs differ, as said above; what was asked is in {}",
        verdict.failed(),
        verdict.outcomes.len(),
        directory.display()
    );
    wires.remove()
}
