//! `cargo xtask chaos agent`: the agent is killed over and over while pods
//! come, run and go on its node; `cargo xtask chaos volumes`: while their volumes of
//! every kind are mounted, changed and unmounted; `cargo xtask chaos server`: `ferrolet up`,
//! while its API server is written to. The tests kill them a few times. Prints what was seen.

use anyhow::Result;
use clap::Args;
use testkit::chaos::{self, World};

use crate::agent::Who;
use crate::long_run::{LongRun, in_lab, seed_of_the_moment};

#[derive(Args)]
pub(crate) struct Plan {
    /// How often
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    kills: u32,
    /// Of the script: the same again; left out: another each time
    #[arg(long)]
    seed: Option<u64>,
    /// Who is killed
    #[arg(long, value_enum, default_value_t = Who::Ferrolet)]
    agent: Who,
}

pub(crate) fn run(plan: &Plan, world: World) -> Result<()> {
    let seed = plan.seed.map_or_else(seed_of_the_moment, Ok)?;
    let kills = usize::try_from(plan.kills)?;
    println!("== chaos of {world:?}, {kills} kills, seed {seed}");
    let plan = chaos::Plan {
        agent: plan.agent.as_tested(),
        kills,
        seed,
        world,
    };
    let report = in_lab(|lab| plan.run(lab, "chaos"))?;
    println!("{report}");
    Ok(())
}

#[derive(Args)]
pub(crate) struct Kills {
    /// How often
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..))]
    kills: u32,
    /// Of the moments: the same again; left out: others each time
    #[arg(long)]
    seed: Option<u64>,
}

/// The test of every day, with more kills.
pub(crate) fn server(plan: &Kills) -> Result<()> {
    let seed = plan.seed.map_or_else(seed_of_the_moment, Ok)?;
    let run = LongRun {
        title: format!("chaos of the API server, {} kills, seed {seed}", plan.kills),
        test: ["embedded", "killed::"],
        size: ("FERROLET_KILLS", plan.kills.into()),
        seed: Some(seed),
        failure: "something was lost, or came back too late",
    };
    run.test()
}
