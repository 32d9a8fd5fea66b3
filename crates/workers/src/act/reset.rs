//! Takes away all containers of a pod that is to begin anew. Their logs stay, and its
//! sandbox and volumes.

use api::events::Severity;
use seams::cri;
use tracing::{info, warn};

use super::{Outcome, RETRY};
use crate::plan::Reset;
use crate::slot::Slot;
use crate::task::Worker;

/// No more is granted than what every end takes.
const SECONDS: i64 = 2;

impl Worker {
    pub(super) async fn reset(&mut self, slot: &Slot, resets: &[Reset]) -> Outcome {
        info!(pod = %self.pod, "all containers of the pod begin anew");
        for reset in resets {
            let gone = tokio::select! {
                gone = self.reset_one(slot, reset) => gone,
                () = self.cut(slot) => return Outcome::Cut,
            };
            if let Err(error) = gone {
                let container = &reset.container;
                warn!(pod = %self.pod, container, %error, "a container does not make room, will try again");
                return Outcome::Failed(self.on.spread(RETRY));
            }
        }
        Outcome::Done
    }

    async fn reset_one(&self, slot: &Slot, reset: &Reset) -> Result<(), seams::RuntimeError> {
        let on = &self.on;
        if reset.kill {
            let container = (reset.kind, reset.container.as_str());
            let (severity, telling) = (Severity::Normal, &on.telling);
            telling.container(&slot.pod, container, severity, "Killing", "killing");
            let request = cri::StopContainerRequest {
                container_id: reset.id.clone(),
                timeout: SECONDS,
            };
            unless_gone(on.runtime.stop_container(request).await)?;
        }
        let request = cri::RemoveContainerRequest {
            container_id: reset.id.clone(),
        };
        unless_gone(on.runtime.remove_container(request).await)
    }
}

fn unless_gone<T>(answer: Result<T, seams::RuntimeError>) -> Result<(), seams::RuntimeError> {
    match answer {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}
