//! What others left behind, and what must outlive its removal: a tree of files that is
//! seen through mounts in all places where a pod's directory may have one.

use std::collections::BTreeMap;

use tokio::sync::watch;

use super::*;
use crate::figures::Counting;

/// A tree whose every file, mode and link is known.
struct Canary {
    root: TempDir,
    before: BTreeMap<PathBuf, String>,
}

impl Canary {
    fn hatch() -> Self {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [("a", "one"), ("deep/er/b", "two"), ("deep/c", "three")] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        std::os::unix::fs::symlink("a", root.path().join("link")).unwrap();
        fs::create_dir(root.path().join("empty")).unwrap();
        let before = look(root.path(), root.path());
        Self { root, before }
    }

    fn mount(&self, at: &Path) {
        fs::create_dir_all(at).unwrap();
        let none = None::<&str>;
        let from = Some(self.root.path());
        nix::mount::mount(from, at, none, MsFlags::MS_BIND, none).unwrap();
    }

    fn assert_unharmed(&self) {
        assert_eq!(look(self.root.path(), self.root.path()), self.before);
    }
}

fn look(top: &Path, directory: &Path) -> BTreeMap<PathBuf, String> {
    let mut seen = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        let content = if metadata.is_dir() {
            seen.extend(look(top, &path));
            String::new()
        } else if metadata.is_symlink() {
            fs::read_link(&path).unwrap().display().to_string()
        } else {
            fs::read_to_string(&path).unwrap()
        };
        let told = format!("{:o} {} {content}", metadata.mode(), metadata.gid());
        seen.insert(path.strip_prefix(top).unwrap().to_owned(), told);
    }
    seen
}

/// Where a pod's directory may have a mount, whoever made it.
const PLACES: [&str; 8] = [
    "volumes/kubernetes.io~local-volume/pv",
    "volumes/kubernetes.io~empty-dir/e",
    "volumes/kubernetes.io~empty-dir/f/inside",
    "volumes/kubernetes.io~secret/s",
    "volumes/kubernetes.io~projected/p/deep/inside",
    "volume-subpaths/pv/main/0",
    "plugins/kubernetes.io~empty-dir/e/mounted",
    "containers/main/mounted",
];

#[test]
fn nothing_is_ever_removed_through_a_mount() {
    on_disks(async |scene| {
        for place in PLACES {
            let canary = Canary::hatch();
            canary.mount(&scene.path(place));
            let volumes = scene.volumes();
            // Whatever of it works: what is behind stays.
            let unmounted = volumes.unmount(&uid()).await;
            let removed = volumes.remove_pod(&uid()).await;
            canary.assert_unharmed();
            if place.starts_with("volume") || place.starts_with("plugins") {
                unmounted.unwrap_or_else(|error| panic!("{place}: {error}"));
                removed.unwrap_or_else(|error| panic!("{place}: {error}"));
                assert!(!scene.path("").exists(), "{place}");
            } else {
                removed.unwrap_err();
                nix::mount::umount(&scene.path(place)).unwrap();
                volumes.remove_pod(&uid()).await.unwrap();
            }
            canary.assert_unharmed();
        }
    });
}

#[test]
fn what_is_mounted_on_a_part_of_the_machine_stays_when_a_pod_that_had_it_is_gone() {
    on_disks(async |scene| {
        let canary = Canary::hatch();
        let (none, plain) = (None::<&str>, MsFlags::empty());
        let mount = nix::mount::mount::<Path, Path, str, str>;
        // As on most machines: what happens in one place happens in all.
        let top = canary.root.path();
        mount(Some(top), top, none, MsFlags::MS_BIND, none).unwrap();
        mount(None, top, none, MsFlags::MS_SHARED, none).unwrap();
        let on_it = top.join("deep");
        let tmpfs = Some(Path::new("tmpfs"));
        mount(tmpfs, &on_it, Some("tmpfs"), plain, none).unwrap();
        fs::write(on_it.join("data"), "kept, too").unwrap();
        // A container that begins anew binds it again: the first one is covered.
        for place in [
            "volumes/kubernetes.io~empty-dir/e/inside",
            "volume-subpaths/e/main/0",
            "volumes/kubernetes.io~empty-dir/e/inside",
        ] {
            let place = scene.path(place);
            fs::create_dir_all(&place).unwrap();
            let whole = MsFlags::MS_BIND | MsFlags::MS_REC;
            mount(Some(top), &place, none, whole, none).unwrap();
        }
        let volumes = scene.volumes();
        volumes.unmount(&uid()).await.unwrap();
        volumes.remove_pod(&uid()).await.unwrap();
        assert!(!scene.path("").exists());
        // The second of two was seen at the machine's own place as well, and covers it.
        let table = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
        let own = format!(" {} ", top.display());
        for _ in 1..table.matches(&own).count() {
            mount(None, top, none, MsFlags::MS_PRIVATE, none).unwrap();
            nix::mount::umount2(top, nix::mount::MntFlags::MNT_DETACH).unwrap();
        }
        let data = fs::read_to_string(on_it.join("data"));
        assert_eq!(data.unwrap(), "kept, too");
        nix::mount::umount(&on_it).unwrap();
        nix::mount::umount(top).unwrap();
        canary.assert_unharmed();
    });
}

