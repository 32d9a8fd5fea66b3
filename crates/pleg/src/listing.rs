//! What the runtime lists of each pod, and which pods changed between two lists.

use std::collections::{BTreeMap, BTreeSet};

use seams::cri::{Container, PodSandbox, PodSandboxState};
use types::observed::ContainerState;
use types::{PodName, PodRef, PodUid};

pub(crate) const POD_NAME: &str = "io.kubernetes.pod.name";
pub(crate) const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
pub(crate) const POD_UID: &str = "io.kubernetes.pod.uid";
pub(crate) const CONTAINER_NAME: &str = "io.kubernetes.container.name";

/// Everything that is a node's, by pod.
pub(crate) type Listing = BTreeMap<PodUid, Listed>;

/// One pod in a list: enough to tell whether it has to be looked at, and at what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) pod: PodRef,
    /// Newest first; with whether it is ready.
    pub(crate) sandboxes: Vec<(String, bool)>,
    /// Newest first.
    pub(crate) containers: Vec<ListedContainer>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListedContainer {
    pub(crate) id: String,
    /// Only lists say it.
    pub(crate) sandbox_id: String,
    pub(crate) state: ContainerState,
}

impl Listed {
    pub(crate) fn is_empty(&self) -> bool {
        self.sandboxes.is_empty() && self.containers.is_empty()
    }

    /// Whether a sandbox or a container of it has this id.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.sandboxes.iter().any(|(sandbox, _)| sandbox == id)
            || self.containers.iter().any(|container| container.id == id)
    }
}

/// Sorts two lists by pod. What lacks a kubelet's labels is not ours: others may
/// run sandboxes in the same runtime.
pub(crate) fn listing(mut sandboxes: Vec<PodSandbox>, mut containers: Vec<Container>) -> Listing {
    sandboxes.sort_by_key(|sandbox| std::cmp::Reverse(sandbox.created_at));
    containers.sort_by_key(|container| std::cmp::Reverse(container.created_at));
    let mut listing = Listing::new();
    for sandbox in sandboxes {
        if let Some(pod) = owner(&sandbox.labels) {
            let ready = sandbox.state() == PodSandboxState::SandboxReady;
            let listed = entry(&mut listing, pod);
            listed.sandboxes.push((sandbox.id, ready));
        }
    }
    for container in containers {
        if !container.labels.contains_key(CONTAINER_NAME) {
            continue;
        }
        if let Some(pod) = owner(&container.labels) {
            let state = state(container.state());
            let listed = entry(&mut listing, pod);
            listed.containers.push(ListedContainer {
                id: container.id,
                sandbox_id: container.pod_sandbox_id,
                state,
            });
        }
    }
    listing
}

/// The pods that differ between two lists: new ones, gone ones, and those of which
/// anything began, ended, came or went.
pub(crate) fn changed(before: &Listing, after: &Listing) -> BTreeSet<PodUid> {
    let gone = before.keys().filter(|uid| !after.contains_key(*uid));
    let other = after
        .iter()
        .filter(|(uid, listed)| before.get(*uid) != Some(listed))
        .map(|(uid, _)| uid);
    gone.chain(other).cloned().collect()
}

pub(crate) fn state(state: seams::cri::ContainerState) -> ContainerState {
    match state {
        seams::cri::ContainerState::ContainerCreated => ContainerState::Created,
        seams::cri::ContainerState::ContainerRunning => ContainerState::Running,
        seams::cri::ContainerState::ContainerExited => ContainerState::Exited,
        seams::cri::ContainerState::ContainerUnknown => ContainerState::Unknown,
    }
}

/// The pod that a kubelet made this for.
pub(crate) fn owner(labels: &BTreeMap<String, String>) -> Option<PodRef> {
    let uid = labels.get(POD_UID).filter(|uid| !uid.is_empty())?;
    Some(PodRef {
        name: PodName {
            namespace: labels.get(POD_NAMESPACE)?.clone(),
            name: labels.get(POD_NAME)?.clone(),
        },
        uid: PodUid::new(uid),
    })
}

fn entry(listing: &mut Listing, pod: PodRef) -> &mut Listed {
    listing.entry(pod.uid.clone()).or_insert_with(|| Listed {
        pod,
        ..Listed::default()
    })
}

#[cfg(test)]
mod tests {
    use seams::cri::ContainerState as Cri;

    use super::*;

    fn labels(uid: &str, container: Option<&str>) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::from([
            (POD_UID.to_owned(), uid.to_owned()),
            (POD_NAME.to_owned(), format!("pod-{uid}")),
            (POD_NAMESPACE.to_owned(), "default".to_owned()),
        ]);
        labels.extend(container.map(|name| (CONTAINER_NAME.to_owned(), name.to_owned())));
        labels
    }

    fn sandbox(id: &str, uid: &str, created_at: i64) -> PodSandbox {
        PodSandbox {
            id: id.to_owned(),
            created_at,
            labels: labels(uid, None),
            ..PodSandbox::default()
        }
    }

    fn container(id: &str, uid: &str, state: Cri) -> Container {
        Container {
            id: id.to_owned(),
            state: state.into(),
            labels: labels(uid, Some("c")),
            ..Container::default()
        }
    }

    #[test]
    fn lists_are_sorted_by_pod_newest_first() {
        let sandboxes = vec![
            sandbox("old", "1", 1),
            sandbox("new", "1", 2),
            sandbox("x", "2", 3),
        ];
        let containers = vec![container("c1", "2", Cri::ContainerRunning)];
        let listing = listing(sandboxes, containers);
        let first = &listing[&PodUid::new("1")];
        assert_eq!(first.pod.to_string(), "pod-1_default(1)");
        let ids: Vec<_> = first.sandboxes.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(ids, ["new", "old"]);
        let second = &listing[&PodUid::new("2")];
        assert_eq!(second.containers[0].state, ContainerState::Running);
        assert!(second.has("x") && second.has("c1") && !second.has("new"));
    }

    #[test]
    fn what_no_kubelet_made_is_left_out() {
        let mut nameless = sandbox("s", "1", 1);
        nameless.labels.remove(POD_NAME);
        let mut no_container = container("c", "1", Cri::ContainerRunning);
        no_container.labels.remove(CONTAINER_NAME);
        assert!(listing(vec![nameless, PodSandbox::default()], vec![no_container]).is_empty());
    }

    #[test]
    fn pods_that_came_went_or_moved_on_have_changed() {
        let before = |state| {
            listing(
                vec![sandbox("s1", "1", 1), sandbox("s2", "2", 1)],
                vec![container("c1", "1", state)],
            )
        };
        let uids = |after: &Listing| -> Vec<String> {
            let changed = changed(&before(Cri::ContainerCreated), after);
            changed.iter().map(ToString::to_string).collect()
        };
        assert!(uids(&before(Cri::ContainerCreated)).is_empty());
        assert_eq!(uids(&before(Cri::ContainerRunning)), ["1"], "it began");
        let mut after = before(Cri::ContainerCreated);
        after.remove(&PodUid::new("2"));
        assert_eq!(uids(&after), ["2"], "it went");
        let more = listing(vec![sandbox("s3", "3", 1)], Vec::new());
        after.extend(more);
        assert_eq!(uids(&after), ["2", "3"], "it came");
        let mut ended = before(Cri::ContainerCreated);
        ended.get_mut(&PodUid::new("2")).unwrap().sandboxes[0].1 = false;
        assert_eq!(uids(&ended), ["2"], "its sandbox ended");
    }
}
