//! Follows the Fleet file: what it says is wanted from the moment it says it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fleet::spec::Fleet;
use seams::SharedClock;
use tokio::sync::watch;
use tracing::warn;

use super::arguments::{parsed, text};

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
        return std::future::pending().await;
    };
    let mut settling = Settling::default();
    loop {
        clock.sleep(LOOK).await;
        let Some(text) = settling.look(text(&path)) else {
            continue;
        };
        let taken = text
            .and_then(|text| parsed(&path, &text))
            .and_then(|fleet| take(&path, &wanting, fleet));
        if let Err(err) = taken {
            warn!(err, "the fleet stays as it was");
        }
    }
}

/// Waits until the file is the same at two looks: an editor may be in the middle
/// of it, and half a file is often a whole one with fewer nodes.
#[derive(Default)]
struct Settling {
    seen: Option<Result<String, String>>,
    settled: bool,
}

impl Settling {
    /// The text, or why there is none, once for each that stays.
    fn look(&mut self, now: Result<String, String>) -> Option<Result<String, String>> {
        if self.seen.as_ref() != Some(&now) {
            self.seen = Some(now);
            self.settled = false;
            return None;
        }
        if self.settled {
            return None;
        }
        self.settled = true;
        self.seen.clone()
    }
}

fn take(path: &Path, wanting: &watch::Sender<Arc<Fleet>>, fleet: Fleet) -> Result<(), String> {
    let now = wanting.borrow().name.clone();
    if now != fleet.name {
        return Err(format!(
            "{}: metadata.name cannot change from {now} to {} while the fleet runs",
            path.display(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_counts_when_it_is_the_same_at_two_looks() {
        let mut settling = Settling::default();
        let whole = || Ok("count: 200".to_owned());
        let half = || Ok("count: 2".to_owned());
        let gone = || Err("no such file".to_owned());
        for (look, taken) in [
            (whole(), None),
            (whole(), Some(whole())),
            (whole(), None),
            (half(), None),
            (whole(), None),
            (whole(), Some(whole())),
            (gone(), None),
            (gone(), Some(gone())),
            (gone(), None),
        ] {
            assert_eq!(settling.look(look.clone()), taken, "{look:?}");
        }
    }
}
