//! What pods can say of their volumes: owners, parts, media, types of paths, and what
//! they are told when it cannot be.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::super::manifest::{FOREVER, Pod, config_map, container, pod, secret};
use super::super::scenario::Scenario;
use super::super::stage::Stage;

/// The directory and what is in it, with owners and modes.
const OWNERS: &str =
    "cd /v; for f in . $(ls); do stat -L -c '%A %u %g %n' $f; stat -c '%u %g %n' $f; done";

/// The same, and whether the one who looks may write.
const AND_WRITE: &str = "cd /v; stat -c '%A %u %g' .; id -u; id -G; \
    touch own && stat -c '%A %u %g %n' own || echo not for us";

fn as_group(pod: Pod) -> Pod {
    pod.spec(&json!({"securityContext": {"runAsUser": 1234, "runAsGroup": 1234, "fsGroup": 4321}}))
}

/// `main` mounts the one volume like this.
fn mounted(pod: Pod, mount: &Value) -> Pod {
    let mut mount = mount.clone();
    mount["name"] = json!("v0");
    if mount["mountPath"].is_null() {
        mount["mountPath"] = json!("/v");
    }
    pod.main(&json!({"volumeMounts": [mount]}))
}

/// Runs before `main`, with the same volume.
fn after(pod: Pod, script: &str) -> Pod {
    let mut before = container("before", script);
    before["volumeMounts"] = json!([{"name": "v0", "mountPath": "/v"}]);
    pod.spec(&json!({"initContainers": [before]}))
}

/// A pod that cannot have its volume, is told so, and goes.
fn refused(stage: &mut Stage<'_>, source: &Value) -> Result<()> {
    stage.create(pod("p", FOREVER).volume("/v", source))?;
    stage.said("FailedMount")?;
    stage.end("p")
}

/// A pod whose container cannot be made.
fn unmade(stage: &mut Stage<'_>, pod: Pod) -> Result<()> {
    stage.create(pod)?;
    stage.state("p", "main", "waiting:CreateContainerConfigError")?;
    stage.end("p")
}

