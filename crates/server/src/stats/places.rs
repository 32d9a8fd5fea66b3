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
    /// The first process of a sandbox, by its id.
    sandboxes: HashMap<String, u32>,
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

    /// The process that a sandbox has for as long as it is there. `None`: it has none.
    pub(super) fn process_of_sandbox(
        &mut self,
        host: &dyn Host,
        pod: &Path,
        id: &str,
    ) -> Option<u32> {
        if let Some(known) = self.sandboxes.get(id) {
            return Some(*known);
        }
        let group = self.of_container(host, pod, id)?;
        let process = host.first_process(&group).ok()??;
        self.sandboxes.insert(id.to_owned(), process);
        Some(process)
    }

    /// It was not there any more.
    pub(super) fn lost(&mut self, id: &str) {
        self.containers.remove(id);
        self.sandboxes.remove(id);
    }

    pub(super) fn lost_pod(&mut self, uid: &PodUid) {
        self.pods.remove(uid);
    }

    /// All but these are gone.
    pub(super) fn keep(&mut self, pods: &HashSet<&PodUid>, containers: &HashSet<&str>) {
        self.pods.retain(|uid, _| pods.contains(uid));
        self.containers.retain(|id, _| containers.contains(&**id));
        self.sandboxes.retain(|id, _| containers.contains(&**id));
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
    use testkit::host::LinuxHost;

    use super::*;

    #[test]
    fn the_process_of_a_sandbox_is_known_until_it_is_lost() {
        let root = tempfile::tempdir().unwrap();
        let group = root
            .path()
            .join("sys/fs/cgroup/kubepods/podu1/crio-s1.scope");
        std::fs::create_dir_all(&group).unwrap();
        let controllers = root.path().join("sys/fs/cgroup/cgroup.controllers");
        std::fs::write(controllers, "cpu memory\n").unwrap();
        let runs = |processes: &str| std::fs::write(group.join("cgroup.procs"), processes).unwrap();
        let host = LinuxHost::new(root.path().to_owned());
        let mut found = Found::default();
        let ask =
            |found: &mut Found| found.process_of_sandbox(&host, Path::new("/kubepods/podu1"), "s1");
        runs("");
        assert_eq!(ask(&mut found), None);
        runs("41\n");
        assert_eq!(ask(&mut found), Some(41));
        runs("42\n");
        assert_eq!(ask(&mut found), Some(41));
        found.lost("s1");
        assert_eq!(ask(&mut found), Some(42));
        runs("43\n");
        found.keep(&HashSet::new(), &HashSet::from(["s1"]));
        assert_eq!(ask(&mut found), Some(42));
        found.keep(&HashSet::new(), &HashSet::new());
        assert_eq!(ask(&mut found), Some(43));
    }

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
