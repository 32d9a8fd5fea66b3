//! What the runtime may label for a pod (SELinux): what is the pod's own. What is the
//! machine's keeps its labels, or others could not use it any more.

use super::claims::{assert_kept, bound, claiming, precious};
use super::*;

#[test]
fn a_volume_of_the_pods_own_is_labelled_for_it_and_nothing_of_the_machines() {
    on_disks(async |scene| {
        furnished(&scene);
        let volumes = scene.volumes();
        let mut pod = every_kind();
        let image = json!({"name": "picture", "image": {"reference": "r.io/picture:1"}});
        let spec = pod.spec.as_mut().unwrap();
        spec.volumes.as_mut().unwrap().push(from_json(image));
        let mounts = spec.containers[0].volume_mounts.as_mut().unwrap();
        mounts.push(from_json(
            json!({"name": "picture", "mountPath": "/picture"}),
        ));
        let mounted = volumes.mount(&pod).await.unwrap().volumes;
        let labelled: Vec<_> = mounted
            .iter()
            .map(|volume| (volume.name.as_str(), volume.relabel))
            .collect();
        assert_eq!(
            labelled,
            [
                ("plain", true),
                ("fast", true),
                ("machine", false),
                ("config", true),
                ("key", true),
                ("self", true),
                ("access", true),
                ("picture", false)
            ]
        );
        volumes.unmount(&uid()).await.unwrap();
        scene.assert_nothing_is_left();
    });
}

#[test]
fn a_claimed_volume_is_labelled_for_its_pod_unless_it_is_read_only_or_a_path_of_the_machine() {
    on_disks(async |scene| {
        let (volumes, precious) = (scene.volumes(), precious());
        let path = precious.path();
        for (source, read_only, relabel) in [
            (json!({"local": {"path": path}}), false, true),
            (json!({"local": {"path": path}}), true, false),
            (json!({"hostPath": {"path": path}}), false, false),
        ] {
            bound(&scene, &source);
            let mounted = volumes.mount(&claiming(read_only)).await.unwrap();
            let found = mounted.volumes[0].relabel;
            assert_eq!(found, relabel, "{source}, read only: {read_only}");
            volumes.unmount(&uid()).await.unwrap();
        }
        assert_kept(&precious);
    });
}
