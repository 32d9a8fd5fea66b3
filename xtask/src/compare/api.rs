//! `cargo xtask compare api`: the embedded API server and kube-apiserver, asked the same at
//! random, must answer alike. The test of every day, with more sequences.

use anyhow::Result;
use clap::Args;

use crate::long_run::{LongRun, seed_of_the_moment};

#[derive(Args)]
pub(crate) struct Plan {
    /// How many, of forty requests each
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    sequences: u32,
    /// Of the first one: the same again; left out: others each time
    #[arg(long)]
    seed: Option<u64>,
}

pub(super) fn run(plan: &Plan) -> Result<()> {
    let seed = plan.seed.map_or_else(seed_of_the_moment, Ok)?;
    let sequences = plan.sequences;
    let run = LongRun {
        title: format!("the two API servers, {sequences} sequences, seed {seed}"),
        test: ["two_servers", "random_requests"],
        size: ("FERROLET_SEQUENCES", sequences.into()),
        seed: Some(seed),
        failure: "the servers are not alike",
    };
    run.run()
}
