use serde_json::{Value, json};

use super::bench::{Bench, HOUR, seconds};
use crate::testapi::NODE;
use crate::testdata::no_runtime;

fn reasons(bench: &Bench) -> Vec<String> {
    let events = bench.api.events().into_iter();
    events
        .map(|event| event["reason"].as_str().unwrap().to_owned())
        .collect()
}

fn of_reason(bench: &Bench, reason: &str) -> Option<Value> {
    let mut events = bench.api.events().into_iter();
    events.find(|event| event["reason"] == reason)
}

#[tokio::test(start_paused = true)]
async fn a_start_is_told_in_events_each_once() {
    let bench = Bench::settled().await;
    assert_eq!(
        reasons(&bench),
        [
            "Starting",
            "CgroupV1",
            "NodeHasSufficientMemory",
            "NodeHasNoDiskPressure",
            "NodeHasSufficientPID",
            "NodeReady",
        ]
    );
    let mut ready = of_reason(&bench, "NodeReady").unwrap();
    for time in ["firstTimestamp", "lastTimestamp"] {
        assert!(ready[time].take().is_string());
    }
    ready["metadata"].take();
    assert_eq!(
        ready,
        json!({
            "apiVersion": "v1", "kind": "Event", "metadata": null, "count": 1,
            "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": "up1"},
            "type": "Normal", "reason": "NodeReady",
            "message": "Node up1 status is now: NodeReady",
            "source": {"component": "kubelet", "host": "up1"},
            "reportingComponent": "kubelet", "reportingInstance": "up1",
            "firstTimestamp": null, "lastTimestamp": null,
        })
    );
}

#[tokio::test(start_paused = true)]
async fn a_reboot_is_told_once() {
    let bench = Bench::settled().await;
    bench.host.machine.lock().unwrap().as_mut().unwrap().boot_id = "second".to_owned();
    bench.pass(seconds(11)).await;
    bench.host.machine.lock().unwrap().as_mut().unwrap().boot_id = "third".to_owned();
    bench.pass(seconds(60)).await;
    let told = reasons(&bench);
    let told = told.iter().filter(|reason| *reason == "Rebooted").count();
    assert_eq!(told, 1);
    let event = of_reason(&bench, "Rebooted").unwrap();
    assert_eq!(event["type"], "Warning");
    assert_eq!(
        event["message"],
        "Node up1 has been rebooted, boot id: second"
    );
    assert_eq!(event["count"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_cordon_and_its_end_are_told() {
    let bench = Bench::settled().await;
    for (unschedulable, reason) in [(true, "NodeNotSchedulable"), (false, "NodeSchedulable")] {
        let mut node = bench.node().unwrap();
        node["spec"]["unschedulable"] = json!(unschedulable);
        bench.api.plant(NODE, node);
        bench.pass(seconds(11)).await;
        assert!(of_reason(&bench, reason).is_some(), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn flips_raise_the_count_of_the_first_event() {
    let bench = Bench::settled().await;
    let good = bench.runtime.borrow().clone();
    for _ in 0..3 {
        bench.runtime.send_replace(no_runtime());
        bench.pass(seconds(11)).await;
        bench.runtime.send_replace(good.clone());
        bench.pass(seconds(11)).await;
    }
    assert_eq!(of_reason(&bench, "NodeNotReady").unwrap()["count"], 3);
    assert_eq!(of_reason(&bench, "NodeReady").unwrap()["count"], 4);
}

#[tokio::test(start_paused = true)]
async fn what_a_copy_that_lags_behind_says_is_told_once() {
    let bench = Bench::settled().await;
    bench.api.set_away(true);
    bench.runtime.send_replace(no_runtime());
    bench.pass(HOUR).await;
    bench.api.set_away(false);
    bench.pass(seconds(60)).await;
    // The first attempts were given up; the flip itself is in the condition.
    assert_eq!(bench.condition("Ready")["status"], "False");
    let told = of_reason(&bench, "NodeNotReady").map(|event| event["count"].clone());
    assert!(told.is_none() || told == Some(json!(1)), "{told:?}");
}
