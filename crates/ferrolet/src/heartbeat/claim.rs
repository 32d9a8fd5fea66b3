//! Whose lease it is, and what it says when it is ours.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};

/// Where nodes have their leases.
pub(super) const NAMESPACE: &str = "kube-node-lease";

/// A kubelet's default.
pub(super) const LEASE_SECONDS: i32 = 40;

/// What may be done with a lease.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// The node's own, and fresh: a kubelet may be behind it.
    Ours,
    Expired {
        holder: String,
        since: Duration,
    },
    /// Another's, and not expired.
    Foreign {
        holder: String,
        left: Duration,
    },
}

/// Judges a lease that is there. One that was never renewed has expired.
pub(super) fn claim(lease: &Lease, node: &str, now: Timestamp) -> Claim {
    let holder = holder(lease);
    let seconds = lease
        .spec
        .as_ref()
        .and_then(|spec| spec.lease_duration_seconds);
    let life = Duration::from_secs(u64::try_from(seconds.unwrap_or(LEASE_SECONDS)).unwrap_or(0));
    // A clock that is behind sees renewals of the future: as fresh as can be.
    let past = renewed(lease).map(|renewed| {
        let past = now.duration_since(renewed);
        Duration::try_from(past).unwrap_or_default()
    });
    match past {
        Some(past) if past < life && holder == node => Claim::Ours,
        Some(past) if past < life => Claim::Foreign {
            holder,
            left: life.saturating_sub(past),
        },
        past => Claim::Expired {
            holder,
            since: past.unwrap_or_default().saturating_sub(life),
        },
    }
}

pub(super) fn renewed(lease: &Lease) -> Option<Timestamp> {
    let renewed = lease.spec.as_ref()?.renew_time.as_ref()?;
    Some(renewed.0)
}

pub(super) fn holder(lease: &Lease) -> String {
    let holder = lease
        .spec
        .as_ref()
        .and_then(|spec| spec.holder_identity.clone());
    holder.unwrap_or_else(|| "nobody".to_owned())
}

/// A lease for a node that has none; it goes when the node goes.
pub(super) fn made(node: &Node, name: &str, now: Timestamp) -> Lease {
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: name.to_owned(),
        uid: node.metadata.uid.clone().unwrap_or_default(),
        ..OwnerReference::default()
    };
    let mut lease = Lease {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(NAMESPACE.to_owned()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: None,
    };
    renew(&mut lease, name, now);
    lease
}

/// Writes a beat into the lease. Whose it was before is no more of interest.
pub(super) fn renew(lease: &mut Lease, node: &str, now: Timestamp) {
    let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
    spec.holder_identity = Some(node.to_owned());
    spec.lease_duration_seconds.get_or_insert(LEASE_SECONDS);
    spec.renew_time = Some(MicroTime(now));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn lease(holder: &str) -> Lease {
        let mut lease = made(&Node::default(), holder, at(0));
        lease.metadata.name = Some("n1".to_owned());
        lease
    }

    #[test]
    fn a_fresh_lease_of_the_node_itself_may_have_a_kubelet_behind_it() {
        for second in [-100, 0, 39] {
            assert_eq!(
                claim(&lease("n1"), "n1", at(second)),
                Claim::Ours,
                "{second}"
            );
        }
    }

    #[test]
    fn an_expired_lease_is_anybodys_and_a_fresh_one_its_holders() {
        for (holder, second, wanted) in [
            ("n1", 40, Some(0)),
            ("other", 100, Some(60)),
            ("other", 39, None),
        ] {
            let judged = claim(&lease(holder), "n1", at(second));
            let holder = holder.to_owned();
            let wanted = match wanted {
                Some(since) => Claim::Expired {
                    holder,
                    since: Duration::from_secs(since),
                },
                None => Claim::Foreign {
                    holder,
                    left: Duration::from_secs(1),
                },
            };
            assert_eq!(judged, wanted, "{second}");
        }
    }

    #[test]
    fn a_lease_that_says_nothing_is_free() {
        let judged = claim(&Lease::default(), "n1", at(0));
        let wanted = Claim::Expired {
            holder: "nobody".to_owned(),
            since: Duration::ZERO,
        };
        assert_eq!(judged, wanted);
    }

    #[test]
    fn a_beat_keeps_the_leases_own_duration_and_makes_it_the_nodes() {
        let mut lease = lease("other");
        let spec = lease.spec.as_mut().unwrap();
        spec.lease_duration_seconds = Some(7);
        renew(&mut lease, "n1", at(5));
        let spec = lease.spec.unwrap();
        assert_eq!(spec.holder_identity.as_deref(), Some("n1"));
        assert_eq!(spec.lease_duration_seconds, Some(7));
        assert_eq!(spec.renew_time, Some(MicroTime(at(5))));
    }

    #[test]
    fn a_new_lease_goes_with_its_node() {
        let mut node = Node::default();
        node.metadata.uid = Some("u-1".to_owned());
        let lease = made(&node, "n1", at(0));
        let owners = lease.metadata.owner_references.unwrap();
        assert_eq!(
            (owners[0].name.as_str(), owners[0].uid.as_str()),
            ("n1", "u-1")
        );
        assert_eq!(lease.metadata.namespace.as_deref(), Some(NAMESPACE));
    }
}
