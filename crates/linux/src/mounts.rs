//! What is mounted, by the kernel's own table.

use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use seams::host::HostError;
use seams::storage::MountPoint;

/// The table of the thread that asks: threads may have namespaces of their own.
const TABLE: &str = "/proc/thread-self/mountinfo";

const TMPFS: &str = "tmpfs";
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;

/// What is mounted at a path and below it, the latest first.
pub(crate) fn below(path: &Path) -> Result<Vec<MountPoint>, HostError> {
    let table = std::fs::read(TABLE).map_err(|cause| HostError::at(Path::new(TABLE), cause))?;
    let lines = table.split(|byte| *byte == b'\n').filter_map(parse);
    let mut mounts: Vec<_> = lines.filter(|mount| mount.path.starts_with(path)).collect();
    mounts.reverse();
    Ok(mounts)
}

/// Whether this very path is a memory file system of its own. The table of mounts
/// is long on a node with many pods: this asks the path.
pub(crate) fn is_tmpfs(path: &Path) -> io::Result<bool> {
    let parent = path.parent().unwrap_or(path);
    let (own, above) = (rustix::fs::lstat(path)?, rustix::fs::lstat(parent)?);
    if own.st_dev == above.st_dev {
        return Ok(false);
    }
    Ok(rustix::fs::statfs(path)?.f_type == TMPFS_MAGIC)
}

pub(crate) fn mount_tmpfs(path: &Path, size: Option<u64>) -> io::Result<()> {
    let size = size.map(|size| format!("size={size}"));
    // What is kept in memory must not end on a disk; kernels before 6.4 do not
    // know how to say so.
    let options = [size.as_deref(), Some("noswap")];
    match mount(path, options) {
        Err(Errno::INVAL) => mount(path, [size.as_deref(), None]),
        outcome => outcome,
    }
    .map_err(io::Error::from)
}

fn mount(path: &Path, options: [Option<&str>; 2]) -> Result<(), Errno> {
    let options: Vec<&str> = options.into_iter().flatten().collect();
    let options = CString::new(options.join(",")).map_err(|_| Errno::INVAL)?;
    let options = options.as_c_str();
    rustix::mount::mount(TMPFS, path, TMPFS, MountFlags::empty(), options)
}

/// Nothing mounted there is fine.
pub(crate) fn unmount(path: &Path) -> io::Result<()> {
    match rustix::mount::unmount(path, UnmountFlags::NOFOLLOW) {
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw`
fn parse(line: &[u8]) -> Option<MountPoint> {
    let mut fields = line.split(|byte| *byte == b' ');
    let path = fields.nth(4)?;
    let mut rest = fields.skip_while(|field| *field != b"-");
    let file_system = String::from_utf8_lossy(rest.nth(1)?).into_owned();
    let path = PathBuf::from(OsString::from_vec(unescaped(path)));
    Some(MountPoint { path, file_system })
}

/// The kernel writes blanks, tabs, line ends and backslashes as `\040`.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        let code = after.get(..3).filter(|_| *byte == b'\\');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        if let Some(escaped) = code.and_then(|code| u8::from_str_radix(code, 8).ok()) {
            bytes.push(escaped);
            rest = &after[3..];
        } else {
            bytes.push(*byte);
            rest = after;
        }
    }
    bytes
}

/// A mount point that is in the way of removing a tree.
pub(crate) fn in_the_way(path: &Path) -> HostError {
    let said = "something is mounted there: it has to be unmounted first";
    HostError::at(path, io::Error::new(io::ErrorKind::ResourceBusy, said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_table_tells_where_and_what() {
        let cases: [(&str, Option<(&str, &str)>); 4] = [
            (
                "36 35 98:0 /a /mnt rw,noatime master:1 - ext3 /dev/root rw",
                Some(("/mnt", "ext3")),
            ),
            (
                r"36 35 0:9 / /with\040blank\134 rw - tmpfs tmpfs rw,size=1k",
                Some((r"/with blank\", "tmpfs")),
            ),
            (
                "36 35 0:9 / /many rw shared:1 master:2 propagate_from:3 - nfs4 a:/b rw",
                Some(("/many", "nfs4")),
            ),
            ("", None),
        ];
        for (line, wanted) in cases {
            let wanted = wanted.map(|(path, file_system)| MountPoint {
                path: PathBuf::from(path),
                file_system: file_system.to_owned(),
            });
            assert_eq!(parse(line.as_bytes()), wanted, "{line}");
        }
    }

    #[test]
    fn the_own_table_has_the_root() {
        let root = below(Path::new("/")).unwrap();
        assert!(root.iter().any(|mount| mount.path == Path::new("/")));
    }
}
