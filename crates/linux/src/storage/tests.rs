use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use nix::mount::MsFlags;
use seams::storage::TreeFile;

use super::*;
use crate::testing::{beside, exchange, privately, put};

fn host() -> LinuxHost {
    LinuxHost::new(PathBuf::from("/"))
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
fn a_part_of_a_volume_is_mounted_once_and_anew_when_it_is_another() {
    privately(|| {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "volume/..1/key", "one");
        put(root.path(), "volume/..2/key", "two");
        let (volume, at) = (root.path().join("volume"), root.path().join("pod/v/c/0"));
        let lead = |to: &str| {
            let _ = fs::remove_file(volume.join("key"));
            std::os::unix::fs::symlink(format!("{to}/key"), volume.join("key")).unwrap();
        };
        let bind = |part: &str| host().bind_sub_path(&volume, part, &at).unwrap();
        let mounts = || host().mounts_below(root.path()).unwrap().len();
        lead("..1");
        assert!(bind("key"));
        assert!(!bind("key"), "it is mounted");
        assert_eq!(fs::read_to_string(&at).unwrap(), "one");
        lead("..2");
        assert_eq!(fs::read_to_string(&at).unwrap(), "one");
        assert!(bind("key"), "the path leads elsewhere now");
        assert_eq!(fs::read_to_string(&at).unwrap(), "two");
        assert!(bind("new/directory"));
        assert!(!bind("new/directory"));
        fs::write(at.join("file"), "through the mount").unwrap();
        assert!(volume.join("new/directory/file").is_file());
        assert!(bind("."));
        assert!(at.join("new/directory/file").is_file());
        assert_eq!(mounts(), 1);
        host().unmount(&at).unwrap();
        assert!(bind("key"), "where a directory was");
        host().unmount(&at).unwrap();
        assert_eq!(mounts(), 0);
        host().remove_tree(&root.path().join("pod")).unwrap();
        assert!(volume.join("new/directory/file").is_file());
    });
}

#[test]
fn a_part_that_is_not_the_volumes_is_not_mounted() {
    privately(|| {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "volume/file", "");
        put(root.path(), "secret/file", "");
        let (volume, at) = (root.path().join("volume"), root.path().join("pod/v/c/0"));
        std::os::unix::fs::symlink("../secret", volume.join("out")).unwrap();
        let cases = [
            ("../secret", "Make"),
            ("/secret", "Make"),
            ("out/new", "Make"),
            ("out", "Bind"),
            ("out/file", "Bind"),
            ("file/below", "Bind"),
        ];
        for (part, wanted) in cases {
            let error = host().bind_sub_path(&volume, part, &at).unwrap_err();
            let half = match error {
                SubPathError::Make(_) => "Make",
                SubPathError::Bind(_) => "Bind",
            };
            assert_eq!(half, wanted, "{part}: {error}");
        }
        assert!(!at.exists() && host().mounts_below(root.path()).unwrap().is_empty());
    });
}

/// A thread of the pod's swaps a directory of the volume for a link to somewhere else,
/// over and over, while parts of the volume are mounted.
#[test]
fn a_part_that_is_swapped_for_a_link_to_elsewhere_at_any_moment_never_leads_there() {
    const TRIES: usize = 2000;
    privately(|| {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "volume/a/b/own", "the volume's");
        put(root.path(), "outside/b/secret", "the machine's");
        let volume = root.path().join("volume");
        let (link, a) = (volume.join("link"), volume.join("a"));
        std::os::unix::fs::symlink(root.path().join("outside"), &link).unwrap();
        let binding = || {
            let (mut bound, mut refused) = (0, 0);
            for _ in 0..TRIES {
                for (number, part) in ["a", "a/b", "a/b/made"].into_iter().enumerate() {
                    let at = root.path().join("pod/v/c").join(number.to_string());
                    match host().bind_sub_path(&volume, part, &at) {
                        Ok(_) => bound += 1,
                        Err(_) => refused += 1,
                    }
                    let leaked = ["b/secret", "secret", "../secret"];
                    let leaked = leaked.map(|name| at.join(name).exists());
                    assert_eq!(leaked, [false; 3], "{part}");
                    host().unmount(&at).unwrap();
                }
            }
            println!("{bound} were mounted, {refused} refused");
            assert!(bound > 0 && refused > 0, "the swapping met nothing");
        };
        beside(|| exchange(&link, &a), binding);
        let left = fs::read_dir(root.path().join("outside/b")).unwrap();
        assert_eq!(left.count(), 1, "nothing was made outside");
    });
}

#[test]
fn huge_pages_are_mounted_once_and_of_one_size() {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !known.contains("hugetlbfs") {
        eprintln!("a kernel without huge pages: nothing is mounted");
        return;
    }
    privately(|| {
        const SIZE: u64 = 2 << 20;
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("pages");
        let host = host();
        host.make_directory(&path, 0o777, 0o755).unwrap();
        assert!(host.mount_huge_pages(&path, SIZE).unwrap());
        assert!(!host.mount_huge_pages(&path, SIZE).unwrap());
        let mounts = host.mounts_below(root.path()).unwrap();
        assert_eq!(mounts.len(), 1);
        assert_eq!(mounts[0].file_system, "hugetlbfs");
        let error = host.mount_huge_pages(&path, SIZE << 9).unwrap_err();
        assert!(error.to_string().contains("of 2097152 bytes"), "{error}");
        host.unmount(&path).unwrap();
    });
}

