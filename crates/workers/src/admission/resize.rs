//! Whether a pod that was let in may have other resources.

use k8s_openapi::api::core::v1::{Container, Node, Pod};
use resources::requests::{self, CPU, MEMORY};
use resources::{Enforcement, QosClass};

use super::{Admitted, Rejection, Settings, admit};
use crate::allocation::conditions::INFEASIBLE;
use crate::allocation::{Scope, same};
use crate::fold::Wish;

/// What cannot be resized on a node at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    pub scope: Scope,
    /// `cpuManagerPolicy` is `static`, and its pods must not be resized.
    pub exclusive_cpus: bool,
    /// `memoryManagerPolicy` is `Static`, likewise.
    pub exclusive_memory: bool,
}

/// Decides on a resize: what can never be is `Infeasible`, the rest is a matter of room.
pub fn permit(
    wish: &Wish<'_>,
    node: Option<&Node>,
    others: &[&Pod],
    (settings, rules, enforcement): (&Settings, Rules, &Enforcement),
) -> Result<Admitted, Rejection> {
    swap(wish, enforcement)?;
    pod_level(wish, rules)?;
    exclusive(wish, rules)?;
    admit(wish.wanted, node, others, settings)
}

fn infeasible(message: impl Into<String>) -> Rejection {
    Rejection::new(INFEASIBLE, message)
}

/// The containers of both, as far as both have them.
fn pairs<'a>(wish: &Wish<'a>) -> impl Iterator<Item = (&'a Container, &'a Container)> {
    fn all(pod: &Pod) -> impl Iterator<Item = &Container> {
        let spec = pod.spec.iter();
        spec.flat_map(|spec| {
            let init = spec.init_containers.iter().flatten();
            spec.containers.iter().chain(init)
        })
    }
    let allowed = wish.allowed;
    all(wish.wanted).filter_map(move |wanted| {
        let allowed = all(allowed).find(|allowed| allowed.name == wanted.name)?;
        Some((allowed, wanted))
    })
}

fn differs(resource: &str, (allowed, wanted): (&Container, &Container)) -> bool {
    let asked = |container: &Container| {
        let requests = requests::requests(container.resources.as_ref());
        requests.get(resource).cloned().unwrap_or_default()
    };
    asked(allowed) != asked(wanted)
}

fn swap(wish: &Wish<'_>, enforcement: &Enforcement) -> Result<(), Rejection> {
    let restarts = |container: &Container| {
        let mut policies = container.resize_policy.iter().flatten();
        let policy = policies.find(|policy| policy.resource_name == MEMORY);
        policy.is_some_and(|policy| policy.restart_policy == "RestartContainer")
    };
    let mut pairs = pairs(wish);
    let swaps = pairs.any(|(allowed, wanted)| {
        let either =
            enforcement.swaps(wish.wanted, wanted) || enforcement.swaps(wish.allowed, allowed);
        differs(MEMORY, (allowed, wanted)) && !restarts(allowed) && either
    });
    if swaps {
        return Err(infeasible(
            "In-place resize of containers with swap is not supported.",
        ));
    }
    Ok(())
}

fn pod_level(wish: &Wish<'_>, rules: Rules) -> Result<(), Rejection> {
    let whole = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.resources.clone());
    let alike = same(whole(wish.allowed).as_ref(), whole(wish.wanted).as_ref());
    if alike || rules.scope.pod_level {
        return Ok(());
    }
    Err(infeasible(
        "InPlacePodLevelResourcesVerticalScaling is disabled",
    ))
}

