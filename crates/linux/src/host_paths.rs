//! What is at a path of the machine that a pod asks for (`hostPath`), and made there
//! if need be, as Go makes it: errors name what it would have tried.

use std::fs::{self, DirBuilder, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

use seams::host::HostError;
use seams::storage::PathKind;

const DIRECTORY_MODE: u32 = 0o755;
const FILE_MODE: u32 = 0o644;

/// Whether there is something of this kind, made if need be. What cannot be looked at
/// is not there.
pub(crate) fn has(path: &Path, kind: PathKind, make: bool) -> Result<bool, HostError> {
    if let Ok(metadata) = fs::metadata(path) {
        return Ok(kind_of(&metadata) == Some(kind));
    }
    match kind {
        PathKind::Directory if make => make_directories(path)?,
        PathKind::File if make => touch(path)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn kind_of(metadata: &Metadata) -> Option<PathKind> {
    let file_type = metadata.file_type();
    let kinds = [
        (file_type.is_dir(), PathKind::Directory),
        (file_type.is_file(), PathKind::File),
        (file_type.is_socket(), PathKind::Socket),
        (file_type.is_char_device(), PathKind::CharacterDevice),
        (file_type.is_block_device(), PathKind::BlockDevice),
    ];
    kinds.iter().find(|(is, _)| *is).map(|(_, kind)| *kind)
}

/// With its parents. The error is about the first that cannot be made.
fn make_directories(path: &Path) -> Result<(), HostError> {
    let refused = |cause| HostError::new(format!("mkdir {}", path.display()), cause);
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => {
            let no_directory = rustix::io::Errno::NOTDIR;
            return Err(refused(no_directory.into()));
        }
        Err(_) => {}
    }
    if let Some(parent) = path.parent() {
        make_directories(parent)?;
    }
    match DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
        // A link to nothing, or somebody was faster: the runtime will say.
        Err(cause) if cause.kind() == ErrorKind::AlreadyExists => Ok(()),
        outcome => outcome.map_err(refused),
    }
}

/// Through a link, too.
fn touch(path: &Path) -> Result<(), HostError> {
    let mut options = OpenOptions::new();
    let options = options.append(true).create(true).mode(FILE_MODE);
    let touched: io::Result<_> = options.open(path);
    let refused = |cause| HostError::new(format!("open {}", path.display()), cause);
    touched.map(drop).map_err(refused)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::testing::tree;

    #[test]
    fn what_is_missing_is_made_and_what_cannot_be_is_told_as_go_tells_it() {
        let root = tree(&[("file", "kept"), ("there/.keep", "")]);
        let at = |name: &str| root.path().join(name);
        symlink("made-by-link", at("link")).unwrap();
        symlink("nowhere/at/all", at("dead")).unwrap();
        symlink("loop", at("loop")).unwrap();
        let (directory, file) = (PathKind::Directory, PathKind::File);
        let cases = [
            ("there", directory, Ok(true)),
            ("file", directory, Ok(false)),
            ("new/deep", directory, Ok(true)),
            ("dead", directory, Ok(true)),
            (
                "file/a/b",
                directory,
                Err(("mkdir", "file", "not a directory")),
            ),
            ("file", file, Ok(true)),
            ("there", file, Ok(false)),
            ("touched", file, Ok(true)),
            ("link", file, Ok(true)),
            (
                "no/file",
                file,
                Err(("open", "no/file", "no such file or directory")),
            ),
            (
                "dead",
                file,
                Err(("open", "dead", "no such file or directory")),
            ),
            (
                "loop",
                file,
                Err(("open", "loop", "too many levels of symbolic links")),
            ),
        ];
        for (name, kind, wanted) in cases {
            let found = has(&at(name), kind, true).map_err(|error| error.in_gos_words());
            let wanted = wanted.map_err(|(tried, path, why): (&str, &str, &str)| {
                format!("{tried} {}: {why}", at(path).display())
            });
            assert_eq!(found, wanted, "{name} {kind:?}");
        }
        assert!(at("new/deep").is_dir() && at("made-by-link").is_file());
        assert_eq!(fs::read_to_string(at("file")).unwrap(), "kept");
        let mode = |name: &str| fs::metadata(at(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("new"), mode("touched")), (0o755, 0o644));
    }

    #[test]
    fn what_is_at_a_path_is_told_by_its_kind() {
        let root = tree(&[("file", "x"), ("directory/x", "")]);
        let _socket = UnixListener::bind(root.path().join("socket")).unwrap();
        symlink("directory", root.path().join("link")).unwrap();
        let at = |name: &str| root.path().join(name);
        let cases = [
            (at("file"), PathKind::File),
            (at("directory"), PathKind::Directory),
            (at("link"), PathKind::Directory),
            (at("socket"), PathKind::Socket),
            ("/dev/null".into(), PathKind::CharacterDevice),
        ];
        let kinds = [
            PathKind::Directory,
            PathKind::File,
            PathKind::Socket,
            PathKind::CharacterDevice,
            PathKind::BlockDevice,
        ];
        for (path, is) in &cases {
            for kind in kinds {
                for make in [false, true] {
                    assert_eq!(
                        has(path, kind, make).unwrap(),
                        kind == *is,
                        "{path:?} {kind:?}"
                    );
                }
            }
        }
        for kind in kinds {
            assert!(!has(&at("absent"), kind, false).unwrap());
            assert!(!has(&at("file/absent"), kind, false).unwrap());
        }
    }

    #[test]
    fn nothing_is_made_of_a_kind_that_cannot_be_or_that_nobody_wants_made() {
        let root = tree(&[]);
        let path = root.path().join("absent");
        let cases = [
            (PathKind::Socket, true),
            (PathKind::BlockDevice, true),
            (PathKind::CharacterDevice, true),
            (PathKind::Directory, false),
            (PathKind::File, false),
        ];
        for (kind, make) in cases {
            assert!(!has(&path, kind, make).unwrap(), "{kind:?}");
            assert!(!path.exists());
        }
        let socket = root.path().join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        assert!(has(&socket, PathKind::Socket, false).unwrap());
        assert!(has(Path::new("/dev/null"), PathKind::CharacterDevice, false).unwrap());
    }
}
