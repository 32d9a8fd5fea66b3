//! Probes of containers with a real runtime, real servers and the real controllers:
//! each way of asking, with answers that come, change, and do not come.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use testkit::lab::{HEALTH_PORT, HEALTH_STATES, Runtime, Spec};
use testkit::wait;

use super::stage::{SOON, Stage, condition, identity, is_ready, main_of, shell, sleeper};

/// What pods see of it is in `/seen`: what is there decides how they answer.
const SEEN: &str = "/var/lib/probed";

/// Listens while there is a file.
const LISTENER: &str = "trap 'exit 0' TERM
while :; do
  until [ -f /seen/on ]; do sleep 0.1; done
  nc -ll -p 8080 -e true & nc=$!
  while [ -f /seen/on ]; do sleep 0.1; done
  kill $nc
done";

/// Serves what is there.
const SERVER: &str = "trap 'exit 0' TERM; httpd -f -p 8080 -h /seen & wait";

/// Takes requests, and answers them while there is a file.
const ANSWERS: &str = r#"cat > /serve <<'END'
while read -r line; do [ -z "$(echo $line | tr -d '\r')" ] && break; done
[ -f /seen/on ] || sleep 100
printf 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'
END
trap 'exit 0' TERM; nc -ll -p 8080 -e sh /serve & wait"#;

/// Serves by TLS on the node's own network while there is a file. Nobody vouches for its
/// certificate.
const TLS_PORT: u16 = 8443;
const TLS_SERVER: &str = "
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=nobody \
    -keyout /run/probed.key -out /run/probed.crt || exit 1
