//! `ferrolet sim`: the simulated runtime on a socket, as crictl and the upstream
//! kubelet see it. They know nothing of it: what they take for a runtime is one.

use std::fs;
use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use testkit::lab::{Agent, Daemon, FERROLET, Kubectl, Lab, Node, Runtime, Spec};
use testkit::{cargo, command, wait};

const SOCKET: &str = "/run/sim.sock";
const RECORDING: &str = "/opt/lab/calls.jsonl";

const SOON: Duration = Duration::from_secs(90);
const READY: Duration = Duration::from_secs(60);
const RUNNING: Duration = Duration::from_secs(120);

/// What the simulated containers print.
const LINE: &str = "told by a simulation";

#[test]
fn crictl_runs_a_pod_by_hand_and_the_recording_tells_of_it() -> Result<()> {
    let node = Lab::shared()?.node("sim-crictl", Runtime::Containerd2)?;
    let sim = start_sim(&node)?;
    let crictl = Crictl(&node);
    let version = crictl.run(&["version"])?;
    assert!(version.contains("ferrolet-sim"), "{version}");

    let image = "registry.example/app:1";
    crictl.run(&["pull", "--creds", "somebody:hidden", image])?;
    let (pod, container) = run_by_hand(&crictl, image)?;
    look_at(&crictl, &container)?;
    remove_by_hand(&crictl, &pod, &container)?;

    sim.stop()?;
    assert!(!node.machine().root(SOCKET).exists(), "the socket is left");
    check_recording(&fs::read_to_string(node.machine().file(RECORDING))?)?;
    node.remove()
}

/// A pod with one container, and their ids.
fn run_by_hand(crictl: &Crictl, image: &str) -> Result<(String, String)> {
    let logs = "/var/log/pods/by-hand";
    let pod = json!({
        "metadata": { "name": "hand", "namespace": "by", "uid": "1", "attempt": 0 },
        "log_directory": logs, "linux": {},
        "annotations": { "sim.ferrolet.dev/log-lines": LINE },
    });
    let container = json!({
        "metadata": { "name": "main" }, "image": { "image": image },
        "command": ["sleep", "100000"], "log_path": "main/0.log", "linux": {},
        "envs": [{ "key": "COLOUR", "value": "green" }],
    });
    let machine = crictl.0.machine();
    machine.write("/opt/lab/pod.json", pod.to_string())?;
    machine.write("/opt/lab/container.json", container.to_string())?;

    let pod = crictl.run(&["runp", "/opt/lab/pod.json"])?;
    let files = ["/opt/lab/container.json", "/opt/lab/pod.json"];
    let created = crictl.run(&["create", &pod, files[0], files[1]])?;
    assert_eq!(crictl.states()?, ["CONTAINER_CREATED"]);
    crictl.run(&["start", &created])?;
    assert_eq!(crictl.states()?, ["CONTAINER_RUNNING"]);
    let pods = crictl.json("pods", &[])?;
    assert_eq!(pods["items"][0]["metadata"]["name"], "hand");
    assert_eq!(pods["items"][0]["state"], "SANDBOX_READY");
    let inspected = crictl.json("inspectp", &[&pod])?;
    let address = inspected["status"]["network"]["ip"].as_str();
    assert!(address.is_some_and(|ip| !ip.is_empty()), "{inspected}");
    Ok((pod, created))
}

fn look_at(crictl: &Crictl, container: &str) -> Result<()> {
    let inspected = crictl.json("inspect", &[container])?;
    let status = &inspected["status"];
    assert_eq!(status["state"], "CONTAINER_RUNNING");
    assert_eq!(status["metadata"]["name"], "main");
    assert_eq!(status["image"]["image"], "registry.example/app:1");

    crictl.run(&["exec", "-s", container, "true"])?;
    // Over streams, with the library that kubectl has.
    let said = crictl.run(&["exec", container, "echo", "hello", "world"])?;
    assert_eq!(said, "hello world");
    let failed = crictl.run(&["exec", container, "sh", "-c", "exit 3"]);
    let words = format!("{:#}", failed.err().context("it ended well")?);
    assert!(words.contains("exit code 3"), "{words}");
    wait::until("the log", SOON, || {
        let logs = crictl.run(&["logs", container])?;
        ensure!(logs.contains(LINE), "{logs:?}");
        Ok(())
    })?;
    let figures = crictl.json("stats", &["--all"])?;
    let memory = &figures["stats"][0]["memory"]["workingSetBytes"]["value"];
    let bytes: u64 = memory.as_str().unwrap_or_default().parse()?;
    assert!(bytes > 0, "{figures}");
    Ok(())
}

