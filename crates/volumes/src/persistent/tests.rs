use serde_json::{Value, json};

use super::*;
use crate::testing::from_json;

fn volume(spec: &Value, annotations: &Value) -> PersistentVolume {
    from_json(json!({"metadata": {"name": "pv", "annotations": annotations}, "spec": spec}))
}

fn ask() -> ClaimAsk {
    ClaimAsk {
        claim: "c".to_owned(),
        read_only: false,
        ephemeral: false,
    }
}

fn found(used: &Value, spec: &Value, annotations: &Value) -> Result<Persistent, String> {
    let mut container = json!({"name": "m"});
    container[used[0].as_str().unwrap()] = json!([used[1]]);
    let pod: Pod = from_json(json!({"spec": {"containers": [container]}}));
    let data: Volume =
        from_json(json!({"name": "data", "persistentVolumeClaim": {"claimName": "c"}}));
    of(&pod, &data, &ask(), &volume(spec, annotations)).map_err(|error| error.to_string())
}

fn mounted() -> Value {
    json!(["volumeMounts", {"name": "data", "mountPath": "/d"}])
}

#[test]
fn a_volume_is_used_as_its_mode_says() {
    let device = json!(["volumeDevices", {"name": "data", "devicePath": "/d"}]);
    let cases = [
        (mounted(), json!({"local": {"path": "/d"}}), None),
        (
            mounted(),
            json!({"local": {"path": "/d"}, "volumeMode": "Filesystem"}),
            None,
        ),
        (
            mounted(),
            json!({"local": {"path": "/d"}, "volumeMode": "Block"}),
            Some("volume data has volumeMode Block, but is specified in volumeMounts"),
        ),
        (
            device.clone(),
            json!({"local": {"path": "/d"}}),
            Some("volume data has volumeMode Filesystem, but is specified in volumeDevices"),
        ),
        (
            device,
            json!({"local": {"path": "/d"}, "volumeMode": "Block"}),
            Some(
                "volumes of kind persistentVolumeClaim with volumeMode Block are not supported by this kubelet yet",
            ),
        ),
        (
            mounted(),
            json!({"nfs": {"server": "s", "path": "/"}}),
            Some(
                "failed to get Plugin from volumeSpec for volume \"pv\" err=no volume plugin matched",
            ),
        ),
    ];
    for (used, spec, wanted) in cases {
        let error = found(&used, &spec, &json!({})).err();
        assert_eq!(error.as_deref(), wanted, "{spec}");
    }
}

#[test]
fn options_and_groups_are_read_where_they_may_be() {
    let local = |more: &str, value: Value| {
        let mut spec = json!({"local": {"path": "/d"}});
        spec[more] = value;
        spec
    };
    let options =
        |spec: &Value, annotations: &Value| found(&mounted(), spec, annotations).unwrap().options;
    let in_field = local("mountOptions", json!(["a", "b"]));
    assert_eq!(options(&in_field, &json!({})), ["a", "b"]);
    let old = json!({"volume.beta.kubernetes.io/mount-options": "c,,d"});
    assert_eq!(options(&in_field, &old), ["c", "d"]);
    for (text, group) in [("12", Some(12)), ("x", None)] {
        let annotations = json!({"pv.beta.kubernetes.io/gid": text});
        let persistent = found(&mounted(), &in_field, &annotations).unwrap();
        assert_eq!(persistent.group, group);
    }
    for (modes, one_pod) in [
        (json!(["ReadWriteOncePod"]), true),
        (json!(["ReadWriteOnce"]), false),
        // Which of them the pod means nobody knows.
        (json!(["ReadWriteOncePod", "ReadWriteOnce"]), false),
    ] {
        let spec = local("accessModes", modes.clone());
        let persistent = found(&mounted(), &spec, &json!({})).unwrap();
        assert_eq!(persistent.one_pod, one_pod, "{modes}");
    }
}
