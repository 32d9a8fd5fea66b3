//! Ends containers, and whole pods.

use std::sync::Arc;
use std::time::Duration;

use api::events::Severity;
use futures_util::future::join_all;
use seams::cri;
use tracing::info;
use types::observed::{ContainerState, ObservedContainer, ObservedPod};

use super::{Outcome, RETRY, grpc};
use crate::plan::{Kill, Kind, PodKill};
use crate::slot::Slot;
use crate::spec::spec_of;
use crate::task::Worker;

/// Nothing is ended in less: a runtime needs a moment to pass a signal on.
const LEAST: Duration = Duration::from_secs(2);

impl Worker {
    pub(super) async fn kill_some(&mut self, slot: &Slot, kills: Vec<Kill>) -> Outcome {
        for kill in &kills {
            let container = (kill.kind, kill.container.as_str());
            let (severity, message) = (Severity::Normal, kill.message.clone());
            let telling = &self.on.telling;
            telling.container(&slot.pod, container, severity, "Killing", message);
        }
        let stops = kills.iter().map(|kill| self.stop(&kill.id, kill.grace));
        let stops = join_all(stops);
        let outcomes = tokio::select! {
            outcomes = stops => outcomes,
            () = self.cut(slot) => return Outcome::Cut,
        };
        let mut outcome = Outcome::Done;
        for (kill, stopped) in kills.into_iter().zip(outcomes) {
            // Whatever the answer: it may have ended all the same.
            self.memory.replaced.insert(kill.id);
            if let Err(error) = stopped {
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
        for container in &running {
            self.tell_of_kill(slot, container);
        }
        let stops = running.iter().map(|one| self.stop(&one.id, grace));
        let work = async {
            let stopped = join_all(stops).await;
            let stopped: Result<(), String> = stopped.into_iter().collect();
            stopped?;
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
    fn tell_of_kill(&mut self, slot: &Slot, container: &ObservedContainer) {
        if slot.source.is_none() || !self.told_of_kill.insert(container.id.clone()) {
            return;
        }
        let name = container.name.as_str();
        let kind = Kind::of(&spec_of(&slot.pod), name);
        let message = format!("Stopping container {name}");
        let telling = &self.on.telling;
        telling.container(
            &slot.pod,
            (kind, name),
            Severity::Normal,
            "Killing",
            message,
        );
    }

    fn stop(
        &self,
        id: &str,
        grace: Duration,
    ) -> impl Future<Output = Result<(), String>> + Send + use<> {
        let runtime = Arc::clone(&self.on.runtime);
        let seconds = grace.max(LEAST).as_secs();
        let request = cri::StopContainerRequest {
            container_id: id.to_owned(),
            timeout: i64::try_from(seconds).unwrap_or(i64::MAX),
        };
        async move {
            match runtime.stop_container(request).await {
                Err(error) if !error.is_not_found() => {
                    Err(format!("failed to stop container: {}", grpc(&error)))
                }
                _ => Ok(()),
            }
        }
    }
}
