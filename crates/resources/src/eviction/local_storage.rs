//! What pods may have on the node's disk, and which of them have more: pure functions.
//!
//! Upstream's order: a directory that is larger than it may be, then all of the pod, then
//! a container. The first that is found is told.

use std::fmt;

use k8s_openapi::api::core::v1::{Pod, PodSpec, Volume};
use types::disk_figures::{DiskFigures, PodDiskFigures};
use types::quantity::Format;
use types::volume_figures::VolumeFigures;
use types::{PodUid, Quantity};

use crate::qos;
use crate::requests::{self, EPHEMERAL_STORAGE, Overhead};

/// What a pod has too much in. Its text is upstream's, which ends in a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Excess {
    EmptyDir { volume: String, limit: Quantity },
    Pod { limit: Quantity },
    Container { name: String, limit: Quantity },
}

impl Excess {
    /// What upstream counts it as.
    pub fn signal(&self) -> &'static str {
        match self {
            Self::EmptyDir { .. } => "emptydirfs.limit",
            Self::Pod { .. } => "ephemeralpodfs.limit",
            Self::Container { .. } => "ephemeralcontainerfs.limit",
        }
    }
}

impl fmt::Display for Excess {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyDir { volume, limit } => write!(
                text,
                "Usage of EmptyDir volume \"{volume}\" exceeds the limit \"{limit}\". "
            ),
            Self::Pod { limit } => write!(
                text,
                "Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "
            ),
            Self::Container { name, limit } => write!(
                text,
                "Container {name} exceeded its local ephemeral storage limit \"{limit}\". "
            ),
        }
    }
}

/// Whether a pod can ever have too much. The cluster cannot do without critical pods,
/// whatever they write.
pub fn is_limited(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let mut volumes = spec.volumes.iter().flatten();
    let init_containers = spec.init_containers.iter().flatten();
    let mut containers = spec.containers.iter().chain(init_containers);
    let limited = volumes.find_map(size_limit).is_some()
        || containers.any(|container| {
            let resources = container.resources.as_ref();
            let limits = resources.and_then(|resources| resources.limits.as_ref());
            limits.is_some_and(|limits| limits.contains_key(EPHEMERAL_STORAGE))
        });
    limited && !qos::is_critical(pod)
}

/// What a pod has too much in, if anything. Nothing is known of one of which nothing runs.
pub fn excess(
    (uid, pod): (&PodUid, &Pod),
    volumes: &[VolumeFigures],
    disks: &DiskFigures,
) -> Option<Excess> {
    let spec = pod.spec.as_ref().filter(|_| is_limited(pod))?;
    let own = disks.pods.get(uid)?;
    of_empty_dirs(spec, volumes)
        .or_else(|| of_pod(spec, volumes, own))
        .or_else(|| of_containers(spec, own, disks.images_apart))
}

/// In memory or on a disk.
fn size_limit(volume: &Volume) -> Option<Quantity> {
    let limit = volume.empty_dir.as_ref()?.size_limit.as_ref()?;
    let limit: Quantity = limit.0.parse().ok()?;
    (limit.sign() > 0).then_some(limit)
}

fn of_empty_dirs(spec: &PodSpec, figures: &[VolumeFigures]) -> Option<Excess> {
    let mut volumes = spec.volumes.iter().flatten();
    volumes.find_map(|volume| {
        let limit = size_limit(volume)?;
        let counted = figures.iter().find(|counted| counted.name == volume.name)?;
        (bytes(counted.used) > limit).then(|| Excess::EmptyDir {
            volume: volume.name.clone(),
            limit,
        })
    })
}

fn of_pod(spec: &PodSpec, volumes: &[VolumeFigures], own: &PodDiskFigures) -> Option<Excess> {
    let limit = requests::pod_limits(spec, Overhead::Included).remove(EPHEMERAL_STORAGE)?;
    let containers = own.containers.values().map(|one| one.logs + one.layer);
    let local = volumes.iter().filter(|volume| volume.on_local_disk);
    let used = containers.chain(local.map(|volume| volume.used));
    let used = used.fold(own.files, u64::saturating_add);
    (bytes(used) > limit).then_some(Excess::Pod { limit })
}

/// What is written on a disk that is the images' own does not count.
fn of_containers(
    spec: &PodSpec,
    own: &PodDiskFigures,
    images_apart: Option<bool>,
) -> Option<Excess> {
    let with_layers = !images_apart?;
    spec.containers.iter().find_map(|container| {
        let limit = requests::limits(container.resources.as_ref()).remove(EPHEMERAL_STORAGE)?;
        let figures = own.containers.get(&container.name)?;
        let layer = if with_layers { figures.layer } else { 0 };
        let exceeds = !limit.is_zero() && bytes(figures.logs.saturating_add(layer)) > limit;
        exceeds.then(|| Excess::Container {
            name: container.name.clone(),
            limit,
        })
    })
}

