//! The nodes of the cluster: agents of this process, on this machine or on simulated ones.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use config::flags::CommandLine;
use config::load::{judge, resolve};
use fleet::spec::{FLEET_LABEL, FleetFile, GroupFile};
use fleet::{Common, Connections, Doors, Roster};
use jiff::tz::TimeZone;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, ResourceExt};
use linux::LinuxHost;
use linux::process::raise_open_files;
use seams::Host as _;
use server::DoorConfig;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::JoinMap;

use super::place::{self, Place};
use crate::cluster_access::ClusterAccess;
use crate::fleet::{AUTHORITY, process, settings};
use crate::kubelet::{self, apply_limits, configure, seams, working_directory};
use crate::output::Failure;
use crate::version;

/// Simulated nodes carry it in a label.
const FLEET: &str = "up";

/// How simulated nodes are called, so that nobody takes them for others.
const NAMES: &str = "sim-{}";
pub(crate) const FIRST_SIMULATED: &str = "sim-0";

/// Between the starts of two of them.
const PACE: Duration = Duration::from_millis(20);

/// Where their ports may be.
const PORTS: RangeInclusive<u16> = 20_000..=32_767;

/// The kubelet's.
const PORT: u16 = 10_250;

/// What ends a node, in words, if it was not told to.
pub(super) type Tasks = JoinMap<&'static str, Result<(), String>>;

/// Starts simulated nodes. Without an address of this machine they have no ports; whether
/// they have.
pub(super) fn simulate(
    count: usize,
    access: &ClusterAccess,
    place: &Place,
    tasks: &mut Tasks,
    ending: &CancellationToken,
) -> Result<bool, Failure> {
    let (settings, gates) = settings(None)?;
    let group = GroupFile {
        name: "simulated".to_owned(),
        count,
        name_pattern: Some(NAMES.to_owned()),
        ..GroupFile::default()
    };
    let fleet = FleetFile::of_one_group(FLEET.to_owned(), group).fleet();
    let fleet = fleet.map_err(Failure::usage)?;
    // Each node has connections and a port of its own.
    raise_open_files()?;
    let door = DoorConfig::from_settings(&settings, &gates, &working_directory(), process());
    let doors = match (door.map_err(Failure::usage)?, own_address()?) {
        (Some(door), Some(address)) => Some(doors(door, address, count, access)?),
        _ => None,
    };
    let has_doors = doors.is_some();
    let common = Common {
        settings,
        gates,
        kubelet_version: version::kubelet(),
        options: access.options.clone(),
        dial: access.dial(),
        connections: Connections::Own {
            bootstrap_kubeconfig: place.bootstrap_kubeconfig(),
            state: place.nodes(),
            zone: TimeZone::system(),
        },
        doors,
        process_id: std::process::id(),
    };
    let roster = Roster::new(common, access.client.clone(), FLEET, PACE);
    let ending = ending.clone();
    tasks.spawn("simulated nodes", async move {
        // Nobody changes what is wanted; it is held for those who follow it.
        let (_wanting, wanted) = watch::channel(Arc::new(fleet));
        roster.run(wanted, ending).await;
        Ok(())
    });
    Ok(has_doors)
}

fn doors(
    mut config: DoorConfig,
    address: IpAddr,
    count: usize,
    access: &ClusterAccess,
) -> Result<Doors, Failure> {
    let authority = PathBuf::from(AUTHORITY);
    let content = access.authority()?.unwrap_or_default().into_bytes();
    config.authentication.client_ca_file = Some(authority.clone());
    config.address.set_ip(address);
    let free = |port| TcpListener::bind((address, port)).is_ok();
    let ports = run_of(PORTS, count, free).ok_or_else(|| {
        Failure::Failed(format!(
            "{count} nodes need as many free ports in a row between {} and {}, and there are none: \
             have fewer with --nodes",
            PORTS.start(),
            PORTS.end()
        ))
    })?;
    Ok(Doors {
        config,
        address,
        // What is beyond is for nodes whose port somebody takes before they do.
        ports: *ports.start()..=*PORTS.end(),
        files: Arc::new(BTreeMap::from([(authority, content)])),
    })
}

/// The namespace of the nodes' leases.
const HEARTBEATS: &str = "kube-node-lease";

