//! What the command of a long run asks of the test that it runs: numbers in the environment.

use std::env;
use std::time::SystemTime;

use anyhow::{Context, Result};

/// What the variable says, if it is there.
pub fn number(variable: &str) -> Result<Option<u64>> {
    let Ok(text) = env::var(variable) else {
        return Ok(None);
    };
    let number = text.parse().with_context(|| variable.to_owned())?;
    Ok(Some(number))
}

/// `FERROLET_SEED`, or one of the moment. Who takes it prints it: it plays the same again.
pub fn seed() -> Result<u64> {
    match number("FERROLET_SEED")? {
        Some(seed) => Ok(seed),
        None => Ok(SystemTime::UNIX_EPOCH.elapsed()?.as_secs()),
    }
}
