//! A lab node: a machine with a container runtime, a pod network and images,
//! and no kubelet until a test puts one there.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::control_plane::{self, hosts, last_lines};
use super::daemon::{Daemon, Spec};
use super::layout::short_hash;
use super::machine::{Machine, PROGRAMS};
use super::{Lab, images, save_logs, saved_logs_dir};
use crate::{cargo, wait};

const CNI: &str = include_str!("../../../../lab/node/cni.conflist");
const KUBELET: &str = include_str!("../../../../lab/node/kubelet.yaml");
const SOCKET: &str = "/run/containerd/containerd.sock";

/// A container runtime that a node can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// The pinned containerd 2.x.
    Containerd2,
    /// Debian's containerd 1.6, without CRI's `RuntimeConfig`.
    Containerd16,
}

impl Runtime {
    fn config(self) -> &'static str {
        match self {
            Self::Containerd2 => include_str!("../../../../lab/node/containerd-2.toml"),
            Self::Containerd16 => include_str!("../../../../lab/node/containerd-1.6.toml"),
        }
    }

    fn programs(self) -> String {
        match self {
            Self::Containerd2 => PROGRAMS.to_owned(),
            Self::Containerd16 => format!("{PROGRAMS}/containerd-1.6"),
        }
    }
}

/// Who runs a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    /// The pinned upstream kubelet.
    Upstream,
    /// Our node agent, as `cargo test` builds it.
    Ferrolet,
    /// Our node agent, as it is released.
    FerroletRelease,
}

/// Removed, with all that runs in it, when dropped; unless it was
/// [kept](Node::keep).
#[derive(Debug)]
pub struct Node {
    lab: Lab,
    machine: Machine,
    address: String,
    keep: bool,
}

const BOOTSTRAP_KUBECONFIG: &str = "/etc/kubernetes/bootstrap-kubelet.conf";
const KUBELET_CONFIG: &str = "/var/lib/kubelet/config.yaml";

/// See [`Node::start_health`].
pub const HEALTH_PORT: u16 = 5051;
pub const HEALTH_STATES: &str = "/var/lab-health";

/// Where our program is in a node.
pub const FERROLET: &str = "/opt/lab/tools/ferrolet";

impl Node {
    pub(super) fn create(lab: &Lab, name: &str, runtime: Runtime) -> Result<Self> {
        check_name(name)?;
        // Held until the node has its place: two of one name, or a lab that
        // is taken down meanwhile, would meet half a node.
        let lock = lab.lock()?;
        if Lab::open(lab.layout())?.is_none() {
            bail!("lab {} was taken down", lab.layout().id);
        }
        if Machine::open(lab.layout(), name)?.is_some() {
            bail!("there is a node {name} already: cargo xtask lab node remove {name}");
        }
        // What a crash left of one.
        Machine::destroy(lab.layout(), name)?;
        let index = free_index(lab)?;
        let node = Self {
            lab: lab.clone(),
            address: format!("10.76.1.{index}"),
            machine: Machine::boot(lab.layout(), name, lab.programs())?,
            keep: false,
        };
        fs::write(node.machine.file(INDEX_FILE), index.to_string())?;
        drop(lock);
        node.connect(index)?;
        node.furnish(index)?;
        node.start_runtime(runtime)?;
        Ok(node)
    }

    pub fn name(&self) -> &str {
        self.machine.name()
    }

    /// Its address on the lab's network.
    pub fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn lab(&self) -> &Lab {
        &self.lab
    }

    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    pub fn runtime(&self) -> Daemon {
        self.machine.daemon("containerd")
    }

    pub fn kubelet(&self) -> Daemon {
        self.machine.daemon("kubelet")
    }

    /// What everything on it has used of the CPUs: the agent, the runtime, containers.
    pub fn cpu(&self) -> Result<Duration> {
        self.machine.cpu()
    }

    /// Leaves it running when this value goes.
    pub fn keep(&mut self) {
        self.keep = true;
    }

