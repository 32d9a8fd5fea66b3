//! What containers are asked, whether they live, are ready and have started, and what
//! comes of their answers.

use serde_json::{Value, json};

use super::super::manifest::{FOREVER, Pod, container, merge, pod};
use super::super::scenario::Scenario;
use super::super::stage::{Stage, is_ready};
use crate::lab::{HEALTH_PORT, HEALTH_STATES};

/// Says what it was asked the first time, and answers with what is in `/answer`.
const SERVER: &str = r#"cat > /serve <<'END'
while read -r line; do
  line=$(echo "$line" | tr -d '\r')
  [ -z "$line" ] && break
  [ -f /asked ] || echo "$line" >> /asking
done
[ -f /asked ] || { mv /asking /asked; sort /asked > /proc/1/fd/1; }
cat /answer
END
trap 'exit 0' TERM; nc -ll -p 8080 -e sh /serve & wait"#;

/// Ends only when it is killed.
const STUBBORN: &str = "trap '' TERM; while :; do sleep 1; done";

fn exec(script: &str) -> Value {
    json!({"exec": {"command": ["sh", "-c", script]}})
}

fn get() -> Value {
    // A busy machine takes its time to start what answers.
    json!({"initialDelaySeconds": 6, "timeoutSeconds": 10, "httpGet": {
        "port": "web", "path": "/a probe?b=c",
        "httpHeaders": [{"name": "x-own", "value": "1"}],
    }})
}

/// Each second; one answer is enough.
fn often(probe: &Value) -> Value {
    let mut often = json!({"periodSeconds": 1, "failureThreshold": 1});
    merge(&mut often, probe);
    often
}

fn with(purpose: &str, script: &str, probe: &Value) -> Pod {
    pod("p", script).main(&json!({purpose: often(probe)}))
}

/// Answers every request with this.
fn serving(purpose: &str, answer: &str, probe: &Value) -> Pod {
    let answer = answer.replace('\n', r"\r\n");
    let script = format!("printf '{answer}' > /answer; {SERVER}");
    let ports = json!([{"name": "web", "containerPort": 8080}]);
    with(purpose, &script, probe).main(&json!({"ports": ports}))
}

fn sidecar(name: &str, script: &str, purpose: &str, probe: &Value) -> Value {
    let mut sidecar = container(name, script);
    sidecar["restartPolicy"] = json!("Always");
    sidecar[purpose] = often(probe);
    sidecar
}

/// What the node's health server says of the play's own service.
fn say(stage: &Stage<'_>, word: &str) -> anyhow::Result<()> {
    let place = format!("{HEALTH_STATES}/{}", stage.namespace());
    // It must not read half of it.
    let script = format!("echo {word} > {place}.new && mv {place}.new {place}");
    stage.on_node(&script).map(drop)
}

/// On the node's own network, where that server is.
fn asked_by_grpc(stage: &Stage<'_>, purpose: &str) -> Pod {
    let probe = json!({"grpc": {"port": HEALTH_PORT, "service": stage.namespace()}});
    with(purpose, FOREVER, &probe).spec(&json!({"hostNetwork": true}))
}

