//! Sends reports to the API: one task per node.

use std::sync::Arc;
use std::time::Duration;

use api::objects::is_not_yet_ours;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client};
use seams::SharedClock;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use types::PodUid;
use types::figures::Board;

use crate::merge::merge;
use crate::metrics::Metrics;
use crate::patch::two_way;
use crate::reports::{Letter, Outcome, Reports, is_removable};

/// How many are on their way at once.
const AT_ONCE: usize = 10;

/// How often everything is compared with what the API has. Upstream's.
const RECONCILE: Duration = Duration::from_secs(10);

/// No answer is an answer, too.
const LIMIT: Duration = Duration::from_secs(30);

/// One that keeps the API informed.
#[derive(Debug)]
pub struct StatusSync {
    sender: Sender,
    reports: Reports,
    metrics: Arc<Metrics>,
}

#[derive(Clone)]
struct Sender {
    client: Client,
    clock: SharedClock,
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl StatusSync {
    /// It, and where reports are handed in. Nothing is sent before it runs.
    pub fn new(client: Client, clock: SharedClock, figures: &Board) -> (Self, Reports) {
        let metrics = Arc::<Metrics>::default();
        figures.hang(metrics.clone());
        let reports = Reports::default();
        let sync = Self {
            sender: Sender { client, clock },
            reports: reports.clone(),
            metrics,
        };
        (sync, reports)
    }

    /// What is under way at the end is dropped: the next agent says it again.
    pub async fn run(self, shutdown: CancellationToken) {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.send() => {}
        }
    }

    async fn send(self) {
        let clock = self.sender.clock.clone();
        let mut sending = JoinSet::new();
        let mut reconcile = clock.uptime() + RECONCILE;
        loop {
            let now = clock.uptime();
            if reconcile <= now {
                self.reports.reconcile(now);
                reconcile = now + RECONCILE;
            }
            while sending.len() < AT_ONCE
                && let Some(letter) = self.reports.next(now)
            {
                sending.spawn(self.sender.clone().send(letter));
            }
            // With all hands full, what is due waits for one of them.
            let due = self.reports.due().filter(|_| sending.len() < AT_ONCE);
            let wake = due.map_or(reconcile, |due| due.min(reconcile));
            tokio::select! {
                Some(done) = sending.join_next() => {
                    // Senders neither panic nor are they cancelled.
                    if let Ok((uid, since, outcome)) = done {
                        if !matches!(outcome, Outcome::Failed) {
                            let took = clock.uptime().saturating_sub(since);
                            self.metrics.told.took(took);
                        }
                        self.reports.settle(&uid, outcome, clock.uptime());
                    }
                }
                () = self.reports.news() => {}
                () = clock.sleep(wake.saturating_sub(now)) => {}
            }
        }
    }
}

impl Sender {
    /// Since when it was to be said comes back with what became of it.
    async fn send(self, letter: Letter) -> (PodUid, Duration, Outcome) {
        let sent = seams::timeout(&*self.clock, LIMIT, self.deliver(&letter)).await;
        let pod = &letter.report.name;
        let outcome = match sent {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) => {
                let outcome = on_error(&error);
                if is_not_yet_ours(&error.to_string()) {
                    // New to the API server's authorizer, or gone from it already.
                    debug!(pod = %pod, err = %error, "the pod's status was not taken; it is tried again");
                } else if matches!(outcome, Outcome::Failed) {
                    warn!(pod = %pod, err = %error, "the pod's status was not taken; it is tried again");
                }
                outcome
            }
            Err(_) => {
                warn!(pod = %pod, "the API server does not answer a pod's status; it is tried again");
                Outcome::Failed
            }
        };
        (letter.uid, letter.since, outcome)
    }

    async fn deliver(&self, letter: &Letter) -> Result<Outcome, kube::Error> {
        let Letter {
            api_uid,
            report,
            api,
            ..
        } = letter;
        let name = report.name.name.as_str();
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &report.name.namespace);
        let mut pod = match api {
            Some(pod) => pod.clone(),
            None => Arc::new(pods.get(name).await?),
        };
        if pod.metadata.uid.as_deref() != Some(api_uid.as_str()) {
            info!(pod = %report.name, uid = %api_uid, "another pod has this name now; the old one's status is dropped");
            return Ok(Outcome::Nobody);
        }
        let said = pod.status.clone().unwrap_or_default();
        let merged = merge(&said, &report.status, report.may_run, &self.now());
        if let Some(patch) = two_way(api_uid.as_str(), &said, &merged) {
            let patch = Patch::Strategic(patch);
            let parameters = PatchParams::default();
            pod = Arc::new(pods.patch_status(name, &parameters, &patch).await?);
        }
        if is_removable(&pod, report) {
            let preconditions = Preconditions {
                uid: Some(api_uid.as_str().to_owned()),
                resource_version: None,
            };
            let parameters = DeleteParams {
                grace_period_seconds: Some(0),
                ..DeleteParams::default()
            };
            pods.delete(name, &parameters.preconditions(preconditions))
                .await?;
            debug!(pod = %report.name, uid = %api_uid, "the pod has ended and is removed from the API");
            return Ok(Outcome::Nobody);
        }
        Ok(Outcome::Known(pod))
    }

    fn now(&self) -> Time {
        // Before 1970 and after 9999 no certificate holds either.
        let now = Timestamp::try_from(self.clock.now()).unwrap_or_default();
        Time(Timestamp::from_second(now.as_second()).unwrap_or_default())
    }
}

/// Who is not there needs no status. A conflict may mean that another has its name:
/// the next try asks.
fn on_error(error: &kube::Error) -> Outcome {
    match error {
        kube::Error::Api(status) if status.code == 404 => Outcome::Nobody,
        _ => Outcome::Failed,
    }
}

#[cfg(test)]
#[path = "sync_tests.rs"]
mod tests;