    /// Ends it with all that runs in it, and removes its Node object.
    pub fn remove(mut self) -> Result<()> {
        self.keep = true;
        Self::destroy(&self.lab, self.name())
    }

    /// Runs crictl in the node.
    pub fn crictl<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Result<String> {
        self.machine.run("crictl", arguments)
    }

    /// Lets its packets vanish while its link stays up: the far end is silent.
    pub fn cut_off(&self) -> Result<()> {
        let port = self.port()?;
        self.lab
            .control_plane()
            .ip(&[format!("link set {port} nomaster")])
    }

    pub fn reconnect(&self) -> Result<()> {
        let port = self.port()?;
        self.lab
            .control_plane()
            .ip(&[format!("link set {port} master lab0")])
    }

    /// Starts the upstream kubelet as kubeadm would leave it: with a bootstrap
    /// token, and a configuration to which `config` (YAML) is added.
    pub fn start_upstream_kubelet(&self, config: &str) -> Result<()> {
        self.start_agent(Agent::Upstream, config, &[])
    }

    /// Starts our node agent in the kubelet's place, on the same files.
    pub fn start_ferrolet(&self, config: &str) -> Result<()> {
        self.start_agent(Agent::Ferrolet, config, &[])
    }

    /// Starts whichever, on the same files, with the same flags and `flags`.
    pub fn start_agent(&self, agent: Agent, config: &str, flags: &[&str]) -> Result<()> {
        self.lay_down_kubelet_files(config)?;
        match agent {
            Agent::Upstream => self.start_kubelet("kubelet", &[], flags),
            Agent::Ferrolet => {
                self.install_ferrolet()?;
                self.start_kubelet(FERROLET, &["kubelet"], flags)
            }
            Agent::FerroletRelease => {
                let program = cargo::release_program("ferrolet")?;
                cargo::install(&program, &self.machine.file(FERROLET))?;
                self.start_kubelet(FERROLET, &["kubelet"], flags)
            }
        }
    }

    /// Puts the program of this checkout into the node.
    pub fn install_ferrolet(&self) -> Result<()> {
        cargo::install(&cargo::program("ferrolet")?, &self.machine.file(FERROLET))
    }

    /// A command of our program, to be run in the node.
    pub fn ferrolet(&self) -> Command {
        self.machine.command(FERROLET)
    }

    /// Starts a server of gRPC's health protocol on the node's own network. What it says of
    /// a service is in the file of that name in [`HEALTH_STATES`].
    pub fn start_health(&self) -> Result<()> {
        let tools = cargo::build("lab-tools")?;
        let mut tools = tools.iter();
        let program = tools.find(|tool| tool.ends_with("lab-health"));
        let program = program.context("there is no lab-health among the lab's tools")?;
        let place = "/opt/lab/tools/lab-health";
        cargo::install(program, &self.machine.file(place))?;
        fs::create_dir_all(self.machine.root(HEALTH_STATES))?;
        let address = format!("0.0.0.0:{HEALTH_PORT}");
        self.machine.daemon("health").start(&Spec {
            program: place.to_owned(),
            arguments: vec![address, HEALTH_STATES.to_owned()],
            ..Spec::default()
        })
    }

    fn lay_down_kubelet_files(&self, config: &str) -> Result<()> {
        let authority = fs::read(self.lab.control_plane().root("/etc/kubernetes/pki/ca.crt"))?;
        self.machine
            .write("/etc/kubernetes/pki/ca.crt", authority)?;
        self.machine
            .write(BOOTSTRAP_KUBECONFIG, self.lab.bootstrap_kubeconfig()?)?;
        fs::create_dir_all(self.machine.root("/etc/kubernetes/manifests"))?;
        self.machine
            .write(KUBELET_CONFIG, format!("{KUBELET}{config}"))
    }

    fn start_kubelet(&self, program: &str, words: &[&str], more: &[&str]) -> Result<()> {
        let flags = [
            format!("--config={KUBELET_CONFIG}"),
            format!("--bootstrap-kubeconfig={BOOTSTRAP_KUBECONFIG}"),
            "--kubeconfig=/etc/kubernetes/kubelet.conf".to_owned(),
            "-v=2".to_owned(),
        ];
        let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let words: [Vec<String>; 3] = [owned(words), flags.to_vec(), owned(more)];
        self.kubelet().start(&Spec {
            program: program.to_owned(),
            arguments: words.concat(),
            ..Spec::default()
        })
    }

