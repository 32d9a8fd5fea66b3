//! What is mounted, by the kernel's own table.

use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use seams::host::HostError;
use seams::storage::MountPoint;

/// The table of the thread that asks: threads may have namespaces of their own.
const TABLE: &str = "/proc/thread-self/mountinfo";

const TMPFS: &str = "tmpfs";
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;

/// What is in it stays out of swap.
const NO_SWAP: &str = "noswap";

const HUGE_PAGES: &str = "hugetlbfs";
const HUGE_PAGES_MAGIC: rustix::fs::FsWord = 0x9584_58f6;
/// What upstream names as their device.
const NO_DEVICE: &str = "nodev";

/// A line of the table.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    /// `major:minor` of the disk.
    device: Vec<u8>,
    /// What of the disk is seen there.
    root: PathBuf,
    path: PathBuf,
    file_system: String,
}

/// What is mounted at a path and below it, the latest first.
pub(crate) fn below(path: &Path) -> Result<Vec<MountPoint>, HostError> {
    // The table knows no links; those who ask may have come by one.
    let real = real(path);
    let below = |line: Line| {
        Some(MountPoint {
            path: moved(&line.path, &real, path)?,
            file_system: line.file_system,
        })
    };
    let mut mounts: Vec<_> = table()?.into_iter().filter_map(below).collect();
    mounts.reverse();
    Ok(mounts)
}

/// Where else a directory is mounted, below a path.
pub(crate) fn also(directory: &Path, below: &Path) -> Result<Vec<PathBuf>, HostError> {
    let (itself, real_below, lines) = (real(directory), real(below), table()?);
    // Of two at one place the later one is seen.
    let holder = lines.iter().filter(|line| itself.starts_with(&line.path));
    let Some(holder) = holder.max_by_key(|line| line.path.components().count()) else {
        return Ok(Vec::new());
    };
    let inside = itself.strip_prefix(&holder.path).unwrap_or(Path::new(""));
    let root: PathBuf = holder.root.join(inside).components().collect();
    let same =
        |line: &&Line| line.device == holder.device && line.root == root && line.path != itself;
    let places = lines.iter().filter(same);
    Ok(places
        .filter_map(|line| moved(&line.path, &real_below, below))
        .collect())
}

/// A path below one, as it is called below another; itself, if nothing is behind it.
fn moved(path: &Path, from: &Path, to: &Path) -> Option<PathBuf> {
    let inside = path.strip_prefix(from).ok()?;
    Some(to.components().chain(inside.components()).collect())
}

fn table() -> Result<Vec<Line>, HostError> {
    let table = std::fs::read(TABLE).map_err(|cause| HostError::at(Path::new(TABLE), cause))?;
    let lines = table.split(|byte| *byte == b'\n');
    Ok(lines.filter_map(parse).collect())
}

/// Without links, as far as it is there.
fn real(path: &Path) -> PathBuf {
    if let Ok(real) = std::fs::canonicalize(path) {
        return real;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => real(parent).join(name),
        _ => path.to_owned(),
    }
}

/// Whether this very path is a memory file system of its own.
pub(crate) fn is_tmpfs(path: &Path) -> io::Result<bool> {
    Ok(mounted_at(path)?.is_some_and(|found| found.f_type == TMPFS_MAGIC))
}

/// The file system that is mounted at this very path. The table of mounts is long on
/// a node with many pods: this asks the path.
fn mounted_at(path: &Path) -> io::Result<Option<rustix::fs::StatFs>> {
    let parent = path.parent().unwrap_or(path);
    let (own, above) = (rustix::fs::lstat(path)?, rustix::fs::lstat(parent)?);
    if own.st_dev == above.st_dev {
        return Ok(None);
    }
    Ok(Some(rustix::fs::statfs(path)?))
}

pub(crate) fn mount_tmpfs(path: &Path, size: Option<u64>) -> io::Result<()> {
    let size = size.map(|size| format!("size={size}"));
    // What is kept in memory must not end on a disk; kernels before 6.4 do not
    // know how to say so.
    let options = [size.as_deref(), Some(NO_SWAP)];
    match mount(TMPFS, TMPFS, path, options) {
        Err(Errno::INVAL) => mount(TMPFS, TMPFS, path, [size.as_deref(), None]),
        outcome => outcome,
    }
    .map_err(io::Error::from)
}

/// Whether a memory file system can be kept from swap. Versions of kernels do not tell:
/// it is tried.
pub(crate) fn keeps_from_swap(directory: &Path) -> bool {
    let tried = directory.join(format!("tmpfs-noswap-test-{}", fastrand::u32(..)));
    if std::fs::create_dir(&tried).is_err() {
        return false;
    }
    let outcome = mount(TMPFS, TMPFS, &tried, [Some(NO_SWAP), None]);
    // What was not mounted need not be unmounted.
    let _ = unmount(&tried);
    let _ = std::fs::remove_dir(&tried);
    outcome.is_ok()
}

/// Huge pages of a size. Whether they were not there before.
pub(crate) fn mount_huge_pages(path: &Path, page: u64) -> io::Result<bool> {
    let found = mounted_at(path)?.filter(|found| found.f_type == HUGE_PAGES_MAGIC);
    // Their file system counts in them.
    match found.map(|found| u64::try_from(found.f_bsize).unwrap_or_default()) {
        Some(size) if size == page => Ok(false),
        Some(size) => {
            let said = format!("huge pages of {size} bytes are mounted there, not of {page}");
            Err(io::Error::new(io::ErrorKind::AlreadyExists, said))
        }
        None => {
            let size = format!("pagesize={page}");
            mount(NO_DEVICE, HUGE_PAGES, path, [Some(size.as_str()), None])?;
            Ok(true)
        }
    }
}

