//! The node's lease: how old its last heartbeat is.

use std::time::Duration;

use jiff::Timestamp;

use crate::doctor::finding::Finding;
use crate::local_node::Remedies;
use crate::local_node::look::Look;
use crate::output::age;

#[derive(Clone, Debug)]
pub(in crate::doctor) struct Facts {
    pub(in crate::doctor) node_name: String,
    pub(in crate::doctor) lease: Look<Option<Lease>>,
    pub(in crate::doctor) now: Timestamp,
    pub(in crate::doctor) agent_runs: bool,
    pub(in crate::doctor) remedies: Remedies,
}

/// What matters of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::doctor) struct Lease {
    pub(in crate::doctor) renewed: Option<Timestamp>,
    /// How long a heartbeat counts.
    pub(in crate::doctor) life: Duration,
    pub(in crate::doctor) holder: Option<String>,
}

pub(in crate::doctor) fn judge(facts: &Facts) -> Vec<Finding> {
    let object = format!("lease kube-node-lease/{}", facts.node_name);
    let Some(lease) = facts.lease.seen() else {
        return Vec::new();
    };
    let Some(lease) = lease else {
        // Without an agent that is what one expects.
        let found = facts.agent_runs.then(|| {
            Finding::error(
                object,
                "there is none, so that the cluster hears no heartbeat",
            )
            .mended_by(facts.remedies.log())
        });
        return found.into_iter().collect();
    };
    let mut findings = Vec::new();
    if let Some(holder) = lease
        .holder
        .as_ref()
        .filter(|holder| **holder != facts.node_name)
    {
        let cause = format!("{holder} renews it, which is not this node");
        let delete = format!(
            "--namespace kube-node-lease delete lease {}",
            facts.node_name
        );
        findings.push(Finding::warning(&object, cause).mended_by(facts.remedies.kubectl(&delete)));
    }
    let silence = lease.silence(facts.now);
    if silence > lease.life {
        let cause = format!(
            "it was renewed {} ago, and a heartbeat counts for {} s: {}",
            age(silence),
            lease.life.as_secs(),
            if facts.agent_runs {
                "the agent runs, but does not get through"
            } else {
                "no agent runs"
            }
        );
        findings.push(Finding::error(&object, cause).mended_by(facts.remedies.revive()));
    }
    findings
}

impl Lease {
    fn silence(&self, now: Timestamp) -> Duration {
        let Some(renewed) = self.renewed else {
            return Duration::MAX;
        };
        Duration::try_from(now.duration_since(renewed)).unwrap_or_default()
    }
}

pub(in crate::doctor) fn told(facts: &Facts) -> String {
    match facts.lease.seen() {
        None => "not seen".to_owned(),
        Some(None) => "none".to_owned(),
        Some(Some(lease)) => format!("renewed {} ago", age(lease.silence(facts.now))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::checks::testing::{remedies, summary};

    fn facts(lease: Option<(i64, &str)>, agent_runs: bool) -> Facts {
        let now: Timestamp = "2026-11-16T12:00:00Z".parse().unwrap();
        let lease = lease.map(|(ago, holder)| Lease {
            renewed: Some(Timestamp::from_second(now.as_second() - ago).unwrap()),
            life: Duration::from_secs(40),
            holder: Some(holder.to_owned()),
        });
        Facts {
            node_name: "n1".to_owned(),
            lease: Look::Seen(lease),
            now,
            agent_runs,
            remedies: remedies(),
        }
    }

    #[test]
    fn a_heartbeat_counts_for_the_leases_life() {
        for (lease, agent_runs, expected) in [
            (Some((5, "n1")), true, ""),
            (Some((40, "n1")), true, ""),
            (Some((-5, "n1")), true, ""),
            (None, false, ""),
            (None, true, "error lease kube-node-lease/n1: there is none"),
            (
                Some((180, "n1")),
                false,
                "error lease kube-node-lease/n1: it was renewed 3m ago, and a heartbeat counts for 40 s: no agent runs => systemctl start kubelet",
            ),
            (
                Some((180, "n1")),
                true,
                "error lease kube-node-lease/n1: it was renewed 3m ago",
            ),
            (
                Some((5, "x")),
                true,
                "warning lease kube-node-lease/n1: x renews it",
            ),
        ] {
            let mut facts = facts(lease, agent_runs);
            if !agent_runs {
                facts.remedies = crate::doctor::checks::testing::stopped();
            }
            let found = summary(&judge(&facts));
            assert_eq!(found.is_empty(), expected.is_empty(), "{facts:?}");
            if let Some(found) = found.first() {
                assert!(found.starts_with(expected), "{found}");
            }
        }
    }
}
