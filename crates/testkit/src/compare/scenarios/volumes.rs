//! Volumes: what is in them, with which modes, and what a pod does without.

use serde_json::json;

use super::super::manifest::{FOREVER, config_map, container, pod, secret};
use super::super::scenario::Scenario;

/// Every file below `/v` with its modes and content.
const SHOW: &str = "cd /v; for f in $(find . -not -path './..*' | sort); do \
    stat -L -c '%A %u %g %n' $f; test -f $f && cat $f && echo; done; true";

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new("volume-config-map", "the files of a ConfigMap", |stage| {
        let map = config_map("c", &json!({"a": "1", "b.txt": "two"}));
        stage.make("/api/v1", "configmaps", &map)?;
        stage.see(pod("p", SHOW).volume("/v", &json!({"configMap": {"name": "c"}})))
    }),
    Scenario::new(
        "volume-config-map-items",
        "chosen keys at paths with modes",
        |stage| {
            let map = config_map("c", &json!({"a": "1", "b": "2", "c": "3"}));
            stage.make("/api/v1", "configmaps", &map)?;
            let items =
                json!([{"key": "a", "path": "x/y/a", "mode": 0o400}, {"key": "b", "path": "b"}]);
            let source = json!({"configMap": {"name": "c", "defaultMode": 0o640, "items": items}});
            stage.see(pod("p", SHOW).volume("/v", &source))
        },
    ),
    Scenario::new("volume-secret", "the files of a Secret", |stage| {
        stage.make(
            "/api/v1",
            "secrets",
            &secret("s", &json!({"user": "u", "word": "w"})),
        )?;
        let source = json!({"secret": {"secretName": "s", "defaultMode": 0o400}});
        stage.see(pod("p", SHOW).volume("/v", &source))
    }),
    Scenario::new("volume-downward", "fields of the pod as files", |stage| {
        let field =
            |path: &str, field: &str| json!({"path": path, "fieldRef": {"fieldPath": field}});
        let cpu = json!({"containerName": "main", "resource": "limits.cpu", "divisor": "1m"});
        let items = json!([
            field("labels", "metadata.labels"),
            field("annotations", "metadata.annotations"),
            field("deep/name", "metadata.name"),
            field("uid", "metadata.uid"),
            {"path": "cpu", "resourceFieldRef": cpu, "mode": 0o444},
        ]);
        let pod = pod("p", SHOW)
            .metadata(&json!({"labels": {"b": "2", "a": "1"}, "annotations": {"n": "x \"y\"\nz"}}))
            .main(&json!({"resources": {"limits": {"cpu": "250m"}}}))
            .volume("/v", &json!({"downwardAPI": {"items": items}}));
        stage.see(pod)
    }),
    Scenario::new(
        "volume-projected",
        "several sources in one volume",
        |stage| {
            stage.make(
                "/api/v1",
                "configmaps",
                &config_map("c", &json!({"a": "1"})),
            )?;
            stage.make("/api/v1", "secrets", &secret("s", &json!({"b": "2"})))?;
            let name = json!({"path": "name", "fieldRef": {"fieldPath": "metadata.name"}});
            let sources = json!([
                {"configMap": {"name": "c", "items": [{"key": "a", "path": "map/a"}]}},
                {"secret": {"name": "s"}},
                {"downwardAPI": {"items": [name]}},
                {"secret": {"name": "absent", "optional": true}},
            ]);
            stage.see(pod("p", SHOW).volume("/v", &json!({"projected": {"sources": sources}})))
        },
    )
    .ci(),
    Scenario::new(
        "service-account",
        "the token, the CA and the namespace of an account",
        |stage| {
            let script = "cd /var/run/secrets/kubernetes.io/serviceaccount; \
            for f in *; do stat -L -c '%A %u %g %n' $f; done; cat namespace; echo; \
            head -1 ca.crt; test $(wc -c < token) -gt 500 && echo a token";
            stage.see(pod("p", script))
        },
    ),
    Scenario::new(
        "service-account-as-user",
        "a token is its user's",
        |stage| {
            let script = "cd /var/run/secrets/kubernetes.io/serviceaccount; \
            for f in *; do stat -L -c '%A %u %g %n' $f; done; test -r token && echo readable";
            stage.see(pod("p", script).spec(&json!({"securityContext": {"runAsUser": 1234}})))
        },
    ),
    Scenario::new(
        "volume-config-map-late",
        "a pod waits for its ConfigMap",
        |stage| {
            stage.create(pod("p", FOREVER).volume("/v", &json!({"configMap": {"name": "c"}})))?;
            stage.said("FailedMount")?;
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
        "volume-secret-missing",
        "a pod without its Secret is deleted",
        |stage| {
            stage
                .create(pod("p", FOREVER).volume("/v", &json!({"secret": {"secretName": "s"}})))?;
            stage.said("FailedMount")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "volume-optional",
        "what is optional may be missing",
        |stage| {
            let pod = pod("p", SHOW)
                .volume(
                    "/v",
                    &json!({"configMap": {"name": "absent", "optional": true}}),
                )
                .volume(
                    "/w",
                    &json!({"secret": {"secretName": "absent", "optional": true}}),
                );
            stage.see(pod)
        },
    ),
    Scenario::new(
        "empty-dir-shared",
        "two containers share a directory",
        |stage| {
            let reader = "while ! test -f /v/a; do sleep 1; done; cat /v/a; stat -c '%A %u %g' /v";
            let mut writer = container("writer", "sleep 1; echo hello > /v/b; mv /v/b /v/a");
            writer["volumeMounts"] = json!([{"name": "v0", "mountPath": "/v"}]);
            let pod = pod("p", reader)
                .volume("/v", &json!({"emptyDir": {}}))
                .and(writer);
            stage.see(pod)
        },
    ),
    Scenario::new(
        "empty-dir-memory",
        "a directory in memory, with a limit",
        |stage| {
            let script = "grep ' /v ' /proc/mounts | cut -d' ' -f1-3; df -k /v | tail -1 | awk '{print $2}'; \
            stat -c '%A %u %g' /v";
            let source = json!({"emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}});
            stage.see(pod("p", script).volume("/v", &source))
        },
    ),
    Scenario::new(
        "read-only-mount",
        "a volume that may not be written",
        |stage| {
            let pod = pod("p", "touch /v/x || echo refused").volume("/v", &json!({"emptyDir": {}}));
            let mount = json!([{"name": "v0", "mountPath": "/v", "readOnly": true}]);
            stage.see(pod.main(&json!({"volumeMounts": mount})))
        },
    ),
    Scenario::new("host-path", "directories and files of the node", |stage| {
        let place = format!("/var/{}", stage.namespace());
        stage.on_node(&format!("mkdir {place}; echo here > {place}/file"))?;
        let source = |path: &str, kind: &str| json!({"hostPath": {"path": format!("{place}{path}"), "type": kind}});
        let script = "cat /a/file; stat -c '%A %u %g' /b /c; cat /d";
        let pod = pod("p", script)
            .volume("/a", &source("", "Directory"))
            .volume("/b", &source("/new", "DirectoryOrCreate"))
            .volume("/c", &source("/touched", "FileOrCreate"))
            .volume("/d", &source("/file", "File"));
        stage.see(pod)
    }),
    Scenario::new(
        "host-path-missing",
        "a directory that the node does not have",
        |stage| {
            let source = json!({"hostPath": {"path": "/var/no/such", "type": "Directory"}});
            stage.create(pod("p", FOREVER).volume("/v", &source))?;
            stage.said("FailedMount")?;
            stage.end("p")
        },
    ),
];
