//! `ferrolet explain` and `ferrolet doctor` of a node of `ferrolet up`, without a word of
//! where it is.

use std::process::{Command, Output};

use serde_json::Value;

use super::cluster::{Cluster, PROGRAM};

/// Our program as in the terminal in which `up` said what to try.
fn beside(cluster: &Cluster, words: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command
        .args(words)
        .env("KUBECONFIG", &cluster.kubeconfig)
        .env("HOME", cluster.kubeconfig.parent().unwrap());
    command.output().unwrap()
}

fn told(output: &Output) -> String {
    let told = [&output.stdout[..], &output.stderr].concat();
    let told = String::from_utf8(told).unwrap();
    assert_eq!(output.status.code(), Some(0), "{told}");
    told
}

#[test]
fn the_walks_are_filled_with_the_objects_of_the_cluster() {
    let cluster = Cluster::start(&["--ephemeral", "--runtime=sim", "--nodes=2"]);
    let root = cluster.kubeconfig.parent().unwrap();
    let said = cluster.said();
    let asked = said.lines().find(|line| line.contains("sim-0 asks for a"));
    let request = asked.unwrap().split("CertificateSigningRequest ").nth(1);
    let request = request.unwrap().split_whitespace().next().unwrap();

    let walk = told(&beside(&cluster, &["explain", "bootstrap"]));
    let head = walk.lines().skip(1).take(3).collect::<Vec<_>>().join(" ");
    assert!(head.contains("With the objects of node sim-0"), "{walk}");
    assert!(head.contains(&root.display().to_string()), "{walk}");
    let line = format!("CSR {request}: Approved,Issued");
    assert!(walk.contains(&line), "no {line:?} in:\n{walk}");
    assert!(
        walk.contains("subject O=system:nodes, CN=system:node:sim-0"),
        "{walk}"
    );

    assert!(walk.contains("rotateCertificates: true"), "{walk}");

    // What it says to look at can be looked at.
    let look = walk
        .lines()
        .find_map(|line| line.trim().strip_prefix("look "));
    let look = look.unwrap().trim();
    let words: Vec<&str> = look.split_whitespace().skip(1).collect();
    assert_eq!(&words[..2], ["certs", "status"], "{walk}");
    let status = told(&beside(&cluster, &words));
    assert!(status.contains("system:node:sim-0"), "{status}");

    let walk = told(&beside(
        &cluster,
        &["explain", "heartbeat", "--node-name=sim-1"],
    ));
    assert!(walk.contains("With the objects of node sim-1"), "{walk}");
    assert!(walk.contains("kube-node-lease/sim-1"), "{walk}");

    cluster.ok(&[
        "run",
        "hello",
        "--image=busybox",
        r#"--overrides={"spec":{"nodeName":"sim-0"}}"#,
    ]);
    cluster.ok(&[
        "wait",
        "--for=condition=Ready",
        "pod/hello",
        "--timeout=60s",
    ]);
    let walk = told(&beside(&cluster, &["explain", "pod", "hello"]));
    assert!(walk.contains("default/hello"), "{walk}");
    assert!(
        walk.contains("Pulled") || walk.contains("Started"),
        "{walk}"
    );
}

#[test]
fn a_simulated_node_that_is_well_has_nothing_found_by_the_doctor() {
    let cluster = Cluster::ephemeral();
    let root = cluster.kubeconfig.parent().unwrap();
    let report = told(&beside(&cluster, &["doctor", "--strict"]));
    let head = format!("node sim-0 of the cluster in {}\n", root.display());
    assert!(report.starts_with(&head), "{report}");
    assert!(
        report.contains("machine        ok       simulated"),
        "{report}"
    );
    assert!(report.contains("\nnothing found\n"), "{report}");
    // The machine's own troubles are none of a simulated node.
    for check in ["cgroups", "runtime", "swap", "ports", "disk"] {
        let row = format!("\n{check} ");
        assert!(!report.contains(&row), "{report}");
    }
    let json = told(&beside(&cluster, &["doctor", "-o", "json"]));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["cluster"], root.display().to_string());
    let checks = json["checks"].as_array().unwrap();
    let seen = |name: &str| checks.iter().find(|check| check["name"] == name).unwrap();
    assert!(seen("lease")["findings"].as_array().unwrap().is_empty());
    assert_ne!(seen("relist")["seen"], "not seen");

    // A cluster that has ended is none to look at.
    cluster.end();
}
