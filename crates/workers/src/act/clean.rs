//! Takes away what a pod had.

use std::sync::Arc;
use std::time::Duration;

use resources::garbage;
use tracing::{debug, warn};

use super::{Outcome, RETRY};
use crate::objects::PodObjects;
use crate::slot::Slot;
use crate::spec::spec_of;
use crate::task::Worker;
use crate::turns::Rank;

/// What is busy is soon free: a mount that a dying process still holds.
const SOON: Duration = Duration::from_millis(200);
/// So often; then it is more than that.
const SOON_TRIES: u32 = 20;

impl Worker {
    /// Volumes, and what holds resources. The rest stays for those who want to know
    /// how the pod ended.
    pub(super) async fn clean(&mut self, slot: &Slot) -> Outcome {
        let on = Arc::clone(&self.on);
        let uid = &self.pod.uid;
        if let Err(error) = on.volumes.unmount(uid).await {
            return self.not_clean(&error.to_string());
        }
        if let Some(cgroups) = &on.cgroups {
            let name = cgroups.name_of(&slot.pod);
            // A pod that nobody knows any more may have had any class.
            let removed = match slot.source {
                Some(_) => cgroups.remove(&name).await,
                None => cgroups.remove_any(uid).await,
            };
            if let Err(error) = removed {
                return self.not_clean(&error.to_string());
            }
        }
        // A pod that nobody knows any more may have had users of its own.
        let own_users = spec_of(&slot.pod).host_users == Some(false) || slot.source.is_none();
        if own_users && let Err(error) = on.users.release(uid).await {
            return self.not_clean(&error.to_string());
        }
        on.images.forget(uid);
        self.objects = PodObjects::default();
        self.mounted = None;
        self.memory.cleaned = true;
        debug!(pod = %self.pod, "the pod has nothing any more");
        Outcome::Done
    }

    fn not_clean(&mut self, problem: &str) -> Outcome {
        self.clean_failures += 1;
        if self.clean_failures <= SOON_TRIES {
            return Outcome::Failed(SOON);
        }
        warn!(pod = %self.pod, err = problem, "what the pod had cannot be taken away, will try again");
        Outcome::Failed(self.on.spread(RETRY))
    }

    /// What is left of it in the runtime and on the disk.
    pub(super) async fn remove(&mut self, slot: &Slot) -> Outcome {
        let on = Arc::clone(&self.on);
        let uid = self.pod.uid.clone();
        let rank = Rank {
            afterwards: true,
            ..self.rank(slot)
        };
        let turn = on.turns.take(rank).await;
        let removing = garbage::remove_pod(
            &on.runtime,
            &on.storage,
            &self.pod,
            &on.settings.logs,
            &on.settings.log_links,
        );
        let removed = turn.spend(&*on.clock, removing).await;
        if let Err(error) = removed {
            return self.not_clean(&error.to_string());
        }
        if let Err(error) = on.volumes.remove_pod(&uid).await {
            return self.not_clean(&error.to_string());
        }
        self.memory.removed = true;
        Outcome::Done
    }
}
