//! What cgroups are called: by the same words for each driver.

use std::path::PathBuf;

use thiserror::Error;
use types::PodUid;

use crate::qos::QosClass;

/// Below it are all pods.
const PODS: &str = "kubepods";
const POD: &str = "pod";
const SLICE: &str = ".slice";

/// Who makes cgroups, and so how they are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupDriver {
    /// Directories, with any name.
    Cgroupfs,
    /// Slices: a slice has the names of all above it in its own.
    Systemd,
}

/// A cgroup by the words on the way to it, whatever the driver makes of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CgroupName(Vec<String>);

/// Why a setting names no cgroup.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "cgroupRoot {text:?} is no path of a cgroup: write / or words between slashes, such as /pods"
)]
pub struct NotAName {
    text: String,
}

impl CgroupName {
    /// Reads a path such as `/a/b`; the root is the empty name.
    pub fn parse(text: &str) -> Result<Self, NotAName> {
        let words = text.split('/').filter(|word| !word.is_empty());
        let words: Vec<String> = words.map(str::to_owned).collect();
        if words.iter().any(|word| word == "." || word == "..") {
            return Err(NotAName {
                text: text.to_owned(),
            });
        }
        Ok(Self(words))
    }

    #[must_use]
    pub fn child(&self, word: &str) -> Self {
        let mut words = self.0.clone();
        words.push(word.to_owned());
        Self(words)
    }

    /// Where it is below the root of a hierarchy.
    pub fn path(&self, driver: CgroupDriver) -> PathBuf {
        let mut path = PathBuf::from("/");
        let mut prefix = String::new();
        for word in &self.0 {
            match driver {
                CgroupDriver::Cgroupfs => path.push(word),
                CgroupDriver::Systemd => {
                    prefix.push_str(&escaped(word));
                    path.push(format!("{prefix}{SLICE}"));
                    prefix.push('-');
                }
            }
        }
        path
    }
}

/// A dash parts the words of a slice, so it cannot be in one.
fn escaped(word: &str) -> String {
    word.replace('-', "_")
}

/// Where the cgroups of a node's pods are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    driver: CgroupDriver,
    /// Where all pods are.
    pods: CgroupName,
}

impl Layout {
    /// `root` is the setting `cgroupRoot`.
    pub fn new(driver: CgroupDriver, root: &CgroupName) -> Self {
        Self {
            driver,
            pods: root.child(PODS),
        }
    }

    pub fn driver(&self) -> CgroupDriver {
        self.driver
    }

    pub fn pods(&self) -> &CgroupName {
        &self.pods
    }

    /// Guaranteed pods are not below a group of their class.
    pub fn class(&self, class: QosClass) -> CgroupName {
        match class {
            QosClass::Guaranteed => self.pods.clone(),
            QosClass::Burstable => self.pods.child("burstable"),
            QosClass::BestEffort => self.pods.child("besteffort"),
        }
    }

    pub fn pod(&self, class: QosClass, uid: &PodUid) -> CgroupName {
        self.class(class).child(&format!("{POD}{uid}"))
    }

    pub fn path(&self, name: &CgroupName) -> PathBuf {
        name.path(self.driver)
    }

    /// The pod whose group is called `directory`, if it is one of a pod.
    pub fn pod_of(&self, directory: &str) -> Option<PodUid> {
        let word = match self.driver {
            CgroupDriver::Cgroupfs => directory.to_owned(),
            CgroupDriver::Systemd => {
                let last = directory.strip_suffix(SLICE)?.rsplit('-').next()?;
                last.replace('_', "-")
            }
        };
        let uid = word.strip_prefix(POD)?;
        // `kubepods` itself, were it nested, and the like.
        let is_uid = !uid.is_empty() && !uid.contains(POD);
        is_uid.then(|| PodUid::new(uid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "12ab-34cd";

    #[test]
    fn pods_are_below_their_class_in_the_words_of_the_driver() {
        use CgroupDriver::{Cgroupfs, Systemd};
        use QosClass::{BestEffort, Burstable, Guaranteed};
        for (driver, root, class, path) in [
            (Cgroupfs, "/", Guaranteed, "/kubepods/pod12ab-34cd"),
            (Cgroupfs, "", Burstable, "/kubepods/burstable/pod12ab-34cd"),
            (
                Cgroupfs,
                "/",
                BestEffort,
                "/kubepods/besteffort/pod12ab-34cd",
            ),
            (
                Cgroupfs,
                "/a-b/c",
                Burstable,
                "/a-b/c/kubepods/burstable/pod12ab-34cd",
            ),
            (
                Systemd,
                "/",
                Guaranteed,
                "/kubepods.slice/kubepods-pod12ab_34cd.slice",
            ),
            (
                Systemd,
                "/",
                Burstable,
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod12ab_34cd.slice",
            ),
            (
                Systemd,
                "/a-b",
                Guaranteed,
                "/a_b.slice/a_b-kubepods.slice/a_b-kubepods-pod12ab_34cd.slice",
            ),
        ] {
            let layout = Layout::new(driver, &CgroupName::parse(root).unwrap());
            let name = layout.pod(class, &PodUid::new(UID));
            assert_eq!(layout.path(&name), PathBuf::from(path));
            let directory = path.rsplit('/').next().unwrap();
            assert_eq!(
                layout.pod_of(directory),
                Some(PodUid::new(UID)),
                "{directory}"
            );
        }
    }

    #[test]
    fn the_root_is_the_root_for_each_driver() {
        for driver in [CgroupDriver::Cgroupfs, CgroupDriver::Systemd] {
            assert_eq!(CgroupName::default().path(driver), PathBuf::from("/"));
        }
    }

    #[test]
    fn what_is_no_pods_group_is_told_from_one() {
        let root = CgroupName::default();
        let cgroupfs = Layout::new(CgroupDriver::Cgroupfs, &root);
        for directory in ["burstable", "pod", "podpod1", "kubepods", "cri-1.scope"] {
            assert_eq!(cgroupfs.pod_of(directory), None, "{directory}");
        }
        let systemd = Layout::new(CgroupDriver::Systemd, &root);
        for directory in [
            "kubepods-burstable.slice",
            "kubepods-pod1",
            "kubepods.slice",
        ] {
            assert_eq!(systemd.pod_of(directory), None, "{directory}");
        }
    }

    #[test]
    fn a_root_that_leads_elsewhere_is_refused() {
        let error = CgroupName::parse("/a/../b").unwrap_err().to_string();
        assert!(error.contains("cgroupRoot \"/a/../b\""), "{error}");
    }
}
