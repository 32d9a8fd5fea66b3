//! Volumes that the cluster attaches to this machine before a pod can have them: what the
//! node says that it uses, and whether the cluster says that it is there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::{Node, PersistentVolume};
use k8s_openapi::api::storage::v1::{CSIDriver, VolumeAttachment};
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use tokio::sync::watch;
use types::PodUid;

/// A volume of a driver that is no part of the kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Driven {
    pub(crate) driver: String,
    pub(crate) handle: String,
}

/// Why a pod cannot have such a volume now. The words are upstream's.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum AttachError {
    /// Somebody else has to do something first.
    #[error("volume has not been added to the list of VolumesAttached in the node's volume status")]
    Awaited,
    #[error("volume {handle} has GET error for volume attachment {attachment}: {cause}")]
    NoAttachment {
        handle: String,
        attachment: String,
        cause: String,
    },
    #[error("{message}")]
    Failed { message: String },
    #[error(
        "kubernetes.io/csi: attacher.MountDevice failed to create newCsiDriverClient: driver name {driver} not found in the list of registered CSI drivers"
    )]
    NoDriver { driver: String },
}

impl Driven {
    pub(crate) fn of(volume: &PersistentVolume) -> Option<Self> {
        let csi = volume.spec.as_ref()?.csi.as_ref()?;
        Some(Self {
            driver: csi.driver.clone(),
            handle: csi.volume_handle.clone(),
        })
    }

    /// What the node's status calls it.
    pub(crate) fn name(&self) -> String {
        format!("kubernetes.io/csi/{}^{}", self.driver, self.handle)
    }

    /// The name of the object that tells of its way to a node.
    pub(crate) fn attachment(&self, node: &str) -> String {
        let mut hash = Sha256::new();
        for part in [&self.handle, &self.driver, node] {
            hash.update(part.as_bytes());
        }
        let hash = hash.finalize();
        let digits: Vec<String> = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("csi-{}", digits.concat())
    }

    /// Whether the node has said that it uses it, and the cluster that it is there.
    pub(crate) fn is_on(&self, node: &Node) -> bool {
        let name = self.name();
        let Some(status) = &node.status else {
            return false;
        };
        let mut used = status.volumes_in_use.iter().flatten();
        let mut attached = status.volumes_attached.iter().flatten();
        used.any(|used| *used == name) && attached.any(|attached| attached.name == name)
    }
}

/// Whether volumes of a driver are attached at all. One that nobody has described is taken
/// for one of those that are.
pub(crate) fn is_attached_by_cluster(driver: Option<&CSIDriver>) -> bool {
    driver.is_none_or(|driver| driver.spec.attach_required != Some(false))
}

/// What the object says of a volume that the node's status calls attached.
pub(crate) fn arrived(attachment: &VolumeAttachment) -> Result<(), AttachError> {
    let status = attachment.status.as_ref();
    if status.is_some_and(|status| status.attached) {
        return Ok(());
    }
    let error = status.and_then(|status| status.attach_error.as_ref());
    match error {
        Some(error) => Err(AttachError::Failed {
            message: error.message.clone().unwrap_or_default(),
        }),
        None => Err(AttachError::Awaited),
    }
}

/// What pods use of the cluster's volumes, for the node's status. Clones are the same.
#[derive(Clone, Debug)]
pub struct InUse {
    /// Held for one access.
    pods: Arc<Mutex<BTreeMap<PodUid, BTreeSet<String>>>>,
    /// `None` until everything is known that pods had before.
    told: watch::Sender<Option<Vec<String>>>,
}

impl InUse {
    pub fn new(told: watch::Sender<Option<Vec<String>>>) -> Self {
        Self {
            pods: Arc::default(),
            told,
        }
    }

    /// A pod uses these, and no others.
    pub(crate) fn set(&self, uid: &PodUid, names: BTreeSet<String>) {
        let mut pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        if names.is_empty() {
            pods.remove(uid);
        } else {
            pods.insert(uid.clone(), names);
        }
        let all = together(&pods);
        self.told.send_if_modified(|told| {
            // A node that has not looked at all its pods does not know what it uses.
            let changed = told.as_ref().is_some_and(|told| *told != all);
            if changed {
                *told = Some(all);
            }
            changed
        });
    }

