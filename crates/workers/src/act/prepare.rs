//! What a pod needs before anything of it can run.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tracing::warn;
use types::observed::{ContainerState, ObservedPod};
use volumes::Mounted;
use volumes::ownership::IN_PROGRESS;

use super::{Outcome, RETRY};
use crate::patience::{Failure, Mounting};
use crate::plan::PodKill;
use crate::probing::{ill_otherwise, keep_telling};
use crate::slot::Slot;
use crate::spec::{spec_of, uses_host_network};
use crate::task::Worker;

/// While the node has no network, pods are looked at again after that.
const NO_NETWORK: Duration = Duration::from_secs(1);

impl Worker {
    pub(super) async fn prepare(&mut self, slot: &Slot, observed: &ObservedPod) -> Outcome {
        let pod = &slot.pod;
        let on = Arc::clone(&self.on);
        let view = Arc::clone(&on.node.borrow());
        self.volumes_unread = true;
        if let Some(problem) = &view.network_problem
            && !uses_host_network(&spec_of(pod))
        {
            let message = format!("network is not ready: {problem}");
            on.telling.warning(pod, "NetworkNotReady", message);
            return Outcome::Failed(on.spread(NO_NETWORK));
        }
        if let Some(cgroups) = &on.cgroups {
            let there = cgroups.has(pod);
            if matches!(there, Ok(false)) && has_running_container(observed) {
                // It was begun with another driver or below another root: it is nobody's there.
                let why = PodKill::OutsideItsCgroup;
                return self.kill_pod(slot, observed, slot.own_grace(), why).await;
            }
            let there = there.unwrap_or_default();
            if let Err(error) = cgroups.ensure(pod) {
                let message = format!("unable to ensure pod container exists: {error}");
                on.telling.warning(pod, "FailedCreatePodContainer", message);
                return Outcome::Failed(on.spread(RETRY));
            }
            if !there && let Err(problem) = self.note_new(pod).await {
                warn!(pod = %self.pod, problem, "what the pod begins with is not written down, will try again");
                return Outcome::Failed(on.spread(RETRY));
            }
            self.read_cgroup(slot);
        }
        // Before there is a sandbox: a runtime's pods are known as this node's by them.
        let made = tokio::select! {
            made = on.volumes.make_room(&self.pod.uid) => made,
            () = self.cut(slot) => return Outcome::Cut,
        };
        if let Err(error) = made {
            let message = format!("error making pod data directories: {error}");
            on.telling
                .warning(pod, "FailedToMakePodDataDirectories", message);
            return Outcome::Failed(on.spread(RETRY));
        }
        let said_of_itself = on.volumes.said_of_itself(pod);
        let tell = |message: String| on.telling.warning(pod, IN_PROGRESS, message);
        let mounting = on.volumes.mount_and_tell(pod, &tell);
        let mounted = tokio::select! {
            mounted = mounting => mounted,
            () = self.cut(slot) => return Outcome::Cut,
        };
        self.volumes_unread = false;
        match mounted {
            Ok(mut mounted) => {
                mounted.refresh_at = self.not_at_once(mounted.refresh_at);
                self.tell_notices(slot, &mounted.notices);
                self.mounted = Some(mounted);
                self.said_of_itself = said_of_itself;
                self.mounting = Mounting::default();
                self.memory.prepared = true;
                Outcome::Done
            }
            Err(error) => match self.still_mounted(&error) {
                Some(mounted) => {
                    self.tell_failures(slot, &error);
                    on.volumes.goes_on_with(pod, &mounted.volumes);
                    self.mounted = Some(mounted);
                    self.said_of_itself = said_of_itself;
                    self.mounting = Mounting::default();
                    self.memory.prepared = true;
                    Outcome::Done
                }
                None => self.volumes_failed(slot, &error),
            },
        }
    }

    /// What a pod that has been prepared before has, where what fails now was set up then: it
    /// is there as it was, and no reason to let the pod wait. What is published in it is
    /// looked at again soon.
    fn still_mounted(&self, error: &volumes::MountError) -> Option<Mounted> {
        let mut volumes = error.volumes.clone();
        for failure in &error.failures {
            let mut before = self.mounted.iter().flat_map(|mounted| &mounted.volumes);
            volumes.push(before.find(|one| one.name == failure.volume)?.clone());
        }
        Some(Mounted {
            volumes,
            refresh_at: Some(self.on.clock.now() + self.on.spread(RETRY)),
            notices: Vec::new(),
        })
    }

