//! How a cluster begins, goes on, and ends.

use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use super::cluster::{Cluster, PROGRAM};

/// What issue 12 promises of a release build on a quiet machine is 5 s; tests share theirs.
const READY: Duration = Duration::from_secs(20);

#[test]
fn a_node_becomes_ready_and_every_step_is_told_with_its_objects() {
    let cluster = Cluster::ephemeral();
    assert!(cluster.took < READY, "{:?}", cluster.took);
    let said = cluster.said();
    let mut rest = said.as_str();
    for step in [
        "certificate authority",
        "the API server answers at https://127.0.0.1:",
        "kubeconfig for people: ",
        "Secret kube-system/bootstrap-token-",
        "sim-0 is simulated, as asked",
        "sim-0 asks for a certificate as system:bootstrap:",
        " is approved: Auto approving kubelet client certificate",
        " is signed: a certificate for system:node:sim-0, until ",
        "sim-0 is registered: Node sim-0, heartbeats in Lease kube-node-lease/sim-0",
        "sim-0 is Ready",
        "export KUBECONFIG=",
    ] {
        let place = rest.find(step);
        let place = place.unwrap_or_else(|| panic!("no {step:?} in its place:\n{said}"));
        rest = &rest[place + step.len()..];
    }
    // Each of them is there for whoever looks.
    let request = said.split("CertificateSigningRequest ").nth(1).unwrap();
    let request = request.split_whitespace().next().unwrap();
    let shown = cluster.ok(&["get", "csr", request]);
    assert!(
        shown.contains("Approved,Issued") && shown.contains("system:bootstrap:"),
        "{shown}"
    );
    cluster.ok(&["get", "lease", "sim-0", "--namespace=kube-node-lease"]);
    let nodes = cluster.ok(&["get", "nodes"]);
    assert!(
        nodes.contains("sim-0") && nodes.contains(" Ready "),
        "{nodes}"
    );
}

#[test]
fn an_ephemeral_cluster_leaves_nothing_behind() {
    let cluster = Cluster::ephemeral();
    let directory = cluster.kubeconfig.parent().unwrap().to_owned();
    assert!(directory.is_dir());
    let said = cluster.end();
    assert!(said.contains("nothing of the cluster is left"), "{said}");
    assert!(!directory.exists(), "{said}");
}

#[test]
fn a_second_start_goes_on_with_the_same_cluster() {
    let directory = tempfile::tempdir().unwrap();
    let data = format!("--data-dir={}", directory.path().display());
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let port = format!("--port={}", free.port());
    let flags = [data.as_str(), "--runtime=sim"];
    let first = Cluster::start(&[&flags[..], &[&port]].concat());
    first.ok(&["create", "configmap", "kept", "--from-literal=a=b"]);
    first.ok(&["run", "stays", "--image=busybox"]);
    first.ok(&[
        "wait",
        "--for=condition=Ready",
        "pod/stays",
        "--timeout=60s",
    ]);
    let node =
        |cluster: &Cluster| cluster.json(&["get", "node", "sim-0"])["metadata"]["uid"].clone();
    let known = node(&first);
    let taken = Command::new(PROGRAM)
        .arg("up")
        .args(flags)
        .output()
        .unwrap();
    let taken = String::from_utf8(taken.stderr).unwrap();
    assert!(taken.contains("is up already, as process"), "{taken}");
    let said = first.end();
    assert!(
        said.contains("the next `ferrolet up` goes on with it"),
        "{said}"
    );

    let second = Cluster::start(&flags);
    let said = second.said();
    assert!(said.contains("a cluster resumes in"), "{said}");
    assert!(said.contains(&format!("https://{free}")), "{said}");
    assert!(said.contains("sim-0 is known from before"), "{said}");
    assert!(!said.contains("asks for a certificate"), "{said}");
    assert_eq!(node(&second), known);
    let kept = second.json(&["get", "configmap", "kept"]);
    assert_eq!(kept["data"]["a"], "b");
    second.ok(&[
        "wait",
        "--for=condition=Ready",
        "pod/stays",
        "--timeout=60s",
    ]);
    second.end();

    // At another port the node finds its way with the certificate that it has.
    let moved = Cluster::start(&[&flags[..], &["--port=0"]].concat());
    let said = moved.said();
    assert!(!said.contains("asks for a certificate"), "{said}");
    assert_eq!(node(&moved), known);
}

#[test]
fn there_can_be_more_nodes_and_each_asks_for_its_own_certificate() {
    let cluster = Cluster::start(&["--ephemeral", "--runtime=sim", "--nodes=4"]);
    let said = cluster.said();
    assert!(said.contains("all 4 nodes are Ready"), "{said}");
    let requests = cluster.json(&["get", "csr"]);
    assert_eq!(requests["items"].as_array().unwrap().len(), 4);
    // What is asked of each comes to it, and not to another.
    for node in ["sim-0", "sim-3"] {
        let path = format!("/api/v1/nodes/{node}/proxy/pods");
        cluster.ok(&["get", "--raw", &path]);
    }
}

#[test]
fn who_wants_to_see_them_is_shown_the_requests_and_who_makes_them() {
    let cluster = Cluster::start(&["--ephemeral", "--runtime=sim", "-v"]);
    let said = cluster.said();
    let asked = |user: &str, verb: &str, path: &str| {
        let user = format!("user=\"{user}");
        let verb = format!("verb=\"{verb}\" path=\"{path}\"");
        let line = said
            .lines()
            .find(|line| line.contains(&user) && line.contains(&verb));
        assert!(line.is_some(), "{user} {verb}: {said}");
    };
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    asked("system:bootstrap:", "create", requests);
    asked("system:node:sim-0", "create", "/api/v1/nodes");
    asked("system:node:sim-0", "patch", "/api/v1/nodes/sim-0/status");
}
