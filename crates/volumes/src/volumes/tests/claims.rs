//! Volumes that pods have by claims, on real disks.

use super::*;

/// A claim `c`, bound to a volume `pv` of this kind.
pub(super) fn bound(scene: &Scene, source: &Value) {
    let claim = json!({
        "metadata": {"uid": "c-1"},
        "spec": {"volumeName": "pv"},
        "status": {"phase": "Bound"},
    });
    scene.server.put("persistentvolumeclaims", "c", claim);
    let mut spec = source.clone();
    spec["claimRef"] = json!({"uid": "c-1"});
    let volume = json!({"spec": spec});
    scene.server.put("persistentvolumes", "pv", volume);
}

pub(super) fn claiming(read_only: bool) -> Pod {
    let claim = json!({"claimName": "c", "readOnly": read_only});
    pod(&json!([{"name": "data", "persistentVolumeClaim": claim}]))
}

/// A directory of the machine that must outlive everything.
pub(super) fn precious() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("data"), "kept").unwrap();
    directory
}

pub(super) fn assert_kept(precious: &TempDir) {
    let data = fs::read_to_string(precious.path().join("data")).unwrap();
    assert_eq!(data, "kept");
}

pub(super) const LOCAL: &str = "kubernetes.io~local-volume/pv";

#[test]
fn a_claim_is_told_of_until_it_is_bound_and_mounted_then() {
    on_disks(async |scene| {
        let (volumes, pod, precious) = (scene.volumes(), claiming(false), precious());
        let waits = async || volumes.mount(&pod).await.unwrap_err().to_string();
        let prefix = "unmounted volumes=[data], unattached volumes=[], failed to process volumes=[data]: error processing PVC ns/c: ";
        assert_eq!(
            waits().await,
            format!(
                "{prefix}failed to fetch PVC from API server: persistentvolumeclaims \"c\" not found"
            )
        );
        let pending = json!({"metadata": {"uid": "c-1"}, "status": {"phase": "Pending"}});
        scene.server.put("persistentvolumeclaims", "c", pending);
        assert_eq!(waits().await, format!("{prefix}PVC is not bound"));
        bound(&scene, &json!({"local": {"path": precious.path()}}));
        scene.server.remove("persistentvolumes", "pv");
        assert_eq!(
            waits().await,
            format!(
                "{prefix}failed to fetch PV pv from API server: persistentvolumes \"pv\" not found"
            )
        );
        bound(&scene, &json!({"local": {"path": precious.path()}}));
        for _ in 0..2 {
            let mounted = volumes.mount(&pod).await.unwrap();
            let volume = &mounted.volumes[0];
            assert_eq!(volume.path, scene.path("volumes").join(LOCAL));
            assert_eq!((volume.spec_name.as_str(), volume.read_only), ("pv", false));
            assert_eq!(scene.mounts(), [LOCAL.to_owned()].into());
        }
        assert_eq!(scene.text(&format!("{LOCAL}/data")), "kept");
        // What is bound is not asked for again while the pod lives.
        scene.server.remove("persistentvolumeclaims", "c");
        volumes.refresh(&pod).await.unwrap();
        for _ in 0..2 {
            volumes.unmount(&uid()).await.unwrap();
            scene.assert_nothing_is_left();
        }
        assert_kept(&precious);
    });
}

