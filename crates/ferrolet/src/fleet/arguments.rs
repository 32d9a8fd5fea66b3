//! The command line of a fleet, and the fleet that it describes.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use fleet::spec::{Amount, CapacityFile, Fleet, FleetFile, GroupFile, NodeInfoFile};

use crate::cluster_access::ClusterArguments;
use crate::given;
use crate::output::Failure;

const EXAMPLES: &str = "Examples:
  ferrolet fleet --nodes 1000 --for 10m
  ferrolet fleet --nodes 50 --capacity cpu=4,memory=16Gi,pods=110 --zones a,b,c
  ferrolet fleet --config fleet.yaml --metrics-bind 127.0.0.1:9090

The kubeconfig's user must be allowed to get, list, watch and delete nodes, and to list
and watch pods. With shared identity also to create nodes, patch nodes/status, get, create
and update leases, get and create csinodes, create and patch events; with an identity per
node, to create and delete secrets (bootstrap tokens; see `ferrolet rbac bootstrap`).
Pods need more: to get, patch and delete pods, patch pods/status, get, list and watch services,
configmaps and secrets, and to create serviceaccounts/token; those with a runtime class, to list
and watch runtimeclasses. Nodes that are asked ask in turn who that is and what is allowed: with
shared identity the user must be allowed to create tokenreviews and subjectaccessreviews.

Each node answers on a port of its own, with a certificate that it signs itself: kubectl logs, exec
and the rest work as with any node. Clients with certificates of clientCAFile (--kubelet-config)
are known, without it those of the kubeconfig's own certificate authority.
A fleet is known by its name: run one process for each.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// How many nodes
    #[arg(long, value_name = "NUMBER", required_unless_present = "config")]
    nodes: Option<usize>,
    /// A Fleet file with groups of nodes, followed while the fleet runs
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["nodes", "name", "name_pattern", "capacity", "node_info", "zones", "labels", "taints"]
    )]
    pub(super) config: Option<PathBuf>,
    /// The fleet's name: its nodes carry it in the label ferrolet.dev/fleet
    #[arg(long, value_name = "NAME", default_value = "fleet")]
    name: String,
    /// How the nodes are called
    #[arg(long, value_name = "PATTERN", default_value = "node-{:05}")]
    name_pattern: String,
    /// What each has: cpu, memory, pods, ephemeral-storage [default: cpu=32,memory=128Gi]
    #[arg(long, value_name = "NAME=AMOUNT,…", value_delimiter = ',', value_parser = pair)]
    capacity: Vec<(String, String)>,
    /// What each says of itself: kernel, os-image, architecture, runtime (its name, :// and its version), kubelet
    #[arg(long, value_name = "NAME=TEXT,…", value_delimiter = ',', value_parser = pair)]
    node_info: Vec<(String, String)>,
    /// Zones, in turn
    #[arg(long, value_name = "ZONE,…", value_delimiter = ',')]
    zones: Vec<String>,
    /// More labels
    #[arg(long, value_name = "KEY=VALUE,…", value_delimiter = ',', value_parser = pair)]
    labels: Vec<(String, String)>,
    /// Taints, as KEY=VALUE:EFFECT
    #[arg(long, value_name = "TAINT,…", value_delimiter = ',')]
    taints: Vec<String>,
    /// As whom the nodes speak with the API server
    #[arg(long, value_enum, default_value = "shared")]
    pub(super) identity: Identity,
    /// Where nodes with an identity of their own keep it [default: a directory that is removed at the end]
    #[arg(long, value_name = "DIRECTORY")]
    pub(super) state_dir: Option<PathBuf>,
    /// What they ask for it with [default: a token that is made for a day, and deleted at the end]
    #[arg(long, value_name = "FILE")]
    pub(super) bootstrap_kubeconfig: Option<PathBuf>,
    /// A configuration of the kubelet, for every node
    #[arg(long, value_name = "FILE")]
    pub(super) kubelet_config: Option<PathBuf>,
    /// The address of this machine at which the API server reaches the nodes [default: the one from
    /// which this machine reaches the API server; if that is its loopback, the nodes have no ports]
    #[arg(long, value_name = "ADDRESS")]
    pub(super) node_address: Option<IpAddr>,
    /// The ports that the nodes listen on there, one each; `none`: they have no ports, and kubectl
    /// logs, exec and the like do not work
    #[arg(long, value_name = "FIRST-LAST", default_value = "20000-32767", value_parser = ports)]
    pub(super) node_ports: Ports,
    /// How many nodes are started in a second
    #[arg(long, value_name = "NUMBER", default_value_t = 50.0, value_parser = rate)]
    pub(super) ramp: f64,
    /// With shared identity: how many requests in a second all nodes together may make; heartbeats
    /// are not counted, and events have a rate like this of their own
    #[arg(long, value_name = "NUMBER", default_value_t = 200.0, value_parser = rate)]
    pub(super) qps: f64,
    /// End after this time, with a report [default: run until told to end]
    #[arg(long = "for", value_name = "SPAN", value_parser = given::span)]
    pub(super) span: Option<Duration>,
    /// Remove the Node objects at the end
    #[arg(long)]
    pub(super) remove_at_end: bool,
    /// How often a line of figures is printed where there is no terminal
    #[arg(long, value_name = "SPAN", default_value = "10s", value_parser = given::span)]
    pub(super) interval: Duration,
    /// Figures as lines of JSON, on a terminal too; and so the report
    #[arg(long)]
    pub(super) json: bool,
    /// Write the report to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
    /// Serve figures for Prometheus at this address, under /metrics
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(super) metrics_bind: Option<SocketAddr>,
    /// What nodes say is shown from this level on [default: warnings only]
    #[arg(short = 'v', long = "v", value_name = "LEVEL")]
    pub(super) verbosity: Option<u32>,
    #[command(flatten)]
    pub(super) cluster: ClusterArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Identity {
    /// All as the kubeconfig's user, over a few connections
    Shared,
    /// Each as itself, by TLS bootstrap, over connections of its own
    PerNode,
}