fn bytes(count: u64) -> Quantity {
    Quantity::new(i64::try_from(count).unwrap_or(i64::MAX), Format::BinarySi)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use serde_json::{Value, json};
    use types::disk_figures::ContainerDiskFigures;

    use super::*;

    const KI: u64 = 1024;

    fn pod(spec: &Value) -> Pod {
        let pod = json!({ "metadata": { "name": "p" }, "spec": spec });
        serde_json::from_value(pod).unwrap()
    }

    fn container(name: &str, limit: &Value) -> Value {
        json!({ "name": name, "resources": { "limits": limit } })
    }

    fn storage(limit: &str) -> Value {
        json!({ "ephemeral-storage": limit })
    }

    fn empty_dir(name: &str, source: &Value) -> Value {
        json!({ "name": name, "emptyDir": source })
    }

    fn figures(volumes: &[(&str, bool, u64)]) -> Vec<VolumeFigures> {
        let figures = volumes
            .iter()
            .map(|(name, on_local_disk, used)| VolumeFigures {
                name: (*name).to_owned(),
                claim: None,
                on_local_disk: *on_local_disk,
                counted_at: SystemTime::UNIX_EPOCH,
                capacity: 0,
                available: 0,
                used: *used,
                inodes: 0,
                inodes_free: 0,
                inodes_used: 0,
            });
        figures.collect()
    }

    /// What each container has of logs and in its layer, and what other files there are.
    fn disks(apart: Option<bool>, containers: &[(&str, u64, u64)], files: u64) -> DiskFigures {
        let containers = containers
            .iter()
            .map(|&(name, logs, layer)| (name.to_owned(), ContainerDiskFigures { logs, layer }))
            .collect();
        let figures = PodDiskFigures { containers, files };
        DiskFigures {
            images_apart: apart,
            pods: [(PodUid::new("u"), figures)].into(),
        }
    }

    fn told(spec: &Value, volumes: &[(&str, bool, u64)], disks: &DiskFigures) -> String {
        let (uid, pod) = (PodUid::new("u"), pod(spec));
        let excess = excess((&uid, &pod), &figures(volumes), disks);
        excess.map_or(String::new(), |excess| {
            format!("{}: {excess}", excess.signal())
        })
    }

    #[test]
    fn a_directory_may_be_as_large_as_it_says_in_memory_too() {
        let spec = json!({
            "containers": [container("c", &json!({}))],
            "volumes": [
                empty_dir("free", &json!({})),
                empty_dir("none", &json!({ "sizeLimit": "0" })),
                empty_dir("disk", &json!({ "sizeLimit": "64Ki" })),
                empty_dir("memory", &json!({ "medium": "Memory", "sizeLimit": "1k" })),
                { "name": "other", "configMap": {} },
            ],
        });
        let here = disks(Some(false), &[("c", 0, 0)], 0);
        let much = 1 << 40;
        let disk =
            "emptydirfs.limit: Usage of EmptyDir volume \"disk\" exceeds the limit \"64Ki\". ";
        let memory =
            "emptydirfs.limit: Usage of EmptyDir volume \"memory\" exceeds the limit \"1k\". ";
        for (volumes, wanted) in [
            (vec![], ""),
            (vec![("free", true, much), ("none", true, much)], ""),
            (vec![("other", true, much)], ""),
            (vec![("disk", true, 64 * KI)], ""),
            (vec![("disk", true, 64 * KI + 1)], disk),
            (vec![("memory", false, 1000)], ""),
            (vec![("memory", false, 1001)], memory),
            // The first that the pod names, not the first that was counted.
            (vec![("memory", false, much), ("disk", true, much)], disk),
        ] {
            assert_eq!(told(&spec, &volumes, &here), wanted, "{volumes:?}");
        }
        // Of one of which nothing runs nothing is known.
        assert_eq!(
            told(&spec, &[("disk", true, much)], &DiskFigures::default()),
            ""
        );
    }

    #[test]
    fn all_that_a_pod_has_on_the_disk_is_held_against_the_sum_of_its_limits() {
        let spec = json!({
            "containers": [
                container("a", &storage("64Ki")),
                container("b", &storage("36Ki")),
                // One without a limit adds none, and what it writes counts.
                container("c", &json!({ "cpu": "1" })),
            ],
        });
        let pod = "ephemeralpodfs.limit: Pod ephemeral local storage usage exceeds the total \
                   limit of containers 100Ki. ";
        for (volumes, containers, files, wanted) in [
            (vec![], vec![("c", 50 * KI, 50 * KI)], 0, ""),
            (vec![], vec![("c", 50 * KI, 50 * KI + 1)], 0, pod),
            (vec![], vec![("c", 50 * KI, 50 * KI)], 1, pod),
            (vec![("v", true, 100 * KI)], vec![("c", 0, 0)], 0, ""),
            (vec![("v", true, 100 * KI)], vec![("c", 1, 0)], 0, pod),
            (vec![("v", true, 1 << 40)], vec![], 0, pod),
            // In memory, or on another machine's disk.
            (vec![("v", false, 1 << 40)], vec![("c", 1, 0)], 0, ""),
            // All together come before one alone.
            (vec![], vec![("a", 101 * KI, 0)], 0, pod),
        ] {
            // Wherever images are.
            for apart in [None, Some(false), Some(true)] {
                let here = disks(apart, &containers, files);
                let told = told(&spec, &volumes, &here);
                assert_eq!(told, wanted, "{volumes:?} {here:?}");
            }
        }
        // An init container has its time for itself; overhead widens the limit.
        let spec = json!({
            "initContainers": [container("i", &storage("2Mi"))],
            "containers": [container("a", &storage("1Mi"))],
            "overhead": storage("1Mi"),
        });
        for (used, wanted) in [(3 << 20, ""), ((3 << 20) + 1, "3Mi. ")] {
            let told = told(&spec, &[], &disks(None, &[("x", used, 0)], 0));
            assert_eq!(told.is_empty(), wanted.is_empty(), "{told}");
            assert!(told.ends_with(wanted), "{told}");
        }
    }

    #[test]
    fn a_container_may_write_as_much_as_it_says_where_the_node_has_its_own_disk() {
        let spec = json!({
            "initContainers": [container("i", &storage("1Ki"))],
            "containers": [
                container("large", &storage("1Mi")),
                container("a", &storage("64Ki")),
                container("b", &storage("1Ki")),
                container("none", &storage("0")),
            ],
        });
        let of = |name: &str, limit: &str| {
            format!(
                "ephemeralcontainerfs.limit: Container {name} exceeded its local ephemeral \
                 storage limit \"{limit}\". "
            )
        };
        let (a, b) = (of("a", "64Ki"), of("b", "1Ki"));
        for (apart, containers, wanted) in [
            (Some(false), vec![("a", 32 * KI, 32 * KI)], ""),
            (Some(false), vec![("a", 32 * KI, 32 * KI + 1)], &*a),
            (Some(false), vec![("a", 0, 65 * KI)], &*a),
            (Some(true), vec![("a", 64 * KI, 1 << 19)], ""),
            (Some(true), vec![("a", 65 * KI, 0)], &*a),
            // Nobody knows where its layer is.
            (None, vec![("a", 65 * KI, 0)], ""),
            (Some(false), vec![("b", 2 * KI, 0), ("a", 65 * KI, 0)], &*a),
            (Some(false), vec![("b", 2 * KI, 0)], &*b),
            // It has a limit for the sum only.
            (Some(false), vec![("i", 2 * KI, 0)], ""),
            (Some(false), vec![("none", 2 * KI, 0)], ""),
            (Some(false), vec![("stranger", 2 * KI, 0)], ""),
        ] {
            let told = told(&spec, &[], &disks(apart, &containers, 0));
            assert_eq!(told, wanted, "{apart:?} {containers:?}");
        }
    }

    #[test]
    fn pods_without_limits_and_those_that_the_cluster_cannot_do_without_are_left_alone() {
        let limited = json!({
            "containers": [container("c", &storage("1Ki"))],
            "volumes": [empty_dir("v", &json!({ "sizeLimit": "1Ki" }))],
        });
        let here = disks(Some(false), &[("c", 1 << 40, 0)], 0);
        let (uid, volumes) = (PodUid::new("u"), figures(&[("v", true, 1 << 40)]));
        let evicted = |change: fn(&mut Pod)| {
            let mut pod = pod(&limited);
            change(&mut pod);
            let excess = excess((&uid, &pod), &volumes, &here).is_some();
            assert_eq!(excess, is_limited(&pod), "{pod:?}");
            excess
        };
        assert!(evicted(|_| ()));
        assert!(evicted(|pod| spec(pod).priority = Some(1_999_999_999)));
        assert!(evicted(|pod| spec(pod).volumes = None));
        assert!(evicted(|pod| spec(pod).containers[0].resources = None));
        assert!(!evicted(|pod| spec(pod).priority = Some(2_000_000_000)));
        for (note, value) in [
            ("kubernetes.io/config.source", "file"),
            ("kubernetes.io/config.mirror", "m"),
        ] {
            let mut pod = pod(&limited);
            let notes = pod.metadata.annotations.get_or_insert_default();
            notes.insert(note.to_owned(), value.to_owned());
            assert!(!is_limited(&pod) && excess((&uid, &pod), &volumes, &here).is_none());
        }
        assert!(!evicted(|pod| {
            spec(pod).volumes = None;
            spec(pod).containers[0].resources = None;
        }));
    }

    fn spec(pod: &mut Pod) -> &mut PodSpec {
        pod.spec.as_mut().unwrap()
    }
}
