//! Events that say that something may have changed at a path: inotify on it and on
//! the directory that holds it.

use std::io;
use std::path::Path;

use futures_util::StreamExt as _;
use inotify::{EventStream, Inotify, WatchMask};
use seams::host::Hint;

/// Room for one event with the longest name; more are read when they are asked for.
const BUFFER: usize = 4096;

/// Watches from now on. Where the kernel has no more watches to give, the hint never
/// comes: whoever waits for it also looks from time to time.
pub(crate) fn at(path: &Path) -> Hint {
    let events = watch(path);
    Box::pin(async move {
        if let Ok(mut events) = events
            && matches!(events.next().await, Some(Ok(_)))
        {
            return;
        }
        std::future::pending::<()>().await;
    })
}

fn watch(path: &Path) -> io::Result<EventStream<[u8; BUFFER]>> {
    let inotify = Inotify::init()?;
    let mut watches = inotify.watches();
    // Not MODIFY: the end of a write is what is worth a look.
    let mask = WatchMask::CLOSE_WRITE
        | WatchMask::CREATE
        | WatchMask::DELETE
        | WatchMask::MOVE
        | WatchMask::ATTRIB
        | WatchMask::DELETE_SELF
        | WatchMask::MOVE_SELF;
    // What is not there yet shows in the directory above when it comes.
    for place in [Some(path), path.parent()].into_iter().flatten() {
        match watches.add(place, mask) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
            _ => {}
        }
    }
    inotify.into_event_stream([0; BUFFER])
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_hint_comes_for_what_is_written_renamed_removed_or_made() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("manifests");
        let file = directory.join("a.yaml");
        let made = || fs::create_dir(&directory).unwrap();
        let written = || fs::write(&file, "x").unwrap();
        let renamed = || fs::rename(&file, directory.join("b.yaml")).unwrap();
        let removed = || fs::remove_file(directory.join("b.yaml")).unwrap();
        let acts: [&dyn Fn(); 4] = [&made, &written, &renamed, &removed];
        for (number, act) in acts.iter().enumerate() {
            let hint = at(&directory);
            act();
            let came = tokio::time::timeout(Duration::from_secs(20), hint).await;
            assert!(came.is_ok(), "act {number}");
        }
    }
}
