//! Parts of volumes (`subPath`).

use super::*;

#[test]
fn parts_of_volumes_are_mounted_where_upstream_has_them_and_go_before_the_volumes() {
    on_disks(async |scene| {
        furnished(&scene);
        let (volumes, uid) = (scene.volumes(), uid());
        let mounted = volumes.mount(&every_kind()).await.unwrap().volumes;
        let volume = |name: &str| mounted.iter().find(|volume| volume.name == name).unwrap();
        let cases = [
            ("plain", 0, "logs/today"),
            ("fast", 1, "logs"),
            ("config", 2, "k"),
            ("key", 3, "key"),
        ];
        for (name, mount, part) in cases {
            let bind = || volumes.bind_sub_path(&uid, volume(name), "m", mount, part);
            let wanted = scene.path(&format!("volume-subpaths/{name}/m/{mount}"));
            for _ in 0..2 {
                assert_eq!(bind().await.unwrap(), wanted);
            }
        }
        let part = |below: &str| scene.path("volume-subpaths").join(below);
        assert_eq!(fs::read_to_string(part("config/m/2")).unwrap(), "one");
        assert_eq!(fs::read_to_string(part("key/m/3")).unwrap(), "secret");
        fs::write(part("plain/m/0/file"), "x").unwrap();
        assert_eq!(
            scene.text("kubernetes.io~empty-dir/plain/logs/today/file"),
            "x"
        );
        let mode = |path: PathBuf| fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!(mode(part("plain/m/0")), 0o777, "as the volume");
        assert_eq!(mode(part("plain/m")), 0o750);

        // An update reaches a container that starts after it.
        scene
            .server
            .put("configmaps", "c", json!({"data": {"k": "two"}}));
        volumes.changed(&uid).await;
        volumes.refresh(&every_kind()).await.unwrap();
        let again = volumes.bind_sub_path(&uid, volume("config"), "m", 2, "k");
        again.await.unwrap();
        assert_eq!(fs::read_to_string(part("config/m/2")).unwrap(), "two");

        let kept = scene.root.path().join("kept");
        fs::create_dir_all(kept.join("logs")).unwrap();
        let machine = MountedVolume {
            path: kept.clone(),
            ..volume("machine").clone()
        };
        let bind = volumes.bind_sub_path(&uid, &machine, "m", 4, "logs");
        fs::write(bind.await.unwrap().join("file"), "precious").unwrap();
        for _ in 0..2 {
            volumes.unmount(&uid).await.unwrap();
            scene.assert_nothing_is_left();
        }
        let text = fs::read_to_string(kept.join("logs/file")).unwrap();
        assert_eq!(text, "precious", "the machine's is the machine's");
    });
}

#[test]
fn a_part_that_cannot_be_had_is_told_in_upstreams_words_and_no_more() {
    on_disks(async |scene| {
        let (volumes, uid) = (scene.volumes(), uid());
        let pod = pod(&json!([{"name": "plain", "emptyDir": {}}]));
        let mounted = volumes.mount(&pod).await.unwrap().volumes;
        let volume = &mounted[0];
        std::os::unix::fs::symlink("/etc", volume.path.join("out")).unwrap();
        let create = "failed to create subPath directory for volumeMount";
        let prepare = "failed to prepare subPath for volumeMount";
        let cases = [
            ("m", "../other", create),
            ("m", "out/new-directory", create),
            ("m", "out", prepare),
            ("../m", "fine", prepare),
        ];
        for (container, part, wanted) in cases {
            let bind = volumes.bind_sub_path(&uid, volume, container, 0, part);
            let error = bind.await.unwrap_err();
            let wanted = format!("{wanted} \"plain\" of container {container:?}");
            assert_eq!(error.to_string(), wanted, "{part}");
        }
        assert!(!Path::new("/etc/new-directory").exists());
        volumes.unmount(&uid).await.unwrap();
        scene.assert_nothing_is_left();
    });
}
