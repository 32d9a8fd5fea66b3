//! Pods whose cgroup says nothing of what they have: those that are over, and static ones.

use ContainerState::{Exited, Running};

use super::*;

#[test]
fn the_cgroup_of_a_pod_that_is_over_or_static_is_not_looked_at() {
    for (state, is_static, limits) in [
        (Running, false, json!({"memory": "128Mi"})),
        (Running, true, Value::Null),
        (Exited, false, Value::Null),
    ] {
        let mut case = Case::new()
            .spec("restartPolicy", json!("Never"))
            .container("a", state, 3);
        case.api = json!({"phase": "Running", "resources": {"limits": {"memory": "128Mi"}}});
        case.known.is_static = is_static;
        case.known.cgroup = Some(types::observed::ObservedResources {
            memory_limit: 128 << 20,
            ..types::observed::ObservedResources::default()
        });
        let status = case.status();
        assert_eq!(status["resources"]["limits"], limits, "{state:?} {status}");
    }
}
