//! Waiting for what others do: the certificate, which the agent gets, and Ready,
//! which the cluster says.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use cluster::join::is_ready;
use cluster::layout::{CERTIFICATES, is_joined};
use identity::certificate::read_leaves;
use identity::published::Published;
use identity::{Pair, Purpose};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use seams::Clock;
use thiserror::Error;

use super::agent::AgentError;
use super::below;
use super::discovery::Patience;

const CURRENT: &str = "kubelet-client-current.pem";
const USER_PREFIX: &str = "system:node:";

/// kubeadm's interval.
const CERTIFICATE_POLL: Duration = Duration::from_secs(1);
const READY_POLL: Duration = Duration::from_secs(2);

/// Why it was not waited for to the end.
#[derive(Debug, Error)]
pub(super) enum WaitError {
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(
        "no certificate after {}s; last seen: {last}. The agent goes on asking, and the files stay: the same command goes on here, and `ferrolet reset --node` undoes it",
        .limit.as_secs()
    )]
    NoCertificate { limit: Duration, last: String },
    #[error(
        "the node has its certificate and is not Ready after {}s; last seen: {last}. The same command waits again; --skip-phases ready leaves this out",
        .limit.as_secs()
    )]
    NotReady { limit: Duration, last: String },
}

/// Waits until the node has a kubeconfig of its own and the certificate that it
/// shows. `alive` says whether there is still somebody to wait for.
pub(super) async fn for_certificate(
    root: &Path,
    patience: Patience<'_>,
    alive: impl Fn() -> Result<(), AgentError>,
    mut on_wait: impl FnMut(&str),
) -> Result<(), WaitError> {
    let clock = patience.clock;
    let until = clock.uptime() + patience.limit;
    loop {
        if has_certificate(root, clock.now()) {
            return Ok(());
        }
        alive()?;
        let last = what_the_agent_says(root);
        if clock.uptime() >= until {
            let limit = patience.limit;
            return Err(WaitError::NoCertificate { limit, last });
        }
        on_wait(&last);
        clock.sleep(CERTIFICATE_POLL).await;
    }
}

/// Whether the node has its kubeconfig, and a certificate of a node in it that
/// has not ended. An agent that has neither writes the kubeconfig first.
pub(super) fn has_certificate(root: &Path, now: SystemTime) -> bool {
    is_joined(root) && is_valid(root, now)
}

/// A valid certificate without a kubeconfig: of a node that this machine was. An
/// agent would use it, wherever it came from.
pub(super) fn has_leftover(root: &Path, now: SystemTime) -> bool {
    !is_joined(root) && is_valid(root, now)
}

fn is_valid(root: &Path, now: SystemTime) -> bool {
    let pair = fs::read(certificate(root)).ok();
    let pair = pair.and_then(|text| Pair::from_pem(&text, &text).ok());
    pair.is_some_and(|pair| {
        let leaf = pair.leaf();
        leaf.common_name.starts_with(USER_PREFIX) && !leaf.is_expired(now)
    })
}

fn certificate(root: &Path) -> PathBuf {
    below(root, CERTIFICATES).join(CURRENT)
}

fn what_the_agent_says(root: &Path) -> String {
    const NOTHING: &str = "the agent has not said anything yet";
    // A former agent may have left its words behind.
    let is_there = |id: u32| Path::new("/proc").join(id.to_string()).exists();
    match Published::read(&Published::path(&below(root, CERTIFICATES))) {
        Ok(published) if !is_there(published.process_id) => NOTHING.to_owned(),
        Ok(published) => match published.client {
            Some(state) => state.advice(Purpose::Client).to_string(),
            None => "the agent asks for one".to_owned(),
        },
        Err(error) if error.is_absence() => NOTHING.to_owned(),
        Err(error) => error.to_string(),
    }
}

/// Whom the node's certificate is for.
pub(super) fn certified_name(root: &Path) -> Option<String> {
    let text = fs::read(certificate(root)).ok()?;
    let leaves = read_leaves(&text).ok()?;
    let name = leaves.first()?.common_name.strip_prefix(USER_PREFIX)?;
    Some(name.to_owned())
}

/// Waits until the cluster says that the node is Ready.
pub(super) async fn for_ready(
    client: &Client,
    name: &str,
    patience: Patience<'_>,
    mut on_wait: impl FnMut(&str),
) -> Result<(), WaitError> {
    let clock: &dyn Clock = patience.clock;
    let until = clock.uptime() + patience.limit;
    let nodes: Api<Node> = Api::all(client.clone());
    loop {
        let last = match nodes.get_opt(name).await {
            Ok(Some(node)) if is_ready(&node) => return Ok(()),
            Ok(Some(node)) => why_not_ready(&node),
            Ok(None) => format!("the cluster has no Node {name} yet"),
            Err(cause) => format!("the Node {name} cannot be read: {cause}"),
        };
        if clock.uptime() >= until {
            let limit = patience.limit;
            return Err(WaitError::NotReady { limit, last });
        }
        on_wait(&last);
        clock.sleep(READY_POLL).await;
    }
}

fn why_not_ready(node: &Node) -> String {
    let status = node.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let ready = conditions
        .unwrap_or_default()
        .iter()
        .find(|condition| condition.type_ == "Ready");
    let Some(ready) = ready else {
        return "the Node has no condition Ready yet".to_owned();
    };
    format!(
        "Ready is {} ({}: {})",
        ready.status,
        ready.reason.as_deref().unwrap_or("no reason"),
        ready.message.as_deref().unwrap_or("no message"),
    )
}

#[cfg(test)]
mod tests;
