use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::{Value, json};

use super::*;
use crate::spec::downward::Surroundings;
use crate::spec::env::Sources;
use crate::spec::testing;

fn path_volume(path: &str) -> MountedVolume {
    MountedVolume {
        content: VolumeContent::Path(PathBuf::from(path)),
        read_only: false,
        relabel: true,
    }
}

fn volumes() -> BTreeMap<String, MountedVolume> {
    let image = cri::ImageSpec {
        image: "sha256:1".to_owned(),
        ..Default::default()
    };
    let config = MountedVolume {
        read_only: true,
        ..path_volume("/pods/config")
    };
    let image = MountedVolume {
        content: VolumeContent::Image(image),
        read_only: true,
        relabel: false,
    };
    let host = MountedVolume {
        relabel: false,
        ..path_volume("/host")
    };
    [
        ("data", path_volume("/pods/data")),
        ("config", config),
        ("image", image),
        ("host", host),
    ]
    .map(|(name, volume)| (name.to_owned(), volume))
    .into()
}

fn environment(variables: &Value) -> Environment {
    let sources = Sources {
        services: Some(&[]),
        config_maps: &BTreeMap::<String, ConfigMap>::new(),
        secrets: &BTreeMap::<String, Secret>::new(),
        unanswered: &BTreeMap::new(),
        has_api: true,
        files: None,
        surroundings: &Surroundings::default(),
    };
    let pod = testing::pod(&json!({ "enableServiceLinks": true }));
    let container = testing::container(&json!({ "env": variables }));
    Environment::of(&pod, &container, &sources).unwrap()
}

/// What a test changes of the sources.
struct Case {
    spec: Value,
    selinux: bool,
    recursive: bool,
    has_addresses: bool,
    sub_paths: BTreeMap<usize, PathBuf>,
    users: Option<cri::UserNamespace>,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            spec: json!({}),
            selinux: false,
            recursive: true,
            has_addresses: false,
            sub_paths: BTreeMap::new(),
            users: None,
        }
    }
}

impl Case {
    fn mounts(&self, fields: &Value) -> Result<Vec<cri::Mount>, String> {
        let env = environment(&json!([{ "name": "A", "value": "a" }, { "name": "EMPTY" }]));
        let sources = MountSources {
            volumes: &volumes(),
            sub_paths: &self.sub_paths,
            hosts_file: Path::new("/pods/etc-hosts"),
            termination_file: Some(Path::new("/pods/containers/app/0000002a")),
            has_addresses: self.has_addresses,
            recursive_read_only: self.recursive,
            selinux: self.selinux,
        };
        let (pod, container) = (testing::pod(&self.spec), testing::container(fields));
        let made = mounts(&pod, &container, &env, &sources, self.users.as_ref());
        made.map_err(|error| error.to_string())
    }

    fn one(&self, mount: &Value) -> Result<cri::Mount, String> {
        let made = self.mounts(&json!({ "volumeMounts": [mount] }))?;
        Ok(made.into_iter().next().unwrap())
    }
}

fn paths(mounts: &[cri::Mount]) -> Vec<(&str, &str)> {
    mounts
        .iter()
        .map(|mount| (mount.host_path.as_str(), mount.container_path.as_str()))
        .collect()
}

#[test]
fn mounts_come_in_upstreams_order() {
    let case = Case {
        has_addresses: true,
        ..Case::default()
    };
    let fields = json!({
        "volumeMounts": [
            { "name": "host", "mountPath": "/h" },
            { "name": "data", "mountPath": "relative" },
        ],
        "terminationMessagePath": "/dev/termination-log",
    });
    let made = case.mounts(&fields).unwrap();
    let expected = [
        ("/host", "/h"),
        ("/pods/data", "/relative"),
        ("/pods/etc-hosts", "/etc/hosts"),
        ("/pods/containers/app/0000002a", "/dev/termination-log"),
    ];
    assert_eq!(paths(&made), expected);
}

#[test]
fn the_hosts_file_is_there_when_the_pod_has_a_network_and_the_container_no_file_of_its_own() {
    let own = json!({ "volumeMounts": [{ "name": "data", "mountPath": "/etc/hosts" }] });
    for (spec, has_addresses, fields, expected) in [
        (json!({}), false, json!({}), false),
        (json!({}), true, json!({}), true),
        (json!({ "hostNetwork": true }), false, json!({}), true),
        (json!({}), true, own, false),
    ] {
        let pod = testing::pod(&spec);
        let container = testing::container(&fields);
        assert_eq!(
            wants_hosts_file(&pod, &container, has_addresses),
            expected,
            "{fields}"
        );
    }
}

