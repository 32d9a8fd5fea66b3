//! The facts: read from the machine, its runtime and its API server, side by side,
//! each with a deadline. Nothing is changed, and nothing is judged.

mod network;
mod ports;
mod runtime;

use std::path::PathBuf;
use std::time::Duration;

use api::transport::Options;
use cluster::preflight;
use config::settings::Settings;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1 as coordination;
use k8s_openapi::api::core::v1 as core;
use linux::LinuxHost;
use seams::host::{DiskFigures, Host as _};
use seams::{SharedClock, timeout};
use tokio::task::spawn_blocking;

use self::runtime::RuntimeSeen;
use super::checks::{
    self, Facts, Membership, agent, api_server, certificates, cgroups, clock, configuration, disk,
    lease, readiness, relist, requests, swap,
};
use crate::certs::look::Looked;
use crate::local_node::cluster::{Cluster, Reach, Welcome, get_text, options};
use crate::local_node::look::Look;
use crate::local_node::{LocalNode, NodeArguments};
use crate::output::Failure;

/// Looks at everything.
pub(super) async fn gather(arguments: &NodeArguments, limit: Duration) -> Result<Facts, Failure> {
    let options = options();
    let clock = options.clock.clone();
    let wanted = arguments.clone();
    let node = on_disk(&clock, limit, move || LocalNode::find(&wanted)).await;
    let node = node.ok_or_else(|| {
        Failure::Failed(format!(
            "the files of this machine do not answer within {} s: a disk hangs; see `dmesg`",
            limit.as_secs()
        ))
    })?;
    let machine = machine(&node, &clock, limit);
    let runtime = runtime::look(&node, &clock, limit);
    let health = health(&node, &options, limit);
    let cluster = async {
        if node.is_member {
            Some(Box::pin(member(&node, &options, limit)).await)
        } else {
            None
        }
    };
    let (machine, runtime, health, member) = tokio::join!(machine, runtime, health, cluster);
    let network = {
        let (settings, seen) = (runtime.network.clone(), machine.ip_forward);
        let remedies = node.remedies.clone();
        on_disk(&clock, limit, move || {
            network::look(&settings, seen, remedies)
        })
        .await
    };
    let image_disk = match runtime.image_directory.clone() {
        None => None,
        Some(path) => disk_at(&clock, limit, "imagefs", path).await,
    };
    let disks = machine.node_disk.clone().into_iter().chain(image_disk);
    let agent = node.agent.as_ref();
    Ok(Facts {
        node_name: node.name.clone(),
        cluster: node.embedded.as_ref().map(|node| node.root.clone()),
        is_simulated: node.embedded.as_ref().is_some_and(|node| node.simulated),
        agent: agent::Facts {
            agent: agent.map(|agent| (agent.id, agent.name())),
            others: node.others.iter().map(|agent| agent.id).collect(),
            wanted: node.is_member,
            health,
            remedies: node.remedies.clone(),
        },
        configuration: configuration::Facts {
            is_told: node.is_told,
            file: node.config_file.clone(),
            refused: node.refused.clone(),
        },
        cgroups: cgroups_of(&node, &machine, &runtime),
        swap: swap::Facts {
            swaps: machine.swaps,
            refused: node.settings.bool("failSwapOn"),
            agent_runs: agent.is_some(),
        },
        ports: machine.ports,
        disk: disk::Facts {
            disks: disks.collect(),
            thresholds: thresholds(&node.settings),
        },
        network: network.unwrap_or_else(|| {
            let remedies = node.remedies.clone();
            network::unread(&runtime.network, machine.ip_forward, remedies)
        }),
        membership: member.map(|member| member.facts(&node, &runtime)),
        runtime: runtime.facts,
    })
}

/// What the kernel and the disk tell.
#[derive(Clone, Debug)]
struct Machine {
    cgroups: preflight::Cgroups,
    swaps: Vec<String>,
    ip_forward: Option<bool>,
    ports: checks::ports::Facts,
    node_disk: Option<disk::Disk>,
}

