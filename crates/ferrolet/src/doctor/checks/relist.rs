//! When the agent last listed what the runtime has.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use pleg::health::THRESHOLD;

use crate::doctor::finding::Finding;
use crate::local_node::Remedies;
use crate::local_node::look::Look;
use crate::output::age;

/// It lists each second, or each ten where the runtime tells of events; from here on
/// something is slow.
const LATE: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
pub(in crate::doctor) struct Facts {
    pub(in crate::doctor) last: Look<Timestamp>,
    pub(in crate::doctor) now: Timestamp,
    pub(in crate::doctor) socket: PathBuf,
    pub(in crate::doctor) remedies: Remedies,
}

pub(in crate::doctor) fn judge(facts: &Facts) -> Vec<Finding> {
    let Some(silence) = silence(facts) else {
        return Vec::new();
    };
    let object = "relist (PLEG)";
    let cause = format!(
        "the agent last listed the runtime's pods {} ago",
        age(silence)
    );
    let finding = if silence > THRESHOLD {
        Finding::error(
            object,
            format!("{cause}; after three minutes the node is not Ready"),
        )
    } else if silence > LATE {
        Finding::warning(object, format!("{cause}: the runtime is slow, or hangs"))
    } else {
        return Vec::new();
    };
    vec![finding.mended_by(facts.remedies.restart_runtime(&facts.socket))]
}

fn silence(facts: &Facts) -> Option<Duration> {
    let last = *facts.last.seen()?;
    Some(Duration::try_from(facts.now.duration_since(last)).unwrap_or_default())
}

pub(in crate::doctor) fn told(facts: &Facts) -> String {
    match silence(facts) {
        None => "not seen".to_owned(),
        Some(silence) => format!("{} ago", age(silence)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::checks::testing::{remedies, summary};

    #[test]
    fn a_relist_that_is_late_is_told_before_the_node_is_unready() {
        let now: Timestamp = "2026-11-16T12:00:00Z".parse().unwrap();
        for (ago, expected) in [
            (1, ""),
            (60, ""),
            (
                90,
                "warning relist (PLEG): the agent last listed the runtime's pods 90s ago",
            ),
            (
                200,
                "error relist (PLEG): the agent last listed the runtime's pods 3m20s ago",
            ),
        ] {
            let facts = Facts {
                last: Look::Seen(Timestamp::from_second(now.as_second() - ago).unwrap()),
                now,
                socket: "/run/containerd/containerd.sock".into(),
                remedies: remedies(),
            };
            let found = summary(&judge(&facts));
            assert_eq!(found.is_empty(), expected.is_empty(), "{ago}");
            if let Some(found) = found.first() {
                assert!(found.starts_with(expected), "{found}");
                assert!(
                    found.ends_with("=> systemctl restart containerd"),
                    "{found}"
                );
            }
        }
    }
}
