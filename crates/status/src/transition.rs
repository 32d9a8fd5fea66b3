//! What must not happen to a container: to come back from an end that was final.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodSpec, PodStatus};

use crate::spec::{init_containers, is_sidecar, list, may_restart_all, restarts, terminated};

/// Such a status is not told to anyone: what it was made of is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "container {container} had ended for good and seems to be there again; its status is not sent"
)]
pub struct IllegalTransition {
    pub container: String,
}

/// Whether `new` may follow `old`.
pub fn check(old: &PodStatus, new: &PodStatus, spec: &PodSpec) -> Result<(), IllegalTransition> {
    let policy = spec.restart_policy.as_deref().unwrap_or("Always");
    if policy == "Always" || may_restart_all(spec) {
        return Ok(());
    }
    let regular = spec.containers.iter();
    let init = init_containers(spec).iter();
    each(
        regular,
        list(old.container_statuses.as_ref()),
        list(new.container_statuses.as_ref()),
        spec,
    )?;
    each(
        init.filter(|container| !is_sidecar(container)),
        list(old.init_container_statuses.as_ref()),
        list(new.init_container_statuses.as_ref()),
        spec,
    )
}

fn each<'a>(
    containers: impl Iterator<Item = &'a Container>,
    old: &[ContainerStatus],
    new: &[ContainerStatus],
    spec: &PodSpec,
) -> Result<(), IllegalTransition> {
    for container in containers {
        let of = |statuses: &'_ [ContainerStatus]| -> Option<ContainerStatus> {
            let mut statuses = statuses.iter();
            statuses
                .find(|status| status.name == container.name)
                .cloned()
        };
        let (Some(old), Some(new)) = (of(old), of(new)) else {
            continue;
        };
        let Some(end) = terminated(old.state.as_ref()) else {
            continue;
        };
        let back = terminated(new.state.as_ref()).is_none();
        // The pod's own policy allows it even where the container's does not.
        let by_pod = end.exit_code != 0 && spec.restart_policy.as_deref() == Some("OnFailure");
        if back && !by_pod && !restarts(container, spec, end.exit_code) {
            return Err(IllegalTransition {
                container: container.name.clone(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_container_does_not_come_back_from_a_final_end() {
        let cases = [
            ("Always", 0, true),
            ("OnFailure", 0, false),
            ("OnFailure", 1, true),
            ("Never", 0, false),
            ("Never", 1, false),
            ("Never", 42, true),
        ];
        for (policy, exit_code, allowed) in cases {
            for kind in ["containers", "initContainers"] {
                let rule = json!({"action": "Restart",
                    "exitCodes": {"operator": "In", "values": [42]}});
                let spec: PodSpec = serde_json::from_value(json!({
                    "restartPolicy": policy, "containers": [],
                    kind: [{"name": "a", "restartPolicy": "Never", "restartPolicyRules": [rule]}],
                }))
                .unwrap();
                let statuses = if kind == "containers" {
                    "containerStatuses"
                } else {
                    "initContainerStatuses"
                };
                let status = |state: serde_json::Value| -> PodStatus {
                    let status = json!({statuses: [{"name": "a", "state": state}]});
                    serde_json::from_value(status).unwrap()
                };
                let old = status(json!({"terminated": {"exitCode": exit_code}}));
                let new = status(json!({"running": {}}));
                let checked = check(&old, &new, &spec);
                assert_eq!(checked.is_ok(), allowed, "{policy} {exit_code} {kind}");
                assert_eq!(check(&old, &old, &spec), Ok(()));
                assert_eq!(check(&new, &new, &spec), Ok(()));
            }
        }
    }
}
