//! A node's certificate: asked for with a token, kept, and replaced by the node itself.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use apiserver::faults::{Effect, Rule};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::Api;
use kube::api::ListParams;
use testkit::wait;

use super::server::{Embedded, PATIENCE};

/// The server signs for a year, and a node asks for another certificate when 70 to 90
/// hundredths of it have passed.
const MOST_OF_A_YEAR: Duration = Duration::from_secs(365 * 24 * 3600 / 100 * 92);

const REQUESTS: &str = "certificatesigningrequests";

#[test]
fn a_token_becomes_a_certificate_though_the_server_stumbles() -> Result<()> {
    let cluster = Embedded::start()?;
    let rule = |verb, effect| Rule::new(verb, REQUESTS, effect);
    cluster.faults.set(vec![
        rule("create", Effect::Error(503)).times(2),
        rule("create", Effect::Latency(Duration::from_millis(500))).times(3),
        // It was made, and the answer says so only at the second look.
        rule("list", Effect::Error(500)).times(1),
        rule("watch", Effect::DropWatch(1)).times(1),
    ]);
    let agent = cluster.agent("first")?;
    cluster.wait_ready("first")?;
    let left = cluster.faults.left();
    ensure!(
        left.iter().all(|rule| rule.meets.verb == "watch"),
        "faults that nobody met: {left:?}"
    );
    let requests = requests(&cluster)?;
    ensure!(
        requests
            .iter()
            .all(|request| asked_by(request) == "system:bootstrap:abcdef"),
        "{requests:?}"
    );

    // It is itself, and nobody else.
    let client = cluster.as_node("first")?;
    let nodes: Api<Node> = Api::all(client.clone());
    let own = cluster.run(nodes.get("first"))?;
    ensure!(own.metadata.name.as_deref() == Some("first"), "{own:?}");
    let secrets: Api<Secret> = Api::namespaced(client, "kube-system");
    let refused = cluster.run(secrets.list(&ListParams::default()));
    ensure!(
        matches!(&refused, Err(kube::Error::Api(status)) if status.code == 403),
        "{refused:?}"
    );
    cluster.end(agent)?;
    cluster.stop()
}

#[test]
fn a_second_start_asks_for_no_certificate() -> Result<()> {
    let cluster = Embedded::start()?;
    let agent = cluster.agent("again")?;
    cluster.wait_ready("again")?;
    let (before, first) = (requests(&cluster)?, pair(&cluster, "again")?);
    cluster.end(agent)?;
    let agent = cluster.agent("again")?;
    // It is there again.
    cluster.wait_renewed("again", 1)?;
    let after = requests(&cluster)?;
    ensure!(before.len() == after.len(), "{before:?}, then {after:?}");
    ensure!(pair(&cluster, "again")? == first, "it has another pair");
    cluster.end(agent)?;
    cluster.stop()
}

#[test]
fn a_certificate_that_nears_its_end_is_replaced_by_the_node_itself() -> Result<()> {
    let cluster = Embedded::start()?;
    let agent = cluster.agent("old")?;
    cluster.wait_ready("old")?;
    let old = pair(&cluster, "old")?;
    cluster.end(agent)?;
    cluster.clock.jump_ahead(MOST_OF_A_YEAR);
    cluster
        .faults
        .add(Rule::new("create", REQUESTS, Effect::Error(500)).times(1));
    let agent = cluster.agent("old")?;
    // Half a minute passes before it asks: each certificate is used for as long at least.
    let new = wait::until("another certificate", 2 * PATIENCE, || {
        let new = pair(&cluster, "old")?;
        ensure!(new != old, "it has {}", new.display());
        anyhow::Ok(new)
    })?;
    ensure!(cluster.faults.left().is_empty(), "the fault was not met");
    let requests = requests(&cluster)?;
    let own = requests
        .iter()
        .filter(|request| asked_by(request) == "system:node:old");
    ensure!(own.count() == 1, "{requests:?}");
    ensure!(old.exists() && new.exists(), "the pair before is kept");
    // With the new one it is heard.
    cluster.wait_renewed("old", 2)?;
    cluster.wait_ready("old")?;
    cluster.end(agent)?;
    cluster.stop()
}

fn requests(cluster: &Embedded) -> Result<Vec<CertificateSigningRequest>> {
    let requests: Api<CertificateSigningRequest> = Api::all(cluster.admin.clone());
    Ok(cluster.run(requests.list(&ListParams::default()))?.items)
}

fn asked_by(request: &CertificateSigningRequest) -> &str {
    request.spec.username.as_deref().unwrap_or_default()
}

/// The file of the certificate that a node uses.
fn pair(cluster: &Embedded, name: &str) -> Result<PathBuf> {
    let pki = cluster.place(name).join("pki");
    let current = fs::read_link(pki.join("kubelet-client-current.pem"));
    Ok(pki.join(current.context("there is no certificate")?))
}
