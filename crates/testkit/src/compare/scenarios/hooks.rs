//! What containers are given to do when they begin and before they end, and the order
//! in which they end.

use serde_json::{Value, json};

use super::super::manifest::{FOREVER, Pod, container, pod};
use super::super::scenario::Scenario;
use super::super::stage::restarts;

/// A server that says what it was asked, and always the same.
const SERVER: &str = r#"cat > /serve <<'END'
while read -r line; do
  line=$(echo "$line" | tr -d '\r')
  [ -z "$line" ] && break
  echo "$line" >> /asked
done
printf 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
sort /asked > /proc/1/fd/1
END
trap 'exit 0' TERM; nc -ll -p 8080 -e sh /serve & wait"#;

/// A server that answers before it was asked to the end, whatever that is.
const PLAIN_SERVER: &str = r"cat > /serve <<'END'
read -r line
printf 'HTTP/1.0 400 Bad Request\r\nContent-Length: 0\r\n\r\n'
cat > /dev/null
END
trap 'exit 0' TERM; nc -ll -p 8080 -e sh /serve & wait";

fn exec(script: &str) -> Value {
    json!({"exec": {"command": ["sh", "-c", script]}})
}

fn get(scheme: &str) -> Value {
    json!({"httpGet": {
        "port": 8080, "path": "/a hook?b=c", "scheme": scheme,
        "httpHeaders": [{"name": "x-own", "value": "1"}],
    }})
}

fn post_start(script: &str, hook: &Value) -> Pod {
    pod("p", script).main(&json!({"lifecycle": {"postStart": hook}}))
}

fn pre_stop(hook: &Value, grace: u32) -> Pod {
    pod("p", FOREVER)
        .main(&json!({"lifecycle": {"preStop": hook}}))
        .spec(&json!({"terminationGracePeriodSeconds": grace}))
}

/// `server` is there when `side` begins, which has a hook, and `main` runs a script.
fn served(server: &str, hook: &str, what: &Value, script: &str) -> Pod {
    let mut server = container("server", server);
    server["restartPolicy"] = json!("Always");
    let mut side = container("side", FOREVER);
    side["restartPolicy"] = json!("Always");
    side["lifecycle"] = json!({hook: what});
    let init = [server, container("wait", "sleep 2"), side];
    pod("p", script).spec(&json!({"initContainers": init}))
}

fn sidecar(name: &str, script: &str) -> Value {
    let mut sidecar = container(name, script);
    sidecar["restartPolicy"] = json!("Always");
    sidecar["volumeMounts"] = json!([{"name": "v0", "mountPath": "/v"}]);
    sidecar
}

/// Says its name where all do when it is asked to end, and after a second ends.
fn witness(name: &str) -> String {
    let last = format!("echo {name} >> /v/order; sleep 1; cat /v/order; exit 0");
    format!("trap '{last}' TERM; while :; do sleep 0.2; done")
}

