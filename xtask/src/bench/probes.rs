//! `cargo xtask bench probes`: what it costs to probe five hundred containers twice a
//! second over HTTP, beside the upstream kubelet and beside a loop that does nothing but
//! the same requests. The containers are simulated; who answers the probes is not.

pub(crate) mod bare;

use std::fmt::Write as _;
use std::fs;
use std::os::unix::net::UnixStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::{Value, json};
use testkit::lab::{Agent, Daemon, Kubectl, Lab, Node, Runtime, Spec};
use testkit::{cargo, command, wait};

use super::process::Process;
use super::table::{FERROLET, Row, table};
use super::{SETTLED, circumstances, keep};
use crate::long_run::in_lab;

const SOCKET: &str = "/run/sim.sock";
const SIM: &str = "/opt/lab/tools/ferrolet-sim";
const SELF: &str = "/opt/lab/tools/xtask";

/// Containers in one pod.
const IN_POD: u32 = 10;
/// Of each container.
const PROBES: u32 = 2;

const READY: Duration = Duration::from_secs(120);
const ALL_READY: Duration = Duration::from_secs(300);

/// So often one is measured in CI, until it has asked as often as it should: the machine is shared.
const SPELLS: usize = 3;

/// So much of a core our agent may take beyond what the requests themselves cost.
const BAR: f64 = 0.05;

/// What is measured.
#[derive(Args)]
pub(crate) struct Plan {
    /// How many containers, each with a liveness and a readiness probe
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(10..=1000))]
    containers: u32,
    /// For how long
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(10..))]
    seconds: u64,
    /// For CI: 40 containers for ten seconds, as tests build the agent; without a bar, and nothing is kept
    #[arg(long, conflicts_with_all = ["containers", "seconds"])]
    short: bool,
}

/// What one of them took.
#[derive(Clone, Copy, Debug)]
struct Took {
    /// Of one core.
    share: f64,
    /// Requests in a second, as the kernel has counted connections.
    requests: f64,
}

impl Took {
    /// Whether as much was asked as should be.
    fn is_whole(&self, requests: u32) -> bool {
        self.requests >= 0.9 * f64::from(requests)
    }
}

/// What was found.
struct Measured {
    bare: Took,
    ours: Took,
    upstreams: Took,
}

pub(crate) fn run(plan: &Plan) -> Result<()> {
    let measured = in_lab(|lab| plan.measure(lab))?;
    let table = measured.table();
    println!("{table}");
    measured.is_whole(plan.requests())?;
    if plan.short {
        return Ok(());
    }
    keep("probes.md", &plan.text(&table)?)?;
    measured.judge()
}

impl Plan {
    /// The short form, for `cargo xtask test`.
    pub(crate) fn short() -> Self {
        Self {
            containers: 40,
            seconds: 10,
            short: true,
        }
    }

    fn size(&self) -> (u32, Duration) {
        if self.short {
            return (40, Duration::from_secs(10));
        }
        (self.containers, Duration::from_secs(self.seconds))
    }

    /// In a second.
    fn requests(&self) -> u32 {
        self.size().0 * PROBES
    }

    fn measure(&self, lab: &Lab) -> Result<Measured> {
        println!("building …");
        let (agent, sim) = if self.short {
            (Agent::Ferrolet, cargo::program("ferrolet")?)
        } else {
            (Agent::FerroletRelease, cargo::release_program("ferrolet")?)
        };
        let node = |name: &str| -> Result<Node> {
            let node = lab.node(name, Runtime::Containerd2)?;
            // Nothing here is for it, and it takes its share of the machine.
            node.runtime().stop()?;
            cargo::install(&sim, &node.machine().file(SIM))?;
            Ok(node)
        };
        let ours = node("probes-ours")?;
        let (_, period) = self.size();
        println!("a bare loop, for {period:?} …");
        let bare = self.bare(lab, &ours)?;
        let ours = self.agent(lab, ours, agent)?;
        let upstreams = self.agent(lab, node("probes-upstream")?, Agent::Upstream)?;
        Ok(Measured {
            bare,
            ours,
            upstreams,
        })
    }

