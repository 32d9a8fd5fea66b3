//! The control plane: real kubeadm makes its certificates, kubeconfigs and
//! flags, and sets up the cluster; the lab runs the programs in a machine of
//! their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::daemon::{Daemon, Spec};
use super::kubectl::Kubectl;
use super::machine::Machine;
use super::{State, layout::Layout};
use crate::wait;

/// The machine's name; nodes may not take it.
pub(super) const MACHINE: &str = "control-plane";
/// Its address on the lab's network, which is the same in every lab: no packet
/// leaves the namespaces.
pub(super) const ADDRESS: &str = "10.76.0.1";
pub(super) const REGISTRY_PORT: u16 = 5000;
const API_PORT: u16 = 6443;
const KUBEADM_CONFIG: &str = "/etc/kubernetes/kubeadm.yaml";

/// A part of the control plane, by the name of its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    Etcd,
    ApiServer,
    ControllerManager,
    Scheduler,
    Registry,
    /// The way from the host's loopback to the API server.
    Forward,
    MetricsServer,
}

impl Component {
    /// Those that every lab runs, in the order of their start.
    pub const ALL: [Self; 6] = [
        Self::Etcd,
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Registry,
        Self::Forward,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Registry => "lab-registry",
            Self::Forward => "lab-forward",
            Self::MetricsServer => "metrics-server",
        }
    }

    /// Group id, by which the packet filter knows its traffic.
    fn group(self) -> u32 {
        7000 + match self {
            Self::Etcd => 1,
            Self::ApiServer => 2,
            Self::ControllerManager => 3,
            Self::Scheduler => 4,
            Self::Registry => 5,
            Self::Forward => 6,
            Self::MetricsServer => 7,
        }
    }

    fn ports(self) -> Vec<u16> {
        match self {
            Self::Etcd => vec![2379],
            Self::ApiServer => vec![API_PORT],
            Self::ControllerManager => vec![10257],
            Self::Scheduler => vec![10259],
            Self::Registry => vec![REGISTRY_PORT],
            Self::Forward => vec![],
            Self::MetricsServer => vec![super::metrics_server::PORT],
        }
    }

    /// How it is started.
    pub(super) fn spec(self, program: String, arguments: Vec<String>) -> Spec {
        Spec {
            program,
            arguments,
            group: self.group(),
            ports: self.ports(),
            ..Spec::default()
        }
    }

    pub(super) fn daemon(self, machine: &Machine) -> Daemon {
        machine.daemon(self.name())
    }
}

/// Boots the machine, and in it the whole control plane.
pub(super) fn start(
    layout: &Layout,
    state: &State,
    registry_images: &Path,
    tools: &[PathBuf],
) -> Result<Machine> {
    let machine = Machine::boot(layout, MACHINE, &state.programs)?;
    machine.write("/etc/hosts", hosts(MACHINE, ADDRESS))?;
    machine.write("/etc/resolv.conf", "search lab.test\n")?;
    connect(&machine)?;
    for tool in tools {
        let name = tool.file_name().context("a program without a name")?;
        let place = machine.file("/opt/lab/tools");
        fs::create_dir_all(&place)?;
        fs::copy(tool, place.join(name))?;
    }

    machine.write(KUBEADM_CONFIG, kubeadm_config(state))?;
    for phase in [
        ["certs", "all"],
        ["kubeconfig", "all"],
        ["etcd", "local"],
        ["control-plane", "all"],
    ] {
        kubeadm(&machine, &phase)?;
    }
    for component in [Component::Etcd, Component::ApiServer] {
        start_from_manifest(&machine, component)?;
    }
    let images = machine.file("/opt/lab/registry");
    copy_dir(registry_images, &images)?;
    let address = format!("{ADDRESS}:{REGISTRY_PORT}");
    Component::Registry
        .daemon(&machine)
        .start(&Component::Registry.spec(
            "/opt/lab/tools/lab-registry".to_owned(),
            vec![address, "/opt/lab/registry".to_owned()],
        ))?;
    Component::Forward.daemon(&machine).start(&Spec {
        host_port: Some(state.host_port),
        ..Component::Forward.spec(
            "/opt/lab/tools/lab-forward".to_owned(),
            vec![format!("{ADDRESS}:{API_PORT}")],
        )
    })?;
    Ok(machine)
}