async fn machine(node: &LocalNode, clock: &SharedClock, limit: Duration) -> Machine {
    let wanted = ports::wanted(&node.settings);
    let agent = node.agent.as_ref().map(|agent| agent.id);
    let remedies = node.remedies.clone();
    let read = on_disk(clock, limit, move || {
        let facts = preflight::gather(std::path::Path::new("/"), "", None);
        let taken = ports::taken(&wanted);
        (facts, taken, wanted)
    });
    let (read, node_disk) = tokio::join!(
        read,
        disk_at(clock, limit, "nodefs", node.root_directory.clone())
    );
    let (facts, taken, wanted) = match read {
        Some((facts, taken, wanted)) => (Some(facts), taken, wanted),
        None => (None, Vec::new(), Vec::new()),
    };
    let nothing = preflight::Cgroups {
        version: preflight::CgroupVersion::None,
        controllers: std::collections::BTreeSet::new(),
    };
    Machine {
        swaps: facts
            .as_ref()
            .map(|facts| facts.swaps.clone())
            .unwrap_or_default(),
        ip_forward: facts.as_ref().and_then(|facts| facts.ip_forward),
        cgroups: facts.map_or(nothing, |facts| facts.cgroups),
        ports: checks::ports::Facts {
            wanted,
            taken,
            agent,
            remedies,
        },
        node_disk,
    }
}

fn cgroups_of(node: &LocalNode, machine: &Machine, runtime: &RuntimeSeen) -> cgroups::Facts {
    let mend = runtime.driver.name().and_then(|driver| {
        let file = node.config_file.as_deref();
        node.remedies
            .set(&node.settings, file, "cgroupDriver", driver)
    });
    cgroups::Facts {
        cgroups: machine.cgroups.clone(),
        configured: node.settings.text("cgroupDriver").to_owned(),
        runtime: runtime.driver,
        is_told: node.is_told,
        mend,
    }
}

/// `None` where the agent has no such port, or none runs.
async fn health(
    node: &LocalNode,
    options: &Options,
    limit: Duration,
) -> Option<Result<(), String>> {
    node.agent.as_ref()?;
    // The port belongs to a machine.
    if node.embedded.as_ref().is_some_and(|node| node.simulated) {
        return None;
    }
    let port = node.settings.int("healthzPort");
    if port == 0 {
        return None;
    }
    let address = match node.settings.text("healthzBindAddress") {
        "" | "0.0.0.0" | "::" => "127.0.0.1",
        address => address,
    };
    let host = if address.contains(':') {
        format!("[{address}]")
    } else {
        address.to_owned()
    };
    let url = format!("http://{host}:{port}");
    Some(get_text(&url, "/healthz", options, limit).await.map(drop))
}

/// What the API server says, and what the node's own files say of the two.
struct Member {
    looked: Looked,
    server: Option<String>,
    reach: Reach,
    welcome: Welcome,
    node: Look<Option<core::Node>>,
    lease: Look<Option<coordination::Lease>>,
    requests: Look<Vec<cluster::csr::Described>>,
    relist: Look<Timestamp>,
    now: Timestamp,
}

async fn member(node: &LocalNode, options: &Options, limit: Duration) -> Member {
    let now = || Timestamp::try_from(options.clock.now()).unwrap_or_default();
    let (places, moment) = (node.places.clone(), now());
    let looked = on_disk(&options.clock, limit, move || Looked::at(&places, moment)).await;
    let looked = looked.unwrap_or_else(|| Looked::unread(&node.places, moment));
    let cluster = Cluster::open(node, options, limit);
    let reach = cluster.reach().await;
    let mut member = Member {
        looked,
        server: cluster.server.clone(),
        reach,
        welcome: Welcome::Untried("nobody answers".to_owned()),
        node: Look::Skipped,
        lease: Look::Skipped,
        requests: Look::Skipped,
        relist: Look::Skipped,
        now: now(),
    };
    if matches!(member.reach, Reach::Answers { .. }) {
        let read_only = u16::try_from(node.settings.int("readOnlyPort")).unwrap_or_default();
        let relist = async {
            match &node.agent {
                Some(_) => cluster.last_relist(read_only, options).await,
                None => Look::Skipped,
            }
        };
        let (seen, lease, requests, relist) =
            tokio::join!(cluster.node(), cluster.lease(), cluster.requests(), relist);
        (member.welcome, member.node) = seen;
        (member.lease, member.requests, member.relist) = (lease, requests, relist);
        member.now = now();
    }
    cluster.close().await;
    member
}

