//! What may differ between our node and an upstream one, and why. Whatever is
//! not in this list must be equal; a node's name and address are replaced by
//! words before. `managedFields` is not looked at: which fields a manager owns
//! depends on whether a time was written twice within one second.

/// One line of the list.
pub(crate) struct Allowed {
    /// `*` stands for any part of a path.
    path: &'static str,
    pub(crate) how: How,
    reason: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// Both have it, with values of their own.
    Value,
    /// Upstream has it, and we have not.
    UpstreamOnly,
}

const fn value(path: &'static str, reason: &'static str) -> Allowed {
    let how = How::Value;
    Allowed { path, how, reason }
}

const fn upstream_only(path: &'static str, reason: &'static str) -> Allowed {
    let how = How::UpstreamOnly;
    Allowed { path, how, reason }
}

const ALLOWED: &[Allowed] = &[
    value("*.metadata.uid", "each object has its own"),
    value("*.metadata.resourceVersion", "each write has its own"),
    value("*.metadata.creationTimestamp", "the time of the run"),
    value("*.ownerReferences[*].uid", "the uid of the Node"),
    value("node.spec.podCIDR", "the cluster gives each its own"),
    value("node.spec.podCIDRs[*]", "the cluster gives each its own"),
    value("node.spec.taints[*].timeAdded", "the time of the run"),
    value(
        "node.status.conditions[*].lastHeartbeatTime",
        "the time of the run",
    ),
    value(
        "node.status.conditions[*].lastTransitionTime",
        "the time of the run",
    ),
    value(
        "node.status.nodeInfo.machineID",
        "each lab machine has its own",
    ),
    value(
        "node.status.nodeInfo.systemUUID",
        "the machine's id, where a machine has no other",
    ),
    value("node.status.nodeInfo.kubeletVersion", "ours has a suffix"),
    value("lease.spec.renewTime", "the time of the run"),
    upstream_only(
        "events.NodeAllocatableEnforced.*",
        "ours enforces what can be allocated without a word",
    ),
    upstream_only(
        "events.ContainerGCFailed.*",
        "upstream looks for dead containers each minute, and may do so while its runtime is stopped",
    ),
    upstream_only(
        "events.NodeNotReady.*",
        "upstream's first words may come before it has asked its runtime; ours wait for the answer",
    ),
];

/// Why this path may differ in this way, if it may.
pub(crate) fn reason(path: &str, how: How) -> Option<&'static str> {
    let allowed = ALLOWED
        .iter()
        .find(|allowed| allowed.how == how && matches(allowed.path, path));
    allowed.map(|allowed| allowed.reason)
}

fn matches(pattern: &str, path: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == path,
        Some((start, rest)) => path.strip_prefix(start).is_some_and(|tail| {
            (0..=tail.len())
                .filter(|&at| tail.is_char_boundary(at))
                .any(|at| matches(rest, &tail[at..]))
        }),
    }
}

#[test]
fn a_pattern_stands_for_what_its_stars_leave_open_and_no_more() {
    assert!(matches("*.uid", "node.metadata.uid"));
    assert!(matches("a[*].b", "a[x.y].b"));
    assert!(!matches("a[*].b", "a[x].b.c"));
    assert!(!matches("a.b", "a.c"));
}