/// The ports of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ports {
    None,
    Range(RangeInclusive<u16>),
}

fn ports(text: &str) -> Result<Ports, String> {
    if text == "none" {
        return Ok(Ports::None);
    }
    let range = text.split_once('-').and_then(|(first, last)| {
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        (0 < first && first <= last).then_some(Ports::Range(first..=last))
    });
    range.ok_or_else(|| "write FIRST-LAST, as 20000-32767, or none".to_owned())
}

impl Arguments {
    /// The fleet as it is wanted at first.
    pub(super) fn fleet(&self) -> Result<Fleet, Failure> {
        if let Some(path) = &self.config {
            let fleet = text(path).and_then(|text| parsed(path, &text));
            return fleet.map_err(Failure::Failed);
        }
        let file = FleetFile::of_one_group(self.name.clone(), self.group()?);
        file.fleet().map_err(Failure::usage)
    }

    fn group(&self) -> Result<GroupFile, Failure> {
        Ok(GroupFile {
            name: "nodes".to_owned(),
            count: self.nodes.unwrap_or_default(),
            name_pattern: Some(self.name_pattern.clone()),
            capacity: capacity(&self.capacity)?,
            node_info: node_info(&self.node_info)?,
            zones: self.zones.clone(),
            labels: self.labels.iter().cloned().collect::<BTreeMap<_, _>>(),
            taints: self.taints.clone(),
            faults: Vec::new(),
        })
    }
}

/// What a Fleet file says.
pub(super) fn text(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The fleet that it describes.
pub(super) fn parsed(path: &Path, text: &str) -> Result<Fleet, String> {
    let fleet = FleetFile::read(text).and_then(FleetFile::fleet);
    fleet.map_err(|error| format!("{}: {error}", path.display()))
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| "write NAME=VALUE".to_owned())?;
    Ok((name.to_owned(), value.to_owned()))
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if (0.01..=100_000.0).contains(&rate) => Ok(rate),
        _ => Err("a number between 0.01 and 100000".to_owned()),
    }
}