fn with_sidecars(script: &str) -> Pod {
    let init = [
        sidecar("one", &witness("one")),
        sidecar("two", &witness("two")),
    ];
    pod("p", script)
        .volume("/v", &json!({"emptyDir": {}}))
        .spec(&json!({"initContainers": init}))
}

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "post-start-exec",
        "a command runs in a container that has just begun",
        |stage| {
            let script = "until [ -f /hello ]; do sleep 0.2; done; cat /hello; sleep 2";
            stage.see(post_start(script, &exec("echo hello > /hello")))
        },
    ),
    Scenario::new(
        "post-start-exec-fails",
        "a container whose first command fails is ended",
        |stage| {
            let failing = exec("echo sorry; echo why >&2; exit 3");
            stage.create(post_start(FOREVER, &failing).once())?;
            stage.said("FailedPostStartHook")?;
            stage.phase("p", "Succeeded")
        },
    ),
    Scenario::new(
        "post-start-exec-fails-always",
        "a container whose first command fails is started again",
        |stage| {
            stage.create(post_start(FOREVER, &exec("exit 3")))?;
            stage.until("main to be tried again", |view| {
                view.pod("p").is_some_and(|pod| restarts(pod, "main") >= 1)
            })?;
            stage.said("BackOff")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "post-start-no-command",
        "a first command that is not there",
        |stage| {
            let hook = json!({"exec": {"command": ["/no/such/program"]}});
            stage.create(post_start(FOREVER, &hook).once())?;
            stage.said("FailedPostStartHook")?;
            stage.phase("p", "Succeeded")
        },
    ),
    Scenario::new(
        "post-start-sleep",
        "while the first hook runs the next container waits",
        |stage| {
            let sleep = json!({"sleep": {"seconds": 4}});
            stage.create(post_start(FOREVER, &sleep).and(container("side", FOREVER)))?;
            stage.running("p")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "post-start-http",
        "a server is asked when a container has begun",
        |stage| {
            stage.create(served(SERVER, "postStart", &get("HTTP"), FOREVER))?;
            stage.running("p")?;
            stage.print("p", "server")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "post-start-http-refused",
        "nobody answers the first request",
        |stage| {
            stage.create(post_start(FOREVER, &get("HTTP")).once())?;
            stage.said("FailedPostStartHook")?;
            stage.phase("p", "Succeeded")
        },
    ),
    Scenario::new(
        "post-start-https-answered-plainly",
        "a server without TLS is asked again without it",
        |stage| {
            stage.create(served(PLAIN_SERVER, "postStart", &get("HTTPS"), FOREVER))?;
            stage.running("p")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "post-start-tcp",
        "a kind of hook that there is only for probes",
        |stage| {
            let hook = json!({"tcpSocket": {"port": 80}});
            stage.create(post_start(FOREVER, &hook).once())?;
            stage.said("FailedPostStartHook")?;
            stage.phase("p", "Succeeded")
        },
    ),
    Scenario::new(
        "deleted-in-post-start",
        "a pod is deleted while its first hook runs",
        |stage| {
            stage.create(post_start(FOREVER, &exec("sleep 20")))?;
            stage.said("Started")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "pre-stop-exec",
        "a command runs before a container is asked to end",
        |stage| {
            let mut side = sidecar("side", FOREVER);
            side["lifecycle"] = json!({"preStop": exec("sleep 2; echo stopping > /proc/1/fd/1")});
            let pod = pod("p", "sleep 3")
                .volume("/v", &json!({"emptyDir": {}}))
                .spec(&json!({"initContainers": [side]}));
            stage.create(pod.once())?;
            stage.phase("p", "Succeeded")?;
            stage.print("p", "side")
        },
    ),
    Scenario::new(
        "pre-stop-exec-fails",
        "a command before the end fails, and that is no hindrance",
        |stage| {
            stage.create(pre_stop(&exec("exit 1"), 10))?;
            stage.running("p")?;
            stage.delete("p", None)?;
            stage.said("FailedPreStopHook")?;
            stage.gone("p")
        },
    ),
    Scenario::new(
        "pre-stop-longer-than-grace",
        "a command before the end takes longer than the grace",
        |stage| {
            stage.create(pre_stop(&exec("sleep 100"), 3))?;
            stage.running("p")?;
            stage.delete("p", None)?;
            stage.gone("p")?;
            stage.said("FailedPreStopHook")
        },
    ),
    Scenario::new(
        "pre-stop-sleep",
        "a container sleeps before it ends",
        |stage| {
            stage.create(pre_stop(&json!({"sleep": {"seconds": 3}}), 10))?;
            stage.running("p")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "pre-stop-sleeps-too-long",
        "a container sleeps longer than its grace",
        |stage| {
            stage.create(pre_stop(&json!({"sleep": {"seconds": 12}}), 20))?;
            stage.running("p")?;
            stage.delete("p", Some(3))?;
            stage.gone("p")
        },
    ),
    Scenario::new(
        "pre-stop-http",
        "a server is asked before a container ends",
        |stage| {
            stage.create(served(SERVER, "preStop", &get("HTTP"), "sleep 3").once())?;
            stage.phase("p", "Succeeded")?;
            stage.print("p", "server")
        },
    ),
    Scenario::new(
        "pre-stop-http-refused",
        "nobody answers the last request",
        |stage| {
            stage.create(pre_stop(&get("HTTP"), 10))?;
            stage.running("p")?;
            stage.delete("p", None)?;
            stage.said("FailedPreStopHook")?;
            stage.gone("p")
        },
    ),
    Scenario::new(
        "pre-stop-cut-short",
        "a second deletion does not wait for the hook of the first",
        |stage| {
            stage.create(pre_stop(&exec("sleep 100"), 60))?;
            stage.running("p")?;
            stage.delete("p", None)?;
            stage.said("Killing")?;
            stage.delete("p", Some(1))?;
            stage.gone("p")?;
            stage.said("FailedPreStopHook")
        },
    ),
    Scenario::new(
        "pre-stop-of-replaced",
        "a container that another takes the place of has its hook",
        |stage| {
            let hook = exec("echo before >> /v/said");
            let script = "cat /v/said; trap 'exit 0' TERM; sleep 100000 & wait";
            let pod = pod("p", script)
                .main(&json!({"imagePullPolicy": "IfNotPresent", "lifecycle": {"preStop": hook}}))
                .volume("/v", &json!({"emptyDir": {}}));
            stage.create(pod)?;
            stage.running("p")?;
            let image = json!([{"name": "main", "image": "busybox:latest"}]);
            stage.patch_pod("p", &json!({"spec": {"containers": image}}))?;
            stage.state("p", "main", "running restarts=1")?;
            stage.running("p")?;
            stage.print("p", "main")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "sidecars-end-in-reverse",
        "sidecars end when their pod is done, the last first",
        |stage| {
            stage.create(with_sidecars("sleep 3").once())?;
            stage.phase("p", "Succeeded")?;
            stage.print("p", "one")?;
            stage.print("p", "two")
        },
    ),
    Scenario::new(
        "sidecars-deleted",
        "a pod with sidecars is deleted",
        |stage| {
            stage.create(with_sidecars(FOREVER))?;
            stage.running("p")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "sidecars-with-short-grace",
        "sidecars wait no longer than the grace of their pod",
        |stage| {
            let stubborn = "trap '' TERM; while :; do sleep 1; done";
            let grace = json!({"terminationGracePeriodSeconds": 3});
            stage.create(with_sidecars(stubborn).spec(&grace))?;
            stage.running("p")?;
            stage.end("p")
        },
    ),
];
