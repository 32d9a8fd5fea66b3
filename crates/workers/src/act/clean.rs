//! Takes away what a pod had.

use resources::garbage;
use std::sync::Arc;
use tracing::{debug, warn};

use super::Outcome;
use crate::objects::PodObjects;
use crate::patience::{Verdict, after_cleaning_failed};
use crate::slot::Slot;
use crate::spec::spec_of;
use crate::task::Worker;
use crate::turns::Rank;

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
        self.clean_failures = 0;
        self.memory.cleaned = true;
        debug!(pod = %self.pod, "the pod has nothing any more");
        Outcome::Done
    }

    fn not_clean(&mut self, problem: &str) -> Outcome {
        self.clean_failures = self.clean_failures.saturating_add(1);
        let Verdict { tell, pause } = after_cleaning_failed(self.clean_failures);
        if tell {
            warn!(pod = %self.pod, err = problem, "what the pod had cannot be taken away, will try again");
        }
        Outcome::Failed(pause)
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
