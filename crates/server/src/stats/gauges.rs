//! What is on disks, for `/metrics`: claims and logs.
//!
//! Nobody is kept waiting for a disk: what was counted last is shown, and the question is
//! the reason to count again.

use std::collections::BTreeMap;
use std::sync::Arc;

use types::figures::{Family, Page};
use types::observed::{ContainerState, ObservedPod};
use types::volume_figures::{PodVolumeFigures, VolumeFigures};

use super::Stats;
use super::disks::DiskLook;

const OF_CLAIM: &[&str] = &["namespace", "persistentvolumeclaim"];

/// A figure of a claim's volume.
type OfVolume = fn(&VolumeFigures) -> u64;

const CLAIMS: [(Family, OfVolume); 6] = [
    (
        Family::gauge(
            "kubelet_volume_stats_capacity_bytes",
            "[ALPHA] Bytes that a claim's volume has",
        ),
        |volume| volume.capacity,
    ),
    (
        Family::gauge(
            "kubelet_volume_stats_available_bytes",
            "[ALPHA] Bytes that are free in a claim's volume",
        ),
        |volume| volume.available,
    ),
    (
        Family::gauge(
            "kubelet_volume_stats_used_bytes",
            "[ALPHA] Bytes that are used in a claim's volume",
        ),
        |volume| volume.used,
    ),
    (
        Family::gauge(
            "kubelet_volume_stats_inodes",
            "[ALPHA] Inodes that a claim's volume has",
        ),
        |volume| volume.inodes,
    ),
    (
        Family::gauge(
            "kubelet_volume_stats_inodes_free",
            "[ALPHA] Inodes that are free in a claim's volume",
        ),
        |volume| volume.inodes_free,
    ),
    (
        Family::gauge(
            "kubelet_volume_stats_inodes_used",
            "[ALPHA] Inodes that are used in a claim's volume",
        ),
        |volume| volume.inodes_used,
    ),
];

const LOGS: Family = Family::gauge(
    "kubelet_container_log_filesystem_used_bytes",
    "[ALPHA] Bytes that the logs of a container take up",
)
.by(&["container", "namespace", "pod", "uid"]);

impl Stats {
    pub(crate) fn show_disks(&self, page: &mut Page) {
        let sources = &self.sources;
        sources.asked.send_replace(());
        let pods = (sources.pods)();
        let running: Vec<_> = pods.iter().filter(|pod| pod.is_running()).collect();
        claims(&running, &sources.volumes.borrow(), page);
        logs(&running, &self.disks.borrow(), page);
    }
}

/// Several pods may have a claim: it is shown once.
fn claims(pods: &[&Arc<ObservedPod>], volumes: &PodVolumeFigures, page: &mut Page) {
    let mut claims: BTreeMap<(&str, &str), &VolumeFigures> = BTreeMap::new();
    for pod in pods {
        let counted = volumes.get(&pod.pod.uid);
        for volume in counted.iter().flat_map(|counted| counted.iter()) {
            if let Some(claim) = &volume.claim {
                let key = (pod.pod.name.namespace.as_str(), claim.as_str());
                claims.entry(key).or_insert(volume);
            }
        }
    }
    for (family, figure) in CLAIMS {
        page.family(&family.by(OF_CLAIM), |family| {
            for ((namespace, claim), volume) in &claims {
                family.count(&[namespace, claim], figure(volume));
            }
        });
    }
}

fn logs(pods: &[&Arc<ObservedPod>], disks: &DiskLook, page: &mut Page) {
    page.family(&LOGS, |family| {
        for pod in pods {
            let name = &pod.pod.name;
            let containers = pod.containers.iter();
            let running = containers.filter(|container| container.state == ContainerState::Running);
            for container in running {
                if let Some(usage) = disks.logs.get(&container.id) {
                    let labels = [
                        container.name.as_str(),
                        &name.namespace,
                        &name.name,
                        pod.pod.uid.as_str(),
                    ];
                    family.count(&labels, usage.bytes);
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use seams::storage::Usage;
    use types::observed::{ObservedContainer, ObservedSandbox};
    use types::{PodName, PodRef, PodUid};

    use super::*;

    fn pod(uid: &str) -> Arc<ObservedPod> {
        let container = |id: &str, state| ObservedContainer {
            id: format!("{uid}-{id}"),
            name: id.to_owned(),
            state,
            ..ObservedContainer::default()
        };
        Arc::new(ObservedPod {
            pod: PodRef {
                name: PodName {
                    namespace: "shop".to_owned(),
                    name: format!("web-{uid}"),
                },
                uid: PodUid::new(uid),
            },
            sandboxes: vec![ObservedSandbox {
                ready: true,
                ..ObservedSandbox::default()
            }],
            containers: vec![
                container("on", ContainerState::Running),
                container("over", ContainerState::Exited),
            ],
            ..ObservedPod::default()
        })
    }

    fn volume(claim: Option<&str>, used: u64) -> VolumeFigures {
        VolumeFigures {
            name: "v".to_owned(),
            claim: claim.map(str::to_owned),
            on_local_disk: false,
            counted_at: SystemTime::UNIX_EPOCH,
            capacity: 100,
            available: 90,
            used,
            inodes: 9,
            inodes_free: 8,
            inodes_used: 1,
        }
    }

    #[test]
    fn a_claim_is_shown_once_and_what_is_no_claim_is_not() {
        let pods = ["a", "b"].map(pod);
        let volumes = PodVolumeFigures::from([
            (
                PodUid::new("a"),
                Arc::new(vec![volume(None, 1), volume(Some("data"), 2)]),
            ),
            (PodUid::new("b"), Arc::new(vec![volume(Some("data"), 3)])),
            (PodUid::new("gone"), Arc::new(vec![volume(Some("old"), 4)])),
        ]);
        let mut page = Page::default();
        claims(&pods.each_ref(), &volumes, &mut page);
        let text = page.finish();
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let sample = |name: &str, value: u64| {
            format!(
                "kubelet_volume_stats_{name}{{namespace=\"shop\",persistentvolumeclaim=\"data\"}} {value}"
            )
        };
        assert_eq!(
            samples,
            [
                sample("available_bytes", 90),
                sample("capacity_bytes", 100),
                sample("inodes", 9),
                sample("inodes_free", 8),
                sample("inodes_used", 1),
                sample("used_bytes", 2),
            ]
        );
    }

    #[test]
    fn logs_are_shown_of_containers_that_run() {
        let usage = |bytes| Usage { bytes, inodes: 1 };
        let mut disks = DiskLook::default();
        disks.logs.insert("a-on".to_owned(), usage(7));
        disks.logs.insert("a-over".to_owned(), usage(8));
        let mut page = Page::default();
        logs(&[&pod("a")], &disks, &mut page);
        let text = page.finish();
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let wanted = "kubelet_container_log_filesystem_used_bytes{container=\"on\",namespace=\"shop\",pod=\"web-a\",uid=\"a\"} 7";
        assert_eq!(samples, [wanted]);
    }
}
