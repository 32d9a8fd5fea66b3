//! Ends containers, and whole pods.

use std::time::Duration;

use api::events::Severity;
use futures_util::future::join_all;
use seams::cri;
use tracing::{info, warn};
use types::PodUid;
use types::observed::{ContainerState, ObservedContainer, ObservedPod};

use super::end::{Doomed, NotEnded, Order};
use super::{Outcome, RETRY, grpc};
use crate::plan::{Kill, Kind, PodKill};
use crate::slot::Slot;
use crate::spec::spec_of;
use crate::task::Worker;

/// For so long it is not told that a container ended whose place another takes. Where the
/// other does not come, people have to know.
const GAP: Duration = Duration::from_secs(2);

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
            if kill.again {
                self.gap_until = self.on.now() + GAP;
                self.memory.replaced.insert(kill.id);
            }
            if let Err(error) = ended {
                warn!(pod = %self.pod, container = kill.container, %error, "a container is not ended, will try again");
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
        let regular = doomed.iter().filter(|one| one.kind == Kind::Regular);
        let regular: Vec<String> = regular.map(|one| one.id.clone()).collect();
        let ended = self.end_all(slot, doomed, &order).await;
        if ended.contains(&Err(NotEnded::Cut)) {
            return Outcome::Cut;
        }
        if why == PodKill::SandboxChanged {
            // They go on in the next one, even those that end well.
            self.memory.replaced.extend(regular);
        }
        // Those of which a container would not end are stopped, too: the runtime may know
        // a way then.
        let stopped = tokio::select! {
            stopped = self.stop_sandboxes(slot, observed) => stopped,
            () = self.cut(slot) => return Outcome::Cut,
        };
        let containers = running.iter().map(|one| one.name.as_str()).zip(&ended);
        let Some(problem) = not_killed(containers, &self.pod.uid, &stopped) else {
            return Outcome::Done;
        };
        if why == PodKill::Ending {
            let message = format!("error killing pod: {problem}");
            self.on.telling.warning(&slot.pod, "FailedKillPod", message);
        } else {
            warn!(pod = %self.pod, ?why, problem, "the pod is not ended, will try again");
        }
        Outcome::Failed(self.on.spread(RETRY))
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

    /// All of them, whatever becomes of one; the last failure is told.
    async fn stop_sandboxes(&self, slot: &Slot, observed: &ObservedPod) -> Result<(), String> {
        let on = &self.on;
        let mut outcome = Ok(());
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
                outcome = Err(grpc(&error));
            }
        }
        outcome
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

/// What is left of a pod that was to be ended, in upstream's words.
fn not_killed<'a>(
    containers: impl Iterator<Item = (&'a str, &'a Result<(), NotEnded>)>,
    uid: &PodUid,
    sandboxes: &Result<(), String>,
) -> Option<String> {
    let mut problems: Vec<String> = containers
        .filter_map(|(name, ended)| match ended {
            Err(NotEnded::Refused(cause)) => Some(format!(
                "failed to \"KillContainer\" for {name:?} with KillContainerError: {cause:?}"
            )),
            Err(NotEnded::Cut) | Ok(()) => None,
        })
        .collect();
    if let Err(cause) = sandboxes {
        let uid = uid.as_str();
        problems.push(format!(
            "failed to \"KillPodSandbox\" for {uid:?} with KillPodSandboxError: {cause:?}"
        ));
    }
    match problems.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_ended_is_told_in_upstreams_words() {
        let refused = || Err(NotEnded::Refused("no \"way\"".to_owned()));
        let of_a = r#"failed to "KillContainer" for "a" with KillContainerError: "no \"way\"""#;
        let of_pod = r#"failed to "KillPodSandbox" for "u-1" with KillPodSandboxError: "busy""#;
        let busy = || Err("busy".to_owned());
        let cases = [
            (Ok(()), Ok(()), None),
            (refused(), Ok(()), Some(of_a.to_owned())),
            (Ok(()), busy(), Some(of_pod.to_owned())),
            (refused(), busy(), Some(format!("[{of_a}, {of_pod}]"))),
        ];
        for (container, sandboxes, expected) in cases {
            let both = [("a", &container), ("b", &Ok(()))];
            let uid = PodUid::new("u-1");
            let problem = not_killed(both.into_iter(), &uid, &sandboxes);
            assert_eq!(problem, expected);
        }
    }
}
