//! Keeps the desired set published.

use std::time::Duration;

use seams::SharedClock;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use types::desired::Desired;

use super::adopt::{Adoption, Running};
use super::adopted::AdoptedFile;
use super::{Merge, Refused};
use crate::delivery::{Delivery, Source};

/// How long static pods, of which others of the same name run, wait for the API
/// server to tell whether they are the same.
const PATIENCE: Duration = Duration::from_secs(10);

/// What one source publishes; `None` for a source that is not configured.
pub type Deliveries = Option<watch::Receiver<Option<Delivery>>>;

/// Takes what the sources deliver. Runs as one task.
#[derive(Debug)]
pub struct Merging {
    pub file: Deliveries,
    pub http: Deliveries,
    pub api: Deliveries,
    /// What the runtime has.
    pub running: watch::Receiver<Running>,
    pub adopted: AdoptedFile,
    pub clock: SharedClock,
    pub desired: watch::Sender<Desired>,
    /// Whom an event should be made about. What does not fit is only logged.
    pub refused: mpsc::Sender<Refused>,
}

impl Merging {
    /// Merges until told to stop.
    pub async fn run(mut self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.merge()).await;
    }

    async fn merge(&mut self) {
        let all = [
            (Source::File, &mut self.file),
            (Source::Http, &mut self.http),
            (Source::Api, &mut self.api),
        ];
        let mut configured = Vec::new();
        for (source, deliveries) in all {
            if let Some(deliveries) = deliveries {
                configured.push(source);
                // It may have delivered before we came.
                deliveries.mark_changed();
            }
        }
        let mut merge = Merge::new(configured);
        self.desired.send_replace(merge.desired());
        // Without an API server there are no mirrors to know others' pods by.
        let mut adoption = match &self.api {
            Some(_) => Adoption::remembering(self.adopted.read()),
            None => Adoption::off(),
        };
        let mut remembered = adoption.uids().clone();
        self.running.mark_changed();
        let mut patience = None;
        loop {
            let waits = adoption.waits_for_mirrors();
            if waits && patience.is_none() {
                patience = Some(self.clock.sleep(PATIENCE));
            }
            let deliveries = tokio::select! {
                delivery = next(&mut self.file) => adoption.take(delivery),
                delivery = next(&mut self.http) => adoption.take(delivery),
                delivery = next(&mut self.api) => adoption.take(delivery),
                Ok(()) = self.running.changed() => {
                    adoption.running(self.running.borrow_and_update().clone())
                }
                () = until(&mut patience), if waits => {
                    patience = None;
                    warn!("the API server does not tell of mirror pods: static pods begin under uids of their own");
                    adoption.give_up()
                }
            };
            // Before anybody acts by it.
            if !deliveries.is_empty() && remembered != *adoption.uids() {
                remembered.clone_from(adoption.uids());
                self.adopted.write(&remembered);
            }
            for delivery in deliveries {
                self.take(&mut merge, &delivery);
            }
        }
    }

    fn take(&self, merge: &mut Merge, delivery: &Delivery) {
        let changes = merge.take(delivery, self.clock.now());
        if changes.is_empty() {
            return;
        }
        debug!(
            source = %delivery.source,
            added = changes.added.len(),
            updated = changes.updated.len(),
            deleted = changes.deleted.len(),
            removed = changes.removed.len(),
            reconciled = changes.reconciled.len(),
            "pods have changed"
        );
        self.desired.send_replace(merge.desired());
        for refused in changes.refused {
            warn!(reason = Refused::REASON, "{}", refused.message);
            let _ = self.refused.try_send(refused);
        }
    }
}

async fn until(sleep: &mut Option<seams::Sleep>) {
    match sleep {
        Some(sleep) => sleep.await,
        None => std::future::pending().await,
    }
}

/// The next delivery. Waits for ever where there is no source, or no longer one: its
/// pods stay.
async fn next(deliveries: &mut Deliveries) -> Delivery {
    if let Some(deliveries) = deliveries {
        while deliveries.changed().await.is_ok() {
            if let Some(delivery) = deliveries.borrow_and_update().clone() {
                return delivery;
            }
        }
    }
    std::future::pending().await
}
