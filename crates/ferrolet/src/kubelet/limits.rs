//! What the process asks of the machine for itself: to live longest when memory
//! runs out, and to have enough files open. A node can do without either.

use config::settings::Settings;
use linux::process::{ProcessError, set_oom_score, set_open_files};
use tracing::warn;

/// Sets what is configured; a refusal is told.
pub(crate) fn apply(settings: &Settings) {
    // Validation has seen to it that both are in their range.
    let score = i32::try_from(settings.int("oomScoreAdj")).unwrap_or(i32::MAX);
    let files = u64::try_from(settings.int("maxOpenFiles")).unwrap_or_default();
    tell(set_oom_score(score));
    tell(set_open_files(files));
}

fn tell(outcome: Result<(), ProcessError>) {
    if let Err(refusal) = outcome {
        warn!(err = %refusal, "the machine refuses the process a wish, going on without");
    }
}