impl Member {
    fn facts(self, node: &LocalNode, runtime: &RuntimeSeen) -> Membership {
        let (agent_runs, remedies) = (node.agent.is_some(), &node.remedies);
        let skew = match self.reach {
            Reach::Answers { skew } => skew,
            _ => None,
        };
        let agent = &self.looked.agent;
        let purposes = [identity::Purpose::Client, identity::Purpose::Serving];
        let told = purposes.into_iter().filter_map(|purpose| {
            let wait = agent.state(purpose)?.waiting()?;
            Some(wait.csr.clone())
        });
        Membership {
            clock: clock::Facts { skew },
            requests: requests::Facts {
                requests: self.requests,
                told: told.collect(),
                now: self.now.into(),
                remedies: remedies.clone(),
            },
            api_server: api_server::Facts {
                server: self.server,
                kubeconfig: node.places.kubeconfig.display().to_string(),
                reach: self.reach,
                welcome: self.welcome,
                certificate_is_good: certificates::client_is_valid(&self.looked),
            },
            certificates: certificates::Facts {
                looked: self.looked,
                remedies: remedies.clone(),
            },
            lease: lease::Facts {
                node_name: node.name.clone(),
                lease: mapped(self.lease, |lease| lease.map(lease_of)),
                now: self.now,
                agent_runs,
                remedies: remedies.clone(),
            },
            relist: relist::Facts {
                last: self.relist,
                now: self.now,
                socket: runtime.facts.socket.clone(),
                remedies: remedies.clone(),
            },
            readiness: readiness::Facts {
                node_name: node.name.clone(),
                node: mapped(self.node, |node| node.map(node_of)),
                now: self.now,
                agent_runs,
                remedies: remedies.clone(),
            },
        }
    }
}

fn mapped<T, U>(look: Look<T>, change: impl FnOnce(T) -> U) -> Look<U> {
    match look {
        Look::Seen(seen) => Look::Seen(change(seen)),
        Look::Hidden(hidden) => Look::Hidden(hidden),
        Look::Skipped => Look::Skipped,
    }
}

fn lease_of(lease: coordination::Lease) -> lease::Lease {
    let spec = lease.spec.unwrap_or_default();
    let life = spec.lease_duration_seconds.unwrap_or_default();
    lease::Lease {
        renewed: spec.renew_time.map(|time| time.0),
        life: Duration::from_secs(u64::try_from(life).unwrap_or_default()),
        holder: spec.holder_identity,
    }
}

fn node_of(node: core::Node) -> readiness::Node {
    let conditions = node
        .status
        .unwrap_or_default()
        .conditions
        .unwrap_or_default();
    let conditions = conditions
        .into_iter()
        .map(|condition| readiness::Condition {
            kind: condition.type_,
            status: condition.status,
            message: condition.message.unwrap_or_default(),
            since: condition.last_transition_time.map(|time| time.0),
        });
    readiness::Node {
        conditions: conditions.collect(),
        unschedulable: node.spec.and_then(|spec| spec.unschedulable) == Some(true),
    }
}

fn thresholds(settings: &Settings) -> Vec<(String, String)> {
    let entries = settings.entries("evictionHard");
    let text =
        entries.filter_map(|(signal, value)| Some((signal.to_owned(), value.as_str()?.to_owned())));
    text.collect()
}

async fn disk_at(
    clock: &SharedClock,
    limit: Duration,
    name: &'static str,
    path: PathBuf,
) -> Option<disk::Disk> {
    let place = path.clone();
    let figures = on_disk(clock, limit, move || figures_at(&place)).await??;
    Some(disk::Disk {
        name,
        path,
        figures,
    })
}

/// Of the path, or of what it will be in.
fn figures_at(path: &std::path::Path) -> Option<DiskFigures> {
    let host = LinuxHost::new(PathBuf::from("/"));
    path.ancestors().find_map(|path| host.disk(path).ok())
}

/// Work on files, which may hang: `None` if it takes too long. Its thread is then left
/// to itself, for the process to end.
async fn on_disk<T: Send + 'static>(
    clock: &SharedClock,
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let done = timeout(&**clock, limit, spawn_blocking(work)).await;
    done.ok()?.ok()
}
