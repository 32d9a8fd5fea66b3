//! Who may do what, and how people become somebody.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DnType, KeyPair};

use super::cluster::Cluster;

fn request(name: &str) -> String {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    let name_of = &mut params.distinguished_name;
    name_of.push(DnType::CommonName, "jane");
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
fn people_are_let_in_by_approval_and_told_what_they_may() {
    let cluster = Cluster::ephemeral();
    cluster.ok_with(&["create", "-f", "-"], &request("jane"));
    assert!(cluster.ok(&["get", "csr", "jane"]).contains("Pending"));
    cluster.ok(&["certificate", "approve", "jane"]);
    let issued = "--for=jsonpath={.status.certificate}";
    cluster.ok(&["wait", issued, "csr/jane", "--timeout=60s"]);
    assert!(
        cluster
            .ok(&["get", "csr", "jane"])
            .contains("Approved,Issued")
    );

    let said = cluster.ok(&["auth", "can-i", "delete", "nodes"]);
    assert!(said.starts_with("yes\n"), "{said}");
    // A node may do what its pods need, and nothing else.
    for (verb, kind, may) in [
        ("create", "nodes", true),
        ("delete", "namespaces", false),
        ("list", "secrets", false),
    ] {
        let node = ["--as=system:node:sim-0", "--as-group=system:nodes"];
        let words = [&["auth", "can-i", verb, kind][..], &node].concat();
        if may {
            cluster.ok(&words);
        } else {
            cluster.fails(&words);
        }
    }
}
