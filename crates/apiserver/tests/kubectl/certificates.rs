//! Who may do what, and how one becomes somebody.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DnType, KeyPair};

use super::server::Cluster;

fn request(name: &str) -> String {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, "someone");
    let request = params.serialize_request(&key).unwrap().pem().unwrap();
    serde_json::json!({
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": STANDARD.encode(request),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
        },
    })
    .to_string()
}

#[test]
fn certificates_are_asked_for_approved_and_issued() {
    let cluster = Cluster::start();
    cluster.ok_with(&["create", "-f", "-"], &request("mine"));
    let row = cluster.ok(&["get", "csr"]);
    assert!(
        row.contains("kubernetes-admin") && row.contains("Pending"),
        "{row}"
    );
    let said = cluster.ok(&["certificate", "approve", "mine"]);
    assert!(
        said.contains("certificatesigningrequest.certificates.k8s.io/mine approved"),
        "{said}"
    );
    cluster.ok(&[
        "wait",
        "csr/mine",
        "--for=jsonpath={.status.certificate}",
        "--timeout=10s",
    ]);
    assert!(
        cluster
            .ok(&["get", "csr", "mine"])
            .contains("Approved,Issued")
    );
    cluster.ok_with(&["create", "-f", "-"], &request("other"));
    cluster.ok(&["certificate", "deny", "other"]);
    assert!(cluster.ok(&["get", "csr", "other"]).contains("Denied"));
    let said = cluster.ok(&["describe", "csr", "mine"]);
    assert!(
        said.contains("Status:              Approved,Issued") || said.contains("Approved,Issued"),
        "{said}"
    );
}

#[test]
fn people_are_told_who_they_are_and_what_they_may() {
    let cluster = Cluster::start();
    assert!(cluster.ok(&["auth", "whoami"]).contains("kubernetes-admin"));
    let can = ["auth", "can-i", "delete", "nodes"];
    let said = cluster.ok(&can);
    assert!(said.starts_with("yes\n"), "{said}");
    cluster.ok(&["wait", "sa/default", "--for=create", "--timeout=10s"]);
    let token = cluster.ok(&["create", "token", "default"]);
    assert_eq!(token.trim().split('.').count(), 3, "{token}");
    let account = "system:serviceaccount:default:default";
    let cannot = [can.as_slice(), &["--as", account]].concat();
    assert!(cluster.fails(&cannot).contains("no"));
    let said = cluster.fails(&["get", "nodes", "--as", account]);
    let expected = "nodes is forbidden: User \"system:serviceaccount:default:default\" cannot list resource \"nodes\" in API group \"\" at the cluster scope";
    assert!(said.contains(expected), "{said}");
    let expected = "Error from server (Forbidden)";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn a_token_is_who_it_says() {
    let cluster = Cluster::start();
    cluster.ok(&["wait", "sa/default", "--for=create", "--timeout=10s"]);
    let token = cluster.ok(&["create", "token", "default"]);
    let server = format!("https://{}", cluster.server.address());
    let whoami = [
        "auth",
        "whoami",
        "--kubeconfig",
        "/dev/null",
        "--insecure-skip-tls-verify",
        "--server",
        &server,
        "--token",
        token.trim(),
    ];
    let said = cluster.ok(&whoami);
    assert!(
        said.contains("system:serviceaccount:default:default"),
        "{said}"
    );
}
