//! A line per step, for people, on standard error.

use crate::kubelet::say;

/// The steps of a join, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Preflight,
    Discovery,
    NodeName,
    KubeletConfig,
    Files,
    Start,
    Certificate,
    Ready,
}

const STEPS: [Step; 8] = [
    Step::Preflight,
    Step::Discovery,
    Step::NodeName,
    Step::KubeletConfig,
    Step::Files,
    Step::Start,
    Step::Certificate,
    Step::Ready,
];

impl Step {
    /// As in `--skip-phases`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Preflight => "preflight",
            Self::Discovery => "discovery",
            Self::NodeName => "node-name",
            Self::KubeletConfig => "kubelet-config",
            Self::Files => "files",
            Self::Start => "start",
            Self::Certificate => "certificate",
            Self::Ready => "ready",
        }
    }

    /// What the person reads.
    pub(super) fn line(self, told: &str) -> String {
        let number = STEPS.iter().take_while(|step| **step != self).count() + 1;
        format!("[{number}/{}] {}: {told}", STEPS.len(), self.name())
    }

    pub(super) fn say(self, told: &str) {
        say(&self.line(told));
    }
}

/// Says each news once.
#[derive(Debug)]
pub(super) struct Waiting {
    step: Step,
    last: String,
}

impl Waiting {
    pub(super) fn on(step: Step) -> Self {
        Self {
            step,
            last: String::new(),
        }
    }

    pub(super) fn for_sake_of(&mut self, cause: &str) {
        if self.last != cause {
            cause.clone_into(&mut self.last);
            self.step.say(&format!("waiting: {cause}"));
        }
    }
}

/// A line below that of a step.
pub(super) fn note(told: &str) {
    say(&format!("      {told}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_which_step_of_how_many() {
        assert_eq!(Step::Preflight.line("ok"), "[1/8] preflight: ok");
        assert_eq!(Step::Ready.line("ok"), "[8/8] ready: ok");
    }
}
