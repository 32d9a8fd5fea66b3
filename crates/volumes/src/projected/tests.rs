use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use api::Secret;
use k8s_openapi::api::certificates::v1beta1::ClusterTrustBundle;
use k8s_openapi::api::core::v1::{ConfigMap, Secret as ApiSecret};
use serde_json::{Value, json};

use super::*;
use crate::snapshot::Needed;
use crate::testing::{files, from_json};
use crate::tokens::Token;

/// Everything that a pod with this volume needs is there.
fn snapshot(pod: &Pod) -> Snapshot {
    let config_map: ConfigMap = from_json(json!({"data": {"ca.crt": "CA", "x": "from c"}}));
    let secret: ApiSecret = from_json(json!({"data": {"x": "ZnJvbSBz"}}));
    let token = |audience: &str| Token {
        token: Secret::new(format!("token for {audience:?}")),
        expires: UNIX_EPOCH + Duration::from_secs(3600),
        renew_at: UNIX_EPOCH + Duration::from_secs(2880),
    };
    let tokens = Needed::of(pod).tokens.into_iter();
    Snapshot {
        has_api: true,
        config_maps: [
            ("c".to_owned(), Ok(Some(Arc::new(config_map)))),
            ("none".to_owned(), Ok(None)),
        ]
        .into(),
        secrets: [
            ("s".to_owned(), Ok(Some(Arc::new(secret)))),
            ("none".to_owned(), Ok(None)),
        ]
        .into(),
        tokens: tokens
            .map(|ask| (ask.clone(), Ok(token(&ask.audience))))
            .collect(),
        trust: Needed::of(pod).trust_bundles.then(|| Ok(trust())),
        ..Snapshot::default()
    }
}

fn trust() -> TrustSeen {
    let text = "-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n";
    let bundle: ClusterTrustBundle = from_json(json!({"spec": {"trustBundle": text}}));
    TrustSeen {
        bundles: Arc::new([("b".to_owned(), bundle)].into()),
        order: 0,
    }
}

fn pod(sources: &Value, security: &Value) -> Pod {
    from_json(json!({
        "metadata": {"name": "p", "namespace": "ns", "uid": "1"},
        "spec": {
            "serviceAccountName": "robot", "securityContext": security,
            "containers": [{"name": "m", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
            "volumes": [{"name": "v", "projected": {"defaultMode": 0o644, "sources": sources}}]
        }
    }))
}

fn found(sources: &Value, security: &Value) -> Result<Payload, String> {
    let pod = pod(sources, security);
    let volumes = pod.spec.as_ref().unwrap().volumes.clone().unwrap();
    let source = volumes[0].projected.clone().unwrap();
    payload(&source, &pod, &snapshot(&pod), &Allocatable::new()).map_err(|error| error.to_string())
}

#[test]
fn what_every_pod_has_is_its_token_the_ca_and_its_namespace() {
    let sources = json!([
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "c", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}}
    ]);
    let wanted = files(vec![
        ("ca.crt", b"CA", 0o644),
        ("namespace", b"ns", 0o644),
        ("token", b"token for \"\"", 0o644),
    ]);
    assert_eq!(found(&sources, &json!({})).unwrap(), wanted);
}

#[test]
fn a_token_is_only_for_the_pods_user_or_group_if_they_are_known() {
    let sources = json!([{"serviceAccountToken": {"path": "t", "audience": "vault"}}]);
    let cases = [
        (json!({}), 0o644, None),
        (json!({"fsGroup": 7}), 0o600, None),
        (json!({"runAsUser": 8}), 0o600, Some(8)),
        (json!({"runAsUser": 8, "fsGroup": 7}), 0o600, Some(8)),
    ];
    for (security, mode, owner) in cases {
        let payload = found(&sources, &security).unwrap();
        let file = &payload["t"];
        assert_eq!((file.mode, file.owner), (mode, owner), "{security}");
        assert_eq!(file.content, b"token for \"vault\"");
    }
}

#[test]
fn certificates_to_trust_are_a_file_like_a_token() {
    let sources = json!([{"clusterTrustBundle": {"path": "dir/t", "name": "b"}}]);
    let wanted = "-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n";
    for (security, mode, owner) in [
        (json!({}), 0o644, None),
        (json!({"runAsUser": 8, "fsGroup": 7}), 0o600, Some(8)),
    ] {
        let payload = found(&sources, &security).unwrap();
        let file = &payload["dir/t"];
        assert_eq!((file.mode, file.owner), (mode, owner), "{security}");
        assert_eq!(file.content, wanted.as_bytes());
    }
}

#[test]
fn without_the_gate_or_an_api_server_there_is_nothing_to_trust() {
    let sources = json!([{"clusterTrustBundle": {"path": "t", "name": "b"}}]);
    let pod = pod(&sources, &json!({}));
    let source: ProjectedVolumeSource = from_json(json!({"sources": sources}));
    let error = payload(&source, &pod, &Snapshot::default(), &Allocatable::new()).unwrap_err();
    let wanted = "ClusterTrustBundle projection is not supported in static kubelet mode";
    assert_eq!(error.to_string(), wanted);
}

#[test]
fn of_two_files_at_one_path_the_later_one_is_there() {
    let sources = json!([{"secret": {"name": "s"}}, {"configMap": {"name": "c", "items": [{"key": "x", "path": "x"}]}}]);
    assert_eq!(
        found(&sources, &json!({})).unwrap(),
        files(vec![("x", b"from c", 0o644)])
    );
}

#[test]
fn all_that_is_missing_is_told_unless_it_is_optional() {
    let cases = [
        (
            json!([{"secret": {"name": "none", "optional": true}}, {"configMap": {"name": "none", "optional": true}}]),
            Ok(()),
        ),
        (
            json!([{"secret": {"name": "none"}}]),
            Err("secret \"none\" not found"),
        ),
        (
            json!([{"secret": {"name": "none"}}, {"configMap": {"name": "none"}}]),
            Err("[secret \"none\" not found, configmap \"none\" not found]"),
        ),
        (
            json!([{"configMap": {"name": "c", "items": [{"key": "y", "path": "y"}]}}]),
            Err("configmap references non-existent config key: y"),
        ),
        (
            json!([{"clusterTrustBundle": {"path": "t", "name": "none"}}]),
            Err(
                "while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io \"none\" not found",
            ),
        ),
        (
            json!([{"podCertificate": {"signerName": "s", "keyType": "ED25519", "keyPath": "k"}}]),
            Err("projections of podCertificate are not supported by this kubelet yet"),
        ),
        (
            json!([{"secret": {"name": "unasked"}}]),
            Err("not supported due to running kubelet in standalone mode"),
        ),
    ];
    for (sources, wanted) in cases {
        let outcome = found(&sources, &json!({})).map(|payload| assert!(payload.is_empty()));
        assert_eq!(outcome, wanted.map_err(str::to_owned), "{sources}");
    }
}