#[test]
fn a_mount_is_read_only_by_its_own_word_or_its_volumes() {
    for (mount, expected) in [
        (json!({ "name": "data", "mountPath": "/d" }), false),
        (
            json!({ "name": "data", "mountPath": "/d", "readOnly": true }),
            true,
        ),
        (json!({ "name": "config", "mountPath": "/d" }), true),
    ] {
        let made = Case::default().one(&mount).unwrap();
        assert_eq!(made.readonly, expected, "{mount}");
    }
}

#[test]
fn mounts_of_others_are_seen_as_asked() {
    for (mode, expected) in [
        (json!(null), MountPropagation::PropagationPrivate),
        (json!("None"), MountPropagation::PropagationPrivate),
        (
            json!("HostToContainer"),
            MountPropagation::PropagationHostToContainer,
        ),
        (
            json!("Bidirectional"),
            MountPropagation::PropagationBidirectional,
        ),
    ] {
        let mount = json!({ "name": "data", "mountPath": "/d", "mountPropagation": mode });
        assert_eq!(Case::default().one(&mount).unwrap().propagation(), expected);
    }
    let mount = json!({ "name": "data", "mountPath": "/d", "mountPropagation": "Odd" });
    let error = Case::default().one(&mount).unwrap_err();
    assert_eq!(error, "invalid MountPropagation mode: \"Odd\"");
}

#[test]
fn read_only_all_the_way_down_if_it_can_be_or_must_be() {
    let prefix = "failed to resolve recursive read-only mode: ";
    let asking = "volume \"data\" requested recursive read-only mode, but it is not ";
    let mount = |mode: &str, read_only: bool, propagation: &str| {
        json!({
            "name": "data", "mountPath": "/d", "readOnly": read_only,
            "recursiveReadOnly": mode, "mountPropagation": propagation,
        })
    };
    for (mount, supported, expected) in [
        (mount("Disabled", false, "Bidirectional"), true, Ok(false)),
        (mount("IfPossible", true, "None"), true, Ok(true)),
        (mount("IfPossible", true, "None"), false, Ok(false)),
        (mount("Enabled", true, "None"), true, Ok(true)),
        (
            mount("Enabled", true, "None"),
            false,
            Err(format!("{prefix}{asking}supported by the runtime")),
        ),
        (
            mount("Enabled", false, "None"),
            true,
            Err(format!("{prefix}{asking}read-only")),
        ),
        (
            mount("IfPossible", true, "HostToContainer"),
            true,
            Err(format!(
                "{prefix}{asking}compatible with propagation \"HostToContainer\""
            )),
        ),
        (
            mount("Odd", true, "None"),
            true,
            Err(format!("{prefix}unknown recursive read-only mode \"Odd\"")),
        ),
    ] {
        let case = Case {
            recursive: supported,
            ..Case::default()
        };
        let found = case.one(&mount).map(|mount| mount.recursive_read_only);
        assert_eq!(found, expected, "{mount}");
    }
}

#[test]
fn labels_are_set_for_every_mount_where_there_is_selinux() {
    let fields = json!({
        "volumeMounts": [
            { "name": "data", "mountPath": "/a" },
            { "name": "data", "mountPath": "/b" },
            { "name": "host", "mountPath": "/c" },
        ],
        "terminationMessagePath": "/t",
    });
    let relabelled = |selinux: bool| -> Vec<bool> {
        let case = Case {
            selinux,
            has_addresses: true,
            ..Case::default()
        };
        case.mounts(&fields)
            .unwrap()
            .iter()
            .map(|mount| mount.selinux_relabel)
            .collect()
    };
    assert_eq!(relabelled(true), [true, true, false, true, true]);
    assert_eq!(relabelled(false), [false; 5]);
}

#[test]
fn every_mount_has_the_ids_of_the_pods_users() {
    let mapping = cri::IdMapping {
        host_id: 65_536,
        container_id: 0,
        length: 65_536,
    };
    let case = Case {
        has_addresses: true,
        users: Some(cri::UserNamespace {
            uids: vec![mapping],
            gids: vec![mapping],
            ..Default::default()
        }),
        ..Case::default()
    };
    let made = case.mounts(&json!({ "volumeMounts": [{ "name": "data", "mountPath": "/a" }] }));
    for mount in made.unwrap() {
        assert_eq!(mount.uid_mappings, [mapping]);
        assert_eq!(mount.gid_mappings, [mapping]);
    }
}

