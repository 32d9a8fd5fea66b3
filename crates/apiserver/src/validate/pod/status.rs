//! What a kubelet may say of a pod.

use serde_json::Value;

use crate::schema::look::{items, number, text};
use crate::validate::errors::Errors;
use crate::validate::names;

pub(crate) fn check(pod: &Value, old: &Value, errors: &mut Errors) {
    super::update::annotations(pod, old, errors);
    let (status, before) = (&pod["status"], &old["status"]);
    for (index, condition) in items(&status["conditions"]).iter().enumerate() {
        let field = format!("status.conditions[{index}]");
        if number(&condition["observedGeneration"]) < 0 {
            let generation = number(&condition["observedGeneration"]);
            errors.invalid(
                format!("{field}.observedGeneration"),
                generation,
                "must be a non-negative integer",
            );
        }
        let name = text(&condition["type"]);
        if !["PodScheduled", "Ready", "Initialized"].contains(&name) {
            errors.invalid_all(format!("{field}.Type"), name, names::qualified_name(name));
        }
    }
    if pod["spec"]["nodeName"] != old["spec"]["nodeName"] {
        errors.forbidden("status.nodeName", "may not be changed directly");
    }
    let nominated = text(&status["nominatedNodeName"]);
    if status["nominatedNodeName"] != before["nominatedNodeName"] && !nominated.is_empty() {
        errors.invalid_all(
            "status.nominatedNodeName",
            nominated,
            names::dns_subdomain(nominated),
        );
        if !text(&old["spec"]["nodeName"]).is_empty() {
            errors.forbidden(
                "status.nominatedNodeName",
                "may not be set on pods that are already bound to a node",
            );
        }
    }
    if number(&status["observedGeneration"]) < 0 {
        let generation = number(&status["observedGeneration"]);
        errors.invalid(
            "status.observedGeneration",
            generation,
            "must be a non-negative integer",
        );
    }
    if status["qosClass"] != before["qosClass"] {
        errors.invalid(
            "status.qosClass",
            status["qosClass"].clone(),
            "field is immutable",
        );
    }
    transitions(pod, old, errors);
    for (list, what) in [("podIPs", "status.podIPs"), ("hostIPs", "status.hostIPs")] {
        let addresses: Vec<&str> = items(&status[list])
            .iter()
            .map(|address| text(&address["ip"]))
            .collect();
        for (index, address) in addresses.iter().enumerate() {
            super::address(address, &format!("{what}[{index}]"), errors);
        }
        let unreadable = addresses
            .iter()
            .position(|address| address.parse::<std::net::IpAddr>().is_err());
        if let Some(index) = unreadable.filter(|_| addresses.len() > 1) {
            let detail = format!(
                "failed to check for dual stack with error:invalid IP[{index}]: {}",
                addresses[index]
            );
            errors.internal(what, &detail);
        }
        let second_family = addresses.iter().any(|address| address.contains(':'))
            && addresses.iter().any(|address| !address.contains(':'));
        if addresses.len() > 1 + usize::from(second_family) {
            errors.invalid(
                what,
                status[list].clone(),
                "may specify no more than one IP for each IP family",
            );
        }
    }
}

/// A container that has ended and is not to be started again has ended for good.
fn transitions(pod: &Value, old: &Value, errors: &mut Errors) {
    let spec = &old["spec"];
    let of = |list: &str| items(&spec[list]).iter();
    let all_again = of("initContainers")
        .chain(of("containers"))
        .flat_map(|container| items(&container["restartPolicyRules"]))
        .any(|rule| rule["action"] == "RestartAllContainers");
    for (list, containers) in [
        ("containerStatuses", "containers"),
        ("initContainerStatuses", "initContainers"),
        ("ephemeralContainerStatuses", ""),
    ] {
        if all_again && !containers.is_empty() {
            continue;
        }
        let now = items(&pod["status"][list]);
        for (index, before) in items(&old["status"][list]).iter().enumerate() {
            let ended = &before["state"]["terminated"];
            let same = |other: &&Value| other["name"] == before["name"];
            let runs = |other: &Value| other["state"]["terminated"].is_null();
            if ended.is_null() || !now.iter().find(same).is_some_and(runs) {
                continue;
            }
            let container = of(containers).find(same);
            if !container.is_some_and(|container| starts_again(container, spec, ended)) {
                errors.forbidden(
                    format!("status.{list}[{index}].state"),
                    "may not be transitioned to non-terminated state",
                );
            }
        }
    }
}

fn starts_again(container: &Value, spec: &Value, ended: &Value) -> bool {
    let code = number(&ended["exitCode"]);
    let by_policy = |policy: &Value| match text(policy) {
        "Always" => Some(true),
        "OnFailure" => Some(code != 0),
        "Never" => Some(false),
        _ => None,
    };
    let matches = |rule: &&Value| {
        let codes = &rule["exitCodes"];
        let named = items(&codes["values"])
            .iter()
            .any(|value| value.as_i64() == Some(code));
        match text(&codes["operator"]) {
            "In" => named,
            "NotIn" => !named,
            _ => false,
        }
    };
    let policy = &container["restartPolicy"];
    if !policy.is_null() {
        let rule = items(&container["restartPolicyRules"]).iter().find(matches);
        if rule.is_some_and(|rule| rule["action"] == "Restart") {
            return true;
        }
    }
    by_policy(policy)
        .or_else(|| by_policy(&spec["restartPolicy"]))
        .unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(policy: &str, container: &Value, state: &Value) -> Value {
        let mut container = container.clone();
        container["name"] = "a".into();
        json!({
            "spec": {"restartPolicy": policy, "containers": [container]},
            "status": {"containerStatuses": [{"name": "a", "state": state}]},
        })
    }

    #[test]
    fn a_container_that_has_ended_for_good_does_not_run_again() {
        let rule = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [7]}}]);
        let own = |policy: &str| json!({"restartPolicy": policy});
        let ruled = json!({"restartPolicy": "Never", "restartPolicyRules": rule});
        for (policy, container, code, allowed) in [
            ("Always", json!({}), 0, true),
            ("OnFailure", json!({}), 0, false),
            ("OnFailure", json!({}), 1, true),
            ("Never", json!({}), 1, false),
            ("Never", own("Always"), 0, true),
            ("Always", own("Never"), 1, false),
            ("Never", ruled.clone(), 7, true),
            ("Never", ruled, 8, false),
        ] {
            let ended = json!({"terminated": {"exitCode": code}});
            let (before, now) = (
                pod(policy, &container, &ended),
                pod(policy, &container, &json!({"running": {}})),
            );
            let mut errors = Errors::default();
            transitions(&now, &before, &mut errors);
            assert_eq!(errors.is_empty(), allowed, "{policy} {container} {code}");
            let mut errors = Errors::default();
            transitions(&before, &now, &mut errors);
            transitions(&before, &before, &mut errors);
            assert!(errors.is_empty());
        }
    }
}