fn host_path(path: &str, kind: &str) -> Value {
    json!({"hostPath": {"path": path, "type": kind}})
}

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "fs-group-empty-dir",
        "a directory of the pod's group",
        |stage| {
            stage.see(as_group(
                pod("p", AND_WRITE).volume("/v", &json!({"emptyDir": {}})),
            ))
        },
    ),
    Scenario::new(
        "fs-group-memory",
        "a directory in memory of the pod's group",
        |stage| {
            let source = json!({"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}});
            stage.see(as_group(pod("p", AND_WRITE).volume("/v", &source)))
        },
    ),
    Scenario::new(
        "fs-group-on-root-mismatch",
        "a policy that an empty directory does not need",
        |stage| {
            let policy = json!({"securityContext": {"fsGroupChangePolicy": "OnRootMismatch"}});
            let pod = pod("p", AND_WRITE).volume("/v", &json!({"emptyDir": {}}));
            stage.see(as_group(pod).spec(&policy))
        },
    ),
    Scenario::new(
        "fs-group-secret",
        "a Secret that only the pod's group reads",
        |stage| {
            let object = secret("s", &json!({"a": "1", "b": "2"}));
            stage.make("/api/v1", "secrets", &object)?;
            let items =
                json!([{"key": "a", "path": "a", "mode": 0o400}, {"key": "b", "path": "d/b"}]);
            let source =
                json!({"secret": {"secretName": "s", "items": items, "defaultMode": 0o440}});
            stage.see(as_group(pod("p", OWNERS).volume("/v", &source)))
        },
    ),
    Scenario::new(
        "fs-group-config-map",
        "a ConfigMap of the pod's group",
        |stage| {
            let object = config_map("c", &json!({"a": "1", "b": "2"}));
            stage.make("/api/v1", "configmaps", &object)?;
            let source = json!({"configMap": {"name": "c", "defaultMode": 0o600}});
            stage.see(as_group(pod("p", OWNERS).volume("/v", &source)))
        },
    ),
    Scenario::new(
        "fs-group-projected",
        "a token is its user's and its group's, other files are not",
        |stage| {
            let object = config_map("c", &json!({"a": "1"}));
            stage.make("/api/v1", "configmaps", &object)?;
            let sources = json!([
                {"serviceAccountToken": {"path": "token", "audience": "somebody", "expirationSeconds": 7200}},
                {"configMap": {"name": "c"}},
            ]);
            let source = json!({"projected": {"sources": sources, "defaultMode": 0o444}});
            let script = format!(
                "{OWNERS}; cut -d. -f2 token | base64 -d 2>/dev/null | grep -o '\"aud\":[^]]*]'"
            );
            stage.see(as_group(pod("p", &script).volume("/v", &source)))
        },
    ),
    Scenario::new(
        "token-of-several-users",
        "a token that no one user can have",
        |stage| {
            let source =
                json!({"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}});
            let mut other = container("other", "true");
            other["securityContext"] = json!({"runAsUser": 1});
            let pod = pod("p", OWNERS).volume("/v", &source).and(other);
            stage.see(pod.main(&json!({"securityContext": {"runAsUser": 2}})))
        },
    ),
    Scenario::new(
        "empty-dir-memory-of-the-pod",
        "a directory in memory is no larger than the pod may be",
        |stage| {
            let size = "df -k /v | tail -1 | awk '{print $2}'";
            let limits = json!({"resources": {"limits": {"memory": "24Mi"}}});
            let source = json!({"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}});
            stage.see(pod("p", size).main(&limits).volume("/v", &source))
        },
    ),
    Scenario::new(
        "empty-dir-memory-of-the-node",
        "a directory in memory is no larger than what the node has for pods",
        |stage| {
            let size = "df -k /v | tail -1 | awk '{print $2}'";
            stage.see(pod("p", size).volume("/v", &json!({"emptyDir": {"medium": "Memory"}})))
        },
    ),
    Scenario::new(
        "empty-dir-memory-full",
        "a directory in memory that has no room",
        |stage| {
            let script = "dd if=/dev/zero of=/v/f bs=64k count=64 2>/dev/null || echo full; \
                wc -c < /v/f; rm /v/f; echo room > /v/g && cat /v/g";
            let source = json!({"emptyDir": {"medium": "Memory", "sizeLimit": "2Mi"}});
            stage.see(pod("p", script).volume("/v", &source))
        },
    ),
    Scenario::new(
        "empty-dir-stays",
        "what a container left is there when it is started again",
        |stage| {
            let script = "test -f /v/a && cat /v/a && exit 0; echo from the first > /v/a; exit 1";
            let pod = pod("p", script).volume("/v", &json!({"emptyDir": {}}));
            stage.create(pod.spec(&json!({"restartPolicy": "OnFailure"})))?;
            stage.phase("p", "Succeeded")?;
            stage.print("p", "main")
        },
    ),
    Scenario::new(
        "empty-dir-unknown-page",
        "huge pages that nobody asked for",
        |stage| refused(stage, &json!({"emptyDir": {"medium": "HugePages"}})),
    ),
    Scenario::new(
        "host-path-devices",
        "sockets and devices of the node",
        |stage| {
            let script = "stat -c '%F' /null /socket";
            let pod = pod("p", script)
                .volume("/null", &host_path("/dev/null", "CharDevice"))
                .volume(
                    "/socket",
                    &host_path("/run/containerd/containerd.sock", "Socket"),
                );
            stage.see(pod)
        },
    ),
    Scenario::new(
        "host-path-file-not-directory",
        "a file where a directory is wanted",
        |stage| refused(stage, &host_path("/etc/passwd", "DirectoryOrCreate")),
    ),
    Scenario::new(
        "host-path-directory-not-file",
        "a directory where a file is wanted",
        |stage| refused(stage, &host_path("/etc", "File")),
    ),
    Scenario::new(
        "host-path-no-socket",
        "a file where a socket is wanted",
        |stage| refused(stage, &host_path("/etc/passwd", "Socket")),
    ),
    Scenario::new(
        "host-path-no-block-device",
        "a character device where a block device is wanted",
        |stage| refused(stage, &host_path("/dev/null", "BlockDevice")),
    ),
    Scenario::new(
        "host-path-below-a-file",
        "a directory that cannot be made",
        |stage| refused(stage, &host_path("/etc/passwd/a/b", "DirectoryOrCreate")),
    ),
    Scenario::new(
        "host-path-without-a-parent",
        "a file whose directory is not there",
        |stage| refused(stage, &host_path("/var/no/such/file", "FileOrCreate")),
    ),
    Scenario::new(
        "sub-path-made",
        "a part of a volume that is made for its mount",
        |stage| {
            let script = "stat -c '%A %u %g' /v /w /w/deep; echo x > /w/file; ls /v";
            let pod = as_group(pod("p", script).volume("/v", &json!({"emptyDir": {}})));
            let mounts = json!([
                {"name": "v0", "mountPath": "/v", "subPath": "deep/er"},
                {"name": "v0", "mountPath": "/w"},
            ]);
            stage.see(pod.main(&json!({"volumeMounts": mounts})))
        },
    ),
    Scenario::new("sub-path-file", "one file of a ConfigMap", |stage| {
        let object = config_map("c", &json!({"a": "1", "b": "2"}));
        stage.make("/api/v1", "configmaps", &object)?;
        let script = "cat /etc/a; stat -c '%A %F %u %g' /etc/a; echo x > /etc/a || echo refused";
        let pod = pod("p", script).volume("/v", &json!({"configMap": {"name": "c"}}));
        stage.see(mounted(
            pod,
            &json!({"mountPath": "/etc/a", "subPath": "a"}),
        ))
    }),
    Scenario::new(
        "sub-path-expression",
        "a part that is named by variables",
        |stage| {
            let env = json!([
                {"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ]);
            let pod = pod("p", "cd /all; find . | sort").main(&json!({"env": env}));
            let pod = pod.volume("/v", &json!({"emptyDir": {}}));
            let mounts = json!([
                {"name": "v0", "mountPath": "/v", "subPathExpr": "of-$(WHO)/$$(WHO)"},
                {"name": "v0", "mountPath": "/all"},
            ]);
            stage.see(pod.main(&json!({"volumeMounts": mounts})))
        },
    ),
    Scenario::new(
        "sub-path-of-no-variable",
        "a part that is named by a variable that is not there",
        |stage| {
            let pod = pod("p", FOREVER).volume("/v", &json!({"emptyDir": {}}));
            unmade(stage, mounted(pod, &json!({"subPathExpr": "$(NOBODY)/a"})))
        },
    ),
    Scenario::new(
        "sub-path-link-inside",
        "a link that stays in the volume is followed",
        |stage| {
            let pod = pod("p", "cat /v/file").volume("/v", &json!({"emptyDir": {}}));
            let pod = after(
                pod,
                "mkdir -p /v/a/b; echo inside > /v/a/b/file; ln -s a/b /v/link",
            );
            stage.see(mounted(pod, &json!({"subPath": "link"})))
        },
    ),
    Scenario::new(
        "sub-path-link-outside",
        "a link to the node is not followed",
        |stage| {
            let pod = pod("p", FOREVER).volume("/v", &json!({"emptyDir": {}}));
            let pod = after(pod, "ln -s / /v/out");
            unmade(stage, mounted(pod, &json!({"subPath": "out"})))
        },
    ),
    Scenario::new(
        "sub-path-made-outside",
        "nothing is made behind a link to the node",
        |stage| {
            let pod = pod("p", FOREVER).volume("/v", &json!({"emptyDir": {}}));
            let pod = after(pod, "ln -s /var /v/out");
            unmade(
                stage,
                mounted(pod, &json!({"subPath": "out/made-by-a-pod"})),
            )?;
            let made = stage.on_node("ls /var | grep -c made-by-a-pod || true")?;
            ensure!(made.trim() == "0", "it was made on the node");
            Ok(())
        },
    ),
    Scenario::new(
        "volume-in-a-volume",
        "a directory that is mounted inside a ConfigMap",
        |stage| {
            let object = config_map("c", &json!({"a": "1"}));
            stage.make("/api/v1", "configmaps", &object)?;
            let script = "cd /v; find . -not -path './..*' | sort; touch cache/x && echo written";
            let pod = pod("p", script)
                .volume("/v", &json!({"configMap": {"name": "c"}}))
                .volume("/v/cache", &json!({"emptyDir": {}}));
            stage.see(pod)
        },
    ),
    Scenario::new(
        "volume-key-missing",
        "a ConfigMap without the key",
        |stage| {
            let object = config_map("c", &json!({"a": "1"}));
            stage.make("/api/v1", "configmaps", &object)?;
            let items = json!([{"key": "b", "path": "b"}]);
            refused(stage, &json!({"configMap": {"name": "c", "items": items}}))
        },
    ),
    Scenario::new(
        "volume-projected-missing",
        "several sources that are missing are told together",
        |stage| {
            let sources = json!([
                {"secret": {"name": "no-secret"}},
                {"configMap": {"name": "no-map"}},
                {"configMap": {"name": "optional", "optional": true}},
            ]);
            refused(stage, &json!({"projected": {"sources": sources}}))
        },
    ),
    Scenario::new(
        "volume-downward-of-the-node",
        "limits that are not set are the node's, in any unit",
        |stage| {
            let item = |resource: &str, divisor: &str| {
                let of = json!({"containerName": "main", "resource": resource, "divisor": divisor});
                json!({"path": resource, "resourceFieldRef": of})
            };
            let items = json!([
                item("limits.cpu", "1m"),
                item("limits.memory", "1Mi"),
                item("requests.cpu", "1m"),
                item("requests.memory", "1"),
            ]);
            let script = "cd /v; for f in *; do echo $f $(cat $f); done";
            stage.see(pod("p", script).volume("/v", &json!({"downwardAPI": {"items": items}})))
        },
    ),
    Scenario::new(
        "volume-git-repo",
        "a kind that is not there any more",
        |stage| {
            refused(
                stage,
                &json!({"gitRepo": {"repository": "https://example.com/x.git"}}),
            )
        },
    ),
    Scenario::new(
        "mount-from-the-host",
        "mounts of the node reach a container that asks for them",
        |stage| {
            let script =
                "grep ' /v ' /proc/self/mountinfo | grep -o -e shared: -e master: || echo private";
            let pod = pod("p", script).volume("/v", &json!({"emptyDir": {}}));
            stage.see(mounted(
                pod,
                &json!({"mountPropagation": "HostToContainer"}),
            ))
        },
    ),
    Scenario::new(
        "mount-to-the-host",
        "mounts of a container reach the node if it may",
        |stage| {
            let script =
                "grep ' /v ' /proc/self/mountinfo | grep -o -e shared: -e master: || echo private";
            let pod = pod("p", script).volume("/v", &json!({"emptyDir": {}}));
            let pod = pod.main(&json!({"securityContext": {"privileged": true}}));
            stage.see(mounted(pod, &json!({"mountPropagation": "Bidirectional"})))
        },
    ),
    Scenario::new(
        "mount-recursive-read-only",
        "a mount that nobody may write, to its leaves",
        |stage| {
            let script = "touch /v/x || echo refused; grep ' /v ' /proc/mounts | grep -o '\\bro\\b' | head -1";
            let pod = pod("p", script).volume("/v", &json!({"emptyDir": {}}));
            stage.see(mounted(
                pod,
                &json!({"readOnly": true, "recursiveReadOnly": "IfPossible"}),
            ))
        },
    ),
];
