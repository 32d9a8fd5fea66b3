//! How long a pod's image is left alone after a pull has failed: ten seconds,
//! then twice as long each time, five minutes at most.

use std::collections::HashMap;
use std::time::Duration;

use types::PodUid;

const FIRST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(300);
/// Without another failure for so long, it begins anew.
const FORGOTTEN_AFTER: Duration = LONGEST.saturating_mul(2);

/// A pod and an image as the pod names it: another pod may try at once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub pod: PodUid,
    pub image: String,
}

#[derive(Debug)]
struct Entry {
    wait: Duration,
    failed_at: Duration,
    why: String,
}

/// What is being waited for, and why. Time is passed in; it never runs back.
#[derive(Debug, Default)]
pub struct Backoff {
    entries: HashMap<Key, Entry>,
}

/// A pull that has to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    pub left: Duration,
    /// What the last pull failed with.
    pub why: String,
}

impl Backoff {
    /// Whether `key` has to wait still.
    pub fn waiting(&self, key: &Key, now: Duration) -> Option<Wait> {
        let entry = self.entries.get(key)?;
        let left = entry.wait.checked_sub(entry.age(now))?;
        (!left.is_zero()).then(|| Wait {
            left,
            why: entry.why.clone(),
        })
    }

    /// A pull failed.
    pub fn failed(&mut self, key: Key, why: String, now: Duration) {
        self.collect(now);
        let wait = match self.entries.get(&key) {
            Some(entry) => LONGEST.min(entry.wait * 2),
            None => FIRST,
        };
        let entry = Entry {
            wait,
            failed_at: now,
            why,
        };
        self.entries.insert(key, entry);
    }

    /// Lets go of what has expired.
    pub fn collect(&mut self, now: Duration) {
        self.entries
            .retain(|_, entry| entry.age(now) <= FORGOTTEN_AFTER);
    }

    /// Whether nothing is kept, of failures long past either.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Lets go of a pod that is gone.
    pub fn forget(&mut self, pod: &PodUid) {
        self.entries.retain(|key, _| key.pod != *pod);
    }
}

impl Entry {
    fn age(&self, now: Duration) -> Duration {
        now.saturating_sub(self.failed_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn key(pod: &str) -> Key {
        Key {
            pod: PodUid::new(pod),
            image: "busybox".to_owned(),
        }
    }

    fn left(backoff: &Backoff, pod: &str, now: Duration) -> Option<u64> {
        backoff
            .waiting(&key(pod), now)
            .map(|wait| wait.left.as_secs())
    }

    #[test]
    fn waits_double_up_to_five_minutes() {
        let mut backoff = Backoff::default();
        let mut now = SECOND;
        for wait in [10, 20, 40, 80, 160, 300, 300] {
            backoff.failed(key("a"), "no".to_owned(), now);
            assert_eq!(left(&backoff, "a", now), Some(wait));
            now += Duration::from_secs(wait - 1);
            assert_eq!(left(&backoff, "a", now), Some(1));
            now += SECOND;
            assert_eq!(left(&backoff, "a", now), None, "after {wait} s");
        }
    }

    #[test]
    fn each_pod_waits_for_its_own_failure_and_knows_why() {
        let mut backoff = Backoff::default();
        backoff.failed(key("a"), "no such image".to_owned(), SECOND);
        assert_eq!(left(&backoff, "b", SECOND), None);
        let wait = backoff.waiting(&key("a"), SECOND).unwrap();
        assert_eq!(wait.why, "no such image");
    }

    #[test]
    fn ten_quiet_minutes_let_it_begin_anew_and_free_what_is_kept() {
        let mut backoff = Backoff::default();
        backoff.failed(key("a"), String::new(), SECOND);
        let just_kept = SECOND + FORGOTTEN_AFTER;
        backoff.failed(key("a"), String::new(), just_kept);
        assert_eq!(left(&backoff, "a", just_kept), Some(20));
        let expired = just_kept + FORGOTTEN_AFTER + SECOND;
        backoff.failed(key("a"), String::new(), expired);
        assert_eq!(left(&backoff, "a", expired), Some(10));
        backoff.collect(expired + FORGOTTEN_AFTER + SECOND);
        assert!(backoff.is_empty());
    }

    #[test]
    fn a_pod_that_is_gone_leaves_nothing() {
        let mut backoff = Backoff::default();
        backoff.failed(key("a"), String::new(), SECOND);
        backoff.failed(key("b"), String::new(), SECOND);
        backoff.forget(&PodUid::new("a"));
        assert_eq!(left(&backoff, "a", SECOND), None);
        assert_eq!(left(&backoff, "b", SECOND), Some(10));
    }
}