    fn tell_failures(&self, slot: &Slot, error: &volumes::MountError) {
        self.tell_notices(slot, &error.notices);
        for failure in &error.failures {
            if !failure.problem.is_unprocessed() && !failure.problem.is_awaited() {
                let message = failure.to_string();
                self.on.telling.warning(&slot.pod, "FailedMount", message);
            }
        }
    }

    fn volumes_failed(&mut self, slot: &Slot, error: &volumes::MountError) -> Outcome {
        let on = Arc::clone(&self.on);
        self.tell_failures(slot, error);
        let mut failures = error.failures.iter();
        let failure = Failure {
            unprocessed: error.is_unprocessed(),
            tried: failures.any(|one| !one.problem.is_unprocessed()),
        };
        let (now, again) = (on.clock.uptime(), on.spread(RETRY));
        let verdict = self.mounting.failed(failure, now, again);
        if verdict.tell {
            let message = format!("Unable to attach or mount volumes: {error}");
            on.telling.warning(&slot.pod, "FailedMount", message);
        }
        Outcome::Failed(verdict.pause)
    }

    fn tell_notices(&self, slot: &Slot, notices: &[volumes::Notice]) {
        for notice in notices {
            let message = notice.message.clone();
            self.on.telling.warning(&slot.pod, notice.reason, message);
        }
    }

    /// What was made anew is not made anew at once, whatever a clock that is ahead of
    /// the API server's says.
    fn not_at_once(&self, refresh_at: Option<SystemTime>) -> Option<SystemTime> {
        let least = self.on.clock.now() + self.on.spread(RETRY);
        refresh_at.map(|at| at.max(least))
    }

    /// Whether the pod is not any more what its volumes say that it is: it has other
    /// labels, or its containers may use something else.
    pub(crate) fn is_said_otherwise(&self, slot: &Slot) -> bool {
        let has_volumes = self.memory.prepared && !self.is_ending(slot);
        has_volumes && self.on.volumes.said_of_itself(&slot.pod) != self.said_of_itself
    }

    /// Brings what is in the volumes up to date. What fails, or has to wait because there
    /// is something else to do for the pod, is tried again.
    pub(crate) async fn refresh_volumes(&mut self, slot: &Slot, observed: &Arc<ObservedPod>) {
        let on = Arc::clone(&self.on);
        self.said_of_itself = on.volumes.said_of_itself(&slot.pod);
        let mut aside = self.aside(slot, observed);
        let refreshed = tokio::select! {
            refreshed = on.volumes.refresh(&slot.pod) => Some(refreshed),
            () = self.urged(slot) => None,
            never = keep_telling(aside.as_mut()) => match never {},
        };
        if let Some(said) = aside.and_then(|aside| aside.said) {
            self.previous = Some(said);
        }
        let again = match refreshed {
            Some(Ok(fresh)) => self.not_at_once(fresh.refresh_at),
            Some(Err(error)) => {
                for failure in &error.failures {
                    let message = failure.to_string();
                    on.telling.warning(&slot.pod, "FailedMount", message);
                }
                Some(on.clock.now() + on.spread(RETRY))
            }
            None => Some(on.clock.now() + on.spread(RETRY)),
        };
        if let Some(mounted) = &mut self.mounted {
            mounted.refresh_at = again;
        }
    }

    /// Ends when the pod has to be seen to at once: it is to end, its time is up, or a
    /// container of it was found ill.
    async fn urged(&self, slot: &Slot) {
        let on = &self.on;
        let deadline = self.deadline(slot).filter(|_| !self.is_ending(slot));
        let deadline = deadline.map(|at| on.clock.sleep(at.saturating_sub(on.now())));
        let deadline = async {
            match deadline {
                Some(sleep) => sleep.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.cut(slot) => {}
            () = deadline => {}
            () = ill_otherwise(self.probing.place.follow(), &self.memory.ill) => {}
        }
    }
}

fn has_running_container(observed: &ObservedPod) -> bool {
    let mut containers = observed.containers.iter();
    containers.any(|container| container.state == ContainerState::Running)
}
