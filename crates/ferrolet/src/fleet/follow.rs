//! Follows the Fleet file: what it says is wanted from the moment it says it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fleet::spec::Fleet;
use seams::SharedClock;
use tokio::sync::watch;
use tracing::warn;

use super::arguments::read;
use crate::output::Failure;

/// Looked at and not waited for: it may be a mounted `ConfigMap`, or lie on a file
/// system that tells of no changes.
const LOOK: Duration = Duration::from_secs(1);

/// Never ends. A file that cannot be meant changes nothing.
pub(super) async fn file(
    path: Option<PathBuf>,
    wanting: watch::Sender<Arc<Fleet>>,
    clock: SharedClock,
) {
    let Some(path) = path else {
        // Held, so that those who follow do not see an end.
        return wanting.closed().await;
    };
    let mut last_problem = None;
    loop {
        clock.sleep(LOOK).await;
        let problem = match read(&path) {
            Ok(fleet) => take(&wanting, fleet).err(),
            Err(Failure::Failed(cause) | Failure::Usage(cause)) => Some(cause),
            Err(_) => None,
        };
        if let Some(err) = problem.as_ref().filter(|_| problem != last_problem) {
            warn!(err, "the fleet stays as it was");
        }
        last_problem = problem;
    }
}

fn take(wanting: &watch::Sender<Arc<Fleet>>, fleet: Fleet) -> Result<(), String> {
    let now = wanting.borrow().name.clone();
    if now != fleet.name {
        return Err(format!(
            "metadata.name cannot change from {now} to {} while the fleet runs",
            fleet.name
        ));
    }
    wanting.send_if_modified(|wanted| {
        let new = **wanted != fleet;
        if new {
            *wanted = Arc::new(fleet);
        }
        new
    });
    Ok(())
}
