//! Users of its own for a pod that asks for them.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::slot::Slot;
use crate::spec::security::{PodSecurity, verify_user_namespaces};
use crate::spec::spec_of;
use crate::task::Worker;

impl Worker {
    /// What of a pod's security is not in the pod: asked before its sandbox is made, and
    /// again for each container. Without a problem: it was cut short.
    pub(super) async fn security(&self, slot: &Slot) -> Result<PodSecurity, Option<String>> {
        if spec_of(&slot.pod).host_users != Some(false) {
            return Ok(PodSecurity {
                volume_groups: self.volume_groups(),
                ..PodSecurity::default()
            });
        }
        let on = Arc::clone(&self.on);
        let handler = self.runtime_handler(slot).await;
        let handler = handler.map_err(|error| Some(error.to_string()))?;
        verify_user_namespaces(&on.node.borrow().user_namespaces, &handler)
            .map_err(|error| Some(error.to_string()))?;
        let given = tokio::select! {
            given = on.users.give(&self.pod.uid) => given,
            () = self.cut(slot) => return Err(None),
        };
        Ok(PodSecurity {
            user_namespace: Some(given.map_err(|error| Some(error.to_string()))?),
            volume_groups: self.volume_groups(),
        })
    }

    /// Groups that the pod's volumes are given to by those who made them.
    fn volume_groups(&self) -> Vec<i64> {
        let volumes = self.mounted.iter().flat_map(|mounted| &mounted.volumes);
        let groups: BTreeSet<i64> = volumes.filter_map(|volume| volume.extra_group).collect();
        groups.into_iter().collect()
    }
}