while :; do
  until [ -f \"$1\" ]; do sleep 0.1; done
  openssl s_server -quiet -www -accept \"$2\" -cert /run/probed.crt -key /run/probed.key & server=$!
  while [ -f \"$1\" ]; do sleep 0.1; done
  kill $server
  wait $server
done";

/// Answers whatever it is sent, and not by TLS.
const PLAIN: &str = r"cat > /serve <<'END'
printf 'HTTP/1.1 400 Bad Request\r\n\r\n'; sleep 0.3
END
trap 'exit 0' TERM; nc -ll -p 8080 -e sh /serve & wait";

/// Takes connections, and never answers.
const SILENT: &str = "trap 'exit 0' TERM; nc -ll -p 8080 -e sleep 100 & wait";

const FOREVER: &str = "trap 'exit 0' TERM; while :; do sleep 0.2; done";

fn exec(script: &str) -> Value {
    json!({ "exec": { "command": ["sh", "-c", script] } })
}

/// Each second; one answer is enough.
fn often(probe: &Value) -> Value {
    let mut often = json!({ "periodSeconds": 1, "failureThreshold": 1 });
    if let (Some(often), Some(probe)) = (often.as_object_mut(), probe.as_object()) {
        often.extend(probe.clone());
    }
    often
}

/// With more time than the second that is there by default, which a busy machine may take each
/// time: for answers that come at once, and are what is looked at.
fn patient(mut probe: Value) -> Value {
    probe["timeoutSeconds"] = json!(10);
    probe
}

fn main(script: &str, purpose: &str, probe: &Value) -> Value {
    let mut main = shell(script);
    main[purpose] = often(probe);
    main["volumeMounts"] = json!([{ "name": "seen", "mountPath": "/seen" }]);
    main
}

/// A pod that sees a directory of its own.
fn create(stage: &Stage, name: &str, main: Value) -> Result<()> {
    create_with(stage, name, main, json!({}))
}

/// What answers it is on the node's own network.
fn create_on_node(stage: &Stage, name: &str, main: Value) -> Result<()> {
    create_with(stage, name, main, json!({ "hostNetwork": true }))
}

fn create_with(stage: &Stage, name: &str, main: Value, mut more: Value) -> Result<()> {
    let path = format!("{SEEN}/{name}");
    let host_path = json!({ "path": path, "type": "DirectoryOrCreate" });
    more["volumes"] = json!([{ "name": "seen", "hostPath": host_path }]);
    stage.create_pod(name, main, more)
}

/// A probe of the node's health server.
fn by_grpc(service: &str) -> Value {
    json!({ "grpc": { "port": HEALTH_PORT, "service": service } })
}

/// What that server says of a service; nothing at all, if it is no word of the protocol.
fn say(stage: &Stage, service: &str, word: &str) -> Result<()> {
    let place = format!("{HEALTH_STATES}/{service}");
    // It must not read half of it.
    let script = format!("echo {word} > {place}.new && mv {place}.new {place}");
    stage.node.machine().run("sh", ["-c", &script]).map(drop)
}

/// A server for who is asked by HTTPS.
fn start_tls(stage: &Stage, name: &str) -> Result<()> {
    let file = format!("{SEEN}/{name}/on");
    let words = ["-c", TLS_SERVER, "tls", &file, &TLS_PORT.to_string()];
    stage.node.machine().daemon("tls").start(&Spec {
        program: "/bin/sh".to_owned(),
        arguments: words.map(str::to_owned).to_vec(),
        ..Spec::default()
    })
}

/// Puts its file there, or takes it away.
fn turn(stage: &Stage, name: &str, on: bool) -> Result<()> {
    let act = if on { "touch" } else { "rm -f" };
    let script = format!("mkdir -p {SEEN}/{name}; {act} {SEEN}/{name}/on");
    stage.node.machine().run("sh", ["-c", &script]).map(drop)
}

fn wait_unready(stage: &Stage, name: &str) -> Result<Value> {
    let runs = |pod: &Value| main_of(pod)["state"]["running"].is_object();
    stage.wait_pod(name, "running and not Ready", |pod| {
        runs(pod) && !is_ready(pod)
    })
}

#[test]
fn a_pod_is_ready_as_its_probe_says_in_each_way() -> Result<()> {
    let stage = Stage::ours("probes-ready", Runtime::Containerd2)?;
    stage.node.start_health()?;
    start_tls(&stage, "https")?;
    let ready = "readinessProbe";
    let get = |more: Value| patient(json!({ "httpGet": more }));
    let ways = [
        (
            "exec",
            main(FOREVER, ready, &patient(exec("cat /seen/on"))),
            "cat: can't open '/seen/on': No such file or directory",
        ),
        (
            "http",
            main(SERVER, ready, &get(json!({ "port": 8080, "path": "/on" }))),
            "HTTP probe failed with statuscode: 404",
        ),
        (
            "tcp",
            main(
                LISTENER,
                ready,
                &patient(json!({ "tcpSocket": { "port": 8080 } })),
            ),
            "connect: connection refused",
        ),
        (
            "https",
            main(
                FOREVER,
                ready,
                &get(json!({ "port": TLS_PORT, "scheme": "HTTPS" })),
            ),
            "connect: connection refused",
        ),
        (
            "grpc",
            main(FOREVER, ready, &patient(by_grpc("grpc"))),
            "service unhealthy (responded with \"NOT_SERVING\")",
        ),
    ];
    let turn_one = |name: &str, on: bool| match name {
        "grpc" => say(&stage, name, if on { "SERVING" } else { "NOT_SERVING" }),
        _ => turn(&stage, name, on),
    };
    turn_one("grpc", false)?;
    for (name, main, _) in &ways {
        match *name {
            "https" | "grpc" => create_on_node(&stage, name, main.clone())?,
            _ => create(&stage, name, main.clone())?,
        }
    }
    for (name, _, why) in &ways {
        let pod = wait_unready(&stage, name)?;
        ensure!(main_of(&pod)["started"] == true, "{}", pod["status"]);
        let told = condition(&pod, "Ready")["reason"].clone();
        ensure!(told == "ContainersNotReady", "{told}");
        stage.wait_event(name, "Unhealthy", why)?;
    }
    for on in [true, false, true] {
        for (name, ..) in &ways {
            turn_one(name, on)?;
        }
        for (name, ..) in &ways {
            if on {
                stage.wait_ready(name)?;
            } else {
                wait_unready(&stage, name)?;
            }
        }
    }
    for (name, ..) in &ways {
        let restarts = main_of(&stage.pod(name)?)["restartCount"].clone();
        ensure!(restarts == 0, "{name} was started again: {restarts}");
    }
    stage.end()
}

#[test]
fn a_service_has_only_pods_that_are_ready() -> Result<()> {
    let stage = Stage::ours("probes-service", Runtime::Containerd2)?;
    let main = main(
        SERVER,
        "readinessProbe",
        &patient(json!({ "httpGet": { "port": 8080, "path": "/on" } })),
    );
    create(&stage, "web", main)?;
    stage.run(&["label", "pod", "web", "app=web"])?;
    stage.create(&json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
        "spec": { "selector": { "app": "web" }, "ports": [{ "port": 8080 }] },
    }))?;
    let serves = |wanted: bool| {
        wait::until("the service to follow", SOON, || {
            let words = ["get", "endpointslices", "--selector"];
            let label = ["kubernetes.io/service-name=web"];
            let slices = stage.json(&[&words[..], &label].concat())?;
            let ready = &slices["items"][0]["endpoints"][0]["conditions"]["ready"];
            ensure!(*ready == wanted, "{slices}");
            Ok(())
        })
    };
    serves(false)?;
    turn(&stage, "web", true)?;
    serves(true)?;
    turn(&stage, "web", false)?;
    serves(false)?;
    stage.end()
}