fn mount(
    device: &str,
    file_system: &str,
    path: &Path,
    options: [Option<&str>; 2],
) -> Result<(), Errno> {
    let options: Vec<&str> = options.into_iter().flatten().collect();
    let options = CString::new(options.join(",")).map_err(|_| Errno::INVAL)?;
    let (options, flags) = (options.as_c_str(), MountFlags::empty());
    rustix::mount::mount(device, path, file_system, flags, options)
}

/// Makes what is mounted below a directory seen wherever else it is mounted. It
/// becomes a mount of its own, unless the one that it is on is shared already.
pub(crate) fn make_shared(directory: &Path) -> io::Result<()> {
    if is_shared(&std::fs::read(TABLE)?, directory) {
        return Ok(());
    }
    // With all that is mounted below: pods of an earlier agent may have it.
    rustix::mount::mount_bind_recursive(directory, directory)?;
    let shared = MountPropagationFlags::SHARED | MountPropagationFlags::REC;
    Ok(rustix::mount::mount_change(directory, shared)?)
}

/// Whether the mount that a path is on is shared. Of several at one place the latest
/// is the one that is seen.
fn is_shared(table: &[u8], path: &Path) -> bool {
    let lines = table.split(|byte| *byte == b'\n');
    let above = lines.filter_map(|line| {
        let mount = parse(line)?;
        let depth = mount.path.components().count();
        let fields = line.split(|byte| *byte == b' ').skip(6);
        let mut fields = fields.take_while(|field| *field != b"-");
        let shared = fields.any(|field| field.starts_with(b"shared:"));
        path.starts_with(&mount.path).then_some((depth, shared))
    });
    let nearest = above.max_by_key(|(depth, _)| *depth);
    nearest.is_some_and(|(_, shared)| shared)
}

/// Nothing mounted there is fine.
pub(crate) fn unmount(path: &Path) -> io::Result<()> {
    match rustix::mount::unmount(path, UnmountFlags::NOFOLLOW) {
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Nothing that is done below this mount is seen elsewhere from now on. One that is not to be
/// seen itself is left as it is.
pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    match rustix::mount::mount_change(path, MountPropagationFlags::PRIVATE) {
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Unmounts, though somebody may still use it: who has it open keeps it. Nothing mounted
/// there is fine.
pub(crate) fn detach(path: &Path) -> io::Result<()> {
    let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
    match rustix::mount::unmount(path, flags) {
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw`
fn parse(line: &[u8]) -> Option<Line> {
    let mut fields = line.split(|byte| *byte == b' ');
    let device = fields.nth(2)?.to_vec();
    let (root, path) = (fields.next()?, fields.next()?);
    let mut rest = fields.skip_while(|field| *field != b"-");
    let file_system = String::from_utf8_lossy(rest.nth(1)?).into_owned();
    let path_of = |text| PathBuf::from(OsString::from_vec(unescaped(text)));
    Some(Line {
        device,
        root: path_of(root),
        path: path_of(path),
        file_system,
    })
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
        let cases: [(&str, Option<[&str; 4]>); 4] = [
            (
                "36 35 98:0 /a /mnt rw,noatime master:1 - ext3 /dev/root rw",
                Some(["98:0", "/a", "/mnt", "ext3"]),
            ),
            (
                r"36 35 0:9 /of\040it /with\040blank\134 rw - tmpfs tmpfs rw,size=1k",
                Some(["0:9", "/of it", r"/with blank\", "tmpfs"]),
            ),
            (
                "36 35 0:9 / /many rw shared:1 master:2 propagate_from:3 - nfs4 a:/b rw",
                Some(["0:9", "/", "/many", "nfs4"]),
            ),
            ("", None),
        ];
        for (line, wanted) in cases {
            let wanted = wanted.map(|[device, root, path, file_system]| Line {
                device: device.as_bytes().to_vec(),
                root: PathBuf::from(root),
                path: PathBuf::from(path),
                file_system: file_system.to_owned(),
            });
            assert_eq!(parse(line.as_bytes()), wanted, "{line}");
        }
    }

    #[test]
    fn a_path_is_as_shared_as_the_mount_that_it_is_on() {
        let table = "\
1 0 8:1 / / rw shared:1 - ext4 /dev/sda rw
2 1 8:2 / /var rw,noatime - ext4 /dev/sdb rw
3 2 8:3 / /var/lib/kubelet rw master:1 - ext4 /dev/sdc rw
4 3 8:3 / /var/lib/kubelet rw master:1 shared:7 - ext4 /dev/sdc rw
5 1 8:3 / /srv rw - ext4 /dev/shared: rw
";
        for (path, wanted) in [
            ("/", true),
            ("/etc/kubelet", true),
            ("/variable", true),
            ("/var/lib", false),
            ("/var/lib/kubelet/pods", true),
            ("/srv/kubelet", false),
        ] {
            assert_eq!(
                is_shared(table.as_bytes(), Path::new(path)),
                wanted,
                "{path}"
            );
        }
    }

    #[test]
    fn the_own_table_has_the_root() {
        let root = below(Path::new("/")).unwrap();
        assert!(root.iter().any(|mount| mount.path == Path::new("/")));
    }
}