/// Removes the objects of simulated nodes of an earlier start that are more than there are to
/// be now: nobody runs them. Their names.
pub(super) async fn remove_former(
    client: &Client,
    simulated: usize,
) -> Result<Vec<String>, kube::Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let ours = ListParams::default().labels(&format!("{FLEET_LABEL}={FLEET}"));
    let there = nodes.list_metadata(&ours).await?;
    let there = there.items.iter().map(ResourceExt::name_any).collect();
    let former = former(there, simulated);
    let leases: Api<Lease> = Api::namespaced(client.clone(), HEARTBEATS);
    let drivers: Api<CSINode> = Api::all(client.clone());
    let at_once = DeleteParams::default();
    for name in &former {
        gone(leases.delete(name, &at_once).await)?;
        gone(drivers.delete(name, &at_once).await)?;
        // The last, by which the next start finds what was left.
        gone(nodes.delete(name, &at_once).await)?;
    }
    Ok(former)
}

/// What is not there any more is fine.
fn gone<T>(deleted: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match deleted {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map(drop),
    }
}

/// Of nodes that are there, those that are not among so many.
fn former(there: Vec<String>, simulated: usize) -> Vec<String> {
    let wanted = (0..simulated).map(|number| NAMES.replace("{}", &number.to_string()));
    let wanted: BTreeSet<String> = wanted.collect();
    let mut former = there;
    former.retain(|name| !wanted.contains(name));
    former
}

/// The first so many ports in a row of which all are free.
fn run_of(
    range: RangeInclusive<u16>,
    count: usize,
    free: impl Fn(u16) -> bool,
) -> Option<RangeInclusive<u16>> {
    let mut start = *range.start();
    for port in range {
        if !free(port) {
            start = port.checked_add(1)?;
        } else if usize::from(port - start) + 1 >= count {
            return Some(start..=port);
        }
    }
    None
}

/// An address that nodes may have: not of the loopback, which Kubernetes refuses. The
/// API server, which is on this machine, too, reaches each.
fn own_address() -> Result<Option<IpAddr>, Failure> {
    let interfaces = LinuxHost::new(PathBuf::from("/")).interfaces()?;
    let up = interfaces
        .iter()
        .filter(|interface| interface.up && !interface.loopback);
    let addresses = up.flat_map(|interface| &interface.addresses);
    let mut usable: Vec<IpAddr> = addresses.copied().filter(is_usable).collect();
    usable.sort_by_key(IpAddr::is_ipv6);
    Ok(usable.first().copied())
}

fn is_usable(address: &IpAddr) -> bool {
    let link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !address.is_loopback() && !address.is_unspecified() && !address.is_multicast() && !link_local
}

/// Starts the node of this machine, as `ferrolet kubelet` with these flags would.
pub(super) fn run(
    name: &str,
    endpoint: &str,
    place: &Place,
    log: kubelet::Log,
    tasks: &mut Tasks,
    ending: &CancellationToken,
) -> Result<(), Failure> {
    place::directory(&place.of_node(name))?;
    let file = place::node_config_in(place.root(), name);
    place.put(&file, &format!("{:#}\n", configuration(endpoint, place)))?;
    let flags = place::machine_flags(place.root(), name);
    let line = CommandLine::parse(&flags).map_err(Failure::usage)?;
    let here = working_directory();
    let loaded = resolve(&line, &here)?;
    judge(&line, &loaded, Some(kubelet::machine(&line)))?;
    let config = configure(&line, &loaded, &here, log)?;
    apply_limits(&loaded.settings);
    let seams = seams(&loaded.settings)?;
    let ending = ending.clone();
    tasks.spawn("the node", async move {
        // How it fares is seen at the API server, like everything else.
        let (started, _) = oneshot::channel();
        let ran = Box::pin(agent::run(config, seams, started, ending)).await;
        ran.map_err(|error| error.to_string())
    });
    Ok(())
}

fn configuration(endpoint: &str, place: &Place) -> serde_json::Value {
    serde_json::json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": place.authority()},
        },
        "authorization": {"mode": "Webhook"},
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": endpoint,
        // A machine for trying things is taken as it is.
        "failCgroupV1": false,
        "failSwapOn": false,
        "healthzPort": 0,
        "port": PORT,
        "rotateCertificates": true,
    })
}

