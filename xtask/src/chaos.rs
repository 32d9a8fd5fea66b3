//! `cargo xtask chaos agent`: the agent is killed over and over while pods
//! come, run and go on its node; the tests kill it a few times. Prints what was
//! seen.

use std::time::SystemTime;

use anyhow::{Result, anyhow};
use clap::Args;
use testkit::chaos;

use crate::agent::Who;
use crate::bench::in_lab;

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

pub(crate) fn run(plan: &Plan) -> Result<()> {
    let seed = plan.seed.map_or_else(of_the_moment, Ok)?;
    let kills = usize::try_from(plan.kills)?;
    println!("== chaos, {kills} kills, seed {seed}");
    let agent = plan.agent.as_tested();
    let report = in_lab(|lab| chaos::Plan { agent, kills, seed }.run(lab, "chaos"))?;
    println!("{report}");
    Ok(())
}

fn of_the_moment() -> Result<u64> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Ok(since
        .map_err(|_| anyhow!("the clock is before 1970"))?
        .as_secs())
}
