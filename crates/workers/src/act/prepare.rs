//! What a pod needs before anything of it can run.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tracing::warn;

use super::{Outcome, RETRY};
use crate::slot::Slot;
use crate::spec::{spec_of, uses_host_network};
use crate::task::Worker;

/// While the node has no network, pods are looked at again after that.
const NO_NETWORK: Duration = Duration::from_secs(1);

/// After volumes could not be set up: doubled from the first to the last.
const FIRST_MOUNT_RETRY: Duration = Duration::from_millis(500);
const LAST_MOUNT_RETRY: Duration = Duration::from_secs(122);
/// When people are told that a pod waits for its volumes.
const MOUNT_PATIENCE: Duration = Duration::from_secs(123);

impl Worker {
    pub(super) async fn prepare(&mut self, slot: &Slot) -> Outcome {
        let pod = &slot.pod;
        let on = Arc::clone(&self.on);
        let view = Arc::clone(&on.node.borrow());
        if let Some(problem) = &view.network_problem
            && !uses_host_network(&spec_of(pod))
        {
            let message = format!("network is not ready: {problem}");
            on.telling.warning(pod, "NetworkNotReady", message);
            return Outcome::Failed(on.spread(NO_NETWORK));
        }
        if let Some(cgroups) = &on.cgroups {
            let there = cgroups.has(pod).unwrap_or_default();
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
        let mounting = on.volumes.mount(pod);
        let mounted = tokio::select! {
            mounted = mounting => mounted,
            () = self.cut(slot) => return Outcome::Cut,
        };
        match mounted {
            Ok(mut mounted) => {
                mounted.refresh_at = self.not_at_once(mounted.refresh_at);
                self.mounted = Some(mounted);
                self.mount_failures = None;
                self.memory.prepared = true;
                Outcome::Done
            }
            Err(error) => self.volumes_failed(slot, &error),
        }
    }

    fn volumes_failed(&mut self, slot: &Slot, error: &volumes::MountError) -> Outcome {
        let on = &self.on;
        for failure in &error.failures {
            let message = failure.to_string();
            on.telling.warning(&slot.pod, "FailedMount", message);
        }
        let now = on.clock.uptime();
        let (count, since) = self.mount_failures.unwrap_or((0, now));
        let mut since = since;
        if now.saturating_sub(since) >= MOUNT_PATIENCE {
            let message = format!("Unable to attach or mount volumes: {error}");
            on.telling.warning(&slot.pod, "FailedMount", message);
            since = now;
        }
        self.mount_failures = Some((count.saturating_add(1), since));
        let pause = FIRST_MOUNT_RETRY * 2_u32.saturating_pow(count.min(8));
        Outcome::Failed(pause.min(LAST_MOUNT_RETRY))
    }

    /// What was made anew is not made anew at once, whatever a clock that is ahead of
    /// the API server's says.
    fn not_at_once(&self, refresh_at: Option<SystemTime>) -> Option<SystemTime> {
        let least = self.on.clock.now() + self.on.spread(RETRY);
        refresh_at.map(|at| at.max(least))
    }

    /// Brings what is in the volumes up to date. What fails is tried again.
    pub(crate) async fn refresh_volumes(&mut self, slot: &Slot) {
        let on = Arc::clone(&self.on);
        match on.volumes.refresh(&slot.pod).await {
            Ok(fresh) => {
                let refresh_at = self.not_at_once(fresh.refresh_at);
                if let Some(mounted) = &mut self.mounted {
                    mounted.refresh_at = refresh_at;
                }
            }
            Err(error) => {
                for failure in &error.failures {
                    let message = failure.to_string();
                    on.telling.warning(&slot.pod, "FailedMount", message);
                }
                if let Some(mounted) = &mut self.mounted {
                    let later = on.clock.now() + on.spread(RETRY);
                    mounted.refresh_at = Some(later);
                }
            }
        }
    }
}
