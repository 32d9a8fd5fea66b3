//! What the API server would have filled in, seen from manifests: the code is shared
//! with our own server, in `types::pod_defaults`.

pub use types::pod_defaults::api_defaults;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use types::pod_defaults::pull_policy;

    use super::*;
    use crate::testing::pod;

    /// What is there of the defaulted pod below `pointer`.
    fn at(manifest: &str, pointer: &str) -> Value {
        let mut pod = pod(manifest);
        api_defaults(&mut pod);
        let once = serde_json::to_value(&pod).unwrap();
        api_defaults(&mut pod);
        assert_eq!(
            serde_json::to_value(&pod).unwrap(),
            once,
            "a second time it changes nothing"
        );
        once.pointer(pointer).cloned().unwrap_or_default()
    }

    fn container(fields: &str) -> String {
        format!("spec: {{containers: [{{name: a, image: a, {fields}}}]}}")
    }

    #[test]
    fn a_bare_pod_gets_what_the_api_server_would_give_it() {
        let expected = json!({
            "containers": [{
                "name": "a", "image": "nginx", "imagePullPolicy": "Always",
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            }],
            "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
            "securityContext": {}, "terminationGracePeriodSeconds": 30, "enableServiceLinks": true,
        });
        assert_eq!(
            at("spec: {containers: [{name: a, image: nginx}]}", "/spec"),
            expected
        );
    }

    #[test]
    fn only_an_image_that_may_move_on_is_pulled_each_time() {
        let cases = [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("registry:5000/nginx", "Always"),
            ("nginx:latest@sha256:00", "Always"),
            ("nginx:1.29", "IfNotPresent"),
            ("registry:5000/nginx:1.29", "IfNotPresent"),
            ("nginx@sha256:00", "IfNotPresent"),
        ];
        for (image, policy) in cases {
            assert_eq!(pull_policy(image), policy, "{image}");
        }
        let given = container("imagePullPolicy: Never");
        assert_eq!(at(&given, "/spec/containers/0/imagePullPolicy"), "Never");
    }

    #[test]
    fn probes_and_hooks_are_filled_where_they_say_nothing_or_zero() {
        let probe =
            container("livenessProbe: {httpGet: {port: 80}, periodSeconds: 0, timeoutSeconds: 7}");
        let expected = json!({
            "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
            "timeoutSeconds": 7, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3,
        });
        assert_eq!(at(&probe, "/spec/containers/0/livenessProbe"), expected);
        let grpc = container("startupProbe: {grpc: {port: 80}}");
        assert_eq!(
            at(&grpc, "/spec/containers/0/startupProbe/grpc/service"),
            ""
        );
        let hook = container("lifecycle: {preStop: {httpGet: {port: 1, path: /x}}}");
        let expected = json!({"path": "/x", "port": 1, "scheme": "HTTP"});
        assert_eq!(
            at(&hook, "/spec/containers/0/lifecycle/preStop/httpGet"),
            expected
        );
    }

    #[test]
    fn requests_follow_limits_and_ports_follow_the_host() {
        let limits =
            container("resources: {limits: {cpu: '2', memory: 1Gi}, requests: {cpu: '1'}}");
        let expected = json!({"cpu": "1", "memory": "1Gi"});
        assert_eq!(
            at(&limits, "/spec/containers/0/resources/requests"),
            expected
        );
        let ports = "spec: {hostNetwork: true, containers: [{name: a, ports: [{containerPort: 80}]}], initContainers: [{name: b, ports: [{containerPort: 81, protocol: UDP}]}]}";
        let expected = json!([{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]);
        assert_eq!(at(ports, "/spec/containers/0/ports"), expected);
        let expected = json!([{"containerPort": 81, "hostPort": 81, "protocol": "UDP"}]);
        assert_eq!(at(ports, "/spec/initContainers/0/ports"), expected);
        let ports = ports.replace("hostNetwork: true", "hostNetwork: false");
        let expected = json!([{"containerPort": 80, "protocol": "TCP"}]);
        assert_eq!(at(&ports, "/spec/containers/0/ports"), expected);
    }

    #[test]
    fn volumes_are_filled_by_their_kind() {
        let cases = [
            ("", json!({"emptyDir": {}})),
            (
                "hostPath: {path: /a}",
                json!({"hostPath": {"path": "/a", "type": ""}}),
            ),
            (
                "secret: {secretName: s}",
                json!({"secret": {"secretName": "s", "defaultMode": 420}}),
            ),
            (
                "configMap: {name: c}",
                json!({"configMap": {"name": "c", "defaultMode": 420}}),
            ),
            (
                "downwardAPI: {items: [{path: a, fieldRef: {fieldPath: metadata.name}}]}",
                json!({"downwardAPI": {"defaultMode": 420, "items": [
                    {"path": "a", "fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"}},
                ]}}),
            ),
            (
                "projected: {sources: [{serviceAccountToken: {path: t}}]}",
                json!({"projected": {"defaultMode": 420, "sources": [
                    {"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}},
                ]}}),
            ),
            (
                "image: {reference: 'a:1'}",
                json!({"image": {"reference": "a:1", "pullPolicy": "IfNotPresent"}}),
            ),
        ];
        for (source, mut expected) in cases {
            expected["name"] = json!("v");
            let manifest = format!("spec: {{containers: [], volumes: [{{name: v, {source}}}]}}");
            assert_eq!(at(&manifest, "/spec/volumes/0"), expected);
        }
    }

    #[test]
    fn fields_that_variables_take_are_of_v1() {
        let env = container("env: [{name: A, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]");
        let found = at(
            &env,
            "/spec/containers/0/env/0/valueFrom/fieldRef/apiVersion",
        );
        assert_eq!(found, "v1");
    }
}