    /// One spell; in the short form, the first of a few in which all was asked.
    fn spells(&self, mut spell: impl FnMut() -> Result<Took>) -> Result<Took> {
        let mut took = spell()?;
        let more = if self.short { SPELLS - 1 } else { 0 };
        for _ in 0..more {
            if took.is_whole(self.requests()) {
                break;
            }
            println!("only {:.0} requests in a second: once more", took.requests);
            took = spell()?;
        }
        Ok(took)
    }

    /// The same requests, and nothing else, by this very program in the node.
    fn bare(&self, lab: &Lab, node: &Node) -> Result<Took> {
        cargo::install(&std::env::current_exe()?, &node.machine().file(SELF))?;
        let (address, each) = (lab.registry(), self.requests().to_string());
        let seconds = self.size().1.as_secs().to_string();
        let words = ["bench", "bare-probes", &address, &each, &seconds];
        self.spells(|| {
            let said = node.machine().run(SELF, words)?;
            let figures: Vec<f64> = said.split_whitespace().flat_map(str::parse).collect();
            let [share, requests] = figures[..] else {
                bail!("the bare loop has said {said:?}");
            };
            Ok(Took { share, requests })
        })
    }

    fn agent(&self, lab: &Lab, node: Node, agent: Agent) -> Result<Took> {
        let (containers, period) = self.size();
        let sim = start_sim(&node)?;
        let endpoint = format!("--container-runtime-endpoint=unix://{SOCKET}");
        let taint = "--register-with-taints=sim.ferrolet.dev/simulated=true:NoSchedule";
        let config = "registryPullQPS: 0\nmaxPods: 500\n";
        node.start_agent(agent, config, &[&endpoint, taint])?;
        node.wait_ready(READY)?;
        println!("{containers} containers on {} …", node.name());
        let pods = Pods::create(lab, &node, containers)?;
        pods.wait_ready()?;
        sleep(if self.short {
            Duration::from_secs(3)
        } else {
            SETTLED
        });
        println!("probed for {period:?} …");
        let process = Process::of(&node.kubelet())?;
        let took = self.spells(|| {
            let (began, cpu, opened) = (Instant::now(), process.cpu()?, opened(&node)?);
            sleep(period);
            let cpu = process.cpu()?.saturating_sub(cpu);
            let opened = self::opened(&node)? - opened;
            let took = began.elapsed().as_secs_f64();
            Ok(Took {
                share: cpu.as_secs_f64() / took,
                requests: f64::from(u32::try_from(opened)?) / took,
            })
        })?;
        pods.is_well()?;
        node.kubelet().stop()?;
        sim.stop()?;
        pods.remove()?;
        node.remove()?;
        Ok(took)
    }

    fn text(&self, table: &str) -> Result<String> {
        let (containers, period) = self.size();
        Ok(format!(
            "# Probes\n\nWritten by `cargo xtask bench probes --containers {containers} --seconds {}` {}, which the \
             lab's API server and\nthe one who answers share: {containers} simulated containers (`ferrolet sim`), \
             each with a liveness and a readiness probe\nover HTTP, each second; one agent after the other. The bare \
             loop is one thread that makes the same\nrequests and reads the answers; our agent may take {:.0} % of a \
             core more. CPU is of the whole agent.\n\n{table}",
            period.as_secs(),
            circumstances()?,
            100.0 * BAR,
        ))
    }
}

fn start_sim(node: &Node) -> Result<Daemon> {
    let sim = node.machine().daemon("sim");
    let words = ["sim", "--listen", SOCKET];
    sim.start(&Spec {
        program: SIM.to_owned(),
        arguments: words.map(str::to_owned).to_vec(),
        ..Spec::default()
    })?;
    let socket = node.machine().root(SOCKET);
    let there = wait::until("the socket", READY, || UnixStream::connect(&socket));
    there.map(drop).with_context(|| sim.log())?;
    Ok(sim)
}

