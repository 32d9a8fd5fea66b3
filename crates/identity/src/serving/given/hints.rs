//! Events that say that some files may have changed: inotify on the directories
//! through which their paths lead.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use futures_util::StreamExt;
use inotify::{EventStream, Inotify, WatchMask};

/// Room for one event with the longest name; more are read when they are asked for.
const BUFFER: usize = 4096;

/// Tells that something happened where the files are.
pub(super) struct Hints {
    events: EventStream<[u8; BUFFER]>,
}

impl Hints {
    /// Directories that are not there give no events; it is the caller's
    /// periodic look that finds out when they come.
    pub(super) fn of<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> io::Result<Self> {
        let inotify = Inotify::init()?;
        let mut watches = inotify.watches();
        // Not MODIFY: the end of a write is what is worth a look.
        let mask = WatchMask::CLOSE_WRITE
            | WatchMask::CREATE
            | WatchMask::DELETE
            | WatchMask::MOVE
            | WatchMask::ATTRIB
            | WatchMask::DELETE_SELF
            | WatchMask::MOVE_SELF
            | WatchMask::ONLYDIR;
        let directories: BTreeSet<_> = paths
            .into_iter()
            .flat_map(|path| directories(path))
            .collect();
        for directory in directories {
            match watches.add(&directory, mask) {
                Err(cause) if !is_absence(&cause) => return Err(cause),
                _ => {}
            }
        }
        let events = inotify.into_event_stream([0; BUFFER])?;
        Ok(Self { events })
    }

    /// The next event. Should the events end, this waits for ever.
    pub(super) async fn next(&mut self) {
        if !matches!(self.events.next().await, Some(Ok(_))) {
            std::future::pending::<()>().await;
        }
    }
}

fn is_absence(cause: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    matches!(cause.kind(), NotFound | NotADirectory)
}

/// Where a change of a file shows: its directory, the one that its name leads to,
/// and that of every symlink on the way, for whoever turns one of them.
fn directories(path: &Path) -> BTreeSet<PathBuf> {
    let links = path.ancestors().filter(|step| step.is_symlink());
    let followed = fs::canonicalize(path).ok();
    let ends = [Some(path), followed.as_deref()].into_iter().flatten();
    let parents = links.chain(ends).filter_map(Path::parent);
    parents.map(Path::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn every_directory_in_which_the_file_can_be_exchanged_is_watched() {
        let root = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(root.path()).unwrap();
        fs::create_dir_all(root.join("archive/1")).unwrap();
        fs::create_dir(root.join("live")).unwrap();
        fs::write(root.join("archive/1/tls.crt"), "").unwrap();
        symlink("../archive/1", root.join("live/now")).unwrap();
        let expected = ["archive/1", "live", "live/now"].map(|name| root.join(name));
        let found = directories(&root.join("live/now/tls.crt"));
        assert!(found.iter().eq(&expected), "{found:?}");

        let absent = directories(&root.join("none/tls.crt"));
        assert!(absent.iter().eq([&root.join("none")]), "{absent:?}");
    }
}
