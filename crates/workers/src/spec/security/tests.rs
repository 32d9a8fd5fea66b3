use serde_json::{Value, json};

use super::*;
use crate::spec::testing;

fn settings() -> SecuritySettings {
    SecuritySettings {
        seccomp_root: PathBuf::from("/var/lib/kubelet/seccomp"),
        seccomp_default: false,
        throttle_files: vec!["/sys/devices/system/cpu/cpu0/thermal_throttle".to_owned()],
        selinux: false,
    }
}

fn pod_with(context: &Value) -> Pod {
    testing::pod(&json!({ "securityContext": context }))
}

fn container_with(context: &Value) -> Container {
    testing::container(&json!({ "securityContext": context }))
}

fn of(pod: &Value, container: &Value, user: &ImageUser) -> cri::LinuxContainerSecurityContext {
    let (pod, container) = (pod_with(pod), container_with(container));
    let security = PodSecurity::default();
    of_container(&pod, &container, user, &security, &settings()).unwrap()
}

fn plain(pod: &Value, container: &Value) -> cri::LinuxContainerSecurityContext {
    of(pod, container, &ImageUser::Id(0))
}

fn value(number: Option<cri::Int64Value>) -> Option<i64> {
    number.map(|number| number.value)
}

#[test]
fn a_container_that_says_nothing_runs_as_its_image_with_everything_masked() {
    let context = plain(&json!(null), &json!(null));
    assert_eq!(value(context.run_as_user), Some(0));
    assert_eq!(context.masked_paths.len(), 13);
    assert_eq!(context.masked_paths[12], settings().throttle_files[0]);
    assert_eq!(context.readonly_paths, READ_ONLY);
    assert_eq!(context.seccomp, Some(profile(ProfileType::Unconfined, "")));
    assert_eq!((context.apparmor, context.capabilities), (None, None));
    assert!(!context.privileged && !context.readonly_rootfs && !context.no_new_privs);
    assert_eq!(
        (context.selinux_options, context.run_as_group),
        (None, None)
    );
}

#[test]
fn the_container_comes_before_the_pod_and_the_pod_before_the_image() {
    let named = ImageUser::Name("app".to_owned());
    let numbered = ImageUser::Id(7);
    for (pod, container, image, user, name) in [
        (json!({}), json!({}), &numbered, Some(7), ""),
        (json!({}), json!({}), &named, None, "app"),
        (json!({ "runAsUser": 5 }), json!({}), &named, Some(5), ""),
        (
            json!({ "runAsUser": 5 }),
            json!({ "runAsUser": 6 }),
            &named,
            Some(6),
            "",
        ),
        (json!({}), json!({ "runAsUser": 0 }), &numbered, Some(0), ""),
    ] {
        let context = of(&pod, &container, image);
        assert_eq!(value(context.run_as_user), user, "{pod} {container}");
        assert_eq!(context.run_as_username, name, "{pod} {container}");
    }
    let group = |pod: Value, container: Value| value(plain(&pod, &container).run_as_group);
    assert_eq!(group(json!({ "runAsGroup": 3 }), json!({})), Some(3));
    assert_eq!(
        group(json!({ "runAsGroup": 3 }), json!({ "runAsGroup": 4 })),
        Some(4)
    );
    let level = |pod: Value, container: Value| {
        plain(&pod, &container)
            .selinux_options
            .map(|options| options.level)
    };
    let options = |level: &str| json!({ "seLinuxOptions": { "level": level } });
    assert_eq!(level(options("s0"), json!({})).as_deref(), Some("s0"));
    assert_eq!(level(options("s0"), options("s1")).as_deref(), Some("s1"));
}