    /// Waits until the API server says that the node is Ready.
    pub fn wait_ready(&self, timeout: Duration) -> Result<()> {
        let what = format!("node {} to be Ready", self.name());
        wait::until(&what, timeout, || {
            let kubelet = self.kubelet();
            let node = self.lab.kubectl().json(["get", "node", self.name()]);
            let conditions = match &node {
                Ok(node) => &node["status"]["conditions"],
                Err(_) if !kubelet.is_running() => {
                    bail!("its kubelet has ended:\n{}", last_lines(&kubelet.log(), 10))
                }
                Err(error) => bail!("{error:#}"),
            };
            let ready = conditions
                .as_array()
                .into_iter()
                .flatten()
                .find(|condition| condition["type"] == "Ready")
                .context("it has no Ready condition yet")?;
            if ready["status"] == "True" {
                Ok(())
            } else {
                bail!("{}: {}", ready["reason"], ready["message"])
            }
        })
    }

    fn connect(&self, index: u8) -> Result<()> {
        let control_plane = self.lab.control_plane();
        let Self {
            machine, address, ..
        } = self;
        let init = machine.init().as_raw_nonzero();
        let port = format!("node{index}");
        // An address that a node takes over from another keeps its hardware
        // address, so that what others remember of it stays true.
        let hardware = format!("02:00:0a:4c:01:{index:02x}");
        control_plane.ip(&[
            format!("link add {port} type veth peer name eth0 address {hardware} netns {init}"),
            format!("link set {port} master lab0 up"),
            format!(
                "route replace {} via {address} onlink dev lab0",
                pod_subnet(index)
            ),
        ])?;
        machine.ip(&[
            format!("addr add {address}/16 dev eth0"),
            "link set eth0 up".to_owned(),
            format!("route add default via {}", control_plane::ADDRESS),
        ])
    }

    fn furnish(&self, index: u8) -> Result<()> {
        let Self {
            machine, address, ..
        } = self;
        machine.write("/etc/hosts", hosts(self.name(), address))?;
        machine.write("/etc/hostname", format!("{}\n", self.name()))?;
        machine.write("/etc/resolv.conf", "search lab.test\n")?;
        machine.write(
            "/etc/machine-id",
            format!("{}\n", short_hash([self.name()], 32)),
        )?;
        let cni = CNI.replace("@POD_SUBNET@", &pod_subnet(index));
        machine.write("/etc/cni/net.d/10-lab.conflist", cni)?;
        let registry = format!("registry.lab:{}", control_plane::REGISTRY_PORT);
        machine.write(
            &format!("/etc/containerd/certs.d/{registry}/hosts.toml"),
            format!("server = \"http://{registry}\"\n\n[host.\"http://{registry}\"]\n"),
        )?;
        machine.write(
            "/etc/crictl.yaml",
            format!(
                "runtime-endpoint: unix://{SOCKET}\nimage-endpoint: unix://{SOCKET}\ntimeout: 60\n"
            ),
        )
    }

