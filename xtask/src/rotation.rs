//! `cargo xtask rotation`: certificates are replaced under load for minutes,
//! where the tests look at one. Prints what was seen.

use anyhow::Result;

use crate::long_run::LongRun;

pub(crate) fn run(minutes: u64) -> Result<()> {
    LongRun {
        title: format!("rotation, {minutes} minutes"),
        test: ["identity_live", "rotation::"],
        size: ("FERROLET_ROTATION_MINUTES", minutes),
        seed: None,
        failure: "a rotation was noticed",
    }
    .run()
}