#[test]
fn a_volume_of_a_driver_is_waited_for_and_used_until_its_pod_is_gone() {
    on_disks(async |scene| {
        let (volumes, pod) = (scene.volumes(), claiming(false));
        let mut in_use = scene.in_use.subscribe();
        volumes.settle();
        bound(
            &scene,
            &json!({"csi": {"driver": "d", "volumeHandle": "h"}}),
        );
        let fails = async || volumes.mount(&pod).await.unwrap_err();
        let waiting = fails().await;
        assert!(waiting.failures[0].problem.is_awaited() && !waiting.is_unprocessed());
        assert_eq!(
            waiting.to_string(),
            "unmounted volumes=[data], unattached volumes=[data], failed to process volumes=[]: context deadline exceeded"
        );
        let name = "kubernetes.io/csi/d^h";
        assert_eq!(in_use.borrow_and_update().as_deref().unwrap(), [name]);
        let status = json!({
            "volumesInUse": [name],
            "volumesAttached": [{"name": name, "devicePath": ""}],
        });
        let uid = uid();
        let mut changed = pin!(volumes.changed(&uid));
        let soon = Duration::from_secs(1);
        assert!(tokio::time::timeout(soon, &mut changed).await.is_err());
        let node = from_json(json!({"metadata": {"name": "n"}, "status": status}));
        scene.own_node.send_replace(Some(Arc::new(node)));
        tokio::time::timeout(soon, changed).await.unwrap();
        // printf 'hdn' | sha256sum
        let attachment = "csi-9072ed11cc1acb5fa433a877ff339b6311d013f33bddd1d0092711a8ace5b16d";
        let failure = |error: MountError| error.failures[0].to_string();
        assert_eq!(
            failure(fails().await),
            format!(
                "MountVolume.WaitForAttach failed for volume \"pv\" : volume h has GET error for volume attachment {attachment}: volumeattachments \"{attachment}\" not found"
            )
        );
        let attached = json!({
            "spec": {"attacher": "d", "nodeName": "n", "source": {}},
            "status": {"attached": true},
        });
        scene.server.put("volumeattachments", attachment, attached);
        assert_eq!(
            failure(fails().await),
            "MountVolume.MountDevice failed for volume \"pv\" : kubernetes.io/csi: attacher.MountDevice failed to create newCsiDriverClient: driver name d not found in the list of registered CSI drivers"
        );
        assert!(!in_use.has_changed().unwrap());
        volumes.unmount(&uid).await.unwrap();
        assert_eq!(*in_use.borrow_and_update(), Some(Vec::new()));
    });
}

#[test]
fn a_volume_that_nobody_attaches_is_not_waited_for() {
    on_disks(async |scene| {
        let (volumes, pod) = (scene.volumes(), claiming(false));
        volumes.settle();
        bound(
            &scene,
            &json!({"csi": {"driver": "d", "volumeHandle": "h"}}),
        );
        let driver = json!({"spec": {"attachRequired": false}});
        scene.server.put("csidrivers", "d", driver);
        let error = volumes.mount(&pod).await.unwrap_err();
        assert!(!error.failures[0].problem.is_awaited(), "{error}");
        assert_eq!(*scene.in_use.borrow(), Some(Vec::new()));
    });
}

#[test]
fn parts_of_a_claimed_volume_go_by_the_volumes_own_name() {
    on_disks(async |scene| {
        let (volumes, precious) = (scene.volumes(), precious());
        bound(&scene, &json!({"local": {"path": precious.path()}}));
        let mounted = volumes.mount(&claiming(false)).await.unwrap().volumes;
        let (uid, part) = (uid(), "logs");
        let at = volumes.bind_sub_path(&uid, &mounted[0], "m", 0, part);
        assert_eq!(at.await.unwrap(), scene.path("volume-subpaths/pv/m/0"));
        volumes.unmount(&uid).await.unwrap();
        scene.assert_nothing_is_left();
        assert!(precious.path().join("logs").is_dir());
        assert_kept(&precious);
    });
}