#[test]
fn a_root_directory_that_is_a_link_hides_no_mounts() {
    on_disks(async |scene| {
        let (canary, elsewhere) = (Canary::hatch(), tempfile::tempdir().unwrap());
        let link = elsewhere.path().join("kubelet");
        std::os::unix::fs::symlink(scene.root.path(), &link).unwrap();
        let place = "volumes/kubernetes.io~local-volume/pv";
        let inside = "volumes/kubernetes.io~empty-dir/e/inside";
        for place in [place, inside] {
            canary.mount(&scene.path(place));
        }
        let volumes = Volumes::new(Foundations {
            layout: Layout::new(&link),
            storage: Arc::new(LinuxHost::new(PathBuf::from("/"))),
            clock: scene.clock.clone(),
            objects: Objects::Standalone,
            allocatable: scene.allocatable.subscribe(),
            in_use: InUse::new(scene.in_use.clone()),
            metrics: Metrics::default(),
        });
        let found = volumes.on_disk().await.unwrap();
        assert_eq!(found[0].mounts.len(), 2, "{found:?}");
        volumes.unmount(&uid()).await.unwrap();
        volumes.remove_pod(&uid()).await.unwrap();
        canary.assert_unharmed();
        scene.assert_nothing_is_left();
    });
}

#[test]
fn a_mount_that_is_busy_is_told_and_goes_when_it_is_not() {
    on_disks(async |scene| {
        let canary = Canary::hatch();
        let place = "volumes/kubernetes.io~local-volume/pv";
        canary.mount(&scene.path(place));
        let volumes = scene.volumes();
        let held = fs::File::open(scene.path(place).join("a")).unwrap();
        let error = volumes.unmount(&uid()).await.unwrap_err().to_string();
        let wanted = "UnmountVolume.TearDown failed for volume \"pv\" : ";
        assert!(error.starts_with(wanted), "{error}");
        volumes.remove_pod(&uid()).await.unwrap_err();
        canary.assert_unharmed();
        drop(held);
        volumes.unmount(&uid()).await.unwrap();
        scene.assert_nothing_is_left();
        canary.assert_unharmed();
    });
}

#[test]
fn a_mount_inside_a_local_volume_is_others_and_keeps_it() {
    on_disks(async |scene| {
        let (canary, other) = (Canary::hatch(), Canary::hatch());
        let place = scene.path("volumes/kubernetes.io~local-volume/pv");
        canary.mount(&place);
        let inside = place.join("empty");
        other.mount(&inside);
        let volumes = scene.volumes();
        volumes.unmount(&uid()).await.unwrap_err();
        assert!(inside.join("a").exists(), "it is still mounted");
        nix::mount::umount(&inside).unwrap();
        volumes.unmount(&uid()).await.unwrap();
        canary.assert_unharmed();
        other.assert_unharmed();
        scene.assert_nothing_is_left();
    });
}

#[test]
fn a_file_among_the_volumes_that_nobody_knows_keeps_the_pods_directory() {
    on_disks(async |scene| {
        let place = scene.path("volumes/kubernetes.io~local-volume");
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join("file"), "whose?").unwrap();
        let volumes = scene.volumes();
        volumes.unmount(&uid()).await.unwrap_err();
        let error = volumes.remove_pod(&uid()).await.unwrap_err().to_string();
        let path = place.join("file");
        let wanted = format!(
            "orphaned pod \"{UID}\" found, but failed to rmdir() volume at path {}: ",
            path.display()
        );
        assert!(error.starts_with(&wanted), "{error}");
        assert!(path.exists());
    });
}