#[test]
fn parts_of_volumes_are_mounted_from_where_they_were_prepared() {
    let case = Case {
        sub_paths: [(0, PathBuf::from("/pods/volume-subpaths/data/app/0"))].into(),
        ..Case::default()
    };
    let mount = json!({ "name": "data", "mountPath": "/d", "subPath": "part" });
    let made = case.one(&mount).unwrap();
    assert_eq!(made.host_path, "/pods/volume-subpaths/data/app/0");
    let error = Case::default().one(&mount).unwrap_err();
    let text = "failed to prepare subPath for volumeMount \"data\" of container \"app\"";
    assert_eq!(error, text);
    let mount = json!({ "name": "absent", "mountPath": "/d" });
    let error = Case::default().one(&mount).unwrap_err();
    assert_eq!(
        error,
        "cannot find volume \"absent\" to mount into container \"app\""
    );
}

#[test]
fn an_image_is_mounted_by_its_name_and_part() {
    let mount = json!({ "name": "image", "mountPath": "/i", "subPath": "part" });
    let made = Case::default().one(&mount).unwrap();
    assert_eq!(
        (made.host_path.as_str(), made.image_sub_path.as_str()),
        ("", "part")
    );
    assert_eq!(made.image.unwrap().image, "sha256:1");
}

#[test]
fn beside_an_image_the_part_is_named_for_every_mount_as_upstream_does() {
    let mut volumes = volumes();
    let mount = json!({ "name": "data", "mountPath": "/d", "subPath": "part" });
    let container = testing::container(&json!({ "volumeMounts": [mount] }));
    let mut part = |with_image: bool| {
        if !with_image {
            volumes.remove("image");
        }
        let sources = MountSources {
            volumes: &volumes,
            sub_paths: &[(0, PathBuf::from("/parts/0"))].into(),
            hosts_file: Path::new("/pods/etc-hosts"),
            termination_file: None,
            has_addresses: false,
            recursive_read_only: false,
            selinux: false,
        };
        let pod = testing::pod(&json!({}));
        let made = mounts(&pod, &container, &environment(&json!([])), &sources, None);
        made.unwrap().remove(0).image_sub_path
    };
    assert_eq!(part(true), "part");
    assert_eq!(part(false), "");
}

#[test]
fn the_part_of_a_volume_is_inside_it() {
    let env = environment(&json!([{ "name": "A", "value": "a" }, { "name": "EMPTY" }]));
    let part = |fields: Value| {
        let mut mount = json!({ "name": "data", "mountPath": "/d" });
        mount
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        let mount: VolumeMount = serde_json::from_value(mount).unwrap();
        sub_path(&mount, &env).map_err(|error| error.to_string())
    };
    for (fields, expected) in [
        (json!({}), Ok(None)),
        (json!({ "subPath": "" }), Ok(None)),
        (json!({ "subPath": "a/b" }), Ok(Some("a/b"))),
        (json!({ "subPath": "$(A)" }), Ok(Some("$(A)"))),
        (json!({ "subPath": "..a" }), Ok(Some("..a"))),
        (json!({ "subPathExpr": "x/$(A)" }), Ok(Some("x/a"))),
        (
            json!({ "subPathExpr": "$(NO)$(EMPTY)" }),
            Err("missing value for EMPTY, NO"),
        ),
        (
            json!({ "subPath": "/a" }),
            Err("error SubPath `/a` must not be an absolute path"),
        ),
        (
            json!({ "subPath": "a/../b" }),
            Err("unable to provision SubPath `a/../b`: must not contain '..'"),
        ),
    ] {
        let expected = expected
            .map(|path| path.map(str::to_owned))
            .map_err(str::to_owned);
        assert_eq!(part(fields.clone()), expected, "{fields}");
    }
}

#[test]
fn last_words_have_a_file_for_each_start() {
    let directory = Path::new("/pods/u/containers/app");
    let expected = PathBuf::from("/pods/u/containers/app/0000002a");
    assert_eq!(termination_file(directory, 42), expected);
    let none = Case::default()
        .mounts(&json!({ "terminationMessagePath": "" }))
        .unwrap();
    assert_eq!(none.len(), 0);
}
