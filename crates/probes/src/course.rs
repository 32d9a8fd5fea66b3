//! What becomes of one probe: what it says of its container at the beginning, after
//! each answer, and whether the container is to be asked now. Pure.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::view::{Purpose, Seen};

/// A container that began so shortly before the agent may not have been probed yet by
/// the one before it.
const GRACE: SignedDuration = SignedDuration::from_secs(10);

/// What a probe says of its container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Success,
    Failure,
    /// It has not been asked often enough.
    Unknown,
}

/// What of a probe's spec decides about its course.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    pub purpose: Purpose,
    /// Of an init container that runs as long as its pod.
    pub sidecar: bool,
    /// After the container began, in seconds.
    pub initial_delay: i32,
    pub success_threshold: i32,
    pub failure_threshold: i32,
}

/// Whether a container is to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Not before something else is seen of it.
    Idle,
    NotBefore(Timestamp),
    Due,
}

/// How far a probe has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// The container that it is about.
    id: Option<Arc<str>>,
    /// What it says; `None` of a container that an earlier agent has probed: what was
    /// said then still holds.
    result: Option<Verdict>,
    /// The last answer, and how often it came in a row. Like upstream's it counts on when
    /// another container takes the place of this one.
    last: Option<Verdict>,
    run: i32,
    /// It has said its last word about this container.
    on_hold: bool,
}

impl Course {
    pub fn id(&self) -> Option<&Arc<str>> {
        self.id.as_ref()
    }

    pub fn result(&self) -> Option<Verdict> {
        self.result
    }

    /// Something is seen of the container. `agent_began`: who was started well before
    /// that was probed by an earlier agent.
    pub fn see(&mut self, rules: &Rules, seen: &Seen, agent_began: Timestamp) {
        if self.id.as_ref() != Some(&seen.id) {
            self.id = Some(Arc::clone(&seen.id));
            self.on_hold = false;
            self.result = first_word(rules, seen, agent_began);
        }
        // The others say nothing of a container that does not run: it may be one that is
        // only about to.
        if seen.running_since.is_none() && rules.purpose == Purpose::Readiness {
            self.result = Some(Verdict::Failure);
        }
    }

    pub fn standing(&self, rules: &Rules, seen: &Seen, now: Timestamp) -> Standing {
        let Some(since) = seen.running_since.filter(|_| !self.on_hold) else {
            return Standing::Idle;
        };
        // Until a container has started only that is asked, and then never again.
        if seen.started == (rules.purpose == Purpose::Startup) {
            return Standing::Idle;
        }
        let delay = SignedDuration::from_secs(rules.initial_delay.into());
        match since.checked_add(delay) {
            Ok(from) if now < from => Standing::NotBefore(from),
            _ => Standing::Due,
        }
    }

    /// The container has answered, well or not.
    pub fn hear(&mut self, rules: &Rules, well: bool) {
        let verdict = if well {
            Verdict::Success
        } else {
            Verdict::Failure
        };
        self.run = if self.last == Some(verdict) {
            self.run.saturating_add(1)
        } else {
            1
        };
        self.last = Some(verdict);
        let enough = if well {
            rules.success_threshold
        } else {
            rules.failure_threshold
        };
        if self.run < enough {
            return;
        }
        self.result = Some(verdict);
        let is_last_word = match rules.purpose {
            Purpose::Startup => true,
            Purpose::Liveness => !well,
            Purpose::Readiness => false,
        };
        if is_last_word {
            self.on_hold = true;
            self.run = 0;
        }
    }
}

/// What is said of a container before it was asked anything.
fn first_word(rules: &Rules, seen: &Seen, agent_began: Timestamp) -> Option<Verdict> {
    let known_since = agent_began.checked_sub(GRACE).unwrap_or(Timestamp::MIN);
    let is_old = seen.running_since.is_some_and(|since| since < known_since);
    // Upstream goes by its age alone: a young one that was ready would not be for a while.
    let was_said = match rules.purpose {
        Purpose::Startup => seen.started,
        Purpose::Readiness => seen.ready,
        Purpose::Liveness => false,
    };
    match (rules.purpose, is_old || was_said) {
        (Purpose::Startup, true) if rules.sidecar && seen.started => Some(Verdict::Success),
        (_, true) => None,
        (Purpose::Startup, false) => Some(Verdict::Unknown),
        (Purpose::Readiness, false) => Some(Verdict::Failure),
        (Purpose::Liveness, false) => Some(Verdict::Success),
    }
}

#[cfg(test)]
mod tests;