#[test]
fn what_another_kind_left_empty_goes_and_what_is_in_use_stays() {
    on_disks(async |scene| {
        let volumes = scene.volumes();
        let ended = scene.path("volumes/kubernetes.io~csi/ended");
        fs::create_dir_all(&ended).unwrap();
        volumes.unmount(&uid()).await.unwrap();
        assert!(!scene.path("volumes").exists());
        let used = scene.path("volumes/kubernetes.io~csi/used/mount");
        let canary = Canary::hatch();
        canary.mount(&used);
        let error = volumes.unmount(&uid()).await.unwrap_err().to_string();
        assert!(error.contains("this kubelet cannot unmount"), "{error}");
        assert!(used.join("a").exists());
        canary.assert_unharmed();
        nix::mount::umount(&used).unwrap();
    });
}

#[test]
fn volumes_are_counted_now_and_then_and_forgotten_with_their_pod() {
    on_disks(async |scene| {
        furnished(&scene);
        let volumes = scene.volumes();
        volumes.mount(&every_kind()).await.unwrap();
        let file = scene.path("volumes/kubernetes.io~empty-dir/plain/file");
        fs::write(&file, vec![7; 100_000]).unwrap();
        let period = Duration::from_secs(60);
        let (asked, asks) = watch::channel(());
        let (published, mut seen) = watch::channel(Arc::default());
        let counting = Counting::new(volumes.clone(), period, asks, published);
        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        tasks.spawn(counting.run(stop.clone()));
        scene.clock.sleep(10 * period).await;
        assert!(!seen.has_changed().unwrap(), "nobody has asked");
        asked.send_replace(());
        seen.changed().await.unwrap();
        let figures = seen.borrow_and_update()[&uid()].clone();
        let names: Vec<_> = figures
            .iter()
            .map(|volume| (volume.name.as_str(), volume.on_local_disk))
            .collect();
        // Not what is the machine's.
        let wanted = [
            ("plain", true),
            ("fast", false),
            ("config", true),
            ("key", false),
            ("self", false),
            ("access", false),
        ];
        assert_eq!(names, wanted);
        let plain = &figures[0];
        assert!((100_000..200_000).contains(&plain.used), "{plain:?}");
        assert_eq!(plain.inodes_used, 2);
        assert!(plain.capacity >= plain.available && plain.inodes > 0);
        assert_eq!(figures[1].capacity, 1 << 20);
        let started = scene.clock.uptime();
        fs::remove_file(&file).unwrap();
        // Who asks before it is time waits for nothing.
        let again = async {
            loop {
                asked.send_replace(());
                scene.clock.sleep(period / 60).await;
            }
        };
        tokio::select! {
            () = again => {}
            changed = seen.changed() => changed.unwrap(),
        }
        let later = scene.clock.uptime().saturating_sub(started);
        assert!((60..=120).contains(&later.as_secs()), "{later:?}");
        assert_eq!(seen.borrow_and_update()[&uid()][0].inodes_used, 1);
        volumes.unmount(&uid()).await.unwrap();
        asked.send_replace(());
        seen.changed().await.unwrap();
        assert!(seen.borrow().is_empty());
        stop.cancel();
        tasks.close();
        tasks.wait().await;
    });
}

#[test]
fn a_volume_with_a_file_system_of_its_own_tells_for_all_of_it() {
    on_disks(async |scene| {
        let disk = tempfile::tempdir().unwrap();
        let (kind, size) = (Some("tmpfs"), Some("size=1m"));
        nix::mount::mount(kind, disk.path(), kind, MsFlags::empty(), size).unwrap();
        fs::write(disk.path().join("file"), vec![7; 100_000]).unwrap();
        let claim = json!({
            "metadata": {"uid": "c-1"}, "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"},
        });
        scene.server.put("persistentvolumeclaims", "c", claim);
        let spec = json!({"local": {"path": disk.path()}, "claimRef": {"uid": "c-1"}});
        let volume = json!({"spec": spec});
        scene.server.put("persistentvolumes", "pv", volume);
        let volumes = scene.volumes();
        let pod = pod(&json!([{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]));
        volumes.mount(&pod).await.unwrap();
        let (asked, asks) = watch::channel(());
        let (published, mut seen) = watch::channel(Arc::default());
        let period = Duration::from_secs(60);
        let counting = Counting::new(volumes.clone(), period, asks, published);
        asked.send_replace(());
        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        tasks.spawn(counting.run(stop.clone()));
        seen.changed().await.unwrap();
        let figures = seen.borrow()[&uid()].clone();
        let data = &figures[0];
        assert_eq!(data.claim.as_deref(), Some("c"));
        assert_eq!(
            (data.capacity, data.used + data.available),
            (1 << 20, 1 << 20)
        );
        assert!(data.used >= 100_000 && !data.on_local_disk, "{data:?}");
        stop.cancel();
        tasks.close();
        tasks.wait().await;
        volumes.unmount(&uid()).await.unwrap();
    });
}
