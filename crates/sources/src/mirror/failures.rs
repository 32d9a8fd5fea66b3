//! Which steps have failed, and from when on each may be tried again. Without it every
//! change of what is wanted would be one more request that is refused.

use std::collections::BTreeMap;
use std::time::Duration;

use types::{PodName, PodUid};

use super::Step;
use crate::annotations::{HASH, annotation, name_of};

/// The steps that failed lately. Times are the clock's uptime.
#[derive(Debug, Default)]
pub(super) struct Failures {
    by_name: BTreeMap<PodName, Failure>,
}

#[derive(Debug)]
struct Failure {
    purpose: Purpose,
    not_before: Duration,
}

/// What a step is for. One with another purpose may well succeed, and does not wait.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Purpose {
    removes: Option<PodUid>,
    /// The version of the static pod whose mirror it makes.
    makes: Option<String>,
}

impl Failures {
    /// Lets go of what has waited long enough, whether or not it is still asked for: nobody
    /// is to wake for it any more.
    pub(super) fn pass(&mut self, now: Duration) {
        self.by_name.retain(|_, failure| failure.not_before > now);
    }

    /// Whether nothing speaks against a step.
    pub(super) fn may_try(&self, step: &Step) -> bool {
        let failure = self.by_name.get(&step.name());
        failure.is_none_or(|failure| failure.purpose != step.purpose())
    }

    /// A step for a pod of this name has failed.
    pub(super) fn failed(&mut self, name: PodName, purpose: Purpose, not_before: Duration) {
        let failure = Failure {
            purpose,
            not_before,
        };
        self.by_name.insert(name, failure);
    }

    pub(super) fn succeeded(&mut self, name: &PodName) {
        self.by_name.remove(name);
    }

    /// When the first of them may be tried again.
    pub(super) fn next(&self) -> Option<Duration> {
        let failures = self.by_name.values();
        failures.map(|failure| failure.not_before).min()
    }
}

impl Step {
    pub(super) fn name(&self) -> PodName {
        match self {
            Self::Create(pod) => name_of(pod),
            Self::Replace(mirror, _) | Self::Remove(mirror) => mirror.name.clone(),
        }
    }

    pub(super) fn purpose(&self) -> Purpose {
        let (mirror, pod) = match self {
            Self::Create(pod) => (None, Some(pod)),
            Self::Replace(mirror, pod) => (Some(mirror), Some(pod)),
            Self::Remove(mirror) => (Some(mirror), None),
        };
        let version = |pod| annotation(pod, HASH).unwrap_or_default().to_owned();
        Purpose {
            removes: mirror.map(|mirror| mirror.uid.clone()),
            makes: pod.map(|pod| version(pod)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::annotations::ref_of;
    use crate::mirror::tests::{mirror_pod, static_pod};

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn create(name: &str, hash: &str) -> Step {
        Step::Create(Arc::new(static_pod(name, hash)))
    }

    #[test]
    fn a_step_that_failed_waits_and_others_do_not() {
        let mirror = ref_of(&mirror_pod("a", "0"));
        let replace = Step::Replace(mirror.clone(), Arc::new(static_pod("a", "1")));
        for (step, now, expected) in [
            (create("a", "1"), 9, false),
            (create("a", "1"), 10, true),
            (create("a", "2"), 9, true),
            (create("b", "1"), 9, true),
            (replace, 9, true),
            (Step::Remove(mirror), 9, true),
        ] {
            let mut failures = Failures::default();
            let failed = create("a", "1");
            failures.failed(failed.name(), failed.purpose(), at(10));
            failures.pass(at(now));
            assert_eq!(failures.may_try(&step), expected, "{step:?}");
        }
    }

    #[test]
    fn the_first_that_may_be_tried_again_is_known() {
        let mut failures = Failures::default();
        assert_eq!(failures.next(), None);
        for (name, not_before) in [("a", 10), ("b", 5), ("c", 7)] {
            let step = create(name, "1");
            failures.failed(step.name(), step.purpose(), at(not_before));
        }
        assert_eq!(failures.next(), Some(at(5)));
        // Though nobody asks for it any more.
        failures.pass(at(5));
        assert_eq!(failures.next(), Some(at(7)));
        failures.succeeded(&create("c", "1").name());
        assert_eq!(failures.next(), Some(at(10)));
    }
}
