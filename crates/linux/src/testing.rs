//! Machines made of files, for tests.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::mount::MsFlags;
use nix::sched::CloneFlags;
use tempfile::TempDir;

/// A directory with these files, and their directories.
pub(crate) fn tree(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in files {
        put(root.path(), path, content);
    }
    root
}

pub(crate) fn put(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Does something over and over beside a test, until that is over: well or not.
pub(crate) fn beside<T>(again: impl Fn() + Sync, test: impl FnOnce() -> T) -> T {
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                again();
            }
        });
        let _stop = Stop(&stop);
        test()
    })
}

/// Two paths change places.
pub(crate) fn exchange(one: &Path, other: &Path) {
    let (cwd, flags) = (rustix::fs::CWD, rustix::fs::RenameFlags::EXCHANGE);
    rustix::fs::renameat_with(cwd, one, cwd, other, flags).unwrap();
}

/// Does it where its mounts harm nobody, in a mount namespace of a thread of its own,
/// with which they go; not at all without the right to mount.
pub(crate) fn privately(test: impl FnOnce() + Send) {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not root: nothing is mounted");
        return;
    }
    std::thread::scope(|scope| {
        let outcome = scope.spawn(|| {
            nix::sched::unshare(CloneFlags::CLONE_NEWNS).unwrap();
            let (none, private) = (None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE);
            nix::mount::mount(none, "/", none, private, none).unwrap();
            test();
        });
        outcome.join().unwrap();
    });
}