fn remove_by_hand(crictl: &Crictl, pod: &str, container: &str) -> Result<()> {
    crictl.run(&["stop", container])?;
    assert_eq!(crictl.states()?, ["CONTAINER_EXITED"]);
    crictl.run(&["rm", container])?;
    assert_eq!(crictl.states()?, [""; 0]);
    let gone = crictl.run(&["inspect", container]);
    let refusal = format!("{:#}", gone.err().context("it is still there")?);
    assert!(
        refusal.contains("not found") || refusal.contains("NotFound"),
        "{refusal}"
    );

    crictl.run(&["stopp", pod])?;
    let pods = crictl.json("pods", &[])?;
    assert_eq!(pods["items"][0]["state"], "SANDBOX_NOTREADY");
    crictl.run(&["rmp", pod])?;
    let pods = crictl.json("pods", &[])?;
    assert_eq!(pods["items"].as_array().map(Vec::len), Some(0));
    Ok(())
}

/// What was done by hand, in that order, with what was asked and nothing that
/// must not be told.
fn check_recording(recording: &str) -> Result<()> {
    assert!(
        !recording.contains("hidden"),
        "a password is in the recording"
    );
    let lines = recording.lines().map(serde_json::from_str);
    let lines: Vec<Value> = lines.collect::<Result<_, _>>()?;
    let acts = [
        "PullImage",
        "RunPodSandbox",
        "CreateContainer",
        "StartContainer",
        "ExecSync",
        "StopContainer",
        "RemoveContainer",
        "StopPodSandbox",
        "RemovePodSandbox",
    ];
    let is_act = |line: &&Value| acts.iter().any(|&act| line["call"] == act);
    let done: Vec<&Value> = lines.iter().filter(is_act).collect();
    let calls: Vec<&Value> = done.iter().map(|line| &line["call"]).collect();
    assert_eq!(calls, acts);
    for line in &done {
        assert_eq!(line["code"], "OK", "{line}");
        assert!(
            line["duration_ms"].is_f64() && line["time"].is_string(),
            "{line}"
        );
    }
    let created = &done[2]["request"]["config"];
    assert_eq!(created["envs"][0]["key"], "COLOUR");
    // Of bytes, in protobuf's JSON.
    assert_eq!(created["envs"][0]["value"], "Z3JlZW4=");
    assert_eq!(done[0]["request"]["auth"]["password"], "(masked)");
    let is_refusal = |line: &&Value| line["code"] == "NotFound";
    let refused = lines.iter().find(is_refusal);
    let refused = refused.context("the container that was gone is not told of")?;
    assert!(refused["message"].is_string(), "{refused}");
    Ok(())
}