fn capacity(given: &[(String, String)]) -> Result<CapacityFile, Failure> {
    let mut capacity = CapacityFile::default();
    for (name, amount) in given {
        let amount_of = Some(Amount::Text(amount.clone()));
        match name.as_str() {
            "cpu" => capacity.cpu = amount_of,
            "memory" => capacity.memory = amount_of,
            "ephemeral-storage" => capacity.ephemeral_storage = amount_of,
            "pods" => {
                let pods = amount.parse();
                let wrong = |cause| Failure::usage(format!("--capacity: pods={amount}: {cause}"));
                capacity.pods = Some(pods.map_err(wrong)?);
            }
            other => {
                return Err(Failure::usage(format!(
                    "--capacity: {other} is not known: cpu, memory, pods, ephemeral-storage"
                )));
            }
        }
    }
    Ok(capacity)
}

fn node_info(given: &[(String, String)]) -> Result<NodeInfoFile, Failure> {
    let mut info = NodeInfoFile::default();
    for (name, text) in given {
        let field = match name.as_str() {
            "kernel" => &mut info.kernel,
            "os-image" => &mut info.os_image,
            "architecture" => &mut info.architecture,
            "runtime" => &mut info.runtime,
            "kubelet" => &mut info.kubelet,
            other => {
                return Err(Failure::usage(format!(
                    "--node-info: {other} is not known: kernel, os-image, architecture, runtime, kubelet"
                )));
            }
        };
        *field = Some(text.clone());
    }
    Ok(info)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        fleet: Arguments,
    }

    fn fleet(words: &[&str]) -> Result<Fleet, Failure> {
        let words = [&["fleet"], words].concat();
        Command::try_parse_from(words)
            .map_err(Failure::usage)?
            .fleet
            .fleet()
    }

    #[test]
    fn flags_describe_one_group() {
        let fleet = fleet(&[
            "--nodes=3",
            "--name-pattern=n{:02}",
            "--capacity=cpu=4,memory=16Gi,pods=20",
            "--node-info=kernel=6.1,runtime=containerd://2.1.9,os-image=Debian 13",
            "--zones=a,b",
            "--labels=tier=gold",
        ])
        .unwrap();
        let nodes: Vec<_> = fleet.nodes().collect();
        assert_eq!(nodes[2].name, "n02");
        assert_eq!(nodes[1].zone.as_deref(), Some("b"));
        let kind = &nodes[0].kind;
        assert_eq!(
            (kind.machine.cpus, kind.machine.memory, kind.pods),
            (4, 16 << 30, Some(20))
        );
        assert_eq!(kind.machine.os_image, "Debian 13");
        assert_eq!(kind.labels["tier"], "gold");
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_what_can() {
        for (words, said) in [
            (&["--nodes=1", "--capacity=gpu=1"][..], "cpu, memory, pods"),
            (&["--nodes=1", "--capacity=cpu"], "NAME=VALUE"),
            (&["--nodes=1", "--node-info=os=x"], "os-image"),
            (&["--nodes=1", "--ramp=0"], "between"),
            (&["--nodes=1", "--node-ports=10250"], "FIRST-LAST"),
            (&["--nodes=1", "--node-ports=0-9"], "FIRST-LAST"),
            (&["--nodes=1", "--node-ports=9-8"], "FIRST-LAST"),
            (
                &["--nodes=1", "--name-pattern=node"],
                "no place for a number",
            ),
            (&[], "--nodes"),
            (&["--nodes=1", "--config=x"], "cannot be used with"),
        ] {
            let Err(Failure::Usage(cause)) = fleet(words) else {
                panic!("{words:?} was taken");
            };
            assert!(cause.contains(said), "{words:?}: {cause}");
        }
    }
}
