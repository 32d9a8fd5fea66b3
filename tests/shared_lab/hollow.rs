//! The ports of hollow nodes: what people ask of a node through the API server, asked of
//! nodes of a fleet, with the real kubectl.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use testkit::lab::{Kubectl, Lab, Runtime};
use testkit::{cargo, wait};

use crate::server::door;

const SOON: Duration = Duration::from_secs(60);
const FLEET: &str = "ports";
const NODES: [&str; 2] = ["ports-00", "ports-01"];
const LINE: &str = "told by a hollow node";

/// The pods of this test, in a namespace that goes with them; and the fleet's nodes.
struct Scene {
    kubectl: Kubectl,
    namespace: String,
    /// `kubectl` as it was for years.
    old: bool,
}

impl Drop for Scene {
    fn drop(&mut self) {
        // No API server to ask: then there is nothing to clean.
        let selector = format!("--selector=ferrolet.dev/fleet={FLEET}");
        let _ = self.run(&["delete", "namespace", &self.namespace, "--wait=false"]);
        let _ = self.run(&["delete", "nodes", &selector, "--wait=false"]);
    }
}

impl Scene {
    fn command(&self, words: &[&str]) -> Command {
        let mut kubectl = self.kubectl.command();
        kubectl.args(["--namespace", &self.namespace]).args(words);
        if self.old {
            kubectl.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false");
            kubectl.env("KUBECTL_PORT_FORWARD_WEBSOCKETS", "false");
        }
        kubectl
    }

    fn run(&self, words: &[&str]) -> Result<String> {
        door::made(|| testkit::command::run(&mut self.command(words)))
    }

    fn raw(&self, path: &str) -> Result<String> {
        door::made(|| self.kubectl.run(["get", "--raw", path]))
    }

    fn json(&self, path: &str) -> Result<Value> {
        let said = self.raw(path)?;
        serde_json::from_str(&said).with_context(|| format!("{path}: {said}"))
    }

    /// Exit code, standard output and error of a command that is fed.
    fn fed(&self, words: &[&str], input: &[u8]) -> Result<(Option<i32>, Vec<u8>, String)> {
        door::decided(|| {
            let found = self.fed_once(words, input);
            let undecided = found
                .as_ref()
                .is_ok_and(|found| door::is_undecided(&found.2));
            (found, undecided)
        })
    }

    fn fed_once(&self, words: &[&str], input: &[u8]) -> Result<(Option<i32>, Vec<u8>, String)> {
        let mut command = self.command(words);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let mut stdin = child.stdin.take().context("no stdin")?;
        let output = std::thread::scope(|threads| {
            threads.spawn(move || {
                // Who does not read to the end has its reasons.
                let _ = stdin.write_all(input);
            });
            child.wait_with_output()
        })?;
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok((output.status.code(), output.stdout, stderr))
    }

    fn create_pods(&self) -> Result<()> {
        let pod = |name: &str, node: &str, notes: Value| {
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": { "name": name, "namespace": self.namespace, "annotations": notes },
                "spec": {
                    "nodeName": node,
                    "tolerations": [{ "operator": "Exists" }],
                    "containers": [{
                        "name": "main", "image": "registry.example/app:1",
                        "ports": [{ "containerPort": 8080 }],
                    }],
                },
            })
        };
        let talks =
            json!({ "sim.ferrolet.dev/log-lines": "20/s", "sim.ferrolet.dev/http": "echo" });
        let says = json!({ "sim.ferrolet.dev/log-lines": LINE });
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": [
            { "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": self.namespace } },
            pod("web", NODES[0], says), pod("talker", NODES[0], talks),
        ]});
        // Pods need their namespace's service account, which comes a moment later.
        wait::until("the pods to be taken", SOON, || {
            self.kubectl.apply(&list.to_string())
        })?;
        let words = [
            "wait",
            "pods",
            "--all",
            "--for=condition=Ready",
            "--timeout=60s",
        ];
        self.run(&words).map(drop)
    }
}

#[test]
fn hollow_nodes_answer_on_their_ports_to_those_who_may_ask() -> Result<()> {
    let lab = Lab::shared()?;
    let machine = lab.node("hollow-ports", Runtime::Containerd2)?;
    let mut scene = Scene {
        kubectl: lab.kubectl(),
        namespace: format!("hollow-{}", std::process::id()),
        old: false,
    };
    let flags = [
        "--nodes=2",
        "--name=ports",
        "--name-pattern=ports-{:02}",
        "--node-ports=20100-20109",
        "--taints=test=hollow:NoSchedule",
    ];
    let fleet = machine.start_fleet(&cargo::program("ferrolet")?, &flags.map(str::to_owned))?;
    for name in NODES {
        let ready = [
            "wait",
            "node",
            name,
            "--for=condition=Ready",
            "--timeout=5s",
        ];
        wait::until("the nodes to be Ready", SOON, || scene.run(&ready))
            .with_context(|| fleet.log())?;
    }
    scene.create_pods()?;
    addresses_are_where_they_listen(&scene, machine.address())?;
    strangers_are_turned_away(&machine)?;
    the_proxy_shows_each_its_own(&scene)?;
    for old in [false, true] {
        scene.old = old;
        logs(&scene)?;
        commands(&scene).with_context(|| format!("old: {old}"))?;
        attached(&scene).with_context(|| format!("old: {old}"))?;
        forwarded(&scene).with_context(|| format!("old: {old}"))?;
    }
    fleet.stop()?;
    drop(scene);
    machine.remove()
}