/// Nobody on the node gets through to a pod's port, or everybody again.
fn cut_off(stage: &Stage, address: &str, cut: bool) -> Result<()> {
    let verb = if cut { "-A" } else { "-D" };
    let rule = ["-p", "tcp", "-d", address, "--dport", "8080", "-j", "DROP"];
    let words = [&["-w", verb, "OUTPUT"][..], &rule].concat();
    stage.node.machine().run("iptables", words).map(drop)
}

#[test]
fn who_does_not_answer_in_time_is_told_of_and_is_ready_once_it_does() -> Result<()> {
    let stage = Stage::ours("probes-slow", Runtime::Containerd2)?;
    stage.node.start_health()?;
    let ready = "readinessProbe";
    // The last ones never answer as they should; one of them leaves a child behind that
    // holds on to what it prints to.
    let ways = [
        (
            "exec",
            main(FOREVER, ready, &exec("test -f /seen/on || sleep 30")),
            "command timed out: \"sh -c test -f /seen/on || sleep 30\" timed out after 1s",
        ),
        (
            "http",
            main(
                ANSWERS,
                ready,
                &json!({ "httpGet": { "port": 8080, "path": "/" } }),
            ),
            "context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
        ),
        (
            "tcp",
            main(LISTENER, ready, &json!({ "tcpSocket": { "port": 8080 } })),
            ":8080: i/o timeout",
        ),
        (
            "grpc",
            main(FOREVER, ready, &by_grpc("grpc")),
            "timeout: health rpc did not complete within 1s",
        ),
        (
            "deaf",
            main(SILENT, ready, &json!({ "grpc": { "port": 8080 } })),
            "within 1s: context deadline exceeded",
        ),
        (
            "plain",
            main(
                PLAIN,
                ready,
                &json!({ "httpGet": { "port": 8080, "scheme": "HTTPS" } }),
            ),
            "http: server gave HTTP response to HTTPS client",
        ),
        (
            "forks",
            main(FOREVER, ready, &exec("sleep 30 & echo forked; exit 1")),
            "Readiness probe ",
        ),
    ];
    say(&stage, "grpc", "nothing")?;
    // It takes connections from the beginning; what is cut off is the way to it.
    turn(&stage, "tcp", true)?;
    for (name, main, _) in &ways {
        match *name {
            "grpc" => create_on_node(&stage, name, main.clone())?,
            _ => create(&stage, name, main.clone())?,
        }
    }
    let pod = stage.wait_ready("tcp")?;
    let address = pod["status"]["podIP"].as_str().unwrap_or_default();
    cut_off(&stage, address, true)?;
    for (name, _, why) in &ways {
        stage.wait_event(name, "Unhealthy", why)?;
        wait_unready(&stage, name)?;
    }
    cut_off(&stage, address, false)?;
    say(&stage, "grpc", "SERVING")?;
    for name in ["exec", "http"] {
        turn(&stage, name, true)?;
    }
    for name in ["exec", "http", "tcp", "grpc"] {
        stage.wait_ready(name)?;
    }
    for name in ["deaf", "plain", "forks"] {
        ensure!(!is_ready(&stage.pod(name)?), "{name} is Ready");
    }
    stage.end()
}

