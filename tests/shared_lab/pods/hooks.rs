//! Hooks of containers, and the order in which containers end, with a real runtime
//! and real servers.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use testkit::lab::{BUSYBOX_IMAGE, Runtime};
use testkit::wait;

use super::stage::{SOON, Stage, shell, sleeper};

/// Where pods leave what they saw, on the node: they are gone before anybody could
/// ask them.
const SEEN: &str = "/var/lib/seen";

#[test]
fn hooks_run_when_a_container_begins_and_before_it_ends() -> Result<()> {
    let stage = Stage::ours("hooks-run", Runtime::Containerd2)?;
    let mut main = sleeper();
    main["lifecycle"] = json!({
        "postStart": exec("echo began >> /seen/order"),
        "preStop": exec("sleep 1; echo ends >> /seen/order"),
    });
    stage.create_pod("both", seeing(main), room("both", 20))?;
    stage.wait_ready("both")?;
    ensure!(seen(&stage, "both", "order")? == "began\n");
    stage.run(&["delete", "pod", "both", "--timeout=60s"])?;
    ensure!(seen(&stage, "both", "order")? == "began\nends\n");

    // It has three seconds, and its container two more.
    let mut main = sleeper();
    main["lifecycle"] = json!({ "preStop": exec("sleep 300") });
    stage.create_pod("long", main, json!({ "terminationGracePeriodSeconds": 3 }))?;
    stage.wait_ready("long")?;
    let told = Instant::now();
    stage.run(&["delete", "pod", "long", "--timeout=60s"])?;
    let took = told.elapsed();
    ensure!(took >= Duration::from_secs(3), "it took {took:?}");
    ensure!(took < Duration::from_secs(30), "it took {took:?}");
    stage.wait_event("long", "FailedPreStopHook", "PreStopHook failed")?;

    // Told to hurry, it does not wait for its hook.
    let mut main = sleeper();
    main["lifecycle"] = json!({ "preStop": { "sleep": { "seconds": 300 } } });
    stage.create_pod(
        "hurried",
        main,
        json!({ "terminationGracePeriodSeconds": 300 }),
    )?;
    stage.wait_ready("hurried")?;
    stage.run(&["delete", "pod", "hurried", "--wait=false"])?;
    stage.wait_event("hurried", "Killing", "Stopping container main")?;
    let words = ["delete", "pod", "hurried", "--grace-period=1"];
    stage.run(&[&words[..], &["--timeout=60s"]].concat())?;
    stage.end()
}

#[test]
fn hooks_that_fail_are_told_of() -> Result<()> {
    let stage = Stage::ours("hooks-fail", Runtime::Containerd2)?;
    let mut main = sleeper();
    main["lifecycle"] = json!({ "postStart": exec("echo why >&2; exit 3") });
    stage.create_pod("first", main, json!({}))?;
    stage.wait_event("first", "FailedPostStartHook", "PostStartHook failed")?;
    stage.wait_event("first", "Killing", "FailedPostStartHook")?;
    stage.wait_event(
        "first",
        "BackOff",
        "Back-off restarting failed container main",
    )?;

    let mut main = sleeper();
    main["lifecycle"] = json!({ "preStop": { "httpGet": { "port": 1, "path": "/" } } });
    stage.create_pod("last", main, json!({ "terminationGracePeriodSeconds": 20 }))?;
    stage.wait_ready("last")?;
    stage.run(&["delete", "pod", "last", "--timeout=60s"])?;
    stage.wait_event("last", "FailedPreStopHook", "PreStopHook failed")?;
    stage.end()
}