    fn start_runtime(&self, runtime: Runtime) -> Result<()> {
        let config = "/etc/containerd/config.toml";
        self.machine.write(config, runtime.config())?;
        let programs = runtime.programs();
        self.runtime().start(&Spec {
            program: format!("{programs}/containerd"),
            arguments: vec!["--config".to_owned(), config.to_owned()],
            // It finds its shim by PATH.
            environment: vec![(
                "PATH".to_owned(),
                format!("{programs}:/usr/sbin:/usr/bin:/sbin:/bin"),
            )],
            ..Spec::default()
        })?;
        let socket = self.machine.root(SOCKET);
        wait::until("containerd to listen", Duration::from_secs(60), || {
            if !self.runtime().is_running() {
                bail!("it has ended:\n{}", last_lines(&self.runtime().log(), 5));
            }
            Ok(UnixStream::connect(&socket)?)
        })?;
        let archive = self.machine.file("/opt/lab/images.tar");
        fs::copy(self.lab.image_archive(), &archive)?;
        self.machine.run(
            &format!("{programs}/ctr"),
            [
                "--namespace",
                "k8s.io",
                "images",
                "import",
                "/opt/lab/images.tar",
            ],
        )?;
        fs::remove_file(archive)?;
        // What was imported shows up in CRI a moment later.
        wait::until("the images to be there", Duration::from_secs(60), || {
            let listed = self.crictl(["images"])?;
            for name in [images::PAUSE, images::BUSYBOX_IMAGE] {
                let (repository, _) = name.rsplit_once(':').unwrap_or((name, ""));
                if !listed.contains(repository) {
                    bail!("no {name} in:\n{listed}");
                }
            }
            Ok(())
        })
    }

    fn port(&self) -> Result<String> {
        let index = fs::read_to_string(self.machine.file(INDEX_FILE))?;
        Ok(format!("node{}", index.trim()))
    }

    /// Ends a node, or what is left of one, and removes its Node object.
    pub(super) fn destroy(lab: &Lab, name: &str) -> Result<()> {
        check_name(name)?;
        let dir = lab.layout().machine_dir(name);
        if !dir.exists() {
            bail!("lab {} has no node {name}", lab.layout().id);
        }
        if let Ok(index) = fs::read_to_string(index_file(&dir)) {
            // The kernel would take the link with the machine, a moment later:
            // the next node of this number must not meet it. Gone is fine.
            let link = format!("link delete node{}", index.trim());
            let _ = lab.control_plane().ip(&[link]);
        }
        Machine::destroy(lab.layout(), name)?;
        // Its object would stay NotReady for ever. Not there, or no API server
        // to ask: then there is nothing to clean.
        let _ = lab.kubectl().run([
            "--request-timeout=5s",
            "delete",
            "node",
            name,
            "--ignore-not-found",
            "--wait=false",
        ]);
        Ok(())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        // A test that ended well has removed its nodes: this one may have
        // failed, and its logs tell why.
        let saved = save_logs(&self.machine, &saved_logs_dir());
        if let Err(error) = saved.and_then(|()| Self::destroy(&self.lab, self.name())) {
            eprintln!("lab: cannot remove node {}: {error:#}", self.name());
        }
    }
}

const INDEX_FILE: &str = "/opt/lab/index";

fn index_file(machine_dir: &Path) -> PathBuf {
    machine_dir
        .join("fs")
        .join(INDEX_FILE.trim_start_matches('/'))
}

/// The lowest number that no other node has: it gives the addresses.
fn free_index(lab: &Lab) -> Result<u8> {
    let mut taken = Vec::new();
    for entry in fs::read_dir(lab.layout().machines_dir())? {
        let text = fs::read_to_string(index_file(&entry?.path()));
        taken.extend(text.ok().and_then(|text| text.trim().parse::<u8>().ok()));
    }
    (1..=250)
        .find(|index| !taken.contains(index))
        .context("the lab has room for 250 nodes: remove some with cargo xtask lab node remove")
}

fn pod_subnet(index: u8) -> String {
    format!("10.245.{index}.0/24")
}

/// A node's name is a host name, a Kubernetes name, and a directory.
fn check_name(name: &str) -> Result<()> {
    if name == control_plane::MACHINE {
        bail!("{name} is the name of the control plane's machine: choose another");
    }
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let fits = (1..=50).contains(&name.len())
        && name.bytes().all(plain)
        && !name.starts_with('-')
        && !name.ends_with('-');
    if !fits {
        bail!("node name {name:?}: use 1 to 50 of a-z, 0-9 and, inside, '-'");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cannot_be_a_node_are_refused() {
        for good in ["a", "node-1", "n1"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "-a",
            "a-",
            "A",
            "a.b",
            "../a",
            "control-plane",
            &"a".repeat(51),
        ] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
