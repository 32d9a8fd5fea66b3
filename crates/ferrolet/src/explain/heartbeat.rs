//! What keeps a node Ready.

use super::live::{Live, lease_life, span};
use super::walk::{Step, Walk};

pub(super) fn walk(live: Option<&Live>) -> Walk {
    let name = live.map_or("NODE", |live| &live.name);
    Walk {
        title: "How a cluster knows that a node lives (heartbeats)",
        steps: vec![
            lease(live, name),
            status(live, name),
            readiness(live, name),
            silence(name),
            trial(name),
        ],
    }
}

fn lease(live: Option<&Live>, name: &str) -> Step {
    let counts = lease_life(live).as_secs();
    let text = format!(
        "The heartbeat is a Lease in the namespace kube-node-lease, named as the node. Every {} s, a quarter of nodeLeaseDurationSeconds ({}), the agent writes the time into it, over a connection that nothing else uses. A write that fails is tried five times at once, and again at the next beat.",
        counts / 4,
        counts
    );
    let here = live.map(|live| {
        let Some(spec) = live.lease.as_ref().and_then(|lease| lease.spec.as_ref()) else {
            return vec!["the lease is not there, or may not be seen".to_owned()];
        };
        let renewed = spec.renew_time.as_ref();
        let renewed = renewed.map_or("never".to_owned(), |time| live.when(time.0));
        let holder = spec.holder_identity.as_deref().unwrap_or("nobody");
        vec![
            format!("lease kube-node-lease/{name}, held by {holder}"),
            format!("renewed {renewed}"),
        ]
    });
    Step::new(text)
        .here(here.into_iter().flatten())
        .look(format!(
            "kubectl --namespace kube-node-lease get lease {name} --watch -o yaml"
        ))
}

fn status(live: Option<&Live>, name: &str) -> Step {
    let settings = live.map(|live| &live.settings);
    let text = format!(
        "The status of the Node is larger, and sent seldom: the agent looks at itself every {}, and sends what it sees when something has changed, or when nothing was sent for {}.",
        span(settings, "nodeStatusUpdateFrequency", "10s"),
        span(settings, "nodeStatusReportFrequency", "5m0s"),
    );
    let here = live.map(|live| {
        let told = live
            .ready()
            .and_then(|ready| ready.last_heartbeat_time.as_ref());
        match told {
            Some(time) => format!("status last sent {}", live.when(time.0)),
            None => "no status is seen".to_owned(),
        }
    });
    Step::new(text).here(here).look(format!(
        "kubectl get node {name} -o jsonpath={{.status.conditions}}"
    ))
}

fn readiness(live: Option<&Live>, name: &str) -> Step {
    let text = "Ready is what the agent says of itself: False if the runtime has not answered for 30 s, if it could not list the pods for three minutes (PLEG), if the runtime reports no pod network, or while the CSINode is not there. The message names the cause.";
    let here = live.and_then(Live::ready).map(|ready| {
        let message = ready.message.as_deref().unwrap_or_default();
        format!("Ready: {}: {message}", ready.status)
    });
    Step::new(text)
        .here(here)
        .look("sudo ferrolet doctor")
        .look(format!("kubectl describe node {name}"))
}

fn silence(name: &str) -> Step {
    let text = "If neither lease nor status moves for 50 s (kube-controller-manager --node-monitor-grace-period), the node controller sets Ready to Unknown and taints the node with node.kubernetes.io/unreachable. No new pods come; pods that tolerate the taint for 300 s, which is the default, are then deleted. The containers run on: nobody is there to stop them. When the agent beats again, the taint goes.";
    Step::new(text).look(format!(
        "kubectl get node {name} -o jsonpath={{.spec.taints}}"
    ))
}

fn trial(name: &str) -> Step {
    Step::new("To see that no more than this is needed: end the agent, wait until the node is NotReady, and let another program beat for it.")
        .look(format!("ferrolet heartbeat {name} --for 2m"))
}
