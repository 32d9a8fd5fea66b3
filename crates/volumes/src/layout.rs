//! Where the volumes of pods are below the root directory: upstream's layout, so
//! that either kubelet finds what the other left.

use std::path::{Path, PathBuf};

use types::PodUid;

/// The paths below a kubelet's root directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    root: PathBuf,
}

/// The marker of a volume that was set up to its end.
const READY: &str = "ready";

/// The marker of a volume that is being given to its pod's group.
const BEGUN: &str = "begun";

/// The emptyDir below a volume of another kind.
const WRAPPED: &str = "wrapped_";

impl Layout {
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// `--root-dir`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn pods(&self) -> PathBuf {
        self.root.join("pods")
    }

    pub fn pod(&self, uid: &PodUid) -> PathBuf {
        self.pods().join(uid.as_str())
    }

    pub fn volumes(&self, uid: &PodUid) -> PathBuf {
        self.pod(uid).join("volumes")
    }

    /// What belongs to volumes but is not for containers.
    pub fn plugins(&self, uid: &PodUid) -> PathBuf {
        self.pod(uid).join("plugins")
    }

    /// Parts of volumes, mounted for containers one by one.
    pub fn subpaths(&self, uid: &PodUid) -> PathBuf {
        self.pod(uid).join("volume-subpaths")
    }

    /// The part of a volume for the mount of this number of a container.
    pub fn subpath(&self, uid: &PodUid, volume: &str, container: &str, mount: usize) -> PathBuf {
        let volume = self.subpaths(uid).join(volume);
        volume.join(container).join(mount.to_string())
    }

    pub fn volume(&self, uid: &PodUid, plugin: Plugin, name: &str) -> PathBuf {
        self.volumes(uid).join(plugin.directory()).join(name)
    }

    /// There when the volume was set up to its end. Those that are not emptyDirs
    /// stand on one.
    pub(crate) fn ready(&self, uid: &PodUid, plugin: Plugin, name: &str) -> PathBuf {
        let name = match plugin {
            Plugin::EmptyDir => name.to_owned(),
            _ => format!("{WRAPPED}{name}"),
        };
        let of_empty_dirs = self.plugins(uid).join(Plugin::EmptyDir.directory());
        of_empty_dirs.join(name).join(READY)
    }

    /// There while the volume is given to the pod's group, which a crash may cut short.
    /// Beside upstream's own markers: either kubelet removes it with the pod.
    pub(crate) fn begun(&self, uid: &PodUid, plugin: Plugin, name: &str) -> PathBuf {
        let of_plugin = self.plugins(uid).join(plugin.directory());
        of_plugin.join(name).join(BEGUN)
    }
}

/// The kinds that have a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plugin {
    ConfigMap,
    DownwardApi,
    EmptyDir,
    /// Its directory may be a mount of something that outlives the pod.
    LocalVolume,
    Projected,
    Secret,
}

impl Plugin {
    pub const ALL: [Self; 6] = [
        Self::ConfigMap,
        Self::DownwardApi,
        Self::EmptyDir,
        Self::LocalVolume,
        Self::Projected,
        Self::Secret,
    ];

    /// As upstream registers it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ConfigMap => "kubernetes.io/configmap",
            Self::DownwardApi => "kubernetes.io/downward-api",
            Self::EmptyDir => "kubernetes.io/empty-dir",
            Self::LocalVolume => "kubernetes.io/local-volume",
            Self::Projected => "kubernetes.io/projected",
            Self::Secret => "kubernetes.io/secret",
        }
    }

    pub fn directory(self) -> String {
        escaped(self.name())
    }

    /// Whose directory has this name.
    pub fn of_directory(directory: &str) -> Option<Self> {
        let is_its = |plugin: &Self| plugin.directory() == directory;
        Self::ALL.into_iter().find(is_its)
    }
}

/// The name of a plugin as the name of a directory.
pub fn escaped(plugin: &str) -> String {
    plugin.replace('/', "~")
}

/// The other way.
pub fn unescaped(directory: &str) -> String {
    directory.replace('~', "/")
}

/// Whether a name is one path element that stays where it is put. Volume names are
/// DNS labels; those found on a disk, or in a manifest that nobody checked, may be
/// anything.
pub(crate) fn is_plain(name: &str) -> bool {
    let mut elements = Path::new(name).components();
    let plain =
        matches!(elements.next(), Some(std::path::Component::Normal(element)) if element == name);
    plain && elements.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_where_upstream_has_them() {
        let layout = Layout::new("/var/lib/kubelet");
        let uid = PodUid::new("1-2");
        let cases = [
            (layout.pods(), "pods"),
            (layout.volumes(&uid), "pods/1-2/volumes"),
            (
                layout.volume(&uid, Plugin::EmptyDir, "cache"),
                "pods/1-2/volumes/kubernetes.io~empty-dir/cache",
            ),
            (
                layout.volume(&uid, Plugin::LocalVolume, "pv"),
                "pods/1-2/volumes/kubernetes.io~local-volume/pv",
            ),
            (
                layout.volume(&uid, Plugin::ConfigMap, "c"),
                "pods/1-2/volumes/kubernetes.io~configmap/c",
            ),
            (
                layout.ready(&uid, Plugin::EmptyDir, "cache"),
                "pods/1-2/plugins/kubernetes.io~empty-dir/cache/ready",
            ),
            (
                layout.ready(&uid, Plugin::Projected, "kube-api-access-x"),
                "pods/1-2/plugins/kubernetes.io~empty-dir/wrapped_kube-api-access-x/ready",
            ),
            (
                layout.begun(&uid, Plugin::LocalVolume, "pv"),
                "pods/1-2/plugins/kubernetes.io~local-volume/pv/begun",
            ),
            (
                layout.subpath(&uid, "v", "main", 3),
                "pods/1-2/volume-subpaths/v/main/3",
            ),
        ];
        for (path, wanted) in cases {
            assert_eq!(path, Path::new("/var/lib/kubelet").join(wanted));
        }
    }

    #[test]
    fn directories_tell_whose_they_are() {
        for plugin in Plugin::ALL {
            assert_eq!(Plugin::of_directory(&plugin.directory()), Some(plugin));
            assert_eq!(unescaped(&plugin.directory()), plugin.name());
        }
        assert_eq!(Plugin::of_directory("kubernetes.io~csi"), None);
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_not_plain() {
        for (name, plain) in [
            ("cache", true),
            ("..data", true),
            ("", false),
            (".", false),
            ("..", false),
            ("a/b", false),
            ("/a", false),
            ("a/", false),
        ] {
            assert_eq!(is_plain(name), plain, "{name}");
        }
    }
}
