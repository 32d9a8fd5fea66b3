//! Writes to files, told of by inotify: one instance for all, and each watch is good
//! for one event, after which the kernel removes it by itself.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use futures_util::{FutureExt as _, StreamExt as _};
use inotify::{EventMask, EventOwned, EventStream, Inotify, WatchDescriptor, WatchMask, Watches};
use seams::host::{Grown, Growth};

use crate::files::Files;

/// Room for some events: those of files have no names in them.
const BUFFER: usize = 1024;

pub(crate) struct Writes {
    files: Files,
    /// What is told of.
    events: WatchMask,
    /// `None` where the kernel has no instance to give: then nothing is told.
    kernel: Option<(Watches, EventStream<[u8; BUFFER]>)>,
    /// As the machine calls them. A watch ends with its file, too.
    watched: HashMap<WatchDescriptor, PathBuf>,
}

impl fmt::Debug for Writes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let watched = self.watched.len();
        formatter
            .debug_struct("Writes")
            .field("watched", &watched)
            .finish_non_exhaustive()
    }
}

impl Writes {
    /// To be called inside a runtime.
    pub(crate) fn new(files: Files) -> Self {
        Self::telling(files, WatchMask::MODIFY)
    }

    /// Also tells of files that get another name. To be called inside a runtime.
    pub(crate) fn and_moves(files: Files) -> Self {
        Self::telling(files, WatchMask::MODIFY | WatchMask::MOVE_SELF)
    }

    fn telling(files: Files, events: WatchMask) -> Self {
        let begun = || -> io::Result<_> {
            let inotify = Inotify::init()?;
            let watches = inotify.watches();
            Ok((watches, inotify.into_event_stream([0; BUFFER])?))
        };
        Self {
            files,
            events,
            kernel: begun().ok(),
            watched: HashMap::new(),
        }
    }
}

/// What an event tells: a file that was written to, if it was watched.
fn told(watched: &mut HashMap<WatchDescriptor, PathBuf>, event: &EventOwned) -> Option<PathBuf> {
    // The last that is heard of a watch: its file is gone, or it has had its event.
    let changed = EventMask::MODIFY | EventMask::MOVE_SELF;
    let file = watched.remove(&event.wd);
    file.filter(|_| event.mask.intersects(changed))
}

impl Growth for Writes {
    fn watch(&mut self, file: &Path) {
        let Some((watches, _)) = &mut self.kernel else {
            return;
        };
        let mask = self.events | WatchMask::ONESHOT | WatchMask::DONT_FOLLOW;
        if let Ok(descriptor) = watches.add(self.files.path(file), mask) {
            self.watched.insert(descriptor, file.to_owned());
        }
    }

    fn forget(&mut self, file: &Path) {
        let Some((watches, _)) = &mut self.kernel else {
            return;
        };
        self.watched.retain(|descriptor, watched| {
            let kept = watched != file;
            if !kept {
                // It may have had its event, and gone by itself.
                let _ = watches.remove(descriptor.clone());
            }
            kept
        });
    }

    fn grown(&mut self) -> Grown<'_> {
        Box::pin(async move {
            if let Some((_, events)) = &mut self.kernel {
                let mut grown = BTreeSet::new();
                while let Some(Ok(event)) = events.next().await {
                    grown.extend(told(&mut self.watched, &event));
                    while let Some(Some(Ok(event))) = events.next().now_or_never() {
                        grown.extend(told(&mut self.watched, &event));
                    }
                    if !grown.is_empty() {
                        return grown.into_iter().collect();
                    }
                }
            }
            std::future::pending().await
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write as _;
    use std::time::Duration;

    use super::*;
    use crate::testing::tree;

    fn write(path: &Path) {
        let file = OpenOptions::new().append(true).open(path);
        file.unwrap().write_all(b"line\n").unwrap();
    }

    async fn told(writes: &mut Writes) -> Vec<PathBuf> {
        let grown = tokio::time::timeout(Duration::from_secs(20), writes.grown());
        grown.await.unwrap()
    }

    #[tokio::test]
    async fn a_file_is_told_of_once_for_each_watch_and_a_quiet_one_never() {
        let root = tree(&[("a", ""), ("b", ""), ("quiet", "")]);
        let mut writes = Writes::new(Files::new(root.path().to_owned()));
        let [a, b, quiet] = ["/a", "/b", "/quiet"].map(PathBuf::from);
        for path in [&a, &b, &quiet, &quiet, Path::new("/absent")] {
            writes.watch(path);
        }
        for _ in 0..3 {
            write(&root.path().join("a"));
            write(&root.path().join("b"));
        }
        assert_eq!(told(&mut writes).await, [a.clone(), b]);
        assert!(writes.grown().now_or_never().is_none(), "all was told");
        write(&root.path().join("a"));
        assert!(writes.grown().now_or_never().is_none(), "nobody watches");
        writes.watch(&a);
        write(&root.path().join("a"));
        assert_eq!(told(&mut writes).await, [a]);
        assert_eq!(writes.watched.len(), 1);
    }

    #[tokio::test]
    async fn who_asks_hears_of_another_name_and_what_is_forgotten_is_not_told() {
        let root = tree(&[("a", ""), ("b", "")]);
        let mut writes = Writes::and_moves(Files::new(root.path().to_owned()));
        let [a, b] = ["/a", "/b"].map(PathBuf::from);
        writes.watch(&a);
        writes.watch(&b);
        writes.forget(&a);
        fs::rename(root.path().join("a"), root.path().join("c")).unwrap();
        fs::rename(root.path().join("b"), root.path().join("d")).unwrap();
        assert_eq!(told(&mut writes).await, [b]);
        assert!(writes.watched.is_empty(), "{writes:?}");
    }

    #[tokio::test]
    async fn a_file_that_is_gone_is_not_kept() {
        let root = tree(&[("a", ""), ("b", "")]);
        let mut writes = Writes::new(Files::new(root.path().to_owned()));
        let [a, b] = ["/a", "/b"].map(PathBuf::from);
        writes.watch(&a);
        writes.watch(&b);
        fs::remove_file(root.path().join("a")).unwrap();
        write(&root.path().join("b"));
        assert_eq!(told(&mut writes).await, [b]);
        assert!(writes.watched.is_empty(), "{writes:?}");
    }
}
