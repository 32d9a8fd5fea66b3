//! Where the groups of pods and containers are.
//!
//! A pod's group follows from its uid and its class; what a runtime calls that of a
//! container it alone knows, but the container's id is in the name. What was found is
//! remembered, so that a look at a hundred pods lists no directories.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seams::Host;
use types::PodUid;

/// Processes that watch a container, in a group of their own beside its.
const WATCHERS: [&str; 1] = ["conmon"];

/// Where a pod's group may be: one place for each class of service.
pub type PlacesOfPod = Arc<dyn Fn(&PodUid) -> [PathBuf; 3] + Send + Sync>;

/// Where the groups of a node's pods are.
#[derive(Clone)]
pub struct GroupPlaces {
    /// That of all pods.
    pub pods: PathBuf,
    /// Those of classes, where they have their own.
    pub classes: Vec<PathBuf>,
    pub of_pod: PlacesOfPod,
}

impl fmt::Debug for GroupPlaces {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("GroupPlaces");
        shown.field("pods", &self.pods).finish_non_exhaustive()
    }
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pods: HashMap<PodUid, PathBuf>,
    /// By the container's or the sandbox's id.
    containers: HashMap<String, PathBuf>,
}

impl Found {
    pub(super) fn of_pod(
        &mut self,
        host: &dyn Host,
        places: &GroupPlaces,
        uid: &PodUid,
    ) -> Option<PathBuf> {
        if let Some(known) = self.pods.get(uid) {
            return Some(known.clone());
        }
        let places = (places.of_pod)(uid);
        let mut there = places
            .into_iter()
            .filter(|place| host.has_cgroup(place).unwrap_or(false));
        let place = there.next()?;
        self.pods.insert(uid.clone(), place.clone());
        Some(place)
    }

    /// `None`: the runtime has made none, or calls it otherwise.
    pub(super) fn of_container(
        &mut self,
        host: &dyn Host,
        pod: &Path,
        id: &str,
    ) -> Option<PathBuf> {
        if let Some(known) = self.containers.get(id) {
            return Some(known.clone());
        }
        let names = host.cgroups_in(pod).ok()?;
        let name = names.iter().find(|name| is_of(name, id))?;
        let place = pod.join(name);
        self.containers.insert(id.to_owned(), place.clone());
        Some(place)
    }

    /// It was not there any more.
    pub(super) fn lost(&mut self, id: &str) {
        self.containers.remove(id);
    }

    pub(super) fn lost_pod(&mut self, uid: &PodUid) {
        self.pods.remove(uid);
    }

    /// All but these are gone.
    pub(super) fn keep(&mut self, pods: &HashSet<&PodUid>, containers: &HashSet<&str>) {
        self.pods.retain(|uid, _| pods.contains(uid));
        self.containers.retain(|id, _| containers.contains(&**id));
    }
}

/// `ID`, `cri-containerd-ID.scope`, `crio-ID.scope`.
fn is_of(name: &str, id: &str) -> bool {
    let Some((before, after)) = name.split_once(id) else {
        return false;
    };
    let watches = WATCHERS.iter().any(|word| before.contains(word));
    !watches && (before.is_empty() || before.ends_with('-')) && matches!(after, "" | ".scope")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_containers_group_has_its_id_in_its_name() {
        for (name, of) in [
            ("abc", true),
            ("cri-containerd-abc.scope", true),
            ("crio-abc.scope", true),
            ("crio-abc", true),
            ("crio-conmon-abc.scope", false),
            ("abcd", false),
            ("xabc", false),
            ("other", false),
        ] {
            assert_eq!(is_of(name, "abc"), of, "{name}");
        }
    }
}
