use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use resources::linux::Swap;
use seams::host::CgroupVersion;
use serde_json::{Value, json};

use super::*;
use crate::spec::downward::Surroundings;
use crate::spec::env::Sources;
use crate::spec::testing;

fn enforcement() -> Enforcement {
    Enforcement {
        version: CgroupVersion::V2,
        cpu_quota: true,
        quota_period: 100_000,
        kill_single_process: false,
        swap: Swap::Uncontrolled,
        memory: 1 << 33,
        huge_page_sizes: Vec::new(),
        memory_qos: None,
    }
}

fn of(
    pod: &Pod,
    container: &Container,
    target: Option<&str>,
) -> Result<cri::ContainerConfig, ContainerError> {
    let secret = json!({ "data": { "RAW": "/w==" } });
    let sources = Sources {
        services: Some(&[]),
        config_maps: &BTreeMap::<String, ConfigMap>::new(),
        secrets: &BTreeMap::<String, Secret>::from([(
            "secret".to_owned(),
            serde_json::from_value(secret).unwrap(),
        )]),
        unanswered: &BTreeMap::new(),
        has_api: true,
        files: None,
        surroundings: &Surroundings::default(),
    };
    let environment = Environment::of(pod, container, &sources).unwrap();
    let sources = ContainerSources {
        restart_count: 3,
        image: "sha256:1",
        image_user: &ImageUser::Id(0),
        environment: &environment,
        mounts: MountSources {
            volumes: &BTreeMap::new(),
            sub_paths: &BTreeMap::new(),
            hosts_file: Path::new("/pods/etc-hosts"),
            termination_file: None,
            has_addresses: true,
            recursive_read_only: false,
            selinux: false,
        },
        enforcement: &enforcement(),
        security: &PodSecurity {
            user_namespace: Some(security::IdRange {
                first: 65_536,
                length: 65_536,
            }),
            ..PodSecurity::default()
        },
        settings: &SecuritySettings::default(),
        stop_signals: true,
        target,
    };
    config(pod, container, &sources)
}

fn pod(spec: &Value) -> Pod {
    let mut spec = spec.clone();
    spec["enableServiceLinks"] = json!(true);
    testing::pod(&spec)
}

#[test]
fn a_container_is_its_spec_and_what_the_node_adds() {
    let container = testing::container(&json!({
        "command": ["run", "$(A)", "$(NO)"],
        "args": ["--x=$(A)", "$$(A)"],
        "env": [{ "name": "A", "value": "a" }],
        "workingDir": "/work",
        "stdin": true,
        "stdinOnce": true,
        "tty": true,
        "resources": { "limits": { "cpu": "1" } },
    }));
    let config = of(&pod(&json!({})), &container, None).unwrap();
    let metadata = config.metadata.unwrap();
    assert_eq!((metadata.name.as_str(), metadata.attempt), ("app", 3));
    let image = config.image.unwrap();
    assert_eq!(
        (image.image.as_str(), image.user_specified_image.as_str()),
        ("sha256:1", "example/app:1")
    );
    assert_eq!(config.command, ["run", "a", "$(NO)"]);
    assert_eq!(config.args, ["--x=a", "$(A)"]);
    assert_eq!(config.working_dir, "/work");
    assert_eq!(
        (config.envs[0].key.as_str(), &config.envs[0].value[..]),
        ("A", &b"a"[..])
    );
    assert_eq!(config.mounts[0].container_path, "/etc/hosts");
    assert_eq!(config.labels["io.kubernetes.container.name"], "app");
    assert_eq!(
        config.annotations["io.kubernetes.container.restartCount"],
        "3"
    );
    assert_eq!(config.log_path, "app/3.log");
    assert!(config.stdin && config.stdin_once && config.tty);
    let linux = config.linux.unwrap();
    assert_eq!(linux.resources.unwrap().cpu_quota, 100_000);
    assert_eq!(
        linux.security_context.unwrap().run_as_user.unwrap().value,
        0
    );
    assert_eq!(config.stop_signal, 0);
}

#[test]
fn a_container_that_must_not_be_root_is_not_made() {
    let container = testing::container(&json!({ "securityContext": { "runAsNonRoot": true } }));
    let error = of(&pod(&json!({})), &container, None)
        .unwrap_err()
        .to_string();
    let text = "container has runAsNonRoot and image will run as root (pod: \"web_shop(u-1)\", container: app)";
    assert_eq!(error, text);
}

#[test]
fn a_command_with_bytes_that_are_no_text_is_refused() {
    let secret = json!({ "secretKeyRef": { "name": "secret", "key": "RAW" } });
    let env = json!([{ "name": "RAW", "valueFrom": secret }]);
    let container = testing::container(&json!({ "command": ["$(RAW)"], "env": env }));
    let error = of(&pod(&json!({})), &container, None).unwrap_err();
    assert!(matches!(error, ContainerError::Command(_)), "{error}");
}

#[test]
fn mounts_have_the_users_of_a_pod_that_has_its_own() {
    let container = testing::container(&json!({}));
    let mappings = |spec: &Value| {
        of(&pod(spec), &container, None).unwrap().mounts[0]
            .uid_mappings
            .len()
    };
    assert_eq!(mappings(&json!({ "hostUsers": false })), 1);
    assert_eq!(mappings(&json!({})), 0);
}

#[test]
fn an_ephemeral_container_sees_the_processes_of_its_target_unless_all_are_shared() {
    let ephemeral: EphemeralContainer = serde_json::from_value(json!({
        "name": "debug", "image": "example/debug:1", "command": ["sh"], "stdin": true, "tty": true,
        "targetContainerName": "app", "workingDir": "/w",
    }))
    .unwrap();
    let container = of_ephemeral(&ephemeral);
    let look = |spec: &Value, target| {
        let config = of(&pod(spec), &container, target).unwrap();
        let context = config.linux.unwrap().security_context.unwrap();
        let namespaces = context.namespace_options.unwrap();
        (namespaces.pid(), namespaces.target_id)
    };
    let plain = json!({});
    assert_eq!(
        look(&plain, Some("id-1")),
        (NamespaceMode::Target, "id-1".to_owned())
    );
    assert_eq!(
        look(&plain, None),
        (NamespaceMode::Container, String::new())
    );
    let shared = json!({ "shareProcessNamespace": true });
    assert_eq!(
        look(&shared, Some("id-1")),
        (NamespaceMode::Pod, String::new())
    );
    let config = of(&pod(&plain), &container, None).unwrap();
    assert_eq!(
        (config.command, config.tty, config.working_dir),
        (vec!["sh".to_owned()], true, "/w".to_owned())
    );
}

#[test]
fn a_container_may_choose_how_it_is_asked_to_end_where_that_is_enabled() {
    for (lifecycle, enabled, wanted) in [
        (json!({}), true, cri::Signal::RuntimeDefault),
        (
            json!({ "stopSignal": "SIGUSR1" }),
            true,
            cri::Signal::Sigusr1,
        ),
        (
            json!({ "stopSignal": "SIGRTMIN+3" }),
            true,
            cri::Signal::Sigrtminplus3,
        ),
        (
            json!({ "stopSignal": "SIGUSR1" }),
            false,
            cri::Signal::RuntimeDefault,
        ),
    ] {
        let container = testing::container(&json!({ "lifecycle": lifecycle }));
        assert_eq!(stop_signal(&container, enabled), wanted, "{lifecycle}");
        if enabled {
            let config = of(&pod(&json!({})), &container, None).unwrap();
            assert_eq!(config.stop_signal(), wanted, "{lifecycle}");
        }
    }
}