/// Connections that were made in the node so far.
fn opened(node: &Node) -> Result<u64> {
    let init = node.machine().init().as_raw_nonzero();
    let file = format!("/proc/{init}/net/snmp");
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
    active_opens(&text).with_context(|| format!("cannot understand {file}"))
}

fn active_opens(snmp: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter(|line| line.starts_with("Tcp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    let (_, value) = pairs.find(|(name, _)| *name == "ActiveOpens")?;
    value.parse().ok()
}

/// The pods that are probed, in a namespace of their own.
struct Pods {
    kubectl: Kubectl,
    namespace: String,
    count: usize,
}

impl Pods {
    fn create(lab: &Lab, node: &Node, containers: u32) -> Result<Self> {
        let namespace = format!("{}-{}", node.name(), std::process::id());
        let kubectl = lab.kubectl();
        kubectl.run(["create", "namespace", &namespace])?;
        wait::until("the service account", READY, || {
            let place = ["--namespace", &namespace];
            kubectl.run([&place[..], &["get", "serviceaccount", "default"]].concat())
        })?;
        let manifest = manifest(&namespace, node.name(), &lab.registry(), containers);
        let mut create = kubectl.command();
        create.args(["create", "--filename", "-", "--output=name"]);
        command::run_with_input(&mut create, manifest.to_string().as_bytes())?;
        Ok(Self {
            kubectl,
            namespace,
            count: usize::try_from(containers / IN_POD)?,
        })
    }

    fn list(&self) -> Result<Vec<Value>> {
        let place = ["--namespace", &self.namespace];
        let listed = self.kubectl.json([&place[..], &["get", "pods"]].concat())?;
        Ok(listed["items"].as_array().cloned().unwrap_or_default())
    }

    fn wait_ready(&self) -> Result<()> {
        wait::until("all pods to be Ready", ALL_READY, || {
            let pods = self.list()?;
            let ready = pods.iter().filter(|pod| is_ready(pod)).count();
            ensure!(ready == self.count, "{ready} are");
            Ok(())
        })
    }

    /// Nothing was started again, and all are still ready.
    fn is_well(&self) -> Result<()> {
        for pod in self.list()? {
            let containers = pod["status"]["containerStatuses"].as_array();
            let mut containers = containers.into_iter().flatten();
            let well = containers.all(|one| one["restartCount"] == 0 && one["ready"] == true);
            ensure!(well, "a pod does not answer its probes: {}", pod["status"]);
        }
        Ok(())
    }

    fn remove(&self) -> Result<()> {
        let force = ["--all", "--force", "--grace-period=0"];
        let place = ["--namespace", &self.namespace, "delete", "pods"];
        self.kubectl.run([&place[..], &force].concat())?;
        let words = ["delete", "namespace", &self.namespace, "--wait=false"];
        self.kubectl.run(words).map(drop)
    }
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// `address` is that of the one who answers.
fn manifest(namespace: &str, node: &str, address: &str, containers: u32) -> Value {
    let (host, port) = address.split_once(':').unwrap_or((address, "80"));
    let port: u16 = port.parse().unwrap_or(80);
    let probe = json!({
        "httpGet": { "host": host, "port": port, "path": "/v2/" }, "periodSeconds": 1,
        "timeoutSeconds": 5,
    });
    let container = |number: u32| {
        json!({
            "name": format!("c{number}"), "image": "nginx", "imagePullPolicy": "IfNotPresent",
            "livenessProbe": probe, "readinessProbe": probe,
        })
    };
    let pod = |number: u32| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": format!("pod-{number:03}"), "namespace": namespace },
            "spec": {
                "nodeName": node,
                "tolerations": [{ "operator": "Exists" }],
                "containers": (0..IN_POD).map(container).collect::<Vec<_>>(),
            },
        })
    };
    let pods: Vec<Value> = (0..containers / IN_POD).map(pod).collect();
    json!({ "apiVersion": "v1", "kind": "List", "items": pods })
}