    /// From now on what is known is everything.
    pub(crate) fn settle(&self) {
        let pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        let all = together(&pods);
        self.told.send_if_modified(|told| {
            let first = told.is_none();
            *told = Some(all);
            first
        });
    }
}

fn together(pods: &BTreeMap<PodUid, BTreeSet<String>>) -> Vec<String> {
    let all: BTreeSet<&String> = pods.values().flatten().collect();
    all.into_iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::from_json;

    fn driven() -> Driven {
        let volume = json!({"spec": {"csi": {"driver": "d.example", "volumeHandle": "h"}}});
        Driven::of(&from_json(volume)).unwrap()
    }

    #[test]
    fn it_goes_by_the_names_that_the_cluster_knows() {
        assert_eq!(driven().name(), "kubernetes.io/csi/d.example^h");
        // printf 'hd.examplen' | sha256sum
        assert_eq!(
            driven().attachment("n"),
            "csi-c9bcba1d279a5fa4fd20367ba087d6e8df4e8a5e822d1104a6acc787250602ba"
        );
        let local = from_json(json!({"spec": {"local": {"path": "/"}}}));
        assert_eq!(Driven::of(&local), None);
    }

    #[test]
    fn it_is_there_when_the_node_uses_it_and_the_cluster_says_so() {
        let name = driven().name();
        let cases = [
            (json!({}), false),
            (json!({"volumesInUse": [name]}), false),
            (
                json!({"volumesAttached": [{"name": name, "devicePath": ""}]}),
                false,
            ),
            (
                json!({"volumesInUse": [name], "volumesAttached": [{"name": "o", "devicePath": ""}]}),
                false,
            ),
            (
                json!({"volumesInUse": ["o", name], "volumesAttached": [{"name": name, "devicePath": ""}]}),
                true,
            ),
        ];
        for (status, wanted) in cases {
            let node = from_json(json!({"status": status}));
            assert_eq!(driven().is_on(&node), wanted, "{status}");
        }
        assert!(!driven().is_on(&Node::default()));
    }

    #[test]
    fn drivers_say_whether_their_volumes_are_attached() {
        let driver = |spec| from_json(json!({"metadata": {"name": "d"}, "spec": spec}));
        assert!(is_attached_by_cluster(None));
        assert!(is_attached_by_cluster(Some(&driver(json!({})))));
        let not = driver(json!({"attachRequired": false}));
        assert!(!is_attached_by_cluster(Some(&not)));
    }

    #[test]
    fn an_attachment_has_to_be_complete() {
        let cases = [
            (json!({"attached": true}), Ok(())),
            (json!({"attached": false}), Err(AttachError::Awaited)),
            (
                json!({"attached": false, "attachError": {"message": "no room"}}),
                Err(AttachError::Failed {
                    message: "no room".to_owned(),
                }),
            ),
        ];
        for (status, wanted) in cases {
            let attachment = from_json(json!({
                "metadata": {},
                "spec": {"attacher": "d", "nodeName": "n", "source": {}},
                "status": status,
            }));
            assert_eq!(arrived(&attachment), wanted, "{status}");
        }
    }

    #[test]
    fn what_is_used_is_told_once_all_is_known_and_when_it_changes() {
        let (told, seen) = watch::channel(None);
        let in_use = InUse::new(told);
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let told = || seen.borrow().clone();
        in_use.set(&PodUid::new("1"), names(&["b"]));
        assert_eq!(told(), None);
        in_use.settle();
        assert_eq!(told().unwrap(), ["b"]);
        in_use.set(&PodUid::new("2"), names(&["a", "b"]));
        assert_eq!(told().unwrap(), ["a", "b"]);
        in_use.set(&PodUid::new("2"), names(&[]));
        assert_eq!(told().unwrap(), ["b"]);
        in_use.set(&PodUid::new("1"), names(&[]));
        assert!(told().unwrap().is_empty());
    }
}