#[test]
fn a_server_is_asked_by_hooks_with_debians_containerd() -> Result<()> {
    let stage = Stage::ours("hooks-http", Runtime::Containerd16)?;
    // What is asked for is run, and leaves a trace.
    let script = "mkdir -p /www/cgi-bin; \
        printf '#!/bin/sh\\necho \"$HTTP_USER_AGENT $QUERY_STRING\" >> /seen/asked\\nprintf \"Content-Type: text/plain\\\\r\\\\n\\\\r\\\\n\"\\n' > /www/cgi-bin/hook; \
        chmod 755 /www/cgi-bin/hook; \
        trap 'exit 0' TERM; httpd -f -p 8080 -h /www & wait";
    let mut server = seeing(shell(script));
    server["name"] = json!("server");
    server["restartPolicy"] = json!("Always");
    let ask = |when: &str| json!({ "httpGet": { "port": 8080, "path": format!("/cgi-bin/hook?{when}") } });
    let mut main = sleeper();
    main["lifecycle"] = json!({ "postStart": ask("began"), "preStop": ask("ends") });
    let mut room = room("http", 20);
    let wait = json!({
        "name": "wait", "image": BUSYBOX_IMAGE,
        "command": ["sh", "-c", "until nc 127.0.0.1 8080 < /dev/null; do sleep 0.2; done"],
    });
    room["initContainers"] = json!([server, wait]);
    stage.create_pod("http", main, room)?;
    stage.wait_ready("http")?;
    ensure!(seen(&stage, "http", "asked")? == "kube-lifecycle/1.36 began\n");
    stage.run(&["delete", "pod", "http", "--timeout=60s"])?;
    let asked = "kube-lifecycle/1.36 began\nkube-lifecycle/1.36 ends\n";
    ensure!(seen(&stage, "http", "asked")? == asked);
    stage.end()
}

#[test]
fn sidecars_end_after_what_they_serve_and_in_reverse() -> Result<()> {
    let stage = Stage::ours("hooks-order", Runtime::Containerd2)?;
    // Each says when it is asked to end, and when it does, after so many seconds.
    let witness = |name: &str, seconds: u32| {
        let last = format!(
            "echo {name} asked >> /seen/order; sleep {seconds}; echo {name} ends >> /seen/order; exit 0"
        );
        let script = format!("trap '{last}' TERM; while :; do sleep 0.1; done");
        let mut container = seeing(shell(&script));
        container["name"] = json!(name);
        container
    };
    let sidecar = |name: &str, seconds: u32| {
        let mut container = witness(name, seconds);
        container["restartPolicy"] = json!("Always");
        container
    };
    let mut room = room("order", 30);
    room["initContainers"] = json!([sidecar("one", 1), sidecar("two", 1)]);
    stage.create_pod("order", witness("main", 1), room)?;
    stage.wait_ready("order")?;
    stage.run(&["delete", "pod", "order", "--timeout=60s"])?;
    let order = "main asked\nmain ends\ntwo asked\ntwo ends\none asked\none ends\n";
    ensure!(seen(&stage, "order", "order")? == order);

    // Those who take all the time there is leave none to wait: what the others have is the least
    // there is, two seconds, which a busy machine may take for their last words alone.
    let deaf = shell("trap '' TERM; while :; do sleep 1; done");
    let init = json!([sidecar("one", 0), sidecar("two", 0)]);
    let mut short = self::room("short", 3);
    short["initContainers"] = init;
    stage.create_pod("short", deaf, short)?;
    stage.wait_ready("short")?;
    stage.run(&["delete", "pod", "short", "--timeout=60s"])?;
    let left = seen(&stage, "short", "order")?;
    let mut lines: Vec<&str> = left.lines().collect();
    lines.sort_unstable();
    let all = ["one asked", "one ends", "two asked", "two ends"];
    ensure!(lines == all, "{left}");
    stage.end()
}

fn exec(script: &str) -> Value {
    json!({ "exec": { "command": ["sh", "-c", script] } })
}

/// A container that can leave what it saw.
fn seeing(mut container: Value) -> Value {
    container["volumeMounts"] = json!([{ "name": "seen", "mountPath": "/seen" }]);
    container
}

fn room(pod: &str, grace: u32) -> Value {
    let path = format!("{SEEN}/{pod}");
    json!({
        "terminationGracePeriodSeconds": grace,
        "volumes": [{
            "name": "seen", "hostPath": { "path": path, "type": "DirectoryOrCreate" },
        }],
    })
}

fn seen(stage: &Stage, pod: &str, file: &str) -> Result<String> {
    let path = format!("{SEEN}/{pod}/{file}");
    wait::until(&format!("{path} on the node"), SOON, || {
        stage.node.machine().run("cat", [path.as_str()])
    })
}
