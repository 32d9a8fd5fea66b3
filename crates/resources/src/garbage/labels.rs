//! What is written on sandboxes and containers: upstream's keys, for a node may have
//! had another agent.

use std::collections::BTreeMap;

use types::PodUid;

pub(crate) const POD_NAME: &str = "io.kubernetes.pod.name";
pub(crate) const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
pub(crate) const POD_UID: &str = "io.kubernetes.pod.uid";
pub(crate) const CONTAINER_NAME: &str = "io.kubernetes.container.name";
const DELETION_GRACE: &str = "io.kubernetes.pod.deletionGracePeriod";
const TERMINATION_GRACE: &str = "io.kubernetes.pod.terminationGracePeriod";

/// The grace of a container that does not say its own, in seconds: upstream's least.
const LEAST_GRACE: i64 = 2;

pub(crate) type Texts = BTreeMap<String, String>;

/// The pod that something belongs to. What lacks a kubelet's labels is not ours:
/// others may run sandboxes in the same runtime.
pub(crate) fn owner(labels: &Texts) -> Option<PodUid> {
    let uid = labels.get(POD_UID).filter(|uid| !uid.is_empty())?;
    Some(PodUid::new(uid))
}

/// How long a container that may run has for its end, in seconds.
pub(crate) fn grace(annotations: &Texts) -> i64 {
    let given = [DELETION_GRACE, TERMINATION_GRACE];
    let mut given = given.iter().filter_map(|key| annotations.get(*key));
    let grace = given.find_map(|text| text.parse().ok());
    grace.unwrap_or(LEAST_GRACE).max(LEAST_GRACE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grace_is_that_of_the_deletion_then_of_the_pod_and_never_below_the_least() {
        let cases: [(&[(&str, &str)], i64); 5] = [
            (&[], 2),
            (&[(TERMINATION_GRACE, "30")], 30),
            (&[(TERMINATION_GRACE, "30"), (DELETION_GRACE, "5")], 5),
            (&[(TERMINATION_GRACE, "30"), (DELETION_GRACE, "soon")], 30),
            (&[(TERMINATION_GRACE, "0")], 2),
        ];
        for (given, wanted) in cases {
            let texts = given.iter().copied();
            let texts = texts.map(|(key, value)| (key.to_owned(), value.to_owned()));
            assert_eq!(grace(&texts.collect()), wanted, "{given:?}");
        }
    }
}