/// What is done through the API once it answers: the rest of kubeadm's work.
pub(super) fn set_up_cluster(
    machine: &Machine,
    admin: &Kubectl,
    super_admin: &Kubectl,
) -> Result<()> {
    wait_ready(machine, super_admin)?;
    for component in [Component::ControllerManager, Component::Scheduler] {
        start_from_manifest(machine, component)?;
    }
    // The API server makes its own roles after it is ready; until then even
    // the binding below is refused.
    wait::until(
        "the API server to make its roles",
        Duration::from_secs(60),
        || {
            super_admin.run([
                "create",
                "clusterrolebinding",
                "kubeadm:cluster-admins",
                "--clusterrole=cluster-admin",
                "--group=kubeadm:cluster-admins",
            ])
        },
    )?;
    wait::until(
        "the administrator's binding to count",
        Duration::from_secs(60),
        || admin.run(["get", "namespaces"]),
    )?;
    for phase in [&["upload-config", "all"][..], &["bootstrap-token"]] {
        kubeadm(machine, phase)?;
    }
    Ok(())
}

/// Waits until the API server says that it is ready.
pub(super) fn wait_ready(machine: &Machine, kubectl: &Kubectl) -> Result<()> {
    wait::until(
        "the API server to be ready",
        Duration::from_secs(60),
        || {
            let daemon = Component::ApiServer.daemon(machine);
            if !daemon.is_running() {
                bail!(
                    "kube-apiserver has ended:\n{}",
                    last_lines(&daemon.log(), 5)
                );
            }
            kubectl.run(["get", "--raw", "/readyz"]).map(drop)
        },
    )
}

/// Waits until a component answers. One that has ended is started again, as a
/// kubelet would start a static pod: the controller manager gives up when the
/// API server goes away while it starts.
pub(super) fn wait_serving(machine: &Machine, component: Component) -> Result<()> {
    let daemon = component.daemon(machine);
    let probe = match component {
        Component::ControllerManager => Some("https://127.0.0.1:10257/healthz".to_owned()),
        Component::Scheduler => Some("https://127.0.0.1:10259/healthz".to_owned()),
        Component::Registry => Some(format!("http://{ADDRESS}:{REGISTRY_PORT}/v2/")),
        // The API server's word, through the forward, stands for these.
        Component::Etcd | Component::ApiServer | Component::Forward | Component::MetricsServer => {
            None
        }
    };
    let what = format!("{} to serve", daemon.name());
    wait::until(&what, Duration::from_secs(60), || {
        if !daemon.is_running() {
            let words = last_lines(&daemon.log(), 5);
            daemon.start_again()?;
            bail!("it has ended, and is started again:\n{words}");
        }
        match &probe {
            Some(url) => {
                let words = [
                    "--silent",
                    "--fail",
                    "--insecure",
                    "--max-time",
                    "2",
                    url.as_str(),
                ];
                machine.run("curl", words).map(drop)
            }
            None => Ok(()),
        }
    })
}

fn connect(machine: &Machine) -> Result<()> {
    machine.ip(&[
        // With an address of its own: a bridge takes its lowest port's else, and
        // changes it when nodes come and go, which the others learn too late.
        "link add lab0 address 02:00:0a:4c:00:01 type bridge".to_owned(),
        format!("addr add {ADDRESS}/16 dev lab0"),
        "link set lab0 up".to_owned(),
    ])?;
    // There is no kube-proxy: this is the one service address that every
    // in-cluster client needs.
    let to_api = format!("{ADDRESS}:{API_PORT}");
    for chain in ["PREROUTING", "OUTPUT"] {
        machine.run(
            "iptables",
            [
                "-w",
                "-t",
                "nat",
                "-A",
                chain,
                "-d",
                "10.96.0.1",
                "-p",
                "tcp",
                "--dport",
                "443",
                "-j",
                "DNAT",
                "--to-destination",
                &to_api,
            ],
        )?;
    }
    Ok(())
}

