//! What a worker made itself and has not seen yet. A runtime that tells of its
//! sandboxes and containers late must not be asked for them twice.

use std::time::Duration;

use types::observed::{ContainerState, ObservedPod};

/// For longer than this no runtime lags: what was made has gone again.
const PATIENCE: Duration = Duration::from_secs(5);

/// Something that the runtime said it has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    /// By id.
    Sandbox(String),
    /// A container that was made and started, by id.
    Started(String),
}

/// What is to be seen before anything else is planned.
#[derive(Debug, Default)]
pub(crate) struct Unseen {
    made: Vec<(Made, Duration)>,
}

impl Unseen {
    /// `now` by a clock that nobody sets, always the same.
    pub(crate) fn add(&mut self, made: Made, now: Duration) {
        self.made.push((made, now));
    }

    /// Whether an observation is older than what was made. What it has is seen, what
    /// it has not after all patience is given up.
    pub(crate) fn is_behind(&mut self, observed: &ObservedPod, now: Duration) -> bool {
        self.made
            .retain(|(made, at)| now < *at + PATIENCE && !made.is_in(observed));
        !self.made.is_empty()
    }
}

impl Made {
    fn is_in(&self, observed: &ObservedPod) -> bool {
        match self {
            Self::Sandbox(id) => observed.sandboxes.iter().any(|one| one.id == *id),
            Self::Started(id) => observed
                .containers
                .iter()
                .any(|one| one.id == *id && one.state != ContainerState::Created),
        }
    }
}

#[cfg(test)]
mod tests {
    use types::observed::{ObservedContainer, ObservedSandbox};

    use super::*;

    fn observed(sandbox: &str, container: &str, state: ContainerState) -> ObservedPod {
        ObservedPod {
            sandboxes: vec![ObservedSandbox {
                id: sandbox.to_owned(),
                ..ObservedSandbox::default()
            }],
            containers: vec![ObservedContainer {
                id: container.to_owned(),
                state,
                ..ObservedContainer::default()
            }],
            ..ObservedPod::default()
        }
    }

    #[test]
    fn what_was_made_is_waited_for_and_no_longer_than_patience() {
        let sandbox = || Made::Sandbox("s2".to_owned());
        let started = || Made::Started("c2".to_owned());
        let seconds = Duration::from_secs;
        let cases = [
            (
                "nothing made",
                None,
                "s1",
                "c1",
                ContainerState::Running,
                0,
                false,
            ),
            (
                "no sandbox yet",
                Some(sandbox()),
                "s1",
                "c1",
                ContainerState::Running,
                1,
                true,
            ),
            (
                "a sandbox",
                Some(sandbox()),
                "s2",
                "c1",
                ContainerState::Running,
                1,
                false,
            ),
            (
                "no container yet",
                Some(started()),
                "s2",
                "c1",
                ContainerState::Exited,
                1,
                true,
            ),
            (
                "not started yet",
                Some(started()),
                "s2",
                "c2",
                ContainerState::Created,
                1,
                true,
            ),
            (
                "started",
                Some(started()),
                "s2",
                "c2",
                ContainerState::Running,
                1,
                false,
            ),
            (
                "ended already",
                Some(started()),
                "s2",
                "c2",
                ContainerState::Exited,
                1,
                false,
            ),
            (
                "gone again",
                Some(sandbox()),
                "s1",
                "c1",
                ContainerState::Running,
                5,
                false,
            ),
        ];
        for (case, made, sandbox, container, state, now, behind) in cases {
            let mut unseen = Unseen::default();
            if let Some(made) = made {
                unseen.add(made, seconds(0));
            }
            let observed = observed(sandbox, container, state);
            assert_eq!(unseen.is_behind(&observed, seconds(now)), behind, "{case}");
        }
    }

    #[test]
    fn what_was_seen_once_is_not_waited_for_again() {
        let mut unseen = Unseen::default();
        unseen.add(Made::Sandbox("s".to_owned()), Duration::ZERO);
        let seen = observed("s", "c", ContainerState::Running);
        assert!(!unseen.is_behind(&seen, Duration::ZERO));
        assert!(!unseen.is_behind(&ObservedPod::default(), Duration::ZERO));
    }
}
