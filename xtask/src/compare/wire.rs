//! `cargo xtask compare cri`: what the upstream kubelet and our agent ask of a
//! container runtime for the same pods must be equal, but for what
//! `testkit::wire::differences` explains.

use anyhow::{Result, bail};
use clap::Args;
use testkit::lab::{Lab, workspace};
use testkit::wire::{Run, Spec, Wires, all, fields};

use crate::long_run::in_lab;

#[derive(Args)]
pub(crate) struct Plan {
    /// Which specs, by name or by its beginning and a `*`; left out: all
    names: Vec<String>,
    /// Say which there are, and play none
    #[arg(long)]
    list: bool,
    /// Say which field of the pod API is used by which spec, and play none
    #[arg(long)]
    fields: bool,
    /// Put the upstream kubelet on both nodes: what differs then, upstream does
    /// not do twice alike
    #[arg(long)]
    both_upstream: bool,
}

pub(super) fn run(plan: &Plan) -> Result<()> {
    let specs = plan.specs()?;
    if plan.list {
        for spec in specs {
            println!("{}", spec.name);
        }
        return Ok(());
    }
    if plan.fields {
        for (field, spec) in fields::FIELDS.iter().chain(fields::CHANGES) {
            println!("{field:72} {spec}");
        }
        return Ok(());
    }
    in_lab(|lab| plan.play(lab, &specs))
}

impl Plan {
    fn specs(&self) -> Result<Vec<Spec>> {
        let all = all();
        let is_meant = |name: &String, spec: &Spec| match name.strip_suffix('*') {
            Some(beginning) => spec.name.starts_with(beginning),
            None => spec.name == name,
        };
        for name in &self.names {
            if !all.iter().any(|spec| is_meant(name, spec)) {
                bail!("there is no spec {name}: cargo xtask compare cri --list");
            }
        }
        let named = |spec: &Spec| {
            self.names.is_empty() || self.names.iter().any(|name| is_meant(name, spec))
        };
        Ok(all.into_iter().filter(named).collect())
    }

    fn play(&self, lab: &Lab, specs: &[Spec]) -> Result<()> {
        let wires = Wires::make(lab, "wire", super::second(self.both_upstream))?;
        let verdict = Run { wires: &wires }.play(specs)?;
        let directory = workspace().join("target/compare/cri");
        verdict.save(&directory)?;
        println!("{}", verdict.report());
        let complete = self.names.is_empty() && !self.both_upstream;
        let stale = if complete {
            verdict.stale()
        } else {
            Vec::new()
        };
        for line in &stale {
            println!("stale in wire/differences.rs, it explained nothing: {line}");
        }
        if verdict.failed() > 0 || !stale.is_empty() {
            bail!(
                "the runtimes are not asked the same; what they were asked is in {}",
                directory.display()
            );
        }
        wires.remove()
    }
}
