//! `cargo xtask outage`: the API server is away, out of reach, silent or answers
//! badly for minutes, where the tests take seconds; or it is restarted under a large
//! fleet (`cargo xtask restart`). Prints what was seen.

use anyhow::Result;

use crate::long_run::LongRun;

pub(crate) fn run(seconds: u64) -> Result<()> {
    LongRun {
        title: format!("outage, {seconds} seconds each"),
        test: ["identity_live", "outage::"],
        size: ("FERROLET_OUTAGE_SECONDS", seconds),
        seed: None,
        failure: "a node did not come back as it was",
    }
    .run()
}

/// The API server restarted under so many nodes.
pub(crate) fn restart(nodes: u64) -> Result<()> {
    LongRun {
        title: format!("restart under {nodes} nodes"),
        test: ["fleet_live", "outage::"],
        size: ("FERROLET_FLEET_NODES", nodes),
        seed: None,
        failure: "the fleet did not come back as it should",
    }
    .run()
}
