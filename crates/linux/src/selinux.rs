//! Whether `SELinux` is on, as its own library sees it.

use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, statfs, statvfs};

use crate::files::Files;

const USUAL_PLACE: &str = "/sys/fs/selinux";
const MOUNTS: &str = "/proc/self/mountinfo";
const LABEL: &str = "/proc/self/attr/current";

/// The kernel's number for this file system.
const MAGIC: i64 = 0xf97c_ff8c;

/// Before a policy is loaded everything has this label.
const NO_POLICY: &str = "kernel";

/// What cannot be looked at is off.
pub(crate) fn is_on(files: &Files) -> bool {
    let label = files.text(LABEL).unwrap_or_default();
    has_policy(&label) && places(files).iter().any(|place| is_mounted(place))
}

fn has_policy(label: &str) -> bool {
    label.trim_end_matches(['\0', '\n']) != NO_POLICY
}

fn places(files: &Files) -> Vec<PathBuf> {
    let mounts = files.text(MOUNTS).unwrap_or_default();
    let usual = std::iter::once(USUAL_PLACE);
    let places = usual.chain(mounts.lines().filter_map(mount_point));
    places.map(|place| files.path(place)).collect()
}

/// The place of a line of `mountinfo`, if it is a mount of this file system.
fn mount_point(line: &str) -> Option<&str> {
    let (place, kind) = line.split_once(" - ")?;
    (kind.split(' ').next()? == "selinuxfs").then(|| place.split(' ').nth(4))?
}

/// One that cannot be written to tells of a policy that is not ours to ask.
fn is_mounted(place: &Path) -> bool {
    let is_it = statfs(place).is_ok_and(|found| found.f_type & 0xffff_ffff == MAGIC);
    let writable =
        |place| statvfs(place).is_ok_and(|found| !found.f_flag.contains(StatVfsMountFlags::RDONLY));
    is_it && writable(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    #[test]
    fn a_directory_where_it_would_be_is_not_it() {
        let root = tree(&[
            ("sys/fs/selinux/enforce", "1"),
            ("proc/self/attr/current", "system_u:system_r:init_t:s0\0"),
            (
                "proc/self/mountinfo",
                "36 25 0:33 / /selinux rw,relatime - selinuxfs none rw\n\
                 37 25 0:34 / /proc rw - proc proc rw\n",
            ),
        ]);
        let files = Files::new(root.path().to_owned());
        assert!(!is_on(&files));
        let expected = ["sys/fs/selinux", "selinux"].map(|place| root.path().join(place));
        assert_eq!(places(&files), expected);
        assert!(!is_mounted(Path::new("/proc")));
    }

    #[test]
    fn without_a_policy_it_is_off() {
        for (label, on) in [
            ("system_u:system_r:kubelet_t:s0\0", true),
            ("kernel\0", false),
            ("kernel\n", false),
            ("", true),
        ] {
            assert_eq!(has_policy(label), on, "{label:?}");
        }
    }
}