#[test]
fn the_upstream_kubelet_runs_twenty_pods_that_do_not_exist_and_deletes_them() -> Result<()> {
    const PODS: usize = 20;
    let lab = Lab::shared()?;
    let node = lab.node("sim-kubelet", Runtime::Containerd2)?;
    let _sim = start_sim(&node)?;
    let endpoint = format!("--container-runtime-endpoint=unix://{SOCKET}");
    // Whoever does not name this node shall not land on it.
    let taint = "--register-with-taints=sim.ferrolet.dev/simulated=true:NoSchedule";
    // All of them pull at once, which is no part of what is looked at here.
    let config = "registryPullQPS: 0\n";
    node.start_agent(Agent::Upstream, config, &[&endpoint, taint])?;
    node.wait_ready(READY)?;
    let told = lab.kubectl().json(["get", "node", node.name()])?;
    let runtime = told["status"]["nodeInfo"]["containerRuntimeVersion"].clone();
    let runtime = runtime.as_str().unwrap_or_default();
    assert!(runtime.starts_with("ferrolet-sim://"), "{runtime}");

    let pods = Pods::create(lab.kubectl(), &node, PODS)?;
    pods.wait_ready()?;
    let crictl = Crictl(&node);
    assert_eq!(crictl.states()?, ["CONTAINER_RUNNING"; PODS]);
    wait::until("the log of a pod", SOON, || {
        let logs = pods.kubectl(&["logs", "pod-0"])?;
        ensure!(logs.trim() == LINE, "{logs:?}");
        Ok(())
    })?;

    let said = pods.kubectl(&["exec", "pod-1", "--", "echo", "hello"])?;
    assert_eq!(said, "hello\n");

    pods.delete()?;
    // The API has forgotten them; the kubelet tidies up behind them.
    wait::until("the runtime to be empty", READY, || {
        let left = crictl.json("pods", &[])?["items"].take();
        ensure!(left.as_array().is_some_and(Vec::is_empty), "{left}");
        Ok(())
    })?;
    assert_eq!(crictl.states()?, [""; 0]);

    let recording = fs::read_to_string(node.machine().file(RECORDING))?;
    for act in ["RunPodSandbox", "StartContainer", "StopContainer"] {
        let done = format!(r#""call":"{act}","#);
        // A kubelet may do a thing twice.
        assert!(recording.matches(&done).count() >= PODS, "{act}");
    }
    node.remove()
}

#[test]
fn it_ends_within_a_second_of_a_signal_and_leaves_no_socket() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let socket = directory.path().join("sim.sock");
    for signal in ["TERM", "INT"] {
        let what = format!("an end by {signal}");
        wait::promised(&what, Duration::from_secs(1), || {
            let sim = Simulating::start(&format!("unix://{}", socket.display()))?;
            wait_for(&socket)?;
            // A connection over which nobody speaks keeps nothing.
            let _idle = UnixStream::connect(&socket)?;
            let begun = Instant::now();
            let (code, said) = sim.signalled(signal)?;
            let took = begun.elapsed();
            ensure!(code == Some(0), "{signal}: {said}");
            ensure!(!socket.exists(), "{signal}: the socket is left");
            Ok((took, ()))
        })?;
    }
    Ok(())
}

#[test]
fn it_takes_a_dead_ones_place_and_not_a_live_ones() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let socket = directory.path().join("sim.sock");
    let listen = socket.to_string_lossy();
    let first = Simulating::start(&listen)?;
    wait_for(&socket)?;
    let (code, said) = Simulating::start(&listen)?.ended()?;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("somebody listens on"), "{said}");

    first.signalled("KILL")?;
    assert!(socket.exists(), "whoever is killed cannot tidy up");
    let heir = Simulating::start(&listen)?;
    wait_for(&socket)?;
    assert_eq!(heir.signalled("TERM")?.0, Some(0));
    Ok(())
}

/// `ferrolet sim` on this machine; it ends with this value.
struct Simulating(Child);

impl Simulating {
    fn start(listen: &str) -> Result<Self> {
        let mut command = Command::new(cargo::program("ferrolet")?);
        command.args(["sim", "--listen", listen]);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        Ok(Self(command.spawn()?))
    }

    /// Its exit code and what it said, when it has ended by itself.
    fn ended(mut self) -> Result<(Option<i32>, String)> {
        let mut said = String::new();
        let stderr = self.0.stderr.as_mut().context("a pipe")?;
        stderr.read_to_string(&mut said)?;
        Ok((self.0.wait()?.code(), said))
    }

    fn signalled(self, signal: &str) -> Result<(Option<i32>, String)> {
        let id = self.0.id().to_string();
        command::run(Command::new("kill").args(["-s", signal, &id]))?;
        self.ended()
    }
}

