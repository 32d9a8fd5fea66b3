//! How long a call may take, and whether it takes up a place of others. The
//! limits are those of upstream's clients: `time` is `runtimeRequestTimeout`.

use std::time::Duration;

use seams::cri::{CheckpointContainerRequest, ExecSyncRequest, StopContainerRequest};

/// A pod may ask for a grace of centuries, which no header can carry.
const LONGEST_LIMIT: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Absent: the call ends by its answer, or when its caller drops it.
    pub(crate) limit: Option<Duration>,
    /// Whether it counts among the calls that may be under way at once. What
    /// waits for others than the runtime does not (a registry, the network, the
    /// processes of a container): it would keep the rest waiting.
    pub(crate) place: bool,
}

impl Terms {
    pub(crate) fn usual(time: Duration) -> Self {
        Self {
            limit: Some(time),
            place: true,
        }
    }

    /// For what the caller gives up by itself, or never.
    pub(crate) fn endless() -> Self {
        Self {
            limit: None,
            place: false,
        }
    }

    /// The network of a pod is being made.
    pub(crate) fn run_pod_sandbox(time: Duration) -> Self {
        Self::aside(time.saturating_mul(2))
    }

    /// The network of a pod is being taken down.
    pub(crate) fn stop_pod_sandbox(time: Duration) -> Self {
        Self::aside(time)
    }

    /// The time is for the kill after the grace.
    pub(crate) fn stop_container(time: Duration, request: &StopContainerRequest) -> Self {
        Self::aside(time.saturating_add(seconds(request.timeout)))
    }

    /// The time is for the end of a command that took too long.
    pub(crate) fn exec_sync(time: Duration, request: &ExecSyncRequest) -> Self {
        if request.timeout == 0 {
            return Self::endless();
        }
        Self::aside(time.saturating_add(seconds(request.timeout)))
    }

    pub(crate) fn checkpoint(time: Duration, request: &CheckpointContainerRequest) -> Self {
        Self::aside(time.max(seconds(request.timeout)))
    }

    fn aside(limit: Duration) -> Self {
        Self {
            limit: Some(limit.min(LONGEST_LIMIT)),
            place: false,
        }
    }
}

fn seconds(count: i64) -> Duration {
    Duration::from_secs(u64::try_from(count).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_of_the_request_is_never_more_than_can_be_waited_for_and_never_less_than_none() {
        let time = Duration::from_secs(120);
        for (timeout, limit) in [
            (i64::MIN, time),
            (-1, time),
            (1, Duration::from_secs(121)),
            (i64::MAX, LONGEST_LIMIT),
        ] {
            let stop = StopContainerRequest {
                timeout,
                ..StopContainerRequest::default()
            };
            assert_eq!(Terms::stop_container(time, &stop).limit, Some(limit));
            let exec = ExecSyncRequest {
                timeout,
                ..ExecSyncRequest::default()
            };
            assert_eq!(Terms::exec_sync(time, &exec).limit, Some(limit));
        }
    }
}
