//! `cargo xtask outage`: the API server is away, out of reach, silent or answers
//! badly for minutes, where the tests take seconds. Prints what was seen.

use anyhow::Result;

use crate::long_run::LongRun;

pub(crate) fn run(seconds: u64) -> Result<()> {
    LongRun {
        title: format!("outage, {seconds} seconds each"),
        module: "outage::",
        lasting: ("FERROLET_OUTAGE_SECONDS", seconds),
        failure: "a node did not come back as it was",
    }
    .run()
}