#[test]
fn a_claim_for_reading_only_gives_a_mount_that_cannot_be_written() {
    on_disks(async |scene| {
        let (volumes, precious) = (scene.volumes(), precious());
        let options = ["noexec", "discard"];
        bound(
            &scene,
            &json!({"local": {"path": precious.path()}, "mountOptions": options}),
        );
        let mut pod = claiming(true);
        let spec = pod.spec.as_mut().unwrap();
        spec.security_context = Some(from_json(json!({"fsGroup": 4242})));
        let mounted = volumes.mount(&pod).await.unwrap();
        let volume = &mounted.volumes[0];
        assert_eq!((volume.read_only, volume.fs_group), (true, None));
        let refused = fs::write(volume.path.join("new"), "").unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
        let flags = rustix::fs::statvfs(&volume.path).unwrap().f_flag;
        assert!(flags.contains(rustix::fs::StatVfsMountFlags::NOEXEC));
        // The first place of it is as it was.
        fs::write(precious.path().join("new"), "").unwrap();
        assert_eq!(fs::metadata(precious.path()).unwrap().gid(), 0);
        volumes.unmount(&uid()).await.unwrap();
        scene.assert_nothing_is_left();
    });
}

pub(super) fn with_group(group: u32, uid: &str) -> Pod {
    let mut pod = claiming(false);
    pod.metadata.uid = Some(uid.to_owned());
    let spec = pod.spec.as_mut().unwrap();
    spec.security_context = Some(from_json(json!({"fsGroup": group})));
    pod
}

#[test]
fn a_group_gets_a_local_volume_once_and_a_second_one_is_warned() {
    on_disks(async |scene| {
        let (volumes, precious) = (scene.volumes(), precious());
        bound(&scene, &json!({"local": {"path": precious.path()}}));
        let group = || fs::metadata(precious.path().join("data")).unwrap().gid();
        let first = volumes.mount(&with_group(4242, UID)).await.unwrap();
        assert_eq!((group(), first.notices), (4242, vec![]));
        let second = volumes.mount(&with_group(4343, "other")).await.unwrap();
        assert_eq!(group(), 4242, "it is the first one's");
        let told: Vec<_> = second
            .notices
            .iter()
            .map(|it| (it.reason, it.message.as_str()))
            .collect();
        assert_eq!(
            told,
            [(
                "AlreadyMountedVolume",
                "The requested fsGroup is 4343, but the volume pv has GID 4242. The volume may not be shareable."
            )]
        );
        let again = volumes.mount(&with_group(4343, "other")).await.unwrap();
        assert!(again.notices.is_empty(), "once is enough");
        volumes.unmount(&uid()).await.unwrap();
        volumes.unmount(&PodUid::new("other")).await.unwrap();
        assert_kept(&precious);
    });
}

/// Of another group, as containers leave files.
fn belong(precious: &TempDir, group: u32) {
    for path in [precious.path(), &precious.path().join("data")] {
        std::os::unix::fs::chown(path, None, Some(group)).unwrap();
    }
}

#[test]
fn a_group_that_was_not_given_all_because_the_agent_died_is_given_it_later() {
    on_disks(async |scene| {
        let (volumes, precious) = (scene.volumes(), precious());
        bound(&scene, &json!({"local": {"path": precious.path()}}));
        let pod = with_group(4242, UID);
        volumes.mount(&pod).await.unwrap();
        let begun = scene.path("plugins/kubernetes.io~local-volume/pv/begun");
        assert!(!begun.exists(), "it was given all");
        // It is mounted, and that is all: as if the agent had ended in between.
        belong(&precious, 0);
        fs::write(&begun, "").unwrap();
        scene.volumes().mount(&pod).await.unwrap();
        let data = fs::metadata(precious.path().join("data")).unwrap();
        assert_eq!(data.gid(), 4242);
        assert!(!begun.exists(), "once is enough");
        volumes.unmount(&uid()).await.unwrap();
        scene.assert_nothing_is_left();
    });
}

#[test]
fn what_a_container_gave_to_another_group_is_left_to_it() {
    on_disks(async |scene| {
        let (volumes, precious) = (scene.volumes(), precious());
        bound(&scene, &json!({"local": {"path": precious.path()}}));
        let pod = with_group(4242, UID);
        volumes.mount(&pod).await.unwrap();
        belong(&precious, 5555);
        for agent in [volumes, scene.volumes()] {
            let again = agent.mount(&pod).await.unwrap();
            assert!(again.notices.is_empty());
            let data = fs::metadata(precious.path().join("data")).unwrap();
            assert_eq!(data.gid(), 5555);
        }
        scene.volumes().unmount(&uid()).await.unwrap();
        scene.assert_nothing_is_left();
    });
}

