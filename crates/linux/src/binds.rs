//! A directory of the machine, mounted at a second path.

use std::io;
use std::path::Path;

use rustix::fs::StatVfsMountFlags;
use rustix::mount::MountFlags;
use seams::host::HostError;
use seams::storage::Bind;

use crate::{mounts, trees};

/// Nobody but root looks at what is mounted upon.
const MODE: u32 = 0o750;

/// What a second place of a file system can be told, as `mount` calls it.
const OPTIONS: [(&str, MountFlags); 8] = [
    ("ro", MountFlags::RDONLY),
    ("nosuid", MountFlags::NOSUID),
    ("nodev", MountFlags::NODEV),
    ("noexec", MountFlags::NOEXEC),
    ("noatime", MountFlags::NOATIME),
    ("nodiratime", MountFlags::NODIRATIME),
    ("relatime", MountFlags::RELATIME),
    ("strictatime", MountFlags::STRICTATIME),
];

/// What the first place was told holds for the second, unless it is told otherwise.
const INHERITED: [(StatVfsMountFlags, MountFlags); 5] = [
    (StatVfsMountFlags::RDONLY, MountFlags::RDONLY),
    (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
    (StatVfsMountFlags::NODEV, MountFlags::NODEV),
    (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
    (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
];

/// Whether it was not mounted there before.
pub(crate) fn bind(bind: &Bind) -> Result<bool, HostError> {
    let at = &bind.at;
    let is_mounted = mounts::below(at)?.iter().any(|mount| mount.path == *at);
    let outcome = || -> io::Result<()> {
        if !is_mounted {
            trees::make_directory(at, MODE, MODE)?;
            rustix::mount::mount_bind(&bind.directory, at)?;
        }
        // Also of one that is there: whoever mounted it may not have come so far.
        restrict(at, flags(bind.read_only, &bind.options))
    };
    outcome().map_err(|cause| HostError::at(at, cause))?;
    Ok(!is_mounted)
}

fn restrict(at: &Path, wanted: MountFlags) -> io::Result<()> {
    if wanted.is_empty() {
        return Ok(());
    }
    let told = rustix::fs::statvfs(at)?.f_flag;
    let inherited = INHERITED
        .iter()
        .filter(|(flag, _)| told.contains(*flag))
        .fold(MountFlags::empty(), |all, (_, flag)| all | *flag);
    rustix::mount::mount_remount(at, MountFlags::BIND | inherited | wanted, "")?;
    Ok(())
}

fn flags(read_only: bool, options: &[String]) -> MountFlags {
    let options = options.iter().flat_map(|option| option.split(','));
    let named = options.filter_map(|option| {
        let mut known = OPTIONS.iter();
        known
            .find(|(name, _)| *name == option)
            .map(|(_, flag)| *flag)
    });
    let given = named.fold(MountFlags::empty(), |all, flag| all | flag);
    if read_only {
        given | MountFlags::RDONLY
    } else {
        given
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_a_second_place_can_have_count() {
        let cases: [(bool, &[&str], MountFlags); 4] = [
            (false, &[], MountFlags::empty()),
            (true, &[], MountFlags::RDONLY),
            (
                false,
                &["nosuid", "discard", "noexec,nodev"],
                MountFlags::NOSUID | MountFlags::NOEXEC | MountFlags::NODEV,
            ),
            (false, &["ro", "data=journal"], MountFlags::RDONLY),
        ];
        for (read_only, options, wanted) in cases {
            let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
            assert_eq!(flags(read_only, &options), wanted, "{options:?}");
        }
    }
}