fn addresses_are_where_they_listen(scene: &Scene, address: &str) -> Result<()> {
    for (name, port) in NODES.into_iter().zip([20100, 20101]) {
        let status = &scene.kubectl.json(["get", "node", name])?["status"];
        let shown = &status["addresses"][0];
        ensure!(
            shown["address"] == address && shown["type"] == "InternalIP",
            "{shown}"
        );
        let shown = &status["daemonEndpoints"]["kubeletEndpoint"]["Port"];
        ensure!(*shown == port, "{shown} is not {port}");
    }
    Ok(())
}

/// The certificate is the node's own, and who has none is nobody.
fn strangers_are_turned_away(machine: &testkit::lab::Node) -> Result<()> {
    let url = format!("https://{}:20101/pods", machine.address());
    let words = [
        "--silent",
        "--insecure",
        "--verbose",
        "--write-out",
        "%{http_code}",
        &url,
    ];
    let mut curl = machine.machine().command("curl");
    let output = curl.args(words).output()?;
    let (said, seen) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    ensure!(said == "Unauthorized401", "{said}\n{seen}");
    ensure!(
        seen.contains("CN=ports-01@") || seen.contains("CN = ports-01@"),
        "{seen}"
    );
    Ok(())
}

fn the_proxy_shows_each_its_own(scene: &Scene) -> Result<()> {
    let pods = |node: &str| -> Result<Vec<String>> {
        let listed = scene.json(&format!("/api/v1/nodes/{node}/proxy/pods"))?;
        let items = listed["items"].as_array().context("no items")?.clone();
        let names = items.iter().map(|pod| pod["metadata"]["name"].as_str());
        Ok(names.flatten().map(str::to_owned).collect())
    };
    let mut first = pods(NODES[0])?;
    first.sort();
    ensure!(first == ["talker", "web"], "{first:?}");
    ensure!(pods(NODES[1])?.is_empty());
    let summary = scene.json(&format!("/api/v1/nodes/{}/proxy/stats/summary", NODES[0]))?;
    ensure!(summary["node"]["nodeName"] == NODES[0], "{summary}");
    let count = summary["pods"].as_array().map(Vec::len);
    ensure!(count == Some(2), "{summary}");
    let memory = &summary["pods"][0]["containers"][0]["memory"]["workingSetBytes"];
    ensure!(memory.as_u64() > Some(0), "{summary}");
    for (path, word) in [
        ("metrics/resource", "container_memory_working_set_bytes"),
        ("metrics", "kubelet_http_requests_total"),
        ("healthz", "ok"),
        ("configz", "kubeletconfig"),
    ] {
        let path = format!("/api/v1/nodes/{}/proxy/{path}", NODES[0]);
        let said = scene.raw(&path)?;
        ensure!(said.contains(word), "{path}: {said}");
    }
    Ok(())
}

fn logs(scene: &Scene) -> Result<()> {
    ensure!(scene.run(&["logs", "web"])?.trim() == LINE);
    let last = scene.run(&["logs", "talker", "--tail=3"])?;
    ensure!(last.lines().count() == 3, "{last}");
    ensure!(last.starts_with("simulated line "), "{last}");
    Ok(())
}

fn commands(scene: &Scene) -> Result<()> {
    let found = scene.fed(&["exec", "web", "--", "echo", "hello", "world"], b"")?;
    ensure!(
        found == (Some(0), b"hello world\n".to_vec(), String::new()),
        "{found:?}"
    );
    let found = scene.fed(&["exec", "web", "--", "sh", "-c", "exit 37"], b"")?;
    let words = "command terminated with exit code 37\n";
    ensure!(
        found == (Some(37), Vec::new(), words.to_owned()),
        "{found:?}"
    );
    let content: Vec<u8> = (0..3_000_000_u32)
        .map(|number| number.to_le_bytes()[1])
        .collect();
    let (code, back, said) = scene.fed(&["exec", "-i", "web", "--", "cat"], &content)?;
    ensure!(code == Some(0), "{code:?}: {said}");
    ensure!(back == content, "{} of {} bytes", back.len(), content.len());
    Ok(())
}

/// A kubectl that goes on, ended with this value.
struct GoingOn {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Drop for GoingOn {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl GoingOn {
    fn start(scene: &Scene, words: &[&str]) -> Result<Self> {
        let mut kubectl = scene.command(words);
        kubectl.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = kubectl.spawn()?;
        let said = BufReader::new(child.stdout.take().context("no stdout")?);
        Ok(Self { child, said })
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.said.read_line(&mut line)?;
        Ok(line)
    }
}

fn attached(scene: &Scene) -> Result<()> {
    let mut kubectl = GoingOn::start(scene, &["attach", "talker"])?;
    let number = |line: String| -> Result<u64> {
        let number = line.trim().strip_prefix("simulated line ");
        Ok(number.with_context(|| line.clone())?.parse()?)
    };
    let first = number(kubectl.line()?)?;
    let second = number(kubectl.line()?)?;
    ensure!(second == first + 1, "{first}, {second}");
    Ok(())
}

fn forwarded(scene: &Scene) -> Result<()> {
    for (pod, question, answer) in [
        ("talker", "say it again", "say it again"),
        ("web", "GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n"),
    ] {
        let mut kubectl = GoingOn::start(scene, &["port-forward", pod, ":8080"])?;
        let line = kubectl.line()?;
        let port = line.strip_prefix("Forwarding from 127.0.0.1:");
        let port = port.and_then(|rest| rest.split(' ').next());
        let port: u16 = port.with_context(|| line.clone())?.parse()?;
        let mut connection = TcpStream::connect(("127.0.0.1", port))?;
        connection.set_read_timeout(Some(SOON))?;
        connection.write_all(question.as_bytes())?;
        let mut heard = vec![0; answer.len()];
        connection.read_exact(&mut heard)?;
        ensure!(heard == answer.as_bytes(), "{pod}: {heard:?}");
    }
    Ok(())
}
