//! What a worker tells of a resize that it carries out: the condition, and the events.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodCondition;
use types::observed::ObservedPod;

use crate::allocation::conditions::{self, ERROR, IN_PROGRESS, Said, condition};
use crate::allocation::message::message;
use crate::metrics::InProgress;
use crate::plan::resize::is_in_progress;
use crate::slot::Slot;
use crate::task::Worker;

/// How far a worker has come with a resize.
#[derive(Debug, Default)]
pub(crate) struct Resizing {
    /// What an earlier agent had begun was looked for.
    recalled: bool,
    /// The last wish that was granted, as far as this worker knows.
    granted: Option<i64>,
    in_progress: Option<PodCondition>,
    counted: Option<InProgress>,
}

impl Worker {
    /// What holds now is in what is reported next.
    pub(crate) fn note_resize(&mut self, slot: &Slot, observed: &ObservedPod) {
        self.recall();
        let active = !self.is_ending(slot);
        if active {
            self.follow_resize(slot, observed);
        }
        let resizing = &mut self.resizing;
        match (&resizing.in_progress, &resizing.counted) {
            (Some(_), None) => resizing.counted = Some(InProgress::new(&self.on.metrics)),
            (None, Some(_)) => resizing.counted = None,
            _ => {}
        }
        let pending = slot.resize.pending.as_ref();
        let both = pending.into_iter().chain(&self.resizing.in_progress);
        // Nothing is to be expected of a pod that is over.
        self.known.resize = if self.known.terminal {
            Vec::new()
        } else {
            both.cloned().collect()
        };
    }

    fn follow_resize(&mut self, slot: &Slot, observed: &ObservedPod) {
        let now = self.timestamp();
        let generation = slot.pod.metadata.generation;
        let resizing = &mut self.resizing;
        if !std::mem::replace(&mut resizing.recalled, true) {
            let object = slot.object();
            resizing.in_progress = object.and_then(|pod| conditions::told(pod, IN_PROGRESS));
        }
        if resizing.granted != slot.resize.granted {
            resizing.granted = slot.resize.granted;
            let granted = slot.resize.granted.filter(|generation| *generation != 0);
            resizing.in_progress = Some(condition(begun(granted), None, now));
        }
        let actuated = self.memory.actuated.as_deref();
        let pod_level = self.on.settings.resize.scope.pod_level;
        if is_in_progress(&slot.pod, observed, actuated, pod_level) {
            let resizing = &mut self.resizing.in_progress;
            resizing.get_or_insert_with(|| condition(begun(generation), None, now));
        } else if let Some(done) = self.resizing.in_progress.take() {
            let text = message(&slot.pod, done.observed_generation, "", "completed");
            self.on.telling.normal(&slot.pod, "ResizeCompleted", text);
        }
    }

    /// It shows in the status, and people are told once of each problem.
    pub(crate) fn resize_failed(&mut self, slot: &Slot, problem: &str) {
        let before = self.resizing.in_progress.take();
        let generation = match &before {
            Some(before) => before.observed_generation,
            None => slot.pod.metadata.generation,
        };
        let said = Said {
            kind: IN_PROGRESS,
            reason: ERROR,
            message: problem,
            generation,
        };
        let now = condition(said, before.as_ref(), self.timestamp());
        let news = before
            .is_none_or(|before| before.reason != now.reason || before.message != now.message);
        self.resizing.in_progress = Some(now);
        if news {
            let text = message(&slot.pod, generation, problem, "error");
            self.on.telling.warning(&slot.pod, "ResizeError", text);
        }
    }

    fn timestamp(&self) -> Timestamp {
        Timestamp::try_from(self.on.clock.now()).unwrap_or_default()
    }
}

fn begun(generation: Option<i64>) -> Said<'static> {
    Said {
        kind: IN_PROGRESS,
        reason: "",
        message: "",
        generation,
    }
}
