//! Nodes that are somebody: each asks for its own certificate.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use testkit::wait;

use crate::cluster::{Cluster, SOON};

#[test]
fn each_node_gets_a_certificate_of_its_own_and_goes_on_with_it() -> Result<()> {
    let cluster = Cluster::take("identities")?;
    let state = format!("--state-dir={}", cluster.path("state").display());
    let words = [
        "--nodes=8",
        "--name=identities",
        "--name-pattern=identities-{}",
        "--taints=test=fleet:NoSchedule",
        "--identity=per-node",
        "--interval=1s",
        &state,
    ];
    let before = requests(&cluster)?;
    let mut fleet = cluster.start(&words)?;
    cluster.wait_ready(8)?;
    let asked = requests(&cluster)?.difference(&before).count();
    ensure!(asked == 8, "{asked} certificates were asked for");
    for number in 0..8 {
        let kubeconfig = cluster
            .path("state")
            .join(format!("identities-{number}/kubelet.conf"));
        let whoami = cluster.kubectl.with_kubeconfig(&kubeconfig);
        let said = whoami.run([
            "auth",
            "whoami",
            "--output=jsonpath={.status.userInfo.username}",
        ])?;
        ensure!(said == format!("system:node:identities-{number}"), "{said}");
    }
    fleet.terminate()?;
    wait::until("the token to be gone", SOON, || {
        let tokens = cluster
            .kubectl
            .json(["--namespace=kube-system", "get", "secrets"])?;
        let left = tokens["items"].as_array().context("no items")?.iter();
        let ours = |secret: &&serde_json::Value| {
            secret["data"]["description"] == "Zm9yIHRoZSBub2RlcyBvZiBmbGVldCBpZGVudGl0aWVz"
        };
        let left = left.filter(ours).count();
        ensure!(left == 0, "{left} are left");
        Ok(())
    })?;

    // The same machines, started again.
    let mut fleet = cluster.start(&words)?;
    wait::until("the nodes to be Ready again", SOON, || {
        let ready = fleet.figures()?["ready"].clone();
        ensure!(ready == 8, "{ready} are");
        Ok(())
    })?;
    let asked = requests(&cluster)?.difference(&before).count();
    ensure!(
        asked == 8,
        "certificates were asked for again: {asked} in all"
    );
    fleet.terminate()
}

/// Requests for client certificates of this test's nodes.
fn requests(cluster: &Cluster) -> Result<BTreeSet<String>> {
    let listed = cluster.kubectl.json(["get", "csr"])?;
    let items = listed["items"].as_array().context("no items")?.iter();
    let names = items
        .filter(|csr| csr["spec"]["signerName"] == "kubernetes.io/kube-apiserver-client-kubelet");
    Ok(names
        .map(|csr| csr["metadata"]["name"].to_string())
        .collect())
}