/// Whether the port of this machine's node is free.
pub(super) fn refuse_taken_port() -> Result<(), Failure> {
    let address = SocketAddr::from(([0, 0, 0, 0], PORT));
    match TcpListener::bind(address) {
        Ok(_) => Ok(()),
        Err(cause) => Err(Failure::Failed(format!(
            "the node's port {PORT} cannot be had: {cause}; a kubelet may run here: choose \
             --runtime sim, or end it and its pods, which run on without it and which this \
             node would end"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use kube::api::PostParams;
    use serde_json::{from_value, json};

    use super::*;
    use crate::up::arguments::Arguments;
    use crate::up::cluster;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        up: Arguments,
    }

    #[tokio::test]
    async fn of_a_node_that_is_not_wanted_any_more_the_api_server_has_nothing() {
        let up = Command::try_parse_from(["up", "--ephemeral"]).unwrap().up;
        let place = Place::open(&up).unwrap();
        let server = cluster::serve(&up, &place).await.unwrap();
        let access = cluster::reach(&server, &place).unwrap();
        let mut tasks = Tasks::new();
        tasks.spawn("the API server", async move {
            server.run(CancellationToken::new()).await;
            Ok(())
        });
        let client = &access.client;
        let nodes: Api<Node> = Api::all(client.clone());
        let leases: Api<Lease> = Api::namespaced(client.clone(), HEARTBEATS);
        let drivers: Api<CSINode> = Api::all(client.clone());
        let post = PostParams::default();
        for name in ["sim-0", "sim-1", "sim-2", "other"] {
            let labels = match name {
                "other" => json!({}),
                _ => json!({ FLEET_LABEL: FLEET }),
            };
            let node = json!({"metadata": {"name": name, "labels": labels}});
            nodes
                .create(&post, &from_value(node).unwrap())
                .await
                .unwrap();
            // One that never came so far has neither.
            if name == "sim-2" {
                continue;
            }
            let lease = json!({"metadata": {"name": name}, "spec": {"holderIdentity": name}});
            leases
                .create(&post, &from_value(lease).unwrap())
                .await
                .unwrap();
            let driver = json!({"metadata": {"name": name}, "spec": {"drivers": []}});
            drivers
                .create(&post, &from_value(driver).unwrap())
                .await
                .unwrap();
        }
        for removed in [&["sim-1", "sim-2"][..], &[]] {
            assert_eq!(remove_former(client, 1).await.unwrap(), removed);
        }
        let all = ListParams::default();
        let names = [
            names(&nodes.list(&all).await.unwrap().items),
            names(&leases.list(&all).await.unwrap().items),
            names(&drivers.list(&all).await.unwrap().items),
        ];
        assert_eq!(names, [["other", "sim-0"]; 3]);
        access.close().await;
        place.leave().unwrap();
    }

    fn names<T: ResourceExt>(objects: &[T]) -> Vec<String> {
        let mut names: Vec<String> = objects.iter().map(ResourceExt::name_any).collect();
        names.sort();
        names
    }

    #[test]
    fn ports_are_taken_in_a_row_where_all_are_free() {
        let free = |port: u16| ![3, 4, 7].contains(&port);
        for (count, run) in [
            (1, Some(1..=1)),
            (2, Some(1..=2)),
            (3, Some(8..=10)),
            (4, None),
        ] {
            assert_eq!(run_of(1..=10, count, free), run, "{count}");
        }
        assert_eq!(run_of(65_535..=65_535, 1, |_| false), None);
    }

    #[test]
    fn of_fewer_nodes_the_last_are_former_ones() {
        let there = || ["sim-0", "sim-1", "sim-2"].map(str::to_owned).to_vec();
        for (simulated, wanted) in [
            (0, &["sim-0", "sim-1", "sim-2"][..]),
            (1, &["sim-1", "sim-2"]),
            (3, &[]),
            (9, &[]),
        ] {
            assert_eq!(former(there(), simulated), wanted, "{simulated}");
        }
    }

    #[test]
    fn nodes_have_no_address_of_the_loopback_or_of_a_link() {
        for (address, usable) in [
            ("127.0.0.1", false),
            ("169.254.1.1", false),
            ("fe80::1", false),
            ("10.0.0.1", true),
            ("fd00::1", true),
        ] {
            assert_eq!(is_usable(&address.parse().unwrap()), usable, "{address}");
        }
    }
}
