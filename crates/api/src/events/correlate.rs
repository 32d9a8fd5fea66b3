//! What becomes of an event before it is sent: one that was seen before raises a
//! count, many that are alike become one, and whoever says too much is not heard.
//!
//! The figures are client-go's.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

/// Entries that each memory keeps; the least recently used go first.
const MOST_ENTRIES: usize = 4096;
/// From so many alike on, within the time below, they are one.
const MOST_ALIKE: usize = 10;
const ALIKE_WITHIN: Duration = Duration::from_secs(600);
/// What one object may say at once, and how long one more takes.
const BURST: f64 = 25.0;
const REFILL: Duration = Duration::from_secs(300);

/// What was said before.
#[derive(Debug, Default)]
pub(super) struct Correlator {
    alike: Recent<Alike>,
    seen: Recent<Seen>,
    budgets: Recent<Budget>,
}

/// An event as it is to be sent.
#[derive(Clone, Debug)]
pub(super) struct Correlated {
    pub(super) event: Event,
    /// Where the event is there already: what to change of it.
    pub(super) patch: Option<Value>,
    key: String,
}

#[derive(Debug)]
struct Alike {
    messages: BTreeSet<String>,
    last: Duration,
}

#[derive(Clone, Debug)]
struct Seen {
    count: i32,
    first: Option<Time>,
    name: Option<String>,
}

#[derive(Debug)]
struct Budget {
    left: f64,
    at: Duration,
}

impl Correlator {
    /// What to send of `event`, which happened at `uptime`; `None`: nothing.
    pub(super) fn correlate(
        &mut self,
        event: Event,
        now: Timestamp,
        uptime: Duration,
    ) -> Option<Correlated> {
        let object = object_key(&event);
        let (event, key) = self.aggregate(event, &object, now, uptime);
        let correlated = self.count(event, key);
        self.afford(&correlated.event, &object, uptime)
            .then_some(correlated)
    }

    /// The server has taken the event, perhaps under another name.
    pub(super) fn taken(&mut self, correlated: &Correlated, stored: &Event) {
        let seen = Seen {
            count: stored.count.unwrap_or(1),
            first: stored.first_timestamp.clone(),
            name: stored.metadata.name.clone(),
        };
        self.seen.put(correlated.key.clone(), seen);
    }

    fn aggregate(
        &mut self,
        mut event: Event,
        object: &str,
        now: Timestamp,
        uptime: Duration,
    ) -> (Event, String) {
        let message = event.message.clone().unwrap_or_default();
        let group = [
            object,
            text(event.type_.as_ref()),
            text(event.reason.as_ref()),
        ]
        .join("\n");
        let mut alike = self
            .alike
            .take(&group)
            .filter(|alike| uptime.saturating_sub(alike.last) <= ALIKE_WITHIN)
            .unwrap_or(Alike {
                messages: BTreeSet::new(),
                last: uptime,
            });
        alike.messages.insert(message.clone());
        alike.last = uptime;
        let many = alike.messages.len() >= MOST_ALIKE;
        if many {
            // It need not grow: one more message tips it again.
            alike.messages.pop_first();
        }
        self.alike.put(group.clone(), alike);
        if !many {
            let path = text(event.involved_object.field_path.as_ref());
            let key = [group.as_str(), path, message.as_str()].join("\n");
            return (event, key);
        }
        event.message = Some(format!("(combined from similar events): {message}"));
        event.first_timestamp = Some(Time(now));
        event.last_timestamp = Some(Time(now));
        event.count = Some(1);
        (event, group)
    }

    fn count(&mut self, mut event: Event, key: String) -> Correlated {
        let mut patch = None;
        if let Some(seen) = self.seen.take(&key) {
            event.metadata.name.clone_from(&seen.name);
            event.first_timestamp.clone_from(&seen.first);
            event.count = Some(seen.count.saturating_add(1));
            patch = Some(json!({
                "count": event.count,
                "lastTimestamp": event.last_timestamp,
                "message": event.message,
            }));
        }
        let seen = Seen {
            count: event.count.unwrap_or(1),
            first: event.first_timestamp.clone(),
            name: event.metadata.name.clone(),
        };
        self.seen.put(key.clone(), seen);
        Correlated { event, patch, key }
    }

    fn afford(&mut self, event: &Event, object: &str, uptime: Duration) -> bool {
        let key = [object, text(event.type_.as_ref())].join("\n");
        let mut budget = self.budgets.take(&key).unwrap_or(Budget {
            left: BURST,
            at: uptime,
        });
        let earned = uptime.saturating_sub(budget.at).div_duration_f64(REFILL);
        budget.left = (budget.left + earned).min(BURST);
        budget.at = uptime;
        let affordable = budget.left >= 1.0;
        if affordable {
            budget.left -= 1.0;
        }
        self.budgets.put(key, budget);
        affordable
    }
}

/// Who speaks of what.
fn object_key(event: &Event) -> String {
    let source = event.source.as_ref();
    let object = &event.involved_object;
    [
        source.and_then(|source| source.component.as_ref()),
        source.and_then(|source| source.host.as_ref()),
        object.kind.as_ref(),
        object.namespace.as_ref(),
        object.name.as_ref(),
        object.uid.as_ref(),
        object.api_version.as_ref(),
    ]
    .map(text)
    .join("\n")
}