/// Who has CPUs or memory of its own keeps them.
fn exclusive(wish: &Wish<'_>, rules: Rules) -> Result<(), Rejection> {
    if QosClass::of(wish.wanted) != QosClass::Guaranteed {
        return Ok(());
    }
    for (kept, resource, policy) in [
        (rules.exclusive_cpus, CPU, "CPU Manager policy \"static\""),
        (
            rules.exclusive_memory,
            MEMORY,
            "Memory Manager policy \"Static\"",
        ),
    ] {
        if kept && pairs(wish).any(|pair| differs(resource, pair)) {
            return Err(infeasible(format!(
                "Resize is infeasible for Guaranteed Pods alongside {policy}"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use resources::linux::Swap;
    use seams::host::CgroupVersion;
    use serde_json::{Value, json};

    use super::super::testing::{node, pod, settings};
    use super::*;

    fn enforcement(swap: Swap) -> Enforcement {
        Enforcement {
            version: CgroupVersion::V2,
            cpu_quota: true,
            quota_period: 100_000,
            kill_single_process: false,
            swap,
            memory: 1 << 33,
            huge_page_sizes: Vec::new(),
            memory_qos: None,
        }
    }

    fn of(resources: &Value) -> Pod {
        pod(&json!({ "containers": [{ "name": "c", "resources": resources }] }))
    }

    fn judged(allowed: &Pod, wanted: &Pod, rules: Rules, swap: Swap) -> Option<(String, String)> {
        let wish = Wish { allowed, wanted };
        let (node, settings) = (node(&json!({})), settings());
        let how = (&settings, rules, &enforcement(swap));
        let rejection = permit(&wish, Some(&node), &[], how).err();
        rejection.map(|rejection| (rejection.reason, rejection.message))
    }

    fn guaranteed(cpu: &str, memory: &str) -> Pod {
        let amounts = json!({ "cpu": cpu, "memory": memory });
        of(&json!({ "requests": amounts, "limits": amounts }))
    }

    #[test]
    fn what_is_bigger_than_the_node_is_a_matter_of_room() {
        let (less, more) = (guaranteed("1", "1Gi"), guaranteed("8", "1Gi"));
        let rejection = judged(&less, &more, Rules::default(), Swap::NoSwap);
        let (reason, message) = rejection.unwrap();
        assert_eq!(reason, "OutOfcpu");
        assert!(
            message.contains("requested: 8000, used: 0, capacity: 2000"),
            "{message}"
        );
        assert_eq!(judged(&more, &less, Rules::default(), Swap::NoSwap), None);
    }

    #[test]
    fn who_has_cpus_or_memory_of_its_own_keeps_them() {
        let cpus = Rules {
            exclusive_cpus: true,
            ..Rules::default()
        };
        let memory = Rules {
            exclusive_memory: true,
            ..Rules::default()
        };
        let before = guaranteed("1", "1Gi");
        for (rules, wanted, message) in [
            (
                cpus,
                guaranteed("2", "1Gi"),
                Some("CPU Manager policy \"static\""),
            ),
            (cpus, guaranteed("1", "2Gi"), None),
            (memory, guaranteed("2", "1Gi"), None),
            (
                memory,
                guaranteed("1", "2Gi"),
                Some("Memory Manager policy \"Static\""),
            ),
            (Rules::default(), guaranteed("2", "2Gi"), None),
            (cpus, of(&json!({ "requests": { "cpu": "2" } })), None),
        ] {
            let expected = message.map(|policy| {
                let message =
                    format!("Resize is infeasible for Guaranteed Pods alongside {policy}");
                (INFEASIBLE.to_owned(), message)
            });
            assert_eq!(judged(&before, &wanted, rules, Swap::NoSwap), expected);
        }
    }

    #[test]
    fn memory_that_swaps_cannot_be_resized_without_a_restart() {
        let asks = |memory: &str, policy: &str| {
            pod(&json!({ "containers": [{
                "name": "c", "resources": { "requests": { "memory": memory } },
                "resizePolicy": [{ "resourceName": "memory", "restartPolicy": policy }],
            }] }))
        };
        let limited = Swap::Limited { capacity: 1 << 30 };
        for (policy, memory, swap, infeasible) in [
            ("NotRequired", "2Gi", limited, true),
            ("NotRequired", "1Gi", limited, false),
            ("RestartContainer", "2Gi", limited, false),
            ("NotRequired", "2Gi", Swap::NoSwap, false),
        ] {
            let rules = Rules::default();
            let answer = judged(&asks("1Gi", policy), &asks(memory, policy), rules, swap);
            let message = "In-place resize of containers with swap is not supported.";
            let expected = infeasible.then(|| (INFEASIBLE.to_owned(), message.to_owned()));
            assert_eq!(answer, expected, "{policy} {memory}");
        }
    }

    #[test]
    fn a_pod_as_a_whole_is_resized_where_the_gate_is_on() {
        let whole = |cpu: &str| {
            let resources = json!({ "requests": { "cpu": cpu } });
            pod(&json!({ "containers": [], "resources": resources }))
        };
        let off = Rules {
            scope: Scope {
                pod_level: false,
                ..Scope::default()
            },
            ..Rules::default()
        };
        let judged = |rules| judged(&whole("1"), &whole("2"), rules, Swap::NoSwap);
        assert_eq!(judged(Rules::default()), None);
        let message = "InPlacePodLevelResourcesVerticalScaling is disabled";
        let expected = (INFEASIBLE.to_owned(), message.to_owned());
        assert_eq!(judged(off), Some(expected));
    }
}