impl Measured {
    fn table(&self) -> String {
        let row = |figure, decimals, of: &dyn Fn(&Took) -> f64| Row {
            figure,
            ours: of(&self.ours),
            upstreams: of(&self.upstreams),
            decimals,
            bar: None,
        };
        let rows = [
            row("CPU, % of a core", 2, &|took| 100.0 * took.share),
            row("requests in a second", 0, &|took| took.requests),
        ];
        let mut table = table(FERROLET, &rows);
        let Took { share, requests } = self.bare;
        let more = 100.0 * (self.ours.share - share);
        let bare = 100.0 * share;
        // Writing to a string cannot fail.
        let _ = writeln!(
            table,
            "\nThe bare loop: {bare:.2} % of a core, {requests:.0} requests in a second. Ours beyond it: {more:.2} % \
             of a core (≤ {:.0} %).",
            100.0 * BAR
        );
        table
    }

    fn judge(&self) -> Result<()> {
        let more = self.ours.share - self.bare.share;
        ensure!(
            more <= BAR,
            "over the bar: {:.2} % of a core beyond the requests themselves",
            100.0 * more
        );
        Ok(())
    }

    /// Whether all have asked as often as they should.
    fn is_whole(&self, requests: u32) -> Result<()> {
        for (who, took) in [
            ("the bare loop", self.bare),
            ("our agent", self.ours),
            ("upstream's", self.upstreams),
        ] {
            ensure!(
                took.is_whole(requests),
                "{who} has made {:.0} requests in a second, not {requests}",
                took.requests
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(ours: f64, requests: f64) -> Measured {
        let took = |share| Took { share, requests };
        Measured {
            bare: took(0.10),
            ours: took(ours),
            upstreams: took(0.5),
        }
    }

    #[test]
    fn the_bar_is_what_is_taken_beyond_the_bare_loop() {
        assert!(measured(0.149, 1000.0).judge().is_ok());
        assert!(measured(0.151, 1000.0).judge().is_err());
        let table = measured(0.12, 1000.0).table();
        assert!(
            table.contains("Ours beyond it: 2.00 % of a core"),
            "{table}"
        );
    }

    #[test]
    fn who_asks_too_seldom_is_not_measured() {
        assert!(measured(0.1, 950.0).is_whole(1000).is_ok());
        assert!(measured(0.1, 850.0).is_whole(1000).is_err());
    }

    #[test]
    fn ci_measures_again_what_was_not_whole_and_nobody_else_does() {
        let spells = |plan: &Plan| {
            let mut requests = vec![80.0, 60.0, 50.0];
            let took = plan.spells(|| {
                let requests = requests.pop().unwrap();
                Ok(Took {
                    share: 0.1,
                    requests,
                })
            });
            (took.unwrap().is_whole(80), requests.len())
        };
        let mut plan = Plan::short();
        assert_eq!(spells(&plan), (true, 0));
        plan.short = false;
        plan.containers = 40;
        assert_eq!(spells(&plan), (false, 2));
    }

    #[test]
    fn connections_are_counted_as_the_kernel_tells_them() {
        let snmp = "Ip: Forwarding\nIp: 1\nTcp: RtoAlgorithm MaxConn ActiveOpens\nTcp: 1 -1 4711\n";
        assert_eq!(active_opens(snmp), Some(4711));
        assert_eq!(active_opens("Tcp: A\n"), None);
    }

    #[test]
    fn every_container_is_probed_twice_a_second_at_the_one_who_answers() {
        let manifest = manifest("n", "node", "10.0.0.1:5000", 40);
        let pods = manifest["items"].as_array().unwrap();
        assert_eq!(pods.len(), 4);
        let containers = pods[3]["spec"]["containers"].as_array().unwrap();
        assert_eq!(containers.len(), 10);
        for probe in ["livenessProbe", "readinessProbe"] {
            let get = &containers[9][probe]["httpGet"];
            assert_eq!(
                (&get["host"], &get["port"]),
                (&json!("10.0.0.1"), &json!(5000))
            );
            assert_eq!(containers[9][probe]["periodSeconds"], 1);
        }
    }
}