#[test]
fn what_a_volume_refuses_is_told_with_the_step_that_found_it() {
    on_disks(async |scene| {
        let (volumes, precious) = (scene.volumes(), precious());
        let file = precious.path().join("data");
        let labels = json!({"metadata": {"labels": {"zone": "a"}}});
        scene
            .own_node
            .send_replace(Some(Arc::new(from_json(labels))));
        let in_zone = |zone: &str| {
            let term =
                json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]});
            json!({"required": {"nodeSelectorTerms": [term]}})
        };
        let path = precious.path();
        let cases = [
            (
                json!({"local": {"path": path}, "nodeAffinity": in_zone("b")}),
                "MountVolume.NodeAffinity check failed for volume \"pv\" : no matching NodeSelectorTerms".to_owned(),
            ),
            (
                json!({"hostPath": {"path": path}, "mountOptions": ["ro"]}),
                "MountVolume.MountOptionSupport check failed for volume \"pv\" : mount options are not supported for this volume type".to_owned(),
            ),
            (
                json!({"local": {"path": "/no/such"}}),
                "MountVolume.NewMounter initialization failed for volume \"pv\" : path \"/no/such\" does not exist".to_owned(),
            ),
            (
                json!({"local": {"path": file}}),
                "MountVolume.NewMounter initialization failed for volume \"pv\" : only directory and block device are supported".to_owned(),
            ),
            (
                json!({"hostPath": {"path": file, "type": "Directory"}}),
                format!("MountVolume.SetUp failed for volume \"pv\" : hostPath type check failed: {} is not a directory", file.display()),
            ),
        ];
        for (source, wanted) in cases {
            bound(&scene, &source);
            let error = volumes.mount(&claiming(false)).await.unwrap_err();
            assert!(!error.is_unprocessed(), "{source}");
            assert_eq!(error.failures[0].to_string(), wanted);
        }
        bound(
            &scene,
            &json!({"local": {"path": path}, "nodeAffinity": in_zone("a")}),
        );
        volumes.mount(&claiming(false)).await.unwrap();
        volumes.unmount(&uid()).await.unwrap();
        scene.assert_nothing_is_left();
    });
}

#[test]
fn a_kind_of_volume_that_is_not_there_is_told_in_upstreams_words() {
    on_disks(async |scene| {
        let volumes = scene.volumes();
        bound(&scene, &json!({"nfs": {"server": "s", "path": "/"}}));
        let error = volumes.mount(&claiming(false)).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "unmounted volumes=[data], unattached volumes=[], failed to process volumes=[data]: \
             failed to get Plugin from volumeSpec for volume \"pv\" err=no volume plugin matched"
        );
        bound(
            &scene,
            &json!({"local": {"path": "/"}, "volumeMode": "Block"}),
        );
        let error = volumes.mount(&claiming(false)).await.unwrap_err();
        let wanted = "volume data has volumeMode Block, but is specified in volumeMounts";
        assert!(error.to_string().ends_with(wanted), "{error}");
    });
}

