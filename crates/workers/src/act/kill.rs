//! Ends containers, and whole pods.

use std::time::Duration;

use api::events::Severity;
use futures_util::future::join_all;
use seams::cri;
use tracing::info;
use types::observed::{ContainerState, ObservedContainer, ObservedPod};

use super::end::{Doomed, NotEnded, Order};
use super::{Outcome, RETRY, grpc};
use crate::plan::{Kill, PodKill};
use crate::slot::Slot;
use crate::spec::spec_of;
use crate::task::Worker;

impl Worker {
    pub(super) async fn kill_some(
        &mut self,
        slot: &Slot,
        observed: &ObservedPod,
        kills: Vec<Kill>,
    ) -> Outcome {
        for kill in &kills {
            let container = (kill.kind, kill.container.as_str());
            let (severity, message) = (Severity::Normal, kill.message.clone());
            let telling = &self.on.telling;
            telling.container(&slot.pod, container, severity, "Killing", message);
        }
        let ip = observed.ips().first();
        let doomed = kills
            .iter()
            .map(|kill| self.doomed(slot, (&kill.container, &kill.id), ip, kill.grace));
        let doomed: Vec<Doomed> = doomed.collect();
        let outcomes = self.end_all(slot, doomed, &Order::default()).await;
        if outcomes.contains(&Err(NotEnded::Cut)) {
            return Outcome::Cut;
        }
        let mut outcome = Outcome::Done;
        for (kill, ended) in kills.into_iter().zip(outcomes) {
            // Whatever the answer: it may have ended all the same.
            self.memory.replaced.insert(kill.id);
            if let Err(error) = ended {
                let message = format!("error killing pod: {error}");
                self.on.telling.warning(&slot.pod, "FailedKillPod", message);
                outcome = Outcome::Failed(self.on.spread(RETRY));
            }
        }
        outcome
    }

    pub(super) async fn kill_pod(
        &mut self,
        slot: &Slot,
        observed: &ObservedPod,
        grace: Duration,
        why: PodKill,
    ) -> Outcome {
        if why == PodKill::SandboxChanged && !observed.sandboxes.is_empty() {
            let message = "Pod sandbox changed, it will be killed and re-created.";
            self.on.telling.normal(&slot.pod, "SandboxChanged", message);
            self.told_of_change = true;
        }
        info!(pod = %self.pod, ?grace, ?why, "the pod is ended");
        let running = observed.containers.iter().filter(|container| {
            matches!(
                container.state,
                ContainerState::Running | ContainerState::Unknown
            )
        });
        let running: Vec<&ObservedContainer> = running.collect();
        let names = running.iter().map(|one| one.name.as_str()).collect();
        let order = Order::of(&spec_of(&slot.pod), &names);
        let ip = observed.ips().first();
        let doomed = running
            .iter()
            .map(|one| self.doomed(slot, (&one.name, &one.id), ip, grace));
        let doomed: Vec<Doomed> = doomed.collect();
        for one in &doomed {
            self.tell_of_kill(slot, one);
        }
        let ended = self.end_all(slot, doomed, &order).await;
        if ended.contains(&Err(NotEnded::Cut)) {
            return Outcome::Cut;
        }
        let ended: Result<(), NotEnded> = ended.into_iter().collect();
        let work = async {
            ended.map_err(|error| error.to_string())?;
            self.stop_sandboxes(slot, observed).await
        };
        let done = tokio::select! {
            done = work => done,
            () = self.cut(slot) => return Outcome::Cut,
        };
        if let Err(error) = done {
            let message = format!("error killing pod: {error}");
            self.on.telling.warning(&slot.pod, "FailedKillPod", message);
            return Outcome::Failed(self.on.spread(RETRY));
        }
        Outcome::Done
    }

    /// A container by its name and id.
    fn doomed(
        &self,
        slot: &Slot,
        (name, id): (&str, &str),
        ip: Option<&String>,
        grace: Duration,
    ) -> Doomed {
        let doomed = Doomed::of(&slot.pod, name, id, ip, grace);
        if self.hooked.contains(id) {
            doomed.without_hook()
        } else {
            doomed
        }
    }

    async fn end_all(
        &mut self,
        slot: &Slot,
        doomed: Vec<Doomed>,
        order: &Order,
    ) -> Vec<Result<(), NotEnded>> {
        let ends = doomed.iter().map(|one| self.end(slot, one, order));
        let ended = join_all(ends).await;
        if ended.contains(&Err(NotEnded::Cut)) {
            // Less time is no reason to do anything twice.
            self.hooked.extend(doomed.into_iter().map(|one| one.id));
        }
        ended
    }

    async fn stop_sandboxes(&self, slot: &Slot, observed: &ObservedPod) -> Result<(), String> {
        let on = &self.on;
        for sandbox in &observed.sandboxes {
            let turn = on.turns.take(self.rank(slot)).await;
            let request = cri::StopPodSandboxRequest {
                pod_sandbox_id: sandbox.id.clone(),
            };
            let stopping = on.runtime.stop_pod_sandbox(request);
            let stopped = turn.spend(&*on.clock, stopping).await;
            if let Err(error) = stopped
                && !error.is_not_found()
            {
                return Err(format!("failed to stop sandbox: {}", grpc(&error)));
            }
        }
        Ok(())
    }

    /// Once for each container, however often it takes.
    fn tell_of_kill(&mut self, slot: &Slot, doomed: &Doomed) {
        if !self.told_of_kill.insert(doomed.id.clone()) {
            return;
        }
        let name = doomed.container.name.as_str();
        let message = format!("Stopping container {name}");
        let telling = &self.on.telling;
        telling.container(
            &slot.pod,
            (doomed.kind, name),
            Severity::Normal,
            "Killing",
            message,
        );
    }
}
