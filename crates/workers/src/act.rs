//! Carries out one step of a plan. What comes of it is in the worker's memory, and
//! in the runtime, where the next look finds it.

mod clean;
mod end;
mod env_files;
mod image_volumes;
mod kill;
mod logs;
mod outlived;
mod prepare;
mod reset;
mod resize;
mod sandbox;
mod start;
mod users;

use std::time::Duration;

use crate::plan::Plan;
use crate::slot::Slot;
use crate::task::Worker;
use types::observed::ObservedPod;

/// After a failure, as upstream: ten seconds, spread.
pub(crate) const RETRY: Duration = Duration::from_secs(10);

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// It is to be tried again after this time.
    Failed(Duration),
    /// The pod is to end, or to end sooner: what was begun is not gone on with.
    Cut,
}

impl Worker {
    pub(crate) async fn act(&mut self, slot: &Slot, observed: &ObservedPod, plan: Plan) -> Outcome {
        match plan {
            Plan::Rest(_) | Plan::Finish => Outcome::Done,
            Plan::Prepare => self.prepare(slot, observed).await,
            Plan::Sandbox { attempt } => self.make_sandbox(slot, attempt).await,
            Plan::Start(starts, _) => {
                self.resize_for(slot, observed, &starts).await;
                Box::pin(self.start_all(slot, observed, starts)).await
            }
            Plan::Resize(resize) => self.resize(slot, observed, &resize).await,
            Plan::Kill(kills) => self.kill_some(slot, observed, kills).await,
            Plan::Reset(resets) => self.reset(slot, &resets).await,
            Plan::KillPod { grace, why } => self.kill_pod(slot, observed, grace, why).await,
            Plan::Clean => self.clean(slot).await,
            Plan::Remove => self.remove(slot).await,
        }
    }

    /// Ends when the pod is to end, or to end sooner than it was.
    pub(crate) fn cut(&self, since: &Slot) -> impl Future<Output = ()> + use<> {
        let ending = since.ending.map(|ending| ending.grace);
        // One that is over is ended already, in its own time.
        let before = ending.or_else(|| self.memory.over.then(|| since.own_grace()));
        let mut slot = self.slot.clone();
        async move {
            let sooner = |slot: &Slot| {
                let grace = slot.ending.map(|ending| ending.grace);
                grace.is_some_and(|grace| before.is_none_or(|before| grace < before))
            };
            if slot.wait_for(sooner).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// As Go prints an error of gRPC: users know these texts.
pub(crate) fn grpc(error: &seams::RuntimeError) -> String {
    format!(
        "rpc error: code = {:?} desc = {}",
        error.code, error.message
    )
}