#[test]
fn of_two_pods_that_come_at_once_to_a_volume_for_one_pod_one_gets_it() {
    on_disks(async |scene| {
        let (volumes, precious) = (scene.volumes(), precious());
        bound(
            &scene,
            &json!({"local": {"path": precious.path()}, "accessModes": ["ReadWriteOncePod"]}),
        );
        let pods = ["a", "b", "c", "d"].map(|uid| with_group(4242, uid));
        for round in 0..20 {
            let [a, b, c, d] = &pods;
            let mounts = tokio::join!(
                volumes.mount(a),
                volumes.mount(b),
                volumes.mount(c),
                volumes.mount(d)
            );
            let got = [mounts.0, mounts.1, mounts.2, mounts.3];
            let got = got.iter().filter(|outcome| outcome.is_ok()).count();
            assert_eq!(got, 1, "round {round}");
            for pod in &pods {
                let uid = pod.metadata.uid.as_deref().unwrap();
                volumes.unmount(&PodUid::new(uid)).await.unwrap();
            }
        }
        assert_kept(&precious);
    });
}

#[test]
fn a_volume_for_one_pod_is_refused_to_a_second_until_the_first_is_gone() {
    on_disks(async |scene| {
        let (volumes, precious) = (scene.volumes(), precious());
        bound(
            &scene,
            &json!({"local": {"path": precious.path()}, "accessModes": ["ReadWriteOncePod"]}),
        );
        let mut other = claiming(false);
        other.metadata.uid = Some("other".to_owned());
        volumes.mount(&claiming(false)).await.unwrap();
        volumes.mount(&claiming(false)).await.unwrap();
        let error = volumes.mount(&other).await.unwrap_err();
        assert_eq!(
            error.failures[0].to_string(),
            "MountVolume.SetUp failed for volume \"pv\" : volume uses the ReadWriteOncePod access mode and is already in use by another pod"
        );
        volumes.unmount(&uid()).await.unwrap();
        volumes.mount(&other).await.unwrap();
        volumes.unmount(&PodUid::new("other")).await.unwrap();
        assert_kept(&precious);
    });
}

#[test]
fn an_ephemeral_volume_is_its_pods_own_or_refused() {
    on_disks(async |scene| {
        let (volumes, precious) = (scene.volumes(), precious());
        bound(&scene, &json!({"local": {"path": precious.path()}}));
        let pod = pod(&json!([{"name": "data", "ephemeral": {}}]));
        let mut claim = json!({
            "metadata": {"uid": "c-1"}, "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"},
        });
        scene
            .server
            .put("persistentvolumeclaims", "p-data", claim.clone());
        let error = volumes.mount(&pod).await.unwrap_err().to_string();
        let wanted = "PVC ns/p-data was not created for pod ns/p (pod is not owner)";
        assert!(error.ends_with(wanted), "{error}");
        let owner =
            json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": UID, "controller": true});
        claim["metadata"]["ownerReferences"] = json!([owner]);
        scene.server.put("persistentvolumeclaims", "p-data", claim);
        volumes.mount(&pod).await.unwrap();
        assert_eq!(scene.text(&format!("{LOCAL}/data")), "kept");
        volumes.unmount(&uid()).await.unwrap();
        assert_kept(&precious);
    });
}

#[test]
fn a_group_that_the_volume_names_is_the_pods_unless_it_has_it() {
    on_disks(async |scene| {
        let volumes = scene.volumes();
        bound(&scene, &json!({"hostPath": {"path": "/proc"}}));
        let volume = json!({
            "metadata": {"annotations": {"pv.beta.kubernetes.io/gid": "777"}},
            "spec": {"hostPath": {"path": "/proc"}, "claimRef": {"uid": "c-1"}},
        });
        scene.server.put("persistentvolumes", "pv", volume);
        let mounted = volumes.mount(&claiming(true)).await.unwrap();
        let found = &mounted.volumes[0];
        assert_eq!((found.extra_group, found.read_only), (Some(777), true));
        assert_eq!(found.path, Path::new("/proc"));
        let mut pod = claiming(false);
        let spec = pod.spec.as_mut().unwrap();
        spec.security_context = Some(from_json(json!({"supplementalGroups": [777]})));
        let mounted = volumes.mount(&pod).await.unwrap();
        assert_eq!(mounted.volumes[0].extra_group, None);
        volumes.unmount(&uid()).await.unwrap();
    });
}
