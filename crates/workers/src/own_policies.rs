//! Which of the policies and rules count that containers have for their own restarts:
//! feature gates turn them off. Whoever reads a pod after this need not know of gates.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use types::desired::Desired;

const RESTART_ALL: &str = "RestartAllContainers";

/// What counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnPolicies {
    /// The gate `ContainerRestartRules`: those of a container come before its pod's.
    pub of_containers: bool,
    /// The gate `RestartAllContainersOnContainerExits`.
    pub restart_all: bool,
}

/// Both gates are on unless somebody turns them off.
impl Default for OwnPolicies {
    fn default() -> Self {
        Self {
            of_containers: true,
            restart_all: true,
        }
    }
}

impl OwnPolicies {
    /// Takes from the pods what does not count.
    #[must_use]
    pub fn apply(self, mut desired: Desired) -> Desired {
        if self == Self::default() {
            return desired;
        }
        for pod in desired.pods.values_mut() {
            if pod.pod.spec.as_ref().is_some_and(has_any) {
                self.strip(Arc::make_mut(&mut pod.pod));
            }
        }
        desired
    }

    fn strip(self, pod: &mut Pod) {
        let Some(spec) = &mut pod.spec else { return };
        for container in spec.init_containers.iter_mut().flatten() {
            // A sidecar is one by its policy, whatever the gates say.
            let is_sidecar = container.restart_policy.as_deref() == Some("Always");
            if !self.of_containers && !is_sidecar {
                container.restart_policy = None;
            }
            self.strip_rules(container);
        }
        for container in &mut spec.containers {
            if !self.of_containers {
                container.restart_policy = None;
            }
            self.strip_rules(container);
        }
    }

    fn strip_rules(self, container: &mut Container) {
        if !self.of_containers {
            container.restart_policy_rules = None;
        }
        let rules = container.restart_policy_rules.iter_mut().flatten();
        for rule in rules.filter(|rule| !self.restart_all && rule.action == RESTART_ALL) {
            // Where it matches, no other does: the container's policy decides.
            rule.action.clear();
        }
    }
}

fn has_any(spec: &PodSpec) -> bool {
    let init = spec.init_containers.iter().flatten();
    let mut all = init.chain(&spec.containers);
    all.any(|one| one.restart_policy.is_some() || one.restart_policy_rules.is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use types::PodUid;
    use types::desired::{DesiredPod, Source};

    use super::*;

    fn with_rule(name: &str, policy: &str, action: &str) -> Value {
        json!({ "name": name, "restartPolicy": policy, "restartPolicyRules": [{
            "action": action, "exitCodes": { "operator": "In", "values": [1] },
        }] })
    }

    /// What is left of each container: its policy, and the action of its rule.
    fn left(policies: OwnPolicies) -> Vec<(String, Option<String>, Option<String>)> {
        let pod: Pod = serde_json::from_value(json!({ "spec": {
            "initContainers": [
                { "name": "side", "restartPolicy": "Always" },
                with_rule("init", "OnFailure", "Restart"),
            ],
            "containers": [
                { "name": "plain" },
                with_rule("one", "Never", "Restart"),
                with_rule("all", "Always", RESTART_ALL),
            ],
        } }))
        .unwrap();
        let pod = DesiredPod {
            pod: Arc::new(pod),
            source: Source::Api,
            mirror: None,
        };
        let desired = Desired {
            pods: [(PodUid::new("u"), pod)].into(),
            ..Desired::default()
        };
        let desired = policies.apply(desired);
        let spec = desired.pods[&PodUid::new("u")].pod.spec.clone().unwrap();
        let init = spec.init_containers.unwrap_or_default();
        let all = init.into_iter().chain(spec.containers);
        all.map(|one| {
            let rules = one.restart_policy_rules.unwrap_or_default();
            let action = rules.first().map(|rule| rule.action.clone());
            (one.name, one.restart_policy, action)
        })
        .collect()
    }

    #[test]
    fn what_a_gate_turns_off_is_taken_from_the_pod() {
        type Row<'a> = (&'a str, Option<&'a str>, Option<&'a str>);
        let all: [Row<'_>; 5] = [
            ("side", Some("Always"), None),
            ("init", Some("OnFailure"), Some("Restart")),
            ("plain", None, None),
            ("one", Some("Never"), Some("Restart")),
            ("all", Some("Always"), Some(RESTART_ALL)),
        ];
        let mut without_all = all;
        without_all[4].2 = Some("");
        let mut none = all.map(|(name, _, _)| (name, None, None));
        none[0].1 = Some("Always");
        for (of_containers, restart_all, expected) in [
            (true, true, all),
            (true, false, without_all),
            (false, true, none),
            (false, false, none),
        ] {
            let policies = OwnPolicies {
                of_containers,
                restart_all,
            };
            let text = |text: Option<&str>| text.map(str::to_owned);
            let expected = expected
                .map(|(name, policy, action)| (name.to_owned(), text(policy), text(action)));
            assert_eq!(left(policies), expected, "{policies:?}");
        }
    }
}
