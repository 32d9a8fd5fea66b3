//! `cargo xtask compare`: scenarios on a node with the upstream kubelet and on
//! one with our agent, side by side; what the cluster saw of both must be equal,
//! but for what `testkit::compare::differences` explains. `compare cri` compares
//! what the two ask of their runtimes ([`wire`]), `compare api` two API servers ([`api`]).

mod api;
mod wire;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use testkit::compare::{Pair, Run, Scenario, Second, all};
use testkit::lab::Lab;

use crate::long_run::in_lab;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Plan {
    #[command(subcommand)]
    what: Option<What>,
    /// Which scenarios; left out: all
    names: Vec<String>,
    /// Say which there are, and play none
    #[arg(long)]
    list: bool,
    /// Only those that CI plays
    #[arg(long)]
    ci: bool,
    /// How many at once
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=64))]
    parallel: u8,
    /// Put the upstream kubelet on both nodes: what differs then, upstream does
    /// not do twice alike
    #[arg(long)]
    both_upstream: bool,
}

#[derive(Subcommand)]
enum What {
    /// What each asks of its runtime for the same pods, field by field
    Cri(wire::Plan),
    /// What the embedded API server and kube-apiserver answer to the same random requests
    Api(api::Plan),
}

pub(crate) fn run(plan: &Plan) -> Result<()> {
    match &plan.what {
        Some(What::Cri(plan)) => return wire::run(plan),
        Some(What::Api(plan)) => return api::run(plan),
        None => {}
    }
    let scenarios = plan.scenarios()?;
    if plan.list {
        for scenario in scenarios {
            let ci = if scenario.ci { "ci" } else { "" };
            println!("{:32} {ci:2} {}", scenario.name, scenario.about);
        }
        return Ok(());
    }
    in_lab(|lab| plan.play(lab, &scenarios))
}

fn second(both_upstream: bool) -> Second {
    if both_upstream {
        Second::Upstream
    } else {
        Second::Ferrolet
    }
}

impl Plan {
    fn scenarios(&self) -> Result<Vec<Scenario>> {
        let all = all();
        for name in &self.names {
            if !all.iter().any(|scenario| scenario.name == name) {
                bail!("there is no scenario {name}: cargo xtask compare --list");
            }
        }
        let named = |scenario: &Scenario| {
            self.names.is_empty() || self.names.iter().any(|name| name == scenario.name)
        };
        Ok(all
            .into_iter()
            .filter(|scenario| named(scenario) && (scenario.ci || !self.ci))
            .collect())
    }

    fn play(&self, lab: &Lab, scenarios: &[Scenario]) -> Result<()> {
        let pair = Pair::make(lab, "compare", second(self.both_upstream))?;
        let run = Run {
            pair: &pair,
            parallel: self.parallel.into(),
        };
        let verdict = run.play(scenarios, |outcome| println!("{}", outcome.report()))?;
        let failed = verdict.failed();
        println!(
            "{} scenarios in {:.0} s, {failed} with unexplained differences",
            scenarios.len(),
            verdict.took.as_secs_f64()
        );
        if !verdict.again.is_empty() {
            println!("played twice: {}", verdict.again.join(", "));
        }
        let complete = self.names.is_empty() && !self.ci && !self.both_upstream;
        let stale = if complete {
            verdict.stale()
        } else {
            Vec::new()
        };
        for path in &stale {
            println!("stale in differences.rs, it explained nothing: {path}");
        }
        if failed > 0 || !stale.is_empty() {
            bail!("the nodes are not alike; records are in target/compare");
        }
        pair.remove()
    }
}
