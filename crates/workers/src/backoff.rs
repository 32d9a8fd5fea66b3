//! How long a container that ended waits before it is started again: not at all at
//! first, then ten seconds, doubled up to the most; or as the node's people say.

use std::collections::BTreeMap;
use std::time::Duration;

/// How waits grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The first wait.
    pub first: Duration,
    pub most: Duration,
}

/// Upstream's.
impl Default for Pace {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(10),
            most: Duration::from_secs(300),
        }
    }
}

/// The waits of one pod's containers. Times are since 1970: a container's end is
/// told by the runtime so.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Backoff {
    entries: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    /// What the container was; another one begins anew.
    what: String,
    wait: Duration,
    updated: Duration,
}

impl Backoff {
    /// How long a container that ended at `ended` has to wait, and until when. `None`:
    /// it may start.
    pub fn wait(
        &self,
        container: &str,
        what: &str,
        ended: Duration,
        now: Duration,
        most: Duration,
    ) -> Option<(Duration, Duration)> {
        let entry = self.entry(container, what)?;
        if entry.is_over(ended, most) {
            return None;
        }
        let until = ended + entry.wait;
        (now < until).then_some((entry.wait, until))
    }

    /// A container that ended at `ended` is started again now.
    pub fn started(
        &mut self,
        container: &str,
        what: &str,
        ended: Duration,
        now: Duration,
        pace: Pace,
    ) {
        let before = self.entry(container, what);
        let before = before.filter(|entry| !entry.is_over(ended, pace.most));
        let wait = before.map_or(pace.first, |entry| entry.wait * 2);
        let entry = Entry {
            what: what.to_owned(),
            wait: wait.min(pace.most),
            updated: now,
        };
        self.entries.insert(container.to_owned(), entry);
    }

    fn entry(&self, container: &str, what: &str) -> Option<&Entry> {
        let entry = self.entries.get(container);
        entry.filter(|entry| entry.what == what)
    }
}

impl Entry {
    /// It ran so long that what was before does not count.
    fn is_over(&self, ended: Duration, most: Duration) -> bool {
        ended.saturating_sub(self.updated) > most * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// The waits of a container that ends a second after each start.
    fn waits(pace: Pace) -> Vec<u64> {
        let mut backoff = Backoff::default();
        let mut now = at(1000);
        let mut waits = Vec::new();
        for _ in 0..8 {
            let ended = now + at(1);
            let wait = backoff.wait("a", "v1", ended, ended, pace.most);
            waits.push(wait.map_or(0, |(wait, _)| wait.as_secs()));
            now = wait.map_or(ended, |(_, until)| until);
            assert_eq!(backoff.wait("a", "v1", ended, now, pace.most), None);
            backoff.started("a", "v1", ended, now, pace);
        }
        waits
    }

    #[test]
    fn waits_double_from_the_second_start_on_up_to_the_most() {
        let pace = |first, most| Pace {
            first: at(first),
            most: at(most),
        };
        assert_eq!(waits(Pace::default()), [0, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(waits(pace(1, 60)), [0, 1, 2, 4, 8, 16, 32, 60]);
        // A short most bounds the first wait, too.
        assert_eq!(waits(pace(10, 3)), [0, 3, 3, 3, 3, 3, 3, 3]);
    }

    #[test]
    fn another_container_and_one_that_ran_long_begin_anew() {
        let pace = Pace::default();
        let most = pace.most;
        let mut backoff = Backoff::default();
        backoff.started("a", "v1", at(100), at(100), pace);
        assert!(backoff.wait("a", "v1", at(101), at(102), most).is_some());
        assert_eq!(backoff.wait("a", "v2", at(101), at(102), most), None);
        assert_eq!(backoff.wait("b", "v1", at(101), at(102), most), None);
        assert_eq!(backoff.wait("a", "v1", at(701), at(702), most), None);
        backoff.started("a", "v1", at(701), at(702), pace);
        let wait = backoff.wait("a", "v1", at(703), at(703), most);
        assert_eq!(wait, Some((at(10), at(713))));
    }
}
