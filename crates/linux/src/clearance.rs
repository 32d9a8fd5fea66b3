//! Removes a directory for good, though parts of the machine may be mounted below it:
//! those are let go of, and nothing of them is touched.

use std::path::{Path, PathBuf};

use seams::host::HostError;

use crate::{mounts, trees};

/// Removes a directory and all in it, once nothing is mounted there any more. What cannot be
/// unmounted stays, and all around it: behind it is somebody's.
pub fn clear_away(directory: &Path) -> Result<(), HostError> {
    let mut left = usize::MAX;
    loop {
        let found: Vec<PathBuf> = mounts::below(directory)?
            .into_iter()
            .map(|mount| mount.path)
            .collect();
        let Some(first) = found.first() else {
            break;
        };
        if found.len() >= left {
            return Err(mounts::in_the_way(first));
        }
        left = found.len();
        let_go(&found)?;
    }
    trees::remove(directory).map_err(|cause| HostError::at(directory, cause))
}

/// Unmounts all that is seen now.
fn let_go(found: &[PathBuf]) -> Result<(), HostError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |cause| HostError::at(&path, cause)
    };
    // What is unmounted inside a shared mount goes wherever else that is seen: a part of
    // the machine would lose what is mounted below its own place.
    for path in found {
        mounts::make_private(path).map_err(at(path))?;
    }
    for path in seen(found) {
        mounts::detach(path).map_err(at(path))?;
    }
    Ok(())
}

/// Of mounts, the latest first, those that no other covers. What has a covered one below it
/// waits for that: both would go at once, and the covered one is not private yet.
fn seen(found: &[PathBuf]) -> Vec<&Path> {
    let (mut seen, mut waiting): (Vec<&Path>, Vec<&Path>) = (Vec::new(), Vec::new());
    for path in found {
        let is_covered = seen.iter().any(|later| path.starts_with(later));
        if is_covered || waiting.iter().any(|below| below.starts_with(path)) {
            waiting.push(path);
        } else {
            seen.push(path);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use std::fs;

    use nix::mount::MsFlags;

    use super::*;
    use crate::testing::{privately, put};

    const NONE: Option<&str> = None;

    fn bind(from: &Path, to: &Path, more: MsFlags) {
        let flags = MsFlags::MS_BIND | more;
        nix::mount::mount(Some(from), to, NONE, flags, NONE).unwrap();
    }

    #[test]
    fn what_another_mount_covers_waits_until_that_is_gone() {
        let paths = |texts: &[&str]| texts.iter().map(PathBuf::from).collect::<Vec<_>>();
        for (found, wanted) in [
            (&["/d/a/b", "/d/a"][..], &["/d/a/b", "/d/a"][..]),
            (&["/d/a", "/d/a"], &["/d/a"]),
            (&["/d/a", "/d/a/b", "/d/ab"], &["/d/a", "/d/ab"]),
            (&["/d/a/b", "/d/a/b", "/d/a"], &["/d/a/b"]),
        ] {
            let wanted: Vec<&Path> = wanted.iter().map(Path::new).collect();
            assert_eq!(seen(&paths(found)), wanted, "{found:?}");
        }
    }

    #[test]
    fn a_directory_goes_and_what_was_mounted_into_it_stays_whole() {
        privately(|| {
            let root = tempfile::tempdir().unwrap();
            put(root.path(), "precious/data", "kept");
            put(root.path(), "precious/inner/.keep", "");
            put(root.path(), "up/kubelet/volume/.keep", "");
            put(root.path(), "up/kubelet/file", "");
            let precious = root.path().join("precious");
            let up = root.path().join("up");
            let kubelet = up.join("kubelet");
            // As on most machines: what happens in one place happens in all.
            bind(&precious, &precious, MsFlags::empty());
            nix::mount::mount(NONE, &precious, NONE, MsFlags::MS_SHARED, NONE).unwrap();
            let inner = precious.join("inner");
            nix::mount::mount(Some("tmpfs"), &inner, Some("tmpfs"), MsFlags::empty(), NONE)
                .unwrap();
            fs::write(inner.join("data"), "kept, too").unwrap();
            bind(&precious, &kubelet.join("volume"), MsFlags::MS_REC);
            // As an agent does where the machine's root is not shared; the volume is there
            // twice now, and once it is hidden.
            bind(&kubelet, &kubelet, MsFlags::MS_REC);
            nix::mount::mount(NONE, &kubelet, NONE, MsFlags::MS_SHARED, NONE).unwrap();
            bind(
                &precious.join("data"),
                &kubelet.join("file"),
                MsFlags::empty(),
            );
            clear_away(&up).unwrap();
            assert!(!up.exists());
            assert_eq!(fs::read_to_string(precious.join("data")).unwrap(), "kept");
            let inner = fs::read_to_string(inner.join("data"));
            assert_eq!(inner.unwrap(), "kept, too");
            mounts::detach(&precious).unwrap();
        });
    }
}