/// kubeadm's manifest of a static pod holds the command line that it wants.
fn start_from_manifest(machine: &Machine, component: Component) -> Result<()> {
    let file = machine.root(&format!(
        "/etc/kubernetes/manifests/{}.yaml",
        component.name()
    ));
    let manifest =
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut words = command_of(&manifest).into_iter();
    let program = words
        .next()
        .with_context(|| format!("no command in {}", file.display()))?;
    component
        .daemon(machine)
        .start(&component.spec(program, words.collect()))
}

/// The items of the one `command:` list in a manifest of kubeadm's.
fn command_of(manifest: &str) -> Vec<String> {
    manifest
        .lines()
        .skip_while(|line| line.trim() != "- command:")
        .skip(1)
        .map_while(|line| line.trim().strip_prefix("- "))
        .map(str::to_owned)
        .collect()
}

fn kubeadm(machine: &Machine, phase: &[&str]) -> Result<()> {
    let mut arguments = vec!["init", "phase"];
    arguments.extend(phase);
    arguments.extend(["--config", KUBEADM_CONFIG]);
    machine.run("kubeadm", arguments).map(drop)
}

fn kubeadm_config(state: &State) -> String {
    let signing = &state.options.signing_duration;
    let token = &state.token;
    format!(
        r#"apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
bootstrapTokens:
- token: {token}
  ttl: 0s
localAPIEndpoint:
  advertiseAddress: {ADDRESS}
  bindPort: {API_PORT}
nodeRegistration:
  name: {MACHINE}
  criSocket: unix:///run/containerd/containerd.sock
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: {version}
clusterName: lab
controlPlaneEndpoint: {ADDRESS}:{API_PORT}
networking:
  # A /24 for each of 16,384 nodes: a fleet has thousands.
  podSubnet: 10.128.0.0/10
  serviceSubnet: 10.96.0.0/12
etcd:
  local:
    dataDir: /var/lib/etcd
    extraArgs:
    - {{name: unsafe-no-fsync, value: "true"}}
apiServer:
  certSANs: ["127.0.0.1", "localhost"]
  extraArgs:
  # Without kube-proxy an aggregated API is reached at its endpoints.
  - {{name: enable-aggregator-routing, value: "true"}}
  # Pods that trust what the cluster publishes, and those that choose how they are
  # ended; off in a stock cluster.
  - {{name: feature-gates, value: "ClusterTrustBundle=true,ClusterTrustBundleProjection=true,ContainerStopSignals=true"}}
  - {{name: runtime-config, value: "certificates.k8s.io/v1beta1/clustertrustbundles=true"}}
controllerManager:
  extraArgs:
  - {{name: cluster-signing-duration, value: {signing}}}
  - {{name: leader-elect, value: "false"}}
  # A thousand nodes that come at once wait a minute for what it does for each
  # (subnets, taints) with its stock of 20 requests a second.
  - {{name: kube-api-qps, value: "200"}}
  - {{name: kube-api-burst, value: "400"}}
scheduler:
  extraArgs:
  - {{name: leader-elect, value: "false"}}
"#,
        version = super::KUBERNETES,
    )
}

pub(super) fn hosts(name: &str, address: &str) -> String {
    format!(
        "127.0.0.1 localhost\n::1 localhost ip6-localhost\n{address} {name}\n{ADDRESS} \
         registry.lab\n"
    )
}

pub(super) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

fn copy_dir(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_dir(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_of_a_manifest_is_found() {
        let manifest = "spec:\n  containers:\n  - command:\n    - etcd\n    - --name=a\n    image: x\n    args:\n    - no\n";
        assert_eq!(command_of(manifest), ["etcd", "--name=a"]);
        assert_eq!(command_of("spec: {}\n"), Vec::<String>::new());
    }

    #[test]
    fn the_last_lines_are_kept() {
        assert_eq!(last_lines("a\nb\nc\n", 2), "b\nc");
        assert_eq!(last_lines("a", 2), "a");
    }
}
