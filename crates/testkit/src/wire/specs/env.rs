//! The environment of containers.

use serde_json::{Value, json};

use crate::wire::spec::{Spec, Until, Written, spec};

fn field(name: &str, path: &str) -> Value {
    json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}})
}

fn resource(name: &str, resource: &str, divisor: &str) -> Value {
    json!({"name": name, "valueFrom": {"resourceFieldRef": {
        "resource": resource, "divisor": divisor,
    }}})
}

fn key(source: &str, object: &str, key: &str) -> Value {
    json!({"name": "VALUE", "valueFrom": {source: {"name": object, "key": key}}})
}

fn optional(source: &str, object: &str, key: &str) -> Value {
    json!({"name": "VALUE", "valueFrom": {source: {
        "name": object, "key": key, "optional": true,
    }}})
}

fn from_file(name: &str, key: &str, optional: bool) -> Value {
    json!({"name": name, "valueFrom": {"fileKeyRef": {
        "volumeName": "shared", "path": "some.env", "key": key, "optional": optional,
    }}})
}

pub(super) fn specs() -> Vec<Spec> {
    [literal(), of_objects(), of_fields(), of_services()].concat()
}

fn literal() -> Vec<Spec> {
    vec![
        spec("env").main(json!({"env": [
            {"name": "B", "value": "b"}, {"name": "A", "value": "a"}, {"name": "EMPTY"},
            {"name": "with.dot-and-dash", "value": "é\n\"x\""},
        ]})),
        spec("env-expands").main(json!({
            "env": [
                {"name": "A", "value": "a"}, {"name": "B", "value": "$(A)-$(C)-$$(A)-$(A"},
                {"name": "C", "value": "$(B)$(B)"}, {"name": "D", "value": "$$$(A)$"},
            ],
            "command": ["$(A)", "$$(A)", "$(NOBODY)"], "args": ["$(C)", "x$(B)y"],
        })),
        spec("env-twice").main(json!({"env": [
            {"name": "A", "value": "1"}, {"name": "B", "value": "$(A)"},
            {"name": "A", "value": "2"}, {"name": "C", "value": "$(A)"},
        ]})),
        spec("env-of-services-expands").main(json!({
            "env": [{"name": "URL", "value": "$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_PORT)"}],
            "args": ["$(KUBERNETES_SERVICE_PORT_HTTPS)"],
        })),
        spec("env-hides-a-service").main(json!({"env": [
            {"name": "KUBERNETES_SERVICE_HOST", "value": "mine"},
            {"name": "X", "value": "$(KUBERNETES_SERVICE_HOST)"},
        ]})),
    ]
}

