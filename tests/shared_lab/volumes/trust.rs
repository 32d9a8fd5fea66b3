//! Certificates that the cluster publishes for pods to trust, behind their gate.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use testkit::lab::{Agent, Runtime};
use testkit::wait;

use super::{on_node, printed, uid, wait_no_trace};
use crate::pods::stage::{SOON, Stage, shell};

const GATES: &str =
    "featureGates:\n  ClusterTrustBundle: true\n  ClusterTrustBundleProjection: true\n";

/// Tells how many certificates there are, and when another one has come.
const LOOK: &str = "\
cd /trust
echo $(grep -c BEGIN named) $(grep -c BEGIN signed) $(wc -c < absent) $(stat -L -c %a named)
until [ $(grep -c BEGIN named) = 2 ]; do sleep 1; done; echo more";

#[test]
fn certificates_of_the_cluster_are_in_the_pod_and_follow_their_bundle() -> Result<()> {
    look(Agent::Ferrolet, "trust-ours")
}

#[test]
fn certificates_of_the_cluster_are_the_same_in_a_pod_of_upstreams() -> Result<()> {
    look(Agent::Upstream, "trust-upstream")
}

/// Bundles are in no namespace: these go with the test.
struct Bundles<'a> {
    stage: &'a Stage,
    names: Vec<String>,
}

impl Drop for Bundles<'_> {
    fn drop(&mut self) {
        for name in &self.names {
            // No API server to ask: nothing to do.
            let _ = self.stage.run(&["delete", "clustertrustbundle", name]);
        }
    }
}

impl Bundles<'_> {
    fn put(&mut self, name: &str, signer: Option<&str>, certificates: &str) -> Result<()> {
        let bundle = json!({
            "apiVersion": "certificates.k8s.io/v1beta1", "kind": "ClusterTrustBundle",
            "metadata": {"name": name, "labels": {"live": "yes"}},
            "spec": {"signerName": signer, "trustBundle": certificates},
        });
        self.names.push(name.to_owned());
        self.stage.kubectl().apply(&bundle.to_string()).map(drop)
    }
}

fn certificate(stage: &Stage, name: &str) -> Result<String> {
    let script = format!(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name} -keyout /dev/null 2>/dev/null"
    );
    on_node(stage, &script)
}

fn look(agent: Agent, name: &str) -> Result<()> {
    let stage = Stage::bare(name, Runtime::Containerd2)?;
    stage.node.start_agent(agent, GATES, &[])?;
    stage.node.wait_ready(SOON)?;
    let (one, two) = (certificate(&stage, "one")?, certificate(&stage, "two")?);
    let mut bundles = Bundles {
        stage: &stage,
        names: Vec::new(),
    };
    let (signer, prefix) = (
        format!("lab.example/{name}"),
        format!("lab.example:{name}:"),
    );
    bundles.put(name, None, &one)?;
    bundles.put(&format!("{prefix}a"), Some(&signer), &format!("{one}{two}"))?;
    bundles.put(&format!("{prefix}b"), Some(&signer), &one)?;
    let sources = json!([
        {"clusterTrustBundle": {"name": name, "path": "named"}},
        {"clusterTrustBundle": {
            "signerName": signer, "labelSelector": {"matchLabels": {"live": "yes"}}, "path": "signed",
        }},
        {"clusterTrustBundle": {"name": format!("{name}-absent"), "optional": true, "path": "absent"}},
    ]);
    let mut container = shell(LOOK);
    container["volumeMounts"] = json!([{"name": "trust", "mountPath": "/trust"}]);
    let volumes = json!([{"name": "trust", "projected": {"sources": sources}}]);
    let more = json!({"restartPolicy": "Never", "volumes": volumes});
    stage.create_pod("p", container, more)?;
    let is_running = |pod: &Value| pod["status"]["phase"] == "Running";
    let pod = stage.wait_pod("p", "running", is_running)?;
    let told = |wanted: &str| {
        wait::until("the pod to tell of its certificates", SOON, || {
            let told = printed(&stage, "p")?;
            ensure!(told == wanted, "it printed\n{told}and not\n{wanted}");
            Ok(())
        })
    };
    told("1 2 0 644\n")?;
    // Upstream takes minutes to look again.
    if agent != Agent::Upstream {
        bundles.put(name, None, &format!("{one}{two}"))?;
        told("1 2 0 644\nmore\n")?;
    }
    let uid = uid(&pod)?.to_owned();
    stage.run(&["delete", "pod", "p", "--timeout=60s"])?;
    wait_no_trace(&stage, &uid)
}