#[test]
fn a_container_that_does_not_live_or_start_is_started_again() -> Result<()> {
    let stage = Stage::ours("probes-live", Runtime::Containerd2)?;
    let live = main(
        FOREVER,
        "livenessProbe",
        &patient(json!({
            "exec": { "command": ["test", "-f", "/seen/on"] },
            "terminationGracePeriodSeconds": 1,
        })),
    );
    turn(&stage, "live", true)?;
    create(&stage, "live", live)?;
    let before = stage.wait_ready("live")?;
    turn(&stage, "live", false)?;
    let why = "Container main failed liveness probe, will be restarted";
    stage.wait_event("live", "Killing", why)?;
    turn(&stage, "live", true)?;
    // The next one may have been asked before that, too.
    let after = stage.wait_pod("live", "another, and Ready", |pod| {
        is_ready(pod) && main_of(pod)["restartCount"].as_u64() >= Some(1)
    })?;
    let id = |pod: &Value| main_of(pod)["containerID"].clone();
    ensure!(id(&before) != id(&after), "{after}");

    let start = main(
        FOREVER,
        "startupProbe",
        &patient(json!({
            "exec": { "command": ["test", "-f", "/seen/on"] }, "failureThreshold": 4,
        })),
    );
    create(&stage, "start", start)?;
    let pod = wait_unready(&stage, "start")?;
    ensure!(main_of(&pod)["started"] == false, "{}", pod["status"]);
    let why = "Container main failed startup probe, will be restarted";
    stage.wait_event("start", "Killing", why)?;
    turn(&stage, "start", true)?;
    stage.wait_ready("start")?;
    stage.end()
}

#[test]
fn readiness_does_not_flip_when_the_agent_is_away() -> Result<()> {
    let stage = Stage::ours("probes-agent", Runtime::Containerd2)?;
    let main = main(
        FOREVER,
        "readinessProbe",
        &patient(json!({
            "exec": { "command": ["test", "-f", "/seen/on"] }, "periodSeconds": 5,
        })),
    );
    turn(&stage, "stays", true)?;
    create(&stage, "stays", main.clone())?;
    create(&stage, "never", main)?;
    let before = identity(&stage.wait_ready("stays")?);
    wait_unready(&stage, "never")?;
    for kill in [false, true] {
        let kubelet = stage.node.kubelet();
        if kill {
            kubelet.kill()?;
        } else {
            kubelet.stop()?;
        }
        kubelet.start_again()?;
        // When this one is there, the agent has looked at all.
        let name = if kill { "killed" } else { "stopped" };
        stage.create_pod(name, sleeper(), json!({}))?;
        stage.wait_ready(name)?;
        let after = identity(&stage.pod("stays")?);
        ensure!(before == after, "{before} {after}");
        ensure!(!is_ready(&stage.pod("never")?));
    }
    // And it is still asked.
    turn(&stage, "stays", false)?;
    wait_unready(&stage, "stays")?;
    stage.end()
}
