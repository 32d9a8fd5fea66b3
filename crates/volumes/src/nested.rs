//! Where other volumes are mounted inside one whose files nobody can write: the
//! directories for them are made with it.

use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::Pod;
use thiserror::Error;

use crate::pod::containers;

/// A container wants a volume where it must not be.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("invalid container mount point {path}")]
pub struct BadMountPoint {
    path: String,
}

/// The directories inside a volume at which other volumes are mounted, but not
/// those inside of these.
pub(crate) fn mount_points(pod: &Pod, volume: &str) -> Result<Vec<PathBuf>, BadMountPoint> {
    let mut found = Vec::new();
    for container in containers(pod) {
        let mut all = Vec::new();
        for mount in container.mounts {
            all.push((cleaned(&mount.mount_path)?, mount.name.as_str()));
        }
        all.sort();
        for (own, _) in all.iter().filter(|(_, name)| *name == volume) {
            let mut outer: Vec<&PathBuf> = Vec::new();
            for (path, _) in &all {
                let Ok(inside) = path.strip_prefix(own) else {
                    continue;
                };
                if inside.as_os_str().is_empty()
                    || outer.iter().any(|outer| path.starts_with(outer))
                {
                    continue;
                }
                outer.push(path);
                found.push(inside.to_owned());
            }
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// Without detours. One that begins with `..` would lead out of the volume.
fn cleaned(path: &str) -> Result<PathBuf, BadMountPoint> {
    let mut cleaned = PathBuf::new();
    for component in Path::new(path).components() {
        match component {
            Component::ParentDir => {
                let bad = || BadMountPoint {
                    path: path.to_owned(),
                };
                // Above the root is the root.
                let up = cleaned.has_root() || cleaned.components().next().is_some();
                up.then(|| cleaned.pop()).ok_or_else(bad)?;
            }
            Component::CurDir => {}
            component => cleaned.push(component),
        }
    }
    Ok(cleaned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::from_json;
    use serde_json::json;

    #[test]
    fn what_is_mounted_inside_a_volume_gets_its_directory_there() {
        type Case = (
            &'static [(&'static str, &'static str)],
            Result<&'static [&'static str], ()>,
        );
        let cases: [Case; 8] = [
            (&[("v", "/dir")], Ok(&[])),
            (&[("v", "/dir"), ("o", "/other")], Ok(&[])),
            (&[("v", "/dir"), ("o", "/dir/nested")], Ok(&["nested"])),
            (
                &[
                    ("v", "/dir"),
                    ("o", "/dir/nested/deep"),
                    ("p", "/dir/nested"),
                ],
                Ok(&["nested"]),
            ),
            (
                &[
                    ("v", "/dir"),
                    ("o", "/dir/nested"),
                    ("p", "/dir/nested-vol"),
                    ("q", "/dir/nested/double"),
                    ("r", "/dir/nested2"),
                ],
                Ok(&["nested", "nested-vol", "nested2"]),
            ),
            (&[("v", "/dir/"), ("o", "/dir/../dir/./x")], Ok(&["x"])),
            (&[("v", "/"), ("o", "/a/b")], Ok(&["a/b"])),
            (&[("v", "../dir"), ("o", "../dir/x")], Err(())),
        ];
        for (mounts, wanted) in cases {
            let mounts: Vec<_> = mounts
                .iter()
                .map(|(name, path)| json!({"name": name, "mountPath": path}))
                .collect();
            let pod: Pod =
                from_json(json!({"spec": {"containers": [{"name": "c", "volumeMounts": mounts}]}}));
            let found = mount_points(&pod, "v").map_err(drop);
            let wanted = wanted.map(|paths| paths.iter().map(PathBuf::from).collect::<Vec<_>>());
            assert_eq!(found, wanted, "{mounts:?}");
        }
    }
}
