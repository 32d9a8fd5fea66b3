//! Two equal nodes, each over a simulated runtime that writes down what it is
//! asked.

use std::fs;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context, Result};

use super::spec::Written;
use crate::compare::{Second, both};
use crate::lab::{Agent, FERROLET, Lab, Node, Runtime, Spec as Program};
use crate::wait;

const SOCKET: &str = "/run/sim.sock";
const RECORDING: &str = "/opt/lab/calls.jsonl";
/// Where a kubelet looks for pods in files.
const MANIFESTS: &str = "/etc/kubernetes/manifests";

const SOON: Duration = Duration::from_secs(90);
const READY: Duration = Duration::from_secs(60);

/// Room for all specs, nothing that slows them down, and what some of them need.
const CONFIG: &str = "\
maxPods: 250
registryPullQPS: 0
serializeImagePulls: false
kubeAPIQPS: 500
kubeAPIBurst: 1000
eventRecordQPS: 0
fileCheckFrequency: 2s
syncFrequency: 10s
allowedUnsafeSysctls: ['kernel.msg*', 'net.core.somaxconn']
featureGates: {ContainerStopSignals: true}
";

/// Both nodes, ready. They go when this value goes.
#[derive(Debug)]
pub struct Wires {
    pub(super) lab: Lab,
    pub(super) nodes: [WiredNode; 2],
}

/// A node and its recording.
#[derive(Debug)]
pub(super) struct WiredNode {
    pub(super) node: Node,
}

impl Wires {
    /// `name` is the beginning of the nodes' names, which are of one length.
    pub fn make(lab: &Lab, name: &str, second: Second) -> Result<Self> {
        let nodes = both(second, |letter, agent| {
            let node = lab.node(&format!("{name}-{letter}"), Runtime::Containerd2)?;
            let node = WiredNode { node };
            node.start(agent)?;
            Ok(node)
        })?;
        Ok(Self {
            lab: lab.clone(),
            nodes,
        })
    }

    /// Ends both nodes.
    pub fn remove(self) -> Result<()> {
        let nodes = self.nodes.into_iter();
        nodes.map(|wired| wired.node).try_for_each(Node::remove)
    }
}

impl WiredNode {
    fn start(&self, agent: Agent) -> Result<()> {
        let node = &self.node;
        node.install_ferrolet()?;
        let sim = node.machine().daemon("sim");
        let words = ["sim", "--listen", SOCKET, "--record", RECORDING];
        sim.start(&Program {
            program: FERROLET.to_owned(),
            arguments: words.map(str::to_owned).to_vec(),
            ..Program::default()
        })?;
        let socket = node.machine().root(SOCKET);
        wait::until("the simulated runtime to listen", SOON, || {
            UnixStream::connect(&socket)
        })
        .with_context(|| sim.log())?;
        let endpoint = format!("--container-runtime-endpoint=unix://{SOCKET}");
        // Whoever does not name this node shall not land on it.
        let taint = "--register-with-taints=sim.ferrolet.dev/simulated=true:NoSchedule";
        node.start_agent(agent, CONFIG, &[&endpoint, taint])?;
        node.wait_ready(READY)
    }

    /// What the runtime was asked so far.
    pub(super) fn recording(&self) -> Result<String> {
        let file = self.node.machine().file(RECORDING);
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
    }

    /// Lays down a pod for the kubelet to find.
    pub(super) fn lay_down(&self, name: &str, manifest: &str) -> Result<()> {
        let path = format!("{MANIFESTS}/{name}.json");
        self.node.machine().write(&path, manifest)
    }

    pub(super) fn take_away(&self, name: &str) -> Result<()> {
        let file = self
            .node
            .machine()
            .root(&format!("{MANIFESTS}/{name}.json"));
        fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))
    }

    /// Writes a file into an emptyDir, if that is there and has none.
    pub(super) fn write_into_volume(&self, uid: &str, written: &Written) -> Result<()> {
        let Written {
            volume,
            name,
            content,
        } = written;
        let volume =
            format!("/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~empty-dir/{volume}");
        let machine = self.node.machine();
        let file = format!("{volume}/{name}");
        if machine.root(&volume).is_dir() && !machine.root(&file).exists() {
            machine.write(&file, content)?;
        }
        Ok(())
    }

    /// Ends a sandbox as an accident would.
    pub(super) fn stop_sandbox(&self, id: &str) -> Result<()> {
        let endpoint = format!("unix://{SOCKET}");
        let words = ["--runtime-endpoint", &endpoint, "stopp", id];
        self.node.crictl(words).map(drop)
    }
}
