//! Whether the node can run pods, and if not, why not, in upstream's words.

use std::time::Duration;

use crate::runtime::{RUNTIME_READY, RuntimeFacts};

/// How long a runtime may be without a good status.
const RUNTIME_PATIENCE: Duration = Duration::from_secs(30);

/// Where the node's `CSINode` stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CsiNodeState {
    #[default]
    Waiting,
    Failed(String),
    Done,
}

/// What other parts of the node have to say about its health.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ailments {
    /// Why the PLEG is not healthy, if it is not.
    pub pleg: Option<String>,
    pub shutting_down: bool,
    /// What is wanting though the node can do without: `CPU hardcapping
    /// unsupported`.
    pub warning: Option<String>,
}

/// What readiness depends on.
#[derive(Clone, Copy, Debug)]
pub struct Signs<'a> {
    pub runtime: &'a RuntimeFacts,
    /// The clock's.
    pub uptime: Duration,
    pub csi_node: &'a CsiNodeState,
    pub ailments: &'a Ailments,
}

impl Signs<'_> {
    /// Everything that keeps the node from being ready, each once.
    pub fn problems(&self) -> Vec<String> {
        let mut problems: Vec<String> = Vec::new();
        let mut add = |problem: Option<String>| {
            problems.extend(problem.filter(|problem| !problems.contains(problem)));
        };
        add(self.runtime_age().map(str::to_owned));
        let pleg = self.ailments.pleg.as_ref();
        add(pleg.map(|cause| format!("PLEG is not healthy: {cause}")));
        if self.runtime.conditions.is_some() {
            let lack = self.runtime.lack_of(RUNTIME_READY);
            add(lack.map(|lack| format!("container runtime not ready: {lack}")));
        }
        add(self.runtime.network_problem());
        add(match self.csi_node {
            CsiNodeState::Waiting => Some("CSINode is not yet initialized".to_owned()),
            CsiNodeState::Failed(cause) => Some(format!("failed to initialize CSINode: {cause}")),
            CsiNodeState::Done => None,
        });
        let shutting_down = self.ailments.shutting_down;
        add(shutting_down.then(|| "node is shutting down".to_owned()));
        problems
    }

    fn runtime_age(&self) -> Option<&'static str> {
        match self.runtime.last_good_status {
            None => Some("container runtime status check may not have completed yet"),
            Some(then) if self.uptime >= then + RUNTIME_PATIENCE => {
                Some("container runtime is down")
            }
            Some(_) => None,
        }
    }
}

/// Several problems as one text; `None` without any.
pub fn joined(problems: &[String]) -> Option<String> {
    match problems {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{NETWORK_READY, RuntimeCondition};

    const NOW: Duration = Duration::from_secs(1000);

    fn ready() -> RuntimeFacts {
        RuntimeFacts {
            last_good_status: Some(NOW),
            conditions: Some(vec![
                RuntimeCondition::ready(RUNTIME_READY),
                RuntimeCondition::ready(NETWORK_READY),
            ]),
            ..RuntimeFacts::default()
        }
    }

    fn said(runtime: &RuntimeFacts, csi_node: &CsiNodeState, ailments: &Ailments) -> String {
        let signs = Signs {
            runtime,
            uptime: NOW,
            csi_node,
            ailments,
        };
        joined(&signs.problems()).unwrap_or_default()
    }

    fn said_of(runtime: &RuntimeFacts) -> String {
        said(runtime, &CsiNodeState::Done, &Ailments::default())
    }

    #[test]
    fn before_the_first_status_nothing_is_known() {
        assert_eq!(
            said_of(&RuntimeFacts::default()),
            "[container runtime status check may not have completed yet, network state unknown]"
        );
    }

    #[test]
    fn a_runtime_is_down_after_half_a_minute_without_a_good_status() {
        for (seconds, expected) in [(29, ""), (30, "container runtime is down")] {
            let runtime = RuntimeFacts {
                last_good_status: Some(NOW.saturating_sub(Duration::from_secs(seconds))),
                ..ready()
            };
            assert_eq!(said_of(&runtime), expected);
        }
    }

    #[test]
    fn conditions_of_the_runtime_are_passed_on() {
        let mut runtime = ready();
        let network = RuntimeCondition {
            kind: NETWORK_READY.to_owned(),
            status: false,
            reason: "NetworkPluginNotReady".to_owned(),
            message: "Network plugin returns error: cni plugin not initialized".to_owned(),
        };
        runtime.conditions.as_mut().unwrap()[1] = network.clone();
        assert_eq!(
            said_of(&runtime),
            "container runtime network not ready: NetworkReady=false \
             reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not \
             initialized"
        );
        runtime.conditions = Some(vec![network]);
        assert!(said_of(&runtime).starts_with("[container runtime not ready: <nil>, container"));
    }

    #[test]
    fn other_parts_have_their_say_in_upstreams_order() {
        let ailments = Ailments {
            pleg: Some("pleg has yet to be successful".to_owned()),
            shutting_down: true,
            warning: None,
        };
        assert_eq!(
            said(&ready(), &CsiNodeState::Waiting, &ailments),
            "[PLEG is not healthy: pleg has yet to be successful, CSINode is not yet \
             initialized, node is shutting down]"
        );
        let failed = CsiNodeState::Failed("no".to_owned());
        assert_eq!(
            said(&ready(), &failed, &Ailments::default()),
            "failed to initialize CSINode: no"
        );
    }
}
