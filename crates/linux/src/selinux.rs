//! Whether `SELinux` is on, as its own library sees it.

use std::iter;
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, statfs, statvfs};

use crate::files::Files;

const USUAL_PLACE: &str = "/sys/fs/selinux";
const MOUNTS: &str = "/proc/self/mountinfo";
const KINDS: &str = "/proc/filesystems";
const LABEL: &str = "/proc/self/attr/current";

/// What the kernel calls this file system.
const KIND: &str = "selinuxfs";

/// The kernel's number for this file system.
const MAGIC: i64 = 0xf97c_ff8c;

/// Before a policy is loaded everything has this label.
const NO_POLICY: &str = "kernel";

/// What cannot be looked at is off.
pub(crate) fn is_on(files: &Files) -> bool {
    let label = files.text(LABEL).unwrap_or_default();
    has_policy(&label) && places(files).any(|place| is_mounted(&place))
}

fn has_policy(label: &str) -> bool {
    label.trim_end_matches(['\0', '\n']) != NO_POLICY
}

/// Where it may be mounted. The table of mounts is long where there are many pods, and is
/// only read where the kernel has such a thing at all.
fn places(files: &Files) -> impl Iterator<Item = PathBuf> {
    let usual = iter::once_with(|| files.path(USUAL_PLACE));
    let others = iter::once_with(|| {
        let kinds = files.text(KINDS).unwrap_or_default();
        let has_it = kinds.split_whitespace().any(|word| word == KIND);
        let mounts = has_it.then(|| files.text(MOUNTS).unwrap_or_default());
        let mounts = mounts.unwrap_or_default();
        let places = mounts.lines().filter_map(mount_point);
        places.map(|place| files.path(place)).collect::<Vec<_>>()
    });
    usual.chain(others.flatten())
}

/// The place of a line of `mountinfo`, if it is a mount of this file system.
fn mount_point(line: &str) -> Option<&str> {
    let (place, kind) = line.split_once(" - ")?;
    (kind.split(' ').next()? == KIND).then(|| place.split(' ').nth(4))?
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

    const LABELLED: (&str, &str) = ("proc/self/attr/current", "system_u:system_r:init_t:s0\0");
    const MOUNTED: (&str, &str) = (
        "proc/self/mountinfo",
        "36 25 0:33 / /selinux rw,relatime - selinuxfs none rw\n\
         37 25 0:34 / /proc rw - proc proc rw\n",
    );

    #[test]
    fn a_directory_where_it_would_be_is_not_it() {
        let kinds = (
            "proc/filesystems",
            "nodev\tproc\nnodev\tselinuxfs\n\text4\n",
        );
        let usual = ("sys/fs/selinux/enforce", "1");
        let root = tree(&[usual, LABELLED, MOUNTED, kinds]);
        let files = Files::new(root.path().to_owned());
        assert!(!is_on(&files));
        let expected = ["sys/fs/selinux", "selinux"].map(|place| root.path().join(place));
        assert_eq!(places(&files).collect::<Vec<_>>(), expected);
        assert!(!is_mounted(Path::new("/proc")));
    }

    #[test]
    fn mounts_are_not_read_where_the_kernel_has_no_such_thing() {
        let root = tree(&[MOUNTED, ("proc/filesystems", "nodev\tproc\n\text4\n")]);
        let files = Files::new(root.path().to_owned());
        let expected = [root.path().join("sys/fs/selinux")];
        assert_eq!(places(&files).collect::<Vec<_>>(), expected);
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