fn text(text: Option<&String>) -> &str {
    text.map_or("", String::as_str)
}

/// Entries by key, of which the least recently used are forgotten.
#[derive(Debug)]
struct Recent<T> {
    entries: HashMap<String, (u64, T)>,
    order: BTreeMap<u64, String>,
    next: u64,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            order: BTreeMap::new(),
            next: 0,
        }
    }
}

impl<T> Recent<T> {
    fn take(&mut self, key: &str) -> Option<T> {
        let (turn, entry) = self.entries.remove(key)?;
        self.order.remove(&turn);
        Some(entry)
    }

    fn put(&mut self, key: String, entry: T) {
        self.take(&key);
        if self.entries.len() >= MOST_ENTRIES
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.order.insert(self.next, key.clone());
        self.entries.insert(key, (self.next, entry));
        self.next += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Talker {
        correlator: Correlator,
        uptime: Duration,
    }

    fn talker() -> Talker {
        Talker {
            correlator: Correlator::default(),
            uptime: Duration::from_secs(1),
        }
    }

    impl Talker {
        fn says(&mut self, reason: &str, message: &str) -> Option<Correlated> {
            let now = Timestamp::UNIX_EPOCH + jiff::SignedDuration::try_from(self.uptime).unwrap();
            let mut event: Event = serde_json::from_value(json!({
                "metadata": {"namespace": "default"},
                "involvedObject": {"kind": "Node", "name": "n1"},
                "type": "Normal", "reason": reason, "message": message, "count": 1,
                "source": {"component": "kubelet", "host": "n1"},
            }))
            .unwrap();
            event.metadata.name = Some(format!("n1.{:?}", self.uptime));
            event.first_timestamp = Some(Time(now));
            event.last_timestamp = Some(Time(now));
            let said = self.correlator.correlate(event, now, self.uptime);
            self.uptime += Duration::from_secs(1);
            said
        }
    }

    #[test]
    fn what_is_said_again_raises_the_count_of_the_first() {
        let mut talker = talker();
        let first = talker.says("NodeReady", "ready").unwrap();
        assert!(first.patch.is_none());
        let second = talker.says("NodeReady", "ready").unwrap();
        assert_eq!(second.event.metadata.name, first.event.metadata.name);
        assert_eq!(
            second.patch.unwrap(),
            json!({"count": 2, "lastTimestamp": "1970-01-01T00:00:02Z", "message": "ready"})
        );
        assert!(talker.says("NodeReady", "other").unwrap().patch.is_none());
        assert_eq!(
            talker.says("NodeReady", "ready").unwrap().event.count,
            Some(3)
        );
    }

    #[test]
    fn the_tenth_alike_is_combined_and_those_after_it_count_it_up() {
        let mut talker = talker();
        for number in 1..10 {
            let said = talker.says("Failed", &format!("no {number}")).unwrap();
            assert_eq!(said.event.message.unwrap(), format!("no {number}"));
        }
        let tenth = talker.says("Failed", "no 10").unwrap();
        assert_eq!(
            tenth.event.message.as_deref(),
            Some("(combined from similar events): no 10")
        );
        assert!(tenth.patch.is_none());
        let next = talker.says("Failed", "no 11").unwrap();
        assert_eq!(next.event.metadata.name, tenth.event.metadata.name);
        assert_eq!(next.event.count, Some(2));
        let other = talker.says("Other", "no 12").unwrap();
        assert_eq!(other.event.message.as_deref(), Some("no 12"));
    }

    #[test]
    fn after_ten_quiet_minutes_nothing_is_alike_any_more() {
        let mut talker = talker();
        for number in 1..=10 {
            talker.says("Failed", &format!("no {number}"));
        }
        talker.uptime += Duration::from_secs(600);
        let said = talker.says("Failed", "no 11").unwrap();
        assert_eq!(said.event.message.as_deref(), Some("no 11"));
    }

    #[test]
    fn whoever_says_too_much_is_heard_every_five_minutes() {
        let mut talker = talker();
        let heard = (0..100)
            .filter(|_| talker.says("NodeReady", "ready").is_some())
            .count();
        assert_eq!(heard, 25);
        let mut heard = 0;
        for _ in 0..3600 {
            heard += usize::from(talker.says("NodeReady", "ready").is_some());
        }
        assert_eq!(heard, 12);
        // Silence is not saved up.
        talker.uptime += Duration::from_secs(30 * 24 * 3600);
        let heard = (0..100)
            .filter(|_| talker.says("NodeReady", "ready").is_some())
            .count();
        assert_eq!(heard, 25);
    }

    #[test]
    fn the_least_recently_used_are_forgotten() {
        let mut recent = Recent::default();
        for number in 0..=MOST_ENTRIES {
            recent.put(number.to_string(), number);
            // The first is used all the time.
            if let Some(first) = recent.take("0") {
                recent.put("0".to_owned(), first);
            }
        }
        assert_eq!(recent.take("0"), Some(0));
        assert_eq!(recent.take("1"), None);
        assert_eq!(recent.take("2"), Some(2));
        assert_eq!(recent.order.len(), recent.entries.len());
    }
}
