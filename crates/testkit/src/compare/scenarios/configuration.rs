//! What containers are told: environments, and the objects they come from.

use serde_json::{Value, json};

use super::super::manifest::{FOREVER, Pod, config_map, container, pod, secret};
use super::super::scenario::Scenario;

const FIELDS: [&str; 11] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.labels['app']",
    "metadata.annotations['note']",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
];

fn env_of_references() -> Vec<Value> {
    let fields = FIELDS.iter().enumerate().map(|(index, path)| {
        let from = json!({"fieldRef": {"fieldPath": path}});
        json!({"name": format!("FIELD_{index:02}"), "valueFrom": from})
    });
    let resources = RESOURCES.iter().enumerate().map(|(index, resource)| {
        let from = json!({"resourceFieldRef": {"resource": resource}});
        json!({"name": format!("RESOURCE_{index}"), "valueFrom": from})
    });
    let shares = json!({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}});
    let shares = json!({"name": "MILLIS", "valueFrom": shares});
    fields.chain(resources).chain([shares]).collect()
}

fn key_of(kind: &str, name: &str, key: &str, optional: bool) -> Value {
    let from = json!({kind: {"name": name, "key": key, "optional": optional}});
    json!({"env": [{"name": "VALUE", "valueFrom": from}]})
}

/// A container that has read its variables out of a file that another wrote before it.
fn reading(script: &str, content: &str, env: &[Value]) -> Pod {
    let mut writer = container("writer", "printf '%s' \"$CONTENT\" > /v/some.env");
    writer["env"] = json!([{"name": "CONTENT", "value": content}]);
    writer["volumeMounts"] = json!([{"name": "v0", "mountPath": "/v"}]);
    pod("p", script)
        .volume("/v", &json!({"emptyDir": {}}))
        .spec(&json!({"initContainers": [writer]}))
        .main(&json!({"env": env}))
}

fn of_file(name: &str, key: &str, optional: bool) -> Value {
    json!({"name": name, "valueFrom": {"fileKeyRef": {
        "volumeName": "v0", "path": "some.env", "key": key, "optional": optional,
    }}})
}

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "env-references",
        "fields and resources of the pod as variables",
        |stage| {
            let pod = pod("p", "env | sort")
                .metadata(&json!({"labels": {"app": "a"}, "annotations": {"note": "n"}}))
                .main(&json!({"env": env_of_references()}))
                .main(&json!({"resources": {
                    "requests": {"cpu": "10m", "memory": "16Mi", "ephemeral-storage": "1Mi"},
                    "limits": {"cpu": "1500m", "memory": "32Mi", "ephemeral-storage": "64Mi"},
                }}));
            stage.see(pod)
        },
    )
    .ci(),
    Scenario::new(
        "env-of-the-node",
        "limits that are not set are the node's",
        |stage| stage.see(pod("p", "env | sort").main(&json!({"env": env_of_references()}))),
    ),
    Scenario::new(
        "env-expansion",
        "variables in variables, commands and arguments",
        |stage| {
            let change = json!({
                "env": [
                    {"name": "A", "value": "a"},
                    {"name": "B", "value": "$(A)b $$(A) $(MISSING) $A $("},
                    {"name": "C", "value": "$(B)$(KUBERNETES_SERVICE_HOST)"},
                ],
                "command": ["sh", "-c", "env | sort; echo \"$@\"", "$(A)"],
                "args": ["$(B)", "$(C)", "$$(C)", "$(MISSING)"],
            });
            stage.see(pod("p", "").main(&change))
        },
    ),
    Scenario::new(
        "env-from",
        "all keys of a ConfigMap and of a Secret",
        |stage| {
            stage.make(
                "/api/v1",
                "configmaps",
                &config_map("c", &json!({"A": "1", "B": "2"})),
            )?;
            stage.make(
                "/api/v1",
                "secrets",
                &secret("s", &json!({"A": "3", "D": "4"})),
            )?;
            let from = json!({"envFrom": [
                {"configMapRef": {"name": "c"}},
                {"prefix": "S_", "secretRef": {"name": "s"}},
                {"secretRef": {"name": "absent", "optional": true}},
            ]});
            stage.see(pod("p", "env | sort").main(&from))
        },
    ),
    Scenario::new(
        "env-two-hundred",
        "a pod with two hundred variables",
        |stage| {
            let variable = |number: u32| {
                let value = format!("$(V{})x", number.saturating_sub(1));
                json!({"name": format!("V{number}"), "value": if number.is_multiple_of(10) { "y" } else { &value }})
            };
            let env: Vec<Value> = (0..200).map(variable).collect();
            stage.see(pod("p", "env | sort").main(&json!({"env": env})))
        },
    ),
    Scenario::new(
        "env-of-a-file",
        "variables out of a file that an init container wrote",
        |stage| {
            let content = "# a file\nONE='first'\n\nTWO='$(A) two'\n";
            let env = [
                of_file("A", "ONE", false),
                of_file("B", "TWO", false),
                of_file("C", "absent", true),
            ];
            stage.see(reading("env | sort", content, &env))
        },
    ),
    Scenario::new(
        "env-of-a-file-key-missing",
        "a file without the key",
        |stage| {
            let env = [of_file("A", "absent", false)];
            stage.create(reading(FOREVER, "ONE='first'\n", &env))?;
            stage.state("p", "main", "waiting:CreateContainerConfigError")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "env-config-map-late",
        "a container waits for its ConfigMap",
        |stage| {
            stage.create(pod("p", FOREVER).main(&key_of("configMapKeyRef", "c", "k", false)))?;
            stage.state("p", "main", "waiting:CreateContainerConfigError")?;
            stage.make(
                "/api/v1",
                "configmaps",
                &config_map("c", &json!({"k": "v"})),
            )?;
            stage.running("p")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "env-secret-key-missing",
        "a Secret without the key",
        |stage| {
            stage.make("/api/v1", "secrets", &secret("s", &json!({"other": "v"})))?;
            stage.create(pod("p", FOREVER).main(&key_of("secretKeyRef", "s", "k", false)))?;
            stage.state("p", "main", "waiting:CreateContainerConfigError")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "env-optional-missing",
        "what is optional may be missing",
        |stage| {
            let pod = pod("p", "echo VALUE=${VALUE-unset}");
            stage.see(pod.main(&key_of("configMapKeyRef", "absent", "k", true)))
        },
    ),
    Scenario::new(
        "working-dir",
        "a container begins where it is told",
        |stage| stage.see(pod("p", "pwd").main(&json!({"workingDir": "/some/where"}))),
    ),
    Scenario::new(
        "entrypoint-of-the-image",
        "arguments alone go to the image's program",
        |stage| {
            stage.see(pod("p", "").main(&json!({"command": null, "args": ["echo", "from args"]})))
        },
    ),
];
