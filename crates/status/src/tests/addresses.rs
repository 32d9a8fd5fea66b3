//! The addresses of pods, while they run and when they have ended.

use ContainerState::Exited;

use super::*;

#[test]
fn a_pod_in_the_nodes_network_has_the_nodes_addresses() {
    let mut case = Case::new().spec("hostNetwork", json!(true));
    case.observed.sandboxes[0].ips.clear();
    case.node.host_ips.push("fd00::1".parse().unwrap());
    let status = case.status();
    assert_eq!(status["podIP"], "192.168.0.1");
    let both = json!([{"ip": "192.168.0.1"}, {"ip": "fd00::1"}]);
    assert_eq!((&status["podIPs"], &status["hostIPs"]), (&both, &both));
    case.node.host_ips.clear();
    assert_eq!(
        case.status()["podIP"],
        Value::Null,
        "without an API server nothing is known"
    );
}

#[test]
fn a_pod_that_ended_keeps_the_addresses_that_were_told_of_it() {
    let mut case = Case::new().container("a", Exited, 0);
    case.observed.sandboxes[0].ips.clear();
    case.api = json!({"phase": "Running", "podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}]});
    assert_eq!(case.status()["podIP"], Value::Null);
    case.api["phase"] = json!("Succeeded");
    assert_eq!(case.status()["podIP"], "10.0.0.7");
}