fn of_objects() -> Vec<Spec> {
    let from =
        |source: &str, name: &str, prefix: &str| json!({"prefix": prefix, source: {"name": name}});
    let maybe = |source: &str| json!({source: {"name": "nobody", "optional": true}});
    vec![
        spec("env-config-map-key")
            .main(json!({"env": [key("configMapKeyRef", "settings", "COLOUR")]})),
        spec("env-secret-key").main(json!({"env": [key("secretKeyRef", "password", "user")]})),
        spec("env-optional-keys").main(json!({"env": [
            optional("configMapKeyRef", "settings", "nothing"),
            optional("configMapKeyRef", "nobody", "x"),
            optional("secretKeyRef", "nobody", "x"),
        ]})),
        spec("env-missing-key")
            .main(json!({"env": [key("configMapKeyRef", "settings", "nothing")]}))
            .until(Until::Waiting("main", "CreateContainerConfigError")),
        spec("env-from-config-map")
            .main(json!({"envFrom": [from("configMapRef", "settings", "")]})),
        spec("env-from-secret").main(json!({"envFrom": [from("secretRef", "password", "")]})),
        spec("env-from-with-prefix").main(json!({"envFrom": [
            from("configMapRef", "settings", "S_"), from("secretRef", "password", "x."),
        ]})),
        spec("env-from-nobody")
            .main(json!({"envFrom": [maybe("configMapRef"), maybe("secretRef")]})),
        spec("env-from-several").main(json!({
            "envFrom": [
                from("configMapRef", "settings", ""), from("secretRef", "password", ""),
            ],
            "env": [
                {"name": "SIZE", "value": "mine"}, {"name": "X", "value": "$(COLOUR)/$(SIZE)"},
            ],
        })),
        spec("env-of-a-file")
            .pod(json!({"volumes": [{"name": "shared", "emptyDir": {}}]}))
            .init(
                "writer",
                json!({"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}),
            )
            .story("run-time.writer", "4s")
            .written(Written {
                volume: "shared",
                name: "some.env",
                content: "# a file\nF='of a file'\n\nG='$(F)'\n",
            })
            .main(json!({
                "env": [from_file("F", "F", false), from_file("G", "G", false),
                    from_file("H", "nothing", true)],
                "args": ["$(F)"],
            })),
    ]
}

fn of_fields() -> Vec<Spec> {
    let sizes = json!({"requests": {"cpu": "15m", "memory": "12Mi", "ephemeral-storage": "5Mi"},
        "limits": {"cpu": "1500m", "memory": "20Mi", "ephemeral-storage": "9Mi"}});
    let all = |divisors: [&str; 3]| {
        json!([
            resource("LC", "limits.cpu", divisors[0]),
            resource("RC", "requests.cpu", divisors[0]),
            resource("LM", "limits.memory", divisors[1]),
            resource("RM", "requests.memory", divisors[1]),
            resource("LE", "limits.ephemeral-storage", divisors[2]),
            resource("RE", "requests.ephemeral-storage", divisors[2]),
        ])
    };
    vec![
        spec("env-of-the-pod")
            .metadata(json!({
                "labels": {"app": "web", "example.org/tier": "front"},
                "annotations": {"note": "two\nlines"},
            }))
            .main(json!({"env": [
                field("NAME", "metadata.name"), field("NAMESPACE", "metadata.namespace"),
                field("UID", "metadata.uid"), field("APP", "metadata.labels['app']"),
                field("TIER", "metadata.labels['example.org/tier']"),
                field("NOTE", "metadata.annotations['note']"),
                field("NONE", "metadata.labels['none']"),
                field("NODE", "spec.nodeName"), field("ACCOUNT", "spec.serviceAccountName"),
            ]})),
        spec("env-of-addresses").main(json!({"env": [
            field("HOST_IP", "status.hostIP"), field("HOST_IPS", "status.hostIPs"),
            field("POD_IP", "status.podIP"), field("POD_IPS", "status.podIPs"),
        ]})),
        spec("env-of-addresses-in-the-host-network")
            .pod(json!({"hostNetwork": true}))
            .main(json!({"env": [
                field("HOST_IP", "status.hostIP"), field("POD_IP", "status.podIP"),
                field("POD_IPS", "status.podIPs"),
            ]})),
        spec("env-of-resources").main(json!({"resources": sizes, "env": all(["0", "0", "0"])})),
        spec("env-of-resources-divided")
            .main(json!({"resources": sizes, "env": all(["1m", "1Mi", "1k"])})),
        spec("env-of-resources-that-are-not-set").main(json!({"env": [
            resource("LC", "limits.cpu", "1m"), resource("RC", "requests.cpu", "1m"),
            resource("LM", "limits.memory", "1Mi"), resource("RM", "requests.memory", "1Mi"),
        ]})),
        spec("env-of-another-containers-resources")
            .and(
                "other",
                json!({"resources": {"limits": {"memory": "11Mi"}}}),
            )
            .main(
                json!({"env": [{"name": "M", "valueFrom": {"resourceFieldRef": {
                    "containerName": "other", "resource": "limits.memory",
                }}}]}),
            ),
    ]
}

fn of_services() -> Vec<Spec> {
    vec![
        spec("service-links").pod(json!({"enableServiceLinks": true})),
        spec("service-links-expand")
            .pod(json!({"enableServiceLinks": true}))
            .main(json!({"env": [{"name": "URL", "value": "$(WEB_FRONT_PORT_80_TCP)"}]})),
    ]
}
