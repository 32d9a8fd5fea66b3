//! Pods of files on the node: what the API server fills in, the kubelet must.

use serde_json::json;

use crate::wire::spec::{Spec, spec};

pub(super) fn specs() -> Vec<Spec> {
    vec![
        spec("static-plain").told_by_file(),
        spec("static-bare")
            .told_by_file()
            .pod(json!({"enableServiceLinks": null, "tolerations": null})),
        spec("static-env").told_by_file().main(json!({
            "env": [
                {"name": "A", "value": "$(KUBERNETES_SERVICE_HOST)"},
                {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            ],
            "command": ["run", "$(A)"],
        })),
        spec("static-resources")
            .told_by_file()
            .main(json!({"resources": {
                "requests": {"cpu": "10m", "memory": "8Mi"}, "limits": {"memory": "16Mi"},
            }})),
        spec("static-host-network")
            .told_by_file()
            .pod(json!({"hostNetwork": true, "priorityClassName": "system-node-critical"}))
            .main(json!({"ports": [{"name": "p", "containerPort": 30091}]})),
        spec("static-volumes")
            .told_by_file()
            .volume(
                json!({"hostPath": {"path": "/var/tmp/wire-static", "type": "DirectoryOrCreate"}}),
                json!({"readOnly": true}),
            )
            .volume(json!({"emptyDir": {}}), json!({})),
        spec("static-init")
            .told_by_file()
            .init("first", json!({}))
            .story("run-time.first", "200ms")
            .sidecar("side", json!({})),
        spec("static-security")
            .told_by_file()
            .pod(json!({"securityContext": {
                "runAsUser": 5, "fsGroup": 6, "seccompProfile": {"type": "RuntimeDefault"},
            }})),
        spec("static-grace")
            .told_by_file()
            .pod(json!({"terminationGracePeriodSeconds": 4}))
            .metadata(json!({"annotations": {"note": "mine"}, "labels": {"app": "web"}})),
    ]
}
