//! The cells of a pod: what its containers together are doing, in one word.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age;
use super::objects::or;
use crate::schema::look::{items, text};

pub(super) fn cells(pod: &Value, age: &str, now: Timestamp) -> Value {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let summary = Summary::of(pod);
    let restarts = match (summary.restarts, summary.last_restart.is_empty()) {
        (0, _) => "0".to_owned(),
        (count, true) => count.to_string(),
        (count, false) => format!(
            "{count} ({} ago)",
            age::since(&summary.last_restart.as_str().into(), now)
        ),
    };
    let address = items(&status["podIPs"])
        .first()
        .map_or("", |address| text(&address["ip"]));
    let gates = items(&spec["readinessGates"]);
    let open = gates
        .iter()
        .filter(|gate| condition(pod, text(&gate["conditionType"])) == Some("True"))
        .count();
    let gates = if gates.is_empty() {
        "<none>".to_owned()
    } else {
        format!("{open}/{}", gates.len())
    };
    json!([
        pod["metadata"]["name"],
        format!("{}/{}", summary.ready, summary.total),
        summary.reason,
        restarts,
        age,
        if address.is_empty() {
            "<none>"
        } else {
            address
        },
        or(&spec["nodeName"], "<none>"),
        or(&status["nominatedNodeName"], "<none>"),
        gates,
    ])
}

/// The first condition of a type.
fn condition<'a>(pod: &'a Value, name: &str) -> Option<&'a str> {
    let found = items(&pod["status"]["conditions"])
        .iter()
        .find(|condition| condition["type"] == name);
    found.map(|condition| text(&condition["status"]))
}

#[derive(Default)]
struct Summary {
    reason: String,
    ready: usize,
    total: usize,
    restarts: i64,
    /// A time of the API: they compare as texts.
    last_restart: String,
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let (spec, status) = (&pod["spec"], &pod["status"]);
        let sidecars = items(&spec["initContainers"])
            .iter()
            .filter(|container| container["restartPolicy"] == "Always");
        let mut summary = Self {
            reason: or(&status["reason"], text(&status["phase"])).to_owned(),
            total: items(&spec["containers"]).len() + sidecars.count(),
            ..Self::default()
        };
        let gated = |condition: &Value| {
            condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated"
        };
        if items(&status["conditions"]).iter().any(gated) {
            "SchedulingGated".clone_into(&mut summary.reason);
        }
        let (of_sidecars, initializing) = summary.init_containers(pod);
        if !initializing || condition(pod, "Initialized") == Some("True") {
            (summary.restarts, summary.last_restart) = of_sidecars;
            summary.containers(pod);
        }
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            if status["reason"] == "NodeLost" {
                "Unknown".clone_into(&mut summary.reason);
            } else if !matches!(text(&status["phase"]), "Failed" | "Succeeded") {
                "Terminating".clone_into(&mut summary.reason);
            }
        }
        summary
    }

    /// Counts restarts of init containers, and says how far they are. Gives the restarts
    /// of those that go on running, and whether any is still to end.
    fn init_containers(&mut self, pod: &Value) -> ((i64, String), bool) {
        let specs = items(&pod["spec"]["initContainers"]);
        let mut of_sidecars = (0, String::new());
        for (index, status) in items(&pod["status"]["initContainerStatuses"])
            .iter()
            .enumerate()
        {
            let sidecar = specs
                .iter()
                .any(|spec| spec["name"] == status["name"] && spec["restartPolicy"] == "Always");
            count_restarts(status, &mut self.restarts, &mut self.last_restart);
            if sidecar {
                count_restarts(status, &mut of_sidecars.0, &mut of_sidecars.1);
            }
            let state = &status["state"];
            let (terminated, waiting) = (&state["terminated"], text(&state["waiting"]["reason"]));
            if terminated.is_object() && terminated["exitCode"].as_i64().unwrap_or_default() == 0 {
                continue;
            }
            if sidecar && status["started"] == true {
                self.ready += usize::from(status["ready"] == true);
                continue;
            }
            self.reason = if terminated.is_object() {
                format!("Init:{}", end_of(terminated))
            } else if !waiting.is_empty() && waiting != "PodInitializing" {
                format!("Init:{waiting}")
            } else {
                format!("Init:{index}/{}", specs.len())
            };
            return (of_sidecars, true);
        }
        (of_sidecars, false)
    }

    fn containers(&mut self, pod: &Value) {
        let mut running = false;
        let mut error = String::new();
        for status in items(&pod["status"]["containerStatuses"]).iter().rev() {
            count_restarts(status, &mut self.restarts, &mut self.last_restart);
            let state = &status["state"];
            let (terminated, waiting) = (&state["terminated"], text(&state["waiting"]["reason"]));
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.reason);
            } else if terminated.is_object() {
                self.reason = end_of(terminated);
                if terminated["exitCode"].as_i64().unwrap_or_default() != 0 {
                    error.clone_from(&self.reason);
                }
            } else if status["ready"] == true && state["running"].is_object() {
                running = true;
                self.ready += 1;
            }
        }
        // One that has ended does not speak for those that run, or that failed.
        if self.reason == "Completed" {
            let ready =
                |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
            if running && items(&pod["status"]["conditions"]).iter().any(ready) {
                "Running".clone_into(&mut self.reason);
            } else if !error.is_empty() {
                self.reason = error;
            } else if running {
                "NotReady".clone_into(&mut self.reason);
            }
        }
    }
}

fn count_restarts(status: &Value, restarts: &mut i64, last: &mut String) {
    *restarts += status["restartCount"].as_i64().unwrap_or_default();
    let finished = text(&status["lastState"]["terminated"]["finishedAt"]);
    if finished > last.as_str() {
        finished.clone_into(last);
    }
}

/// How a container ended.
fn end_of(terminated: &Value) -> String {
    let number = |name: &str| terminated[name].as_i64().unwrap_or_default();
    match (text(&terminated["reason"]), number("signal")) {
        ("", 0) => format!("ExitCode:{}", number("exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}
