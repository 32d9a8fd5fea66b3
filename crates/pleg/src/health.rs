//! Whether the runtime is being looked at, in upstream's words, and which pods'
//! looks hang.

use std::fmt;
use std::time::Duration;

use types::{GoDuration, PodRef};

/// Without a relist for so long, what is known of pods is no longer to be trusted.
pub const THRESHOLD: Duration = Duration::from_secs(3 * 60);

/// How the observation fares. Times are the clock's uptime.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// When the last whole list came in; `None`: not yet.
    pub last_relist: Option<Duration>,
    /// Sorted by pod. Each is that pod's problem, not the node's.
    pub stuck: Vec<Stuck>,
}

/// A look at a pod that the runtime does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    pub pod: PodRef,
    /// As the interface names it.
    pub call: &'static str,
    /// When the pod should have been looked at.
    pub since: Duration,
}

/// Why pods cannot be trusted to be as they are said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unhealthy {
    #[error("pleg has yet to be successful")]
    NotYet,
    #[error("pleg was last seen active {ago} ago; threshold is {threshold}")]
    Silent {
        ago: GoDuration,
        threshold: GoDuration,
    },
}

impl Health {
    /// For the node's readiness.
    pub fn check(&self, uptime: Duration) -> Result<(), Unhealthy> {
        let last = self.last_relist.ok_or(Unhealthy::NotYet)?;
        let ago = uptime.saturating_sub(last);
        if ago > THRESHOLD {
            return Err(Unhealthy::Silent {
                ago: go(ago),
                threshold: go(THRESHOLD),
            });
        }
        Ok(())
    }
}

impl fmt::Display for Stuck {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "the container runtime does not answer {} for pod {}",
            self.call, self.pod
        )
    }
}

/// Longer than Go can say is as long as it can say.
fn go(duration: Duration) -> GoDuration {
    GoDuration::try_from(duration).unwrap_or(GoDuration::from_nanos(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(last_relist: Option<u64>, uptime: u64) -> String {
        let health = Health {
            last_relist: last_relist.map(Duration::from_secs),
            ..Health::default()
        };
        match health.check(Duration::from_secs(uptime)) {
            Ok(()) => "ok".to_owned(),
            Err(unhealthy) => unhealthy.to_string(),
        }
    }

    #[test]
    fn it_is_said_in_upstreams_words_how_it_fares() {
        assert_eq!(checked(None, 5), "pleg has yet to be successful");
        assert_eq!(checked(Some(5), 5), "ok");
        assert_eq!(checked(Some(5), 185), "ok", "the threshold itself is fine");
        assert_eq!(
            checked(Some(5), 190),
            "pleg was last seen active 3m5s ago; threshold is 3m0s"
        );
    }

    #[test]
    fn a_stuck_call_names_its_pod() {
        let stuck = Stuck {
            pod: PodRef::default(),
            call: "ContainerStatus",
            since: Duration::ZERO,
        };
        let said = stuck.to_string();
        assert!(said.contains("ContainerStatus for pod _()"), "{said}");
    }
}
