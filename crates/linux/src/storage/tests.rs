//! Mounts need root, and are made in a mount namespace of the test's own thread:
//! it and all that is mounted in it go with the thread.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use nix::mount::MsFlags;
use nix::sched::CloneFlags;
use seams::storage::TreeFile;

use super::*;
use crate::testing::put;

fn host() -> LinuxHost {
    LinuxHost::new(PathBuf::from("/"))
}

/// Does it where its mounts harm nobody; not at all without the right to mount.
fn privately(test: impl FnOnce() + Send) {
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

#[test]
fn a_memory_file_system_has_its_size_and_is_mounted_once() {
    privately(|| {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("with blank");
        let host = host();
        host.make_directory(&path, 0o777, 0o755).unwrap();
        assert!(host.mounts_below(root.path()).unwrap().is_empty());
        for _ in 0..2 {
            host.mount_tmpfs(&path, Some(1 << 20)).unwrap();
            let mounts = host.mounts_below(root.path()).unwrap();
            assert_eq!(mounts.len(), 1);
            assert_eq!(mounts[0].path, path);
            assert_eq!(mounts[0].file_system, "tmpfs");
        }
        let figures = rustix::fs::statvfs(&path).unwrap();
        assert_eq!(figures.f_blocks * figures.f_frsize, 1 << 20);
        fs::write(path.join("file"), "in memory").unwrap();
        for _ in 0..2 {
            host.unmount(&path).unwrap();
            assert!(host.mounts_below(root.path()).unwrap().is_empty());
            assert!(!path.join("file").exists());
        }
    });
}

#[test]
fn mounts_are_listed_so_that_they_can_be_unmounted_in_this_order() {
    privately(|| {
        let root = tempfile::tempdir().unwrap();
        let host = host();
        let paths = ["a", "a/b", "a/b/c"].map(|name| root.path().join(name));
        for path in &paths {
            host.make_directory(path, 0o777, 0o755).unwrap();
            host.mount_tmpfs(path, None).unwrap();
        }
        let error = host.unmount(&paths[0]).unwrap_err();
        assert!(error.what.ends_with("/a"), "{error}");
        for mount in host.mounts_below(root.path()).unwrap() {
            host.unmount(&mount.path).unwrap();
        }
        assert!(host.mounts_below(root.path()).unwrap().is_empty());
    });
}

#[test]
fn a_tree_with_a_mount_in_it_is_not_removed_nor_what_is_mounted_there() {
    privately(|| {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "precious/data", "kept");
        put(root.path(), "pod/volume/mounted/.keep", "");
        let (precious, pod) = (root.path().join("precious"), root.path().join("pod"));
        let mounted = pod.join("volume/mounted");
        let none = None::<&str>;
        nix::mount::mount(Some(&precious), &mounted, none, MsFlags::MS_BIND, none).unwrap();
        let error = host().remove_tree(&pod).unwrap_err();
        assert_eq!(error.what, mounted.display().to_string());
        // Nor by a walk that came upon it unawares.
        let error = trees::remove(&pod).unwrap_err();
        assert!(error.to_string().contains("mounted at mounted"), "{error}");
        assert_eq!(fs::read_to_string(precious.join("data")).unwrap(), "kept");
        host().unmount(&mounted).unwrap();
        host().remove_tree(&pod).unwrap();
        assert!(!pod.exists() && precious.join("data").exists());
    });
}

#[test]
fn a_published_tree_is_its_groups_and_its_files_are_their_owners() {
    privately(|| {
        let root = tempfile::tempdir().unwrap();
        let host = host();
        let file = |mode, owner| TreeFile {
            content: b"x".to_vec(),
            mode,
            owner,
        };
        let tree = Tree {
            files: [
                ("token".to_owned(), file(0o600, Some(1000))),
                ("sub/plain".to_owned(), file(0o400, None)),
            ]
            .into(),
            group: Some(4242),
        };
        let path = root.path().join("v");
        host.make_directory(&path, 0o777, 0o755).unwrap();
        host.publish(&path, &tree, SystemTime::UNIX_EPOCH).unwrap();
        let look = |name: &str| {
            use std::os::unix::fs::MetadataExt;
            let metadata = fs::metadata(path.join(name)).unwrap();
            let mode = metadata.permissions().mode() & 0o7777;
            (mode, metadata.uid(), metadata.gid())
        };
        assert_eq!(look(""), (0o2777, 0, 4242));
        assert_eq!(look("..data"), (0o2755, 0, 4242));
        assert_eq!(look("sub"), (0o2755, 0, 4242));
        assert_eq!(look("token"), (0o640, 1000, 4242));
        assert_eq!(look("sub/plain"), (0o440, 0, 4242));
    });
}

#[test]
fn a_root_of_the_machine_elsewhere_is_where_paths_begin() {
    let root = tempfile::tempdir().unwrap();
    let host = LinuxHost::new(root.path().to_owned());
    host.make_directory(Path::new("/pods/1"), 0o750, 0o750)
        .unwrap();
    host.make_file(Path::new("/pods/file"), 0o644).unwrap();
    assert!(root.path().join("pods/1").is_dir());
    let entries = host.entries(Path::new("/pods")).unwrap().unwrap();
    let names: Vec<_> = entries
        .iter()
        .map(|entry| (entry.name.as_str(), entry.is_directory))
        .collect();
    assert_eq!(names, [("1", true), ("file", false)]);
    assert_eq!(host.entries(Path::new("/absent")).unwrap(), None);
}

#[tokio::test]
async fn work_is_done_even_if_nobody_waits_for_it() {
    let storage: seams::SharedStorage = std::sync::Arc::new(host());
    let seven = seams::storage::perform(&storage, |_| 7).await.unwrap();
    assert_eq!(seven, 7);
    let (done, outcome) = tokio::sync::oneshot::channel();
    drop(storage.run(Box::new(move || done.send(8).unwrap())));
    assert_eq!(outcome.await.unwrap(), 8);
}