#[test]
fn what_is_mounted_below_a_shared_directory_is_seen_where_it_is_mounted_too() {
    privately(|| {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "kubelet/pods/.keep", "");
        put(root.path(), "container/.keep", "");
        let (kubelet, container) = (root.path().join("kubelet"), root.path().join("container"));
        for _ in 0..2 {
            host().make_shared(&kubelet).unwrap();
            let mounts = host().mounts_below(root.path()).unwrap();
            assert_eq!(mounts.len(), 1, "once");
        }
        let (none, bind) = (None::<&str>, MsFlags::MS_BIND);
        nix::mount::mount(Some(&kubelet), &container, none, bind, none).unwrap();
        host().mount_tmpfs(&kubelet.join("pods"), None).unwrap();
        fs::write(kubelet.join("pods/late"), "").unwrap();
        assert!(container.join("pods/late").exists());
    });
}

#[test]
fn whether_memory_is_kept_from_swap_is_tried_and_nothing_is_left_of_it() {
    privately(|| {
        let root = tempfile::tempdir().unwrap();
        let keeps = host().keeps_from_swap(root.path());
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
        let path = root.path().join("v");
        host().make_directory(&path, 0o777, 0o755).unwrap();
        host().mount_tmpfs(&path, None).unwrap();
        let table = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
        let mut lines = table.lines();
        let line = lines.find(|line| line.contains(path.to_str().unwrap()));
        assert_eq!(line.unwrap().contains("noswap"), keeps);
        assert!(!host().keeps_from_swap(&path.join("absent")));
    });
}

#[test]
fn a_mount_that_is_in_use_is_not_unmounted_and_can_be_later() {
    privately(|| {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("v");
        host().make_directory(&path, 0o777, 0o755).unwrap();
        host().mount_tmpfs(&path, None).unwrap();
        let open = fs::File::create(path.join("file")).unwrap();
        let error = host().unmount(&path).unwrap_err();
        assert_eq!(error.cause.kind(), io::ErrorKind::ResourceBusy, "{error}");
        assert!(host().remove_tree(&path).is_err(), "it is mounted");
        assert!(path.join("file").exists());
        drop(open);
        host().unmount(&path).unwrap();
        host().remove_tree(&path).unwrap();
    });
}

#[test]
fn a_file_system_that_is_full_keeps_the_old_tree_and_has_room_for_the_next() {
    privately(|| {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("v");
        host().make_directory(&path, 0o777, 0o755).unwrap();
        host().mount_tmpfs(&path, Some(1 << 20)).unwrap();
        let tree = |size: usize| {
            let file = |_: usize| TreeFile {
                content: vec![b'x'; size],
                mode: 0o644,
                owner: None,
            };
            let files = (0..4).map(|number| (format!("k{number}"), file(number)));
            Tree {
                files: files.collect(),
                group: None,
            }
        };
        let now = SystemTime::UNIX_EPOCH;
        assert!(host().publish(&path, &tree(100 << 10), now).unwrap());
        for _ in 0..3 {
            let error = host().publish(&path, &tree(300 << 10), now).unwrap_err();
            let words = error.in_gos_words();
            assert!(words.starts_with("write /"), "{words}");
            assert!(words.ends_with(": no space left on device"), "{words}");
            assert_eq!(fs::read(path.join("k3")).unwrap().len(), 100 << 10);
            let names = fs::read_dir(&path).unwrap().count();
            assert_eq!(names, 2 + 4, "nothing of it is left");
        }
        assert!(host().publish(&path, &tree(120 << 10), now).unwrap());
        assert_eq!(fs::read(path.join("k0")).unwrap().len(), 120 << 10);
    });
}

#[test]
fn links_say_what_the_machine_calls_their_targets() {
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "var/log/pods/0.log", "12345");
    let host = LinuxHost::new(root.path().to_owned());
    let links = Path::new("/var/log/containers");
    let log = Path::new("/var/log/pods/0.log");
    host.make_directory(links, 0o755, 0o755).unwrap();
    host.link(log, &links.join("a.log")).unwrap();
    assert!(host.dangling_links(links).unwrap().is_empty());
    assert_eq!(host.read_end(log, 2).unwrap().unwrap(), b"45");
    host.remove_file(log).unwrap();
    assert_eq!(host.read_end(log, 2).unwrap(), None);
    assert_eq!(host.dangling_links(links).unwrap(), [links.join("a.log")]);
    assert!(host.write_file(log, b"new", 0o640).unwrap());
    assert!(!host.write_file(log, b"new", 0o640).unwrap());
    assert!(host.dangling_links(links).unwrap().is_empty());
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
