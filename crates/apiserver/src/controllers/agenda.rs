//! What a controller has to look at, and when: each name once, at its earliest time.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use super::mirror::Name;
use crate::clock::Clock;
use crate::failure::Failure;

/// Everything is looked at this often, whatever the hints say.
const RESYNC: Duration = Duration::from_secs(300);
const FIRST_RETRY: Duration = Duration::from_millis(50);
const LAST_RETRY: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Agenda {
    due: HashMap<Name, Instant>,
    /// The same by time.
    order: BTreeSet<(Instant, Name)>,
    failures: HashMap<Name, u32>,
    resync: Instant,
}

impl Agenda {
    pub(crate) fn new(names: Vec<Name>) -> Self {
        let mut agenda = Self {
            due: HashMap::new(),
            order: BTreeSet::new(),
            failures: HashMap::new(),
            resync: Instant::now() + RESYNC,
        };
        agenda.now(names);
        agenda
    }

    pub(crate) fn now(&mut self, names: impl IntoIterator<Item = Name>) {
        let now = Instant::now();
        for name in names {
            self.at(name, now);
        }
    }

    pub(crate) fn later(&mut self, name: Name, wait: Duration) {
        // Who waits for longer than there is time is seen by each resync.
        if let Some(moment) = Instant::now().checked_add(wait) {
            self.at(name, moment);
        }
    }

    fn at(&mut self, name: Name, moment: Instant) {
        match self.due.get(&name) {
            Some(due) if *due <= moment => return,
            Some(due) => {
                self.order.remove(&(*due, name.clone()));
            }
            None => {}
        }
        self.order.insert((moment, name.clone()));
        self.due.insert(name, moment);
    }

    /// Waits until something is due. Whoever is late is not late by much: a wait is
    /// never longer than until the next resync.
    pub(crate) async fn wait(&self, clock: &Clock) {
        let next = self.order.first().map(|(moment, _)| *moment);
        let next = next.map_or(self.resync, |next| next.min(self.resync));
        clock
            .sleep(next.saturating_duration_since(Instant::now()))
            .await;
    }

    /// What is due now; `all` are the names for a resync.
    pub(crate) fn take(&mut self, all: impl FnOnce() -> Vec<Name>) -> Vec<Name> {
        let now = Instant::now();
        if self.resync <= now {
            self.resync = now + RESYNC;
            self.now(all());
        }
        let mut due = Vec::new();
        while self.order.first().is_some_and(|(moment, _)| *moment <= now) {
            let Some((_, name)) = self.order.pop_first() else {
                break;
            };
            self.due.remove(&name);
            due.push(name);
        }
        due
    }

    /// Notes how a look ended: when to look again, if it says so; sooner and then later
    /// after a failure.
    pub(crate) fn done(
        &mut self,
        task: &'static str,
        name: Name,
        outcome: Result<Option<Duration>, Failure>,
    ) {
        match outcome {
            Ok(again) => {
                self.failures.remove(&name);
                if let Some(wait) = again {
                    self.later(name, wait);
                }
            }
            Err(failure) => {
                let count = self.failures.entry(name.clone()).or_default();
                let wait = FIRST_RETRY
                    .saturating_mul(1 << (*count).min(16))
                    .min(LAST_RETRY);
                *count += 1;
                warn!(task, object = %Shown(&name), err = %failure, "a controller could not do its work, it tries again");
                self.later(name, wait);
            }
        }
    }
}

struct Shown<'a>(&'a Name);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            (namespace, name) if namespace.is_empty() => formatter.write_str(name),
            (namespace, name) => write!(formatter, "{namespace}/{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        (String::new(), text.to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_is_due_once_at_its_earliest_time() {
        let clock = Clock::starting_at(std::time::SystemTime::UNIX_EPOCH);
        let mut agenda = Agenda::new(vec![name("a")]);
        agenda.later(name("a"), Duration::from_secs(9));
        agenda.later(name("b"), Duration::from_secs(5));
        agenda.later(name("b"), Duration::from_secs(7));
        agenda.later(name("c"), Duration::MAX);
        assert_eq!(agenda.take(Vec::new), [name("a")]);
        assert!(agenda.take(Vec::new).is_empty());
        agenda.wait(&clock).await;
        assert_eq!(
            clock
                .now()
                .duration_since(std::time::UNIX_EPOCH)
                .unwrap()
                .as_secs(),
            5
        );
        assert_eq!(agenda.take(Vec::new), [name("b")]);
        agenda.wait(&clock).await;
        assert_eq!(
            agenda.take(|| vec![name("c")]),
            [name("c")],
            "everything, after a while"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_tried_again_ever_later() {
        let clock = Clock::starting_at(std::time::SystemTime::UNIX_EPOCH);
        let mut agenda = Agenda::new(Vec::new());
        let mut waits = Vec::new();
        for _ in 0..3 {
            let before = Instant::now();
            agenda.done("test", name("a"), Err(Failure::internal("no")));
            agenda.wait(&clock).await;
            agenda.take(Vec::new);
            waits.push(before.elapsed().as_millis());
        }
        assert_eq!(waits.len(), 3);
        assert!(
            waits[0] >= 50 && waits[1] >= 100 && waits[2] >= 200 && waits[2] < 300,
            "{waits:?}"
        );
        agenda.done("test", name("a"), Ok(None));
        assert!(agenda.failures.is_empty());
    }
}