fn not_ready(stage: &Stage<'_>) -> anyhow::Result<()> {
    stage.until("p to be not ready", |view| {
        view.pod("p").is_some_and(|pod| !is_ready(pod))
    })
}

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        "readiness-exec",
        "a container becomes ready when its command says so",
        |stage| {
            let script = format!("sleep 5; touch /ready; {FOREVER}");
            stage.create(with("readinessProbe", &script, &exec("test -f /ready")))?;
            stage.running("p")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "readiness-comes-and-goes",
        "a container that is ready, then is not, and is again",
        |stage| {
            let script =
                format!("touch /ready; sleep 8; rm /ready; sleep 8; touch /ready; {FOREVER}");
            let mut probe = json!({"failureThreshold": 2, "successThreshold": 2});
            merge(&mut probe, &exec("test -f /ready"));
            stage.create(with("readinessProbe", &script, &probe))?;
            stage.running("p")?;
            not_ready(stage)?;
            stage.running("p")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "readiness-never",
        "a container that is never ready, and says why",
        |stage| {
            let probe = exec("echo not yet; echo why >&2; exit 3");
            stage.create(with("readinessProbe", FOREVER, &probe))?;
            stage.said("Unhealthy")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "readiness-until-the-end",
        "a container is asked whether it is ready while it ends, but not by a command",
        |stage| {
            let script =
                "trap 'exit 0' TERM; nc -ll -p 8080 -e true & echo $! > /nc; sleep 100000 & wait";
            let hook = exec("kill $(cat /nc); sleep 6");
            let probe = json!({"tcpSocket": {"port": 8080}});
            let pod = with("readinessProbe", script, &probe);
            stage.create(pod.main(&json!({"lifecycle": {"preStop": hook}})))?;
            stage.running("p")?;
            stage.delete("p", None)?;
            not_ready(stage)?;
            stage.gone("p")
        },
    ),
    Scenario::new(
        "readiness-until-the-end-exec",
        "a container is not asked by a command while it ends",
        |stage| {
            let hook = exec("touch /gone; sleep 6");
            let pod = with("readinessProbe", FOREVER, &exec("test ! -f /gone"));
            stage.create(pod.main(&json!({"lifecycle": {"preStop": hook}})))?;
            stage.running("p")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "liveness-exec",
        "a container that does not live any more is started again",
        |stage| {
            let script = format!("touch /live; sleep 5; rm /live; {FOREVER}");
            let probe = exec("test -f /live");
            stage.create(with("livenessProbe", &script, &probe))?;
            stage.running("p")?;
            stage.state("p", "main", "running restarts=1")?;
            stage.end("p")
        },
    )
    .ci(),
    Scenario::new(
        "liveness-once",
        "a pod that is not started again ends with its only container",
        |stage| {
            let probe = exec("exit 1");
            stage.create(with("livenessProbe", FOREVER, &probe).once())?;
            stage.phase("p", "Succeeded")
        },
    ),
    Scenario::new(
        "liveness-once-of-two",
        "of two containers that are not started again one does not live",
        |stage| {
            let probe = exec("exit 1");
            let pod = with("livenessProbe", FOREVER, &probe).once();
            stage.create(pod.and(container("side", FOREVER)))?;
            stage.said("Killing")?;
            stage.until("main to end", |view| {
                let end = |pod: &Value| {
                    let all = pod["status"]["containerStatuses"].as_array().cloned();
                    let all = all.unwrap_or_default();
                    let mut main = all.iter().filter(|one| one["name"] == "main");
                    main.any(|one| one["state"]["terminated"].is_object())
                };
                view.pod("p").is_some_and(end)
            })?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "liveness-on-failure",
        "what ends well when it is ended for its probe is started again",
        |stage| {
            let script = format!("touch /live; sleep 5; rm /live; {FOREVER}");
            let pod = with("livenessProbe", &script, &exec("test -f /live"));
            stage.create(pod.spec(&json!({"restartPolicy": "OnFailure"})))?;
            stage.state("p", "main", "running restarts=1")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "liveness-grace",
        "a probe gives its container another time to end than its pod",
        |stage| {
            let mut probe = exec("test -f /live");
            probe["terminationGracePeriodSeconds"] = json!(3);
            let script = format!("touch /live; sleep 5; rm /live; {STUBBORN}");
            let pod = with("livenessProbe", &script, &probe);
            stage.create(pod.spec(&json!({"terminationGracePeriodSeconds": 80})))?;
            stage.state("p", "main", "running restarts=1")?;
            stage.delete("p", Some(1))?;
            stage.gone("p")
        },
    ),
    Scenario::new(
        "liveness-delay",
        "a container is left alone at first",
        |stage| {
            let mut probe = exec("test -f /live");
            probe["initialDelaySeconds"] = json!(8);
            let script = format!("trap 'exit 0' TERM; sleep 5 & wait; touch /live; {FOREVER}");
            stage.create(with("livenessProbe", &script, &probe))?;
            stage.running("p")?;
            let mut side = with("livenessProbe", FOREVER, &exec("true"));
            side.0["metadata"]["name"] = json!("after");
            stage.create(side)?;
            stage.running("after")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "startup-then-liveness",
        "whether it lives is asked when a container has started",
        |stage| {
            let mut start = exec("test -f /started");
            start["failureThreshold"] = json!(60);
            // Ill only once: there is time to end the second run.
            let ill = "test -f /v/ill || { touch /v/ill; sleep 5; rm /live; }";
            let script = format!("sleep 5; touch /started /live; {ill}; {FOREVER}");
            // Upstream now and then asks the second run once before it sees that it has
            // not started: that alone must not end it.
            let mut live = exec("test -f /live");
            live["failureThreshold"] = json!(3);
            let pod = with("livenessProbe", &script, &live);
            let pod = pod.volume("/v", &json!({"emptyDir": {}}));
            let pod = pod.main(&json!({"startupProbe": often(&start)}));
            stage.create(pod)?;
            stage.running("p")?;
            stage.state("p", "main", "running restarts=1")?;
            // Upstream takes a moment to see that this one has not started yet.
            not_ready(stage)?;
            stage.running("p")?;
            stage.end("p")
        },
    )
    .ci(),
    Scenario::new(
        "startup-fails",
        "a container that does not start in time is started again",
        |stage| {
            let mut probe = exec("test -f /started");
            probe["failureThreshold"] = json!(4);
            stage.create(with("startupProbe", FOREVER, &probe))?;
            stage.state("p", "main", "running restarts=1")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "readiness-tcp",
        "a container is ready when it listens",
        |stage| {
            let script = "trap 'exit 0' TERM; sleep 5; nc -ll -p 8080 -e true & wait";
            let probe = json!({"tcpSocket": {"port": 8080}});
            stage.create(with("readinessProbe", script, &probe))?;
            stage.said("Unhealthy")?;
            stage.running("p")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "readiness-http",
        "a server is asked whether it is ready",
        |stage| {
            let answer = "HTTP/1.1 200 OK\nContent-Length: 2\n\nok";
            stage.create(serving("readinessProbe", answer, &get()))?;
            stage.running("p")?;
            stage.print("p", "main")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "readiness-http-refused",
        "a server says that it is not ready",
        |stage| {
            let answer = "HTTP/1.1 503 No\nContent-Length: 6\n\nsecret";
            stage.create(serving("readinessProbe", answer, &get()))?;
            stage.until("the answer to be told", |view| {
                view.said("Readiness probe failed: HTTP probe failed with statuscode: 503")
            })?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "readiness-http-elsewhere",
        "a server points to another host",
        |stage| {
            let answer = "HTTP/1.1 302 Found\nLocation: http://elsewhere.example/\nContent-Length: 5\n\nmoved";
            stage.create(serving("readinessProbe", answer, &get()))?;
            stage.running("p")?;
            stage.said("ProbeWarning")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "readiness-http-silent",
        "a server takes connections and says nothing",
        |stage| {
            let script = "trap 'exit 0' TERM; nc -ll -p 8080 -e sleep 100 & wait";
            let probe = json!({"initialDelaySeconds": 3, "httpGet": {"port": 8080, "path": "/"}});
            stage.create(with("readinessProbe", script, &probe))?;
            stage.until("the silence to be told", |view| {
                view.said("Client.Timeout exceeded while awaiting headers")
            })?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "readiness-exec-takes-long",
        "a command does not end in time",
        |stage| {
            let probe = exec("sleep 20");
            stage.create(with("readinessProbe", FOREVER, &probe))?;
            stage.until("the command to be told of", |view| {
                view.said("Readiness probe failed: command timed out")
            })?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "readiness-exec-absent",
        "a command that is not there",
        |stage| {
            let probe = json!({"exec": {"command": ["/no/such/program"]}});
            stage.create(with("readinessProbe", FOREVER, &probe))?;
            stage.said("Unhealthy")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "readiness-grpc-comes-and-goes",
        "a gRPC server that is well, then is not, and is again",
        |stage| {
            say(stage, "SERVING")?;
            stage.create(asked_by_grpc(stage, "readinessProbe"))?;
            stage.running("p")?;
            say(stage, "NOT_SERVING")?;
            not_ready(stage)?;
            say(stage, "SERVING")?;
            stage.running("p")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "readiness-grpc-silent",
        "a gRPC server that does not answer in time",
        |stage| {
            say(stage, "nothing")?;
            stage.create(asked_by_grpc(stage, "readinessProbe"))?;
            stage.until("the silence to be told", |view| {
                view.said("timeout: health rpc did not complete within")
            })?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "readiness-grpc-unknown",
        "a gRPC server that does not know the service",
        |stage| {
            stage.create(asked_by_grpc(stage, "readinessProbe"))?;
            stage.said("Unhealthy")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "liveness-grpc",
        "a gRPC server that is not well: its container is started again",
        |stage| {
            say(stage, "SERVING")?;
            stage.create(asked_by_grpc(stage, "livenessProbe"))?;
            stage.running("p")?;
            say(stage, "NOT_SERVING")?;
            stage.said("Unhealthy")?;
            say(stage, "SERVING")?;
            stage.state("p", "main", "running restarts=1")?;
            stage.end("p")
        },
    ),
    Scenario::new("readiness-grpc-absent", "nobody speaks gRPC", |stage| {
        let probe = json!({"grpc": {"port": 8080, "service": "shop"}});
        stage.create(with("readinessProbe", FOREVER, &probe))?;
        stage.said("Unhealthy")?;
        stage.end("p")
    }),
    Scenario::new(
        "sidecar-startup",
        "what comes after a sidecar waits until it has started",
        |stage| {
            let mut probe = exec("test -f /started");
            probe["failureThreshold"] = json!(60);
            let script = format!("sleep 5; touch /started; {FOREVER}");
            let side = sidecar("side", &script, "startupProbe", &probe);
            let pod = pod("p", FOREVER).spec(&json!({"initContainers": [side]}));
            stage.create(pod)?;
            stage.running("p")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "sidecar-startup-fails",
        "a sidecar that does not start in time is started again",
        |stage| {
            let mut probe = exec("test -f /started");
            probe["failureThreshold"] = json!(4);
            let side = sidecar("side", FOREVER, "startupProbe", &probe);
            let pod = pod("p", FOREVER).spec(&json!({"initContainers": [side]}));
            stage.create(pod.once())?;
            stage.state("p", "side", "running restarts=1")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "sidecar-liveness",
        "a sidecar that does not live is started again beside its pod",
        |stage| {
            let script = format!("touch /live; sleep 5; rm /live; {FOREVER}");
            let side = sidecar("side", &script, "livenessProbe", &exec("test -f /live"));
            let pod = pod("p", FOREVER).spec(&json!({"initContainers": [side]}));
            stage.create(pod.once())?;
            stage.state("p", "side", "running restarts=1")?;
            stage.end("p")
        },
    ),
    Scenario::new(
        "sidecar-readiness",
        "a pod is as ready as its sidecar",
        |stage| {
            let script = format!("sleep 5; touch /ready; {FOREVER}");
            let side = sidecar("side", &script, "readinessProbe", &exec("test -f /ready"));
            let pod = pod("p", FOREVER).spec(&json!({"initContainers": [side]}));
            stage.create(pod)?;
            stage.running("p")?;
            stage.end("p")
        },
    ),
];