impl Drop for Simulating {
    fn drop(&mut self) {
        // Ended already, unless the test failed before.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts it in a node, where it listens on [`SOCKET`].
fn start_sim(node: &Node) -> Result<Daemon> {
    node.install_ferrolet()?;
    let sim = node.machine().daemon("sim");
    let words = ["sim", "--listen", SOCKET, "--record", RECORDING];
    sim.start(&Spec {
        program: FERROLET.to_owned(),
        arguments: words.map(str::to_owned).to_vec(),
        ..Spec::default()
    })?;
    wait_for(&node.machine().root(SOCKET)).with_context(|| sim.log())?;
    Ok(sim)
}

fn wait_for(socket: &Path) -> Result<()> {
    wait::until("the socket", SOON, || UnixStream::connect(socket)).map(drop)
}

/// crictl in a node, on the simulation's socket.
struct Crictl<'a>(&'a Node);

impl Crictl<'_> {
    fn run(&self, words: &[&str]) -> Result<String> {
        let endpoint = format!("unix://{SOCKET}");
        let place = [
            "--runtime-endpoint",
            &endpoint,
            "--image-endpoint",
            &endpoint,
        ];
        let said = self.0.crictl([&place[..], words].concat())?;
        Ok(said.trim().to_owned())
    }

    /// Of a command and its arguments: it takes no options behind those.
    fn json(&self, command: &str, words: &[&str]) -> Result<Value> {
        let said = self.run(&[&[command, "--output", "json"], words].concat())?;
        serde_json::from_str(&said).with_context(|| format!("no JSON: {said}"))
    }

    /// Of all containers.
    fn states(&self) -> Result<Vec<String>> {
        let listed = self.json("ps", &["--all"])?;
        let containers = listed["containers"].as_array();
        let states = containers.into_iter().flatten().map(|container| {
            let state = container["state"].as_str();
            state.unwrap_or_default().to_owned()
        });
        Ok(states.collect())
    }
}

/// Pods that name their node, in a namespace of their own which goes with them.
struct Pods {
    kubectl: Kubectl,
    namespace: String,
    count: usize,
}

impl Pods {
    fn create(kubectl: Kubectl, node: &Node, count: usize) -> Result<Self> {
        let namespace = format!("{}-{}", node.name(), std::process::id());
        let pods = Self {
            kubectl,
            namespace,
            count,
        };
        let namespace = &pods.namespace;
        let mut objects = vec![json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace },
        })];
        objects.extend((0..count).map(|number| {
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "name": format!("pod-{number}"), "namespace": namespace,
                    "annotations": { "sim.ferrolet.dev/log-lines": LINE },
                },
                "spec": {
                    "nodeName": node.name(),
                    "tolerations": [{ "operator": "Exists" }],
                    "containers": [{ "name": "main", "image": "registry.example/app:1" }],
                },
            })
        }));
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
        // Pods need their namespace's service account, which comes a moment later.
        wait::until("the pods to be taken", SOON, || {
            pods.kubectl.apply(&list.to_string())
        })?;
        Ok(pods)
    }

    fn kubectl(&self, words: &[&str]) -> Result<String> {
        let place = ["--namespace", &self.namespace];
        self.kubectl.run([&place[..], words].concat())
    }

    fn wait_ready(&self) -> Result<()> {
        wait::until("all pods to be Ready", RUNNING, || {
            let path = "jsonpath={range .items[*]}{.status.conditions[?(@.type=='Ready')].status} {.status.containerStatuses[0].state}{'\\n'}{end}";
            let said = self.kubectl(&["get", "pods", "--output", path])?;
            let ready = said.lines().filter(|line| line.starts_with("True "));
            let ready = ready.count();
            if ready == self.count {
                return Ok(());
            }
            bail!("{ready} of {}:\n{said}", self.count)
        })
    }

    /// Deletes them, with the grace that pods have by default, and waits until
    /// they are gone.
    fn delete(&self) -> Result<()> {
        let words = ["delete", "pods", "--all", "--wait=true", "--timeout=90s"];
        self.kubectl(&words).map(drop)
    }
}

impl Drop for Pods {
    fn drop(&mut self) {
        // No API server to ask: then there is nothing to clean.
        let _ = self.kubectl.run([
            "--request-timeout=5s",
            "delete",
            "namespace",
            &self.namespace,
            "--ignore-not-found",
            "--wait=false",
        ]);
    }
}
