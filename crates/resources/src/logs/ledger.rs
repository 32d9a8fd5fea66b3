//! What is known of the logs that are written to: where they are, how fast they grow,
//! and when each is to be looked at next. Times are the clock's uptime.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Looks that follow from writes are so far apart, for all logs together: however many
/// chatter, and however much, this is what they cost.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// A log that is about to be full is looked at no sooner than this after the last time.
const LEAST: Duration = Duration::from_millis(250);

/// The logs of running containers.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    by_container: BTreeMap<String, Log>,
    /// By path: which container's it is.
    owners: BTreeMap<PathBuf, String>,
    last_look: Duration,
}

#[derive(Debug, Default)]
struct Log {
    /// Until the runtime has told where it is.
    path: Option<PathBuf>,
    size: u64,
    at: Duration,
    /// Bytes in a second, as of the last look.
    rate: f64,
    due: Option<Duration>,
    /// The machine will tell of the next write.
    watched: bool,
    /// Somebody works on it: it is left alone.
    busy: bool,
    /// The last work on it failed: it is left alone until the next regular look.
    resting: bool,
}

impl Ledger {
    /// Those that run; what is kept of others is dropped.
    pub(super) fn running(&mut self, ids: impl IntoIterator<Item = String>) {
        let ids: BTreeSet<String> = ids.into_iter().collect();
        // One that is being worked on is dropped the next time.
        self.by_container
            .retain(|id, log| log.busy || ids.contains(id));
        let known = &self.by_container;
        self.owners.retain(|_, id| known.contains_key(id));
        for id in ids {
            self.by_container.entry(id).or_default().resting = false;
        }
    }

    /// All that nobody works on, with where they are, if that is known.
    pub(super) fn idle(&self) -> Vec<(String, Option<PathBuf>)> {
        let idle = self.by_container.iter().filter(|(_, log)| !log.busy);
        idle.map(|(id, log)| (id.clone(), log.path.clone()))
            .collect()
    }

    /// Those whose time has come.
    pub(super) fn due(&self, now: Duration) -> Vec<(String, Option<PathBuf>)> {
        let is_due = |log: &Log| !log.busy && log.due.is_some_and(|due| due <= now);
        let due = self.by_container.iter().filter(|(_, log)| is_due(log));
        due.map(|(id, log)| (id.clone(), log.path.clone()))
            .collect()
    }

    /// When the first of them is to be looked at.
    pub(super) fn next(&self) -> Option<Duration> {
        let idle = self.by_container.values().filter(|log| !log.busy);
        idle.filter_map(|log| log.due).min()
    }

    /// A log has been written to: it is looked at when others have waited long enough,
    /// too.
    pub(super) fn grown(&mut self, path: &Path, now: Duration) {
        let at = now.max(self.last_look + PAUSE);
        let Some(log) = self.at(path) else {
            return;
        };
        log.watched = false;
        if !log.busy && !log.resting {
            log.due = Some(log.due.map_or(at, |due| due.min(at)));
        }
    }

    /// What a look has found.
    pub(super) fn seen(&mut self, id: &str, size: u64, now: Duration, full: u64, tick: Duration) {
        self.last_look = now;
        let Some(log) = self.by_container.get_mut(id) else {
            return;
        };
        let passed = now.saturating_sub(log.at).as_secs_f64();
        if passed > 0.0 && log.at > Duration::ZERO {
            log.rate = as_float(size.saturating_sub(log.size)) / passed;
        }
        (log.size, log.at) = (size, now);
        log.due = log.full_at(full).filter(|due| *due < now + tick);
    }

    pub(super) fn begin(&mut self, id: &str) {
        if let Some(log) = self.by_container.get_mut(id) {
            log.busy = true;
            log.due = None;
        }
    }

    /// Work on it has ended: how large what is written to is now, if that is known.
    pub(super) fn end(&mut self, id: &str, ended: Ended, now: Duration, full: u64) {
        let Some(log) = self.by_container.get_mut(id) else {
            return;
        };
        log.busy = false;
        if let Some(path) = ended.path {
            self.owners.insert(path.clone(), id.to_owned());
            log.path = Some(path);
        }
        if let Some(size) = ended.size {
            // The pace stays what it was: it is the container's, not the file's.
            (log.size, log.at) = (size, now);
            log.watched &= !ended.is_new;
            log.due = log.full_at(full);
        }
        if let Some(pause) = ended.again_after {
            log.due = Some(now + pause);
        }
        if ended.failed {
            log.resting = true;
            log.due = None;
        }
    }

    /// Those that are to be watched, as nothing says when to look at them. They count
    /// as watched from now on.
    pub(super) fn take_unwatched(&mut self, tick: Duration, now: Duration) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        for log in self.by_container.values_mut() {
            let soon = log.due.is_some_and(|due| due < now + tick);
            let is_left_alone = log.watched || log.busy || log.resting || soon;
            if let Some(path) = log.path.as_ref().filter(|_| !is_left_alone) {
                paths.push(path.clone());
                log.watched = true;
            }
        }
        paths
    }

    fn at(&mut self, path: &Path) -> Option<&mut Log> {
        let id = self.owners.get(path)?;
        self.by_container.get_mut(id)
    }
}