#[test]
fn what_only_containers_can_say_is_taken_as_said() {
    let context = plain(
        &json!({}),
        &json!({
            "privileged": true,
            "readOnlyRootFilesystem": true,
            "allowPrivilegeEscalation": false,
            "procMount": "Unmasked",
            "capabilities": { "add": ["NET_ADMIN"], "drop": ["ALL"] },
        }),
    );
    assert!(context.privileged && context.readonly_rootfs && context.no_new_privs);
    assert!(context.masked_paths.is_empty() && context.readonly_paths.is_empty());
    let capabilities = context.capabilities.unwrap();
    assert_eq!(capabilities.add_capabilities, ["NET_ADMIN"]);
    assert_eq!(capabilities.drop_capabilities, ["ALL"]);
    let context = plain(
        &json!({}),
        &json!({ "allowPrivilegeEscalation": true, "procMount": "Default" }),
    );
    assert!(!context.no_new_privs && !context.masked_paths.is_empty());
}

#[test]
fn seccomp_is_the_containers_or_the_pods_or_the_nodes() {
    let asked = |kind: &str| json!({ "seccompProfile": { "type": kind } });
    let file = json!({ "seccompProfile": { "type": "Localhost", "localhostProfile": "a/b.json" } });
    let path = "/var/lib/kubelet/seccomp/a/b.json";
    for (pod, container, kind, reference) in [
        (
            json!({}),
            asked("RuntimeDefault"),
            ProfileType::RuntimeDefault,
            "",
        ),
        (
            asked("RuntimeDefault"),
            json!({}),
            ProfileType::RuntimeDefault,
            "",
        ),
        (
            asked("RuntimeDefault"),
            asked("Unconfined"),
            ProfileType::Unconfined,
            "",
        ),
        (json!({}), file.clone(), ProfileType::Localhost, path),
        (
            file,
            asked("RuntimeDefault"),
            ProfileType::RuntimeDefault,
            "",
        ),
        (
            json!({}),
            json!({ "privileged": true }),
            ProfileType::Unconfined,
            "",
        ),
    ] {
        let context = plain(&pod, &container);
        assert_eq!(
            context.seccomp,
            Some(profile(kind, reference)),
            "{pod} {container}"
        );
    }
    let settings = SecuritySettings {
        seccomp_default: true,
        ..settings()
    };
    let (pod, container) = (pod_with(&json!({})), container_with(&json!({})));
    let (user, security) = (ImageUser::Id(0), PodSecurity::default());
    let context = of_container(&pod, &container, &user, &security, &settings).unwrap();
    assert_eq!(
        context.seccomp,
        Some(profile(ProfileType::RuntimeDefault, ""))
    );
    let container = container_with(&asked("Localhost"));
    let error = of_container(&pod, &container, &user, &security, &settings).unwrap_err();
    let text = "localhostProfile must be set if seccompProfile type is Localhost.";
    assert_eq!(error.to_string(), text);
}

