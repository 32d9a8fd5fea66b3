//! `ferrolet csr approve --kubelet-serving`: nodes' serving requests that are in
//! order are approved, the others told of; once, or until a signal comes.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::csr::{NODE_SERVING_SIGNER, Reviewed, ServingOutcome, approve_serving};
use cluster::{CallError, CallProblem};
use futures_util::{FutureExt as _, Stream, StreamExt as _};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::Api;
use kube::runtime::{WatchStreamExt as _, watcher};

use super::KIND;
use crate::cluster_access::{self, ClusterAccess, ClusterArguments};
use crate::kubelet::say;
use crate::output::{Failure, print, printable};

/// Nodes get their addresses without a change to any request.
const INTERVAL: Duration = Duration::from_secs(10);

/// One look at all of them. Those that are refused are for a person to decide.
pub(super) fn once(cluster: &ClusterArguments) -> Result<(), Failure> {
    cluster_access::run(cluster, async |access| {
        let reviewed = approve_serving(&access.client, access.now()).await?;
        if reviewed.is_empty() {
            say("no request waits");
        }
        let mut said = Said::default();
        let all_approved = reviewed
            .iter()
            .all(|one| one.outcome == ServingOutcome::Approved);
        for line in said.lines(&reviewed) {
            print(&line)?;
        }
        if all_approved {
            Ok(())
        } else {
            Err(Failure::Told)
        }
    })
}

/// Until a signal comes, which is its proper end.
pub(super) fn run(cluster: &ClusterArguments) -> Result<(), Failure> {
    match cluster_access::run(cluster, follow) {
        Err(Failure::Interrupted(_)) => Ok(()),
        outcome => outcome,
    }
}

async fn follow(access: &ClusterAccess) -> Result<(), Failure> {
    let requests: Api<CertificateSigningRequest> = Api::all(access.patient_client());
    let of_nodes = format!("spec.signerName={NODE_SERVING_SIGNER}");
    let events = watcher(requests, watcher::Config::default().fields(&of_nodes));
    let mut events = std::pin::pin!(events.default_backoff());
    let mut said = Said::default();
    say(&format!(
        "watching requests to {NODE_SERVING_SIGNER} at {}; Ctrl-C ends it",
        access.config.server.text
    ));
    loop {
        match approve_serving(&access.client, access.now()).await {
            Ok(reviewed) => {
                for line in said.lines(&reviewed) {
                    print(&line)?;
                }
            }
            Err(error) if is_final(&error) => return Err(error.into()),
            Err(error) => said.trouble(&error),
        }
        tokio::select! {
            () = change(&mut events) => {}
            () = access.clock.sleep(INTERVAL) => {}
        }
    }
}

/// The API server answers, and will not let us.
fn is_final(error: &CallError) -> bool {
    matches!(
        error.problem,
        CallProblem::Forbidden(_) | CallProblem::Unauthorized
    )
}

/// Something about a request has changed; what has changed at the same time is
/// looked at in the same round.
async fn change<T>(events: &mut (impl Stream<Item = T> + Unpin)) {
    if events.next().await.is_none() {
        // A watcher goes on for ever; should it end, the interval still holds.
        std::future::pending::<()>().await;
    }
    while let Some(Some(_)) = events.next().now_or_never() {}
}

/// What has been said of which request, so that nothing is said twice.
#[derive(Default)]
struct Said {
    lines: BTreeMap<String, String>,
    trouble: Option<String>,
}

impl Said {
    /// The lines that are new. Requests that wait no more are forgotten.
    fn lines(&mut self, reviewed: &[Reviewed]) -> Vec<String> {
        self.trouble = None;
        let mut before = std::mem::take(&mut self.lines);
        let mut new = Vec::new();
        for one in reviewed {
            let line = line(one);
            if before.remove(&one.name).as_ref() != Some(&line) {
                new.push(line.clone());
            }
            self.lines.insert(one.name.clone(), line);
        }
        new
    }

    fn trouble(&mut self, error: &CallError) {
        let text = format!("error: {}; trying again", printable(&error.to_string()));
        if self.trouble.as_ref() != Some(&text) {
            say(&text);
        }
        self.trouble = Some(text);
    }
}

fn line(reviewed: &Reviewed) -> String {
    let told = match &reviewed.outcome {
        ServingOutcome::Approved => "approved".to_owned(),
        ServingOutcome::Refused(reasons) => {
            let reasons: Vec<_> = reasons.iter().map(ToString::to_string).collect();
            format!("refused: {}", reasons.join("; "))
        }
        ServingOutcome::Undecided(error) => format!("undecided: {error}"),
    };
    let Reviewed {
        name, requester, ..
    } = reviewed;
    let line = format!("{KIND}/{name} of {requester} {told}");
    printable(&line).replace('\n', " ") + "\n"
}

#[cfg(test)]
mod tests {
    use cluster::csr::ServingRefusal;

    use super::*;

    fn refused(name: &str, node: &str) -> Reviewed {
        Reviewed {
            name: name.to_owned(),
            requester: format!("system:node:{node}"),
            outcome: ServingOutcome::Refused(vec![ServingRefusal::UnknownNode(node.to_owned())]),
        }
    }

    #[test]
    fn a_refusal_is_told_once_and_again_when_its_reason_changes() {
        let mut said = Said::default();
        let expected = format!("{KIND}/csr-a of system:node:n1 refused: there is no Node n1 yet\n");
        assert_eq!(
            said.lines(&[refused("csr-a", "n1")]),
            std::slice::from_ref(&expected)
        );
        assert!(said.lines(&[refused("csr-a", "n1")]).is_empty());
        let other = Reviewed {
            outcome: ServingOutcome::Refused(vec![ServingRefusal::NoAddresses("n1".to_owned())]),
            ..refused("csr-a", "n1")
        };
        assert_eq!(said.lines(&[other]).len(), 1);
        assert!(said.lines(&[]).is_empty());
        assert_eq!(said.lines(&[refused("csr-a", "n1")]), [expected]);
    }

    #[test]
    fn a_request_that_is_in_order_is_told_as_approved() {
        let approved = Reviewed {
            outcome: ServingOutcome::Approved,
            ..refused("csr-a", "n1")
        };
        assert_eq!(
            line(&approved),
            format!("{KIND}/csr-a of system:node:n1 approved\n")
        );
    }
}