/// What came of work on a log.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ended {
    /// Where it is, if that was learned.
    pub(super) path: Option<PathBuf>,
    /// Bytes in what is written to now.
    pub(super) size: Option<u64>,
    /// That is another file than before.
    pub(super) is_new: bool,
    /// It should have been rotated, and can be only after this.
    pub(super) again_after: Option<Duration>,
    /// Something went wrong that will go wrong again if it is tried at once.
    pub(super) failed: bool,
}

impl Log {
    /// When it will be full if it goes on like this.
    fn full_at(&self, full: u64) -> Option<Duration> {
        if self.rate <= 0.0 {
            return None;
        }
        let left = as_float(full.saturating_sub(self.size)) / self.rate;
        let left = Duration::try_from_secs_f64(left).ok()?;
        Some(self.at + left.max(LEAST))
    }
}

/// A log has fewer bytes than a float has room for.
#[allow(
    clippy::cast_precision_loss,
    reason = "a guess of when to look needs no last digits"
)]
fn as_float(bytes: u64) -> f64 {
    bytes as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: u64 = 1000;
    const TICK: Duration = Duration::from_secs(10);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// A ledger with one log, found to be of these sizes second by second.
    fn seen(sizes: &[u64]) -> Ledger {
        let mut ledger = Ledger::default();
        ledger.running(["c".to_owned()]);
        let ended = Ended {
            path: Some("/logs/0.log".into()),
            ..Ended::default()
        };
        ledger.end("c", ended, seconds(1), FULL);
        for (second, size) in (1..).zip(sizes) {
            ledger.seen("c", *size, seconds(second), FULL, TICK);
        }
        ledger
    }

    #[test]
    fn a_log_is_looked_at_when_it_should_be_full_and_a_quiet_one_with_all_others() {
        let cases: [(&str, &[u64], Option<Duration>); 7] = [
            ("seen once", &[500], None),
            ("quiet", &[500, 500], None),
            ("slow", &[500, 510], None),
            ("full in five seconds", &[400, 500], Some(seconds(7))),
            ("full at once", &[100, 990], Some(seconds(2) + LEAST)),
            ("over full", &[100, 2000], Some(seconds(2) + LEAST)),
            ("cut by somebody else", &[900, 10], None),
        ];
        for (name, sizes, wanted) in cases {
            assert_eq!(seen(sizes).next(), wanted, "{name}");
        }
    }

    #[test]
    fn a_log_that_was_rotated_is_expected_to_fill_as_fast_as_before() {
        let mut ledger = seen(&[500, 1000]);
        ledger.begin("c");
        assert_eq!(ledger.next(), None, "somebody works on it");
        let ended = Ended {
            size: Some(0),
            is_new: true,
            ..Ended::default()
        };
        ledger.end("c", ended, seconds(3), FULL);
        assert_eq!(ledger.next(), Some(seconds(5)));
    }

    #[test]
    fn what_is_due_soon_is_not_watched_and_the_rest_is_watched_once() {
        let mut fast = seen(&[400, 500]);
        assert!(fast.take_unwatched(TICK, seconds(2)).is_empty());
        let mut quiet = seen(&[500, 500]);
        let path = PathBuf::from("/logs/0.log");
        assert_eq!(
            quiet.take_unwatched(TICK, seconds(2)),
            std::slice::from_ref(&path)
        );
        assert!(
            quiet.take_unwatched(TICK, seconds(2)).is_empty(),
            "it is watched"
        );
        quiet.grown(&path, seconds(2));
        assert_eq!(quiet.take_unwatched(TICK, seconds(2)), [] as [PathBuf; 0]);
        assert_eq!(
            quiet.next(),
            Some(seconds(3)),
            "a pause after the last look"
        );
        quiet.seen("c", 500, seconds(3), FULL, TICK);
        assert_eq!(quiet.take_unwatched(TICK, seconds(3)), [path]);
    }

    #[test]
    fn a_log_that_could_not_be_rotated_rests_until_the_next_regular_look() {
        let mut ledger = seen(&[500, 2000]);
        ledger.begin("c");
        let ended = Ended {
            size: Some(2000),
            failed: true,
            ..Ended::default()
        };
        ledger.end("c", ended, seconds(3), FULL);
        assert_eq!(ledger.next(), None);
        assert!(ledger.take_unwatched(TICK, seconds(3)).is_empty());
        ledger.grown(Path::new("/logs/0.log"), seconds(4));
        assert_eq!(ledger.next(), None, "whatever is written to it");
        ledger.running(["c".to_owned()]);
        assert_eq!(ledger.take_unwatched(TICK, seconds(9)).len(), 1);
    }

    #[test]
    fn a_container_that_runs_no_more_is_forgotten_unless_somebody_works_on_it() {
        let mut ledger = seen(&[1]);
        ledger.begin("c");
        ledger.running(["d".to_owned()]);
        assert_eq!(ledger.idle(), [("d".to_owned(), None)]);
        ledger.end("c", Ended::default(), seconds(2), FULL);
        ledger.running(["d".to_owned()]);
        assert_eq!(ledger.by_container.len(), 1);
        assert!(ledger.owners.is_empty());
    }
}