#[test]
fn apparmor_is_the_containers_or_an_annotation_or_the_pods() {
    let asked = |kind: &str, name: Value| json!({ "appArmorProfile": { "type": kind, "localhostProfile": name } });
    let none = json!(null);
    for (pod, annotation, container, expected) in [
        (json!({}), None, json!({}), None),
        (
            json!({}),
            Some("unconfined"),
            asked("Localhost", json!("mine")),
            Some((ProfileType::Localhost, "mine")),
        ),
        (
            asked("Unconfined", none.clone()),
            Some("localhost/yours"),
            json!({}),
            Some((ProfileType::Localhost, "yours")),
        ),
        (
            asked("Unconfined", none.clone()),
            Some("runtime/default"),
            json!({}),
            Some((ProfileType::RuntimeDefault, "")),
        ),
        (
            json!({}),
            Some("unconfined"),
            json!({}),
            Some((ProfileType::Unconfined, "")),
        ),
        (
            asked("RuntimeDefault", none.clone()),
            Some("nonsense"),
            json!({}),
            Some((ProfileType::RuntimeDefault, "")),
        ),
    ] {
        let mut pod = pod_with(&pod);
        let key = "container.apparmor.security.beta.kubernetes.io/app".to_owned();
        pod.metadata.annotations = annotation.map(|text| [(key, text.to_owned())].into());
        let container = container_with(&container);
        let found = app_armor(&pod, &container, &Effective::of(&pod, &container)).unwrap();
        let expected = expected.map(|(kind, name)| profile(kind, name));
        assert_eq!(found, expected, "{annotation:?}");
    }
    let old = |kind: &str, name: Value| plain(&asked(kind, name), &json!({})).apparmor_profile;
    assert_eq!(old("RuntimeDefault", none.clone()), "runtime/default");
    assert_eq!(old("Unconfined", none.clone()), "unconfined");
    assert_eq!(old("Localhost", json!("mine")), "localhost/mine");
    assert_eq!(plain(&json!({}), &json!({})).apparmor_profile, "");
    for (context, text) in [
        (
            asked("Localhost", none.clone()),
            "missing localhost apparmor profile name",
        ),
        (
            asked("Odd", none.clone()),
            "unknown apparmor profile type: \"Odd\"",
        ),
    ] {
        let pod = pod_with(&context);
        let container = container_with(&json!({}));
        let error = app_armor(&pod, &container, &Effective::of(&pod, &container)).unwrap_err();
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn groups_are_listed_in_upstreams_order_which_differs() {
    let pod = pod_with(&json!({
        "fsGroup": 1, "supplementalGroups": [2, 3], "supplementalGroupsPolicy": "Strict",
    }));
    let security = PodSecurity {
        volume_groups: vec![9],
        ..PodSecurity::default()
    };
    let user = ImageUser::Id(0);
    let container = container_with(&json!({}));
    let context = of_container(&pod, &container, &user, &security, &settings()).unwrap();
    assert_eq!(context.supplemental_groups, [1, 2, 3, 9]);
    assert_eq!(
        context.supplemental_groups_policy(),
        SupplementalGroupsPolicy::Strict
    );
    let sandbox = of_sandbox(&pod, &security).unwrap();
    assert_eq!(sandbox.supplemental_groups, [1, 9, 2, 3]);
    assert_eq!(
        sandbox.supplemental_groups_policy(),
        SupplementalGroupsPolicy::Strict
    );
    let pod = pod_with(&json!({ "supplementalGroupsPolicy": "Odd" }));
    let error = of_sandbox(&pod, &security).unwrap_err().to_string();
    assert_eq!(error, "unsupported supplementalGroupsPolicy: Odd");
}

#[test]
fn namespaces_are_the_pods_unless_shared() {
    use NamespaceMode::{Container, Node, Pod};
    for (spec, network, pid, ipc) in [
        (json!({}), Pod, Container, Pod),
        (json!({ "hostNetwork": true }), Node, Container, Pod),
        (json!({ "hostIPC": true }), Pod, Container, Node),
        (json!({ "shareProcessNamespace": true }), Pod, Pod, Pod),
        (
            json!({ "shareProcessNamespace": true, "hostPID": true }),
            Pod,
            Node,
            Pod,
        ),
        (json!({ "hostUsers": true }), Pod, Container, Pod),
    ] {
        let found = namespaces(&testing::pod(&spec), &PodSecurity::default()).unwrap();
        assert_eq!(
            (found.network(), found.pid(), found.ipc()),
            (network, pid, ipc),
            "{spec}"
        );
        let users = found.userns_options.unwrap();
        assert_eq!((users.mode(), users.uids.len()), (Node, 0), "{spec}");
    }
}

#[test]
fn users_of_its_own_are_ids_that_the_pod_was_given() {
    let pod = testing::pod(&json!({ "hostUsers": false }));
    let security = PodSecurity {
        user_namespace: Some(IdRange {
            first: 131_072,
            length: 65_536,
        }),
        ..PodSecurity::default()
    };
    let users = namespaces(&pod, &security).unwrap().userns_options.unwrap();
    assert_eq!(users.mode(), NamespaceMode::Pod);
    for ids in [&users.uids, &users.gids] {
        assert_eq!(
            (ids[0].host_id, ids[0].container_id, ids[0].length),
            (131_072, 0, 65_536)
        );
    }
    let error = namespaces(&pod, &PodSecurity::default()).unwrap_err();
    assert_eq!(error, SecurityError::NoUserNamespace);
}

#[test]
fn a_sandbox_is_privileged_if_any_container_is_and_always_confined() {
    let privileged = json!({ "name": "p", "securityContext": { "privileged": true } });
    let plain = json!({ "name": "c", "securityContext": { "privileged": false } });
    for (spec, expected) in [
        (json!({ "containers": [plain] }), false),
        (json!({ "containers": [plain, privileged] }), true),
        (
            json!({ "containers": [plain], "initContainers": [privileged] }),
            true,
        ),
        (
            json!({ "containers": [plain], "ephemeralContainers": [privileged] }),
            true,
        ),
    ] {
        let context = of_sandbox(&testing::pod(&spec), &PodSecurity::default()).unwrap();
        assert_eq!(context.privileged, expected, "{spec}");
        assert_eq!(
            context.seccomp,
            Some(profile(ProfileType::RuntimeDefault, ""))
        );
    }
}

#[test]
fn a_sandbox_has_the_rest_only_if_its_pod_has_a_security_context() {
    let none = of_sandbox(&testing::pod(&json!({})), &PodSecurity::default()).unwrap();
    assert_eq!((none.namespace_options, none.run_as_user), (None, None));
    let pod = pod_with(&json!({
        "runAsUser": 5, "runAsGroup": 6, "seLinuxOptions": { "user": "u", "role": "r", "type": "t", "level": "l" },
    }));
    let context = of_sandbox(&pod, &PodSecurity::default()).unwrap();
    assert!(context.namespace_options.is_some());
    assert_eq!(
        (value(context.run_as_user), value(context.run_as_group)),
        (Some(5), Some(6))
    );
    let options = context.selinux_options.unwrap();
    let options = [
        &options.user,
        &options.role,
        &options.r#type,
        &options.level,
    ];
    assert_eq!(options, ["u", "r", "t", "l"]);
}

#[test]
fn who_must_not_be_root_is_not() {
    let non_root = json!({ "runAsNonRoot": true });
    let named = ImageUser::Name("app".to_owned());
    let place = "(pod: \"web_shop(u-1)\", container: app)";
    let root = "container has runAsNonRoot and image will run as root";
    for (pod, container, user, expected) in [
        (json!({}), json!({}), ImageUser::Id(0), None),
        (
            non_root.clone(),
            json!({ "runAsNonRoot": false }),
            ImageUser::Id(0),
            None,
        ),
        (non_root.clone(), json!({}), ImageUser::Id(5), None),
        (non_root.clone(), json!({}), ImageUser::Id(0), Some(root)),
        (json!({}), non_root.clone(), ImageUser::Id(0), Some(root)),
        (
            non_root.clone(),
            json!({ "runAsUser": 5 }),
            ImageUser::Id(0),
            None,
        ),
        (
            non_root.clone(),
            json!({ "runAsUser": 0 }),
            ImageUser::Id(5),
            Some("container's runAsUser breaks non-root policy"),
        ),
        (
            non_root.clone(),
            json!({}),
            named.clone(),
            Some(
                "container has runAsNonRoot and image has non-numeric user (app), cannot verify user is non-root",
            ),
        ),
        (non_root.clone(), json!({ "runAsUser": 5 }), named, None),
        (
            non_root.clone(),
            json!({}),
            ImageUser::Id(-1),
            Some(
                "container has runAsNonRoot and image has an invalid user id (-1). (Must be 1-(2147483647)): must be between 0 and 2147483647, inclusive",
            ),
        ),
    ] {
        let outcome = verify_non_root(&pod_with(&pod), &container_with(&container), &user);
        let expected = expected.map(|text| format!("{text} {place}"));
        let found = outcome.err().map(|error| error.to_string());
        assert_eq!(found, expected, "{pod} {container} {user:?}");
    }
}

#[test]
fn an_image_that_names_no_user_runs_as_root() {
    let image = |uid: Option<i64>, username: &str| cri::Image {
        uid: uid.map(number),
        username: username.to_owned(),
        ..Default::default()
    };
    for (image, user) in [
        (None, ImageUser::Id(0)),
        (Some(image(None, "")), ImageUser::Id(0)),
        (Some(image(Some(5), "")), ImageUser::Id(5)),
        (Some(image(Some(5), "app")), ImageUser::Id(5)),
        (Some(image(None, "app")), ImageUser::Name("app".to_owned())),
    ] {
        assert_eq!(ImageUser::of(image.as_ref()), user);
    }
}

#[test]
fn profiles_are_found_below_their_directory_without_detours() {
    for (name, expected) in [
        ("a.json", "/s/a.json"),
        ("./a//b.json", "/s/a/b.json"),
        ("/a.json", "/s/a.json"),
        ("a/../b.json", "/s/b.json"),
    ] {
        assert_eq!(below(Path::new("/s"), name), Path::new(expected), "{name}");
    }
}

#[test]
fn what_tells_of_throttled_cpus_is_masked_where_it_is() {
    let file = |cpu: u32| format!("/sys/devices/system/cpu/cpu{cpu}/thermal_throttle");
    for (possible, expected) in [
        ("0-2\n", vec![0, 2]),
        ("0,2,4-5\n", vec![0, 2, 4]),
        ("1", vec![]),
        // The kernel does not tell: so many as run.
        ("", vec![0, 2]),
        ("0-x", vec![0, 2]),
    ] {
        let found = throttle_files(possible, 4, |path| {
            [file(0), file(2), file(4)].contains(&path.to_owned())
        });
        let expected: Vec<String> = expected.into_iter().map(file).collect();
        assert_eq!(found, expected, "{possible:?}");
    }
}

#[test]
fn what_is_for_windows_is_ignored() {
    let windows = json!({ "windowsOptions": {
        "hostProcess": true, "runAsUserName": "ContainerUser", "gmsaCredentialSpec": "{}",
    } });
    assert_eq!(plain(&windows, &windows), plain(&json!({}), &json!({})));
    let security = PodSecurity::default();
    let with = of_sandbox(&pod_with(&windows), &security).unwrap();
    assert_eq!(with, of_sandbox(&pod_with(&json!({})), &security).unwrap());
}

#[test]
fn users_of_its_own_are_for_handlers_that_can_give_them() {
    let handlers: BTreeMap<String, bool> = [("", true), ("runc", true), ("old", false)]
        .map(|(name, can)| (name.to_owned(), can))
        .into();
    let unable: BTreeMap<String, bool> = [(String::new(), false)].into();
    let silent = BTreeMap::new();
    let start = "can't set `spec.hostUsers: false`, ";
    for (handlers, handler, expected) in [
        (&handlers, "", None),
        (&handlers, "runc", None),
        (
            &handlers,
            "old",
            Some("RuntimeClass handler \"old\" does not support user namespaces"),
        ),
        (
            &handlers,
            "no",
            Some(
                "RuntimeClass handler \"no\" does not support user namespaces: the handler \"no\" is not known",
            ),
        ),
        (
            &unable,
            "",
            Some("runtime does not support user namespaces"),
        ),
        (
            &silent,
            "",
            Some("runtime does not support user namespaces"),
        ),
    ] {
        let outcome = verify_user_namespaces(handlers, handler);
        let found = outcome.err().map(|error| error.to_string());
        let expected = expected.map(|text| format!("{start}{text}"));
        assert_eq!(found, expected, "{handler:?}");
    }
}
