//! The directories that a pod has whether it has volumes or not.

use super::*;

#[test]
fn a_pod_without_volumes_has_its_directories_until_it_is_removed() {
    on_disks(async |scene| {
        let volumes = scene.volumes();
        for _ in 0..2 {
            volumes.make_room(&uid()).await.unwrap();
            let mode = |below: &str| fs::metadata(scene.path(below)).unwrap().mode() & 0o7777;
            let modes = ["", "volumes", "plugins"].map(mode);
            assert_eq!(modes, [0o750; 3]);
        }
        // An agent that returns finds whose it is.
        let there = scene.volumes().on_disk().await.unwrap();
        assert_eq!(there.len(), 1);
        assert_eq!(there[0].uid, uid());
        volumes.unmount(&uid()).await.unwrap();
        scene.assert_nothing_is_left();
        volumes.remove_pod(&uid()).await.unwrap();
        assert!(!scene.path("").exists());
        assert!(volumes.held().is_empty());
    });
}

#[test]
fn no_directories_are_made_elsewhere_whatever_a_pod_calls_itself() {
    on_disks(async |scene| {
        for uid in ["..", "a/b", "/tmp/a", ""] {
            let made = scene.volumes().make_room(&PodUid::new(uid)).await;
            assert!(made.is_err(), "{uid}");
        }
        assert!(!scene.root.path().join("volumes").exists());
        assert!(!scene.root.path().join("pods").exists());
    });
}
