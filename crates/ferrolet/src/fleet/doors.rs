//! The ports of a fleet's nodes: where they are, and who is let in.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::gates::FeatureGates;
use config::settings::Settings;
use fleet::Doors;
use linux::process::raise_open_files;
use server::{DoorConfig, Process};
use tokio::net::{UdpSocket, lookup_host};

use super::arguments::{Arguments, Ports};
use crate::cluster_access::ClusterAccess;
use crate::kubelet::{say, working_directory};
use crate::output::Failure;
use crate::profiler::profiler;
use crate::version;

/// Where each node finds the CA of clients on its machine: kubeadm's place.
pub(crate) const AUTHORITY: &str = "/etc/kubernetes/pki/ca.crt";

/// Files that a fleet has open beside the ports of its nodes.
const OTHER_FILES: u64 = 500;

/// What the nodes' ports have in common; `None`: they have none.
pub(super) async fn open(
    arguments: &Arguments,
    access: &ClusterAccess,
    (settings, gates): (&Settings, &FeatureGates),
    nodes: usize,
) -> Result<Option<Doors>, Failure> {
    let Ports::Range(ports) = &arguments.node_ports else {
        return Ok(None);
    };
    let config = DoorConfig::from_settings(settings, gates, &working_directory(), process());
    let Some(mut config) = config.map_err(Failure::usage)? else {
        return Ok(None);
    };
    let address = match arguments.node_address {
        Some(address) => address,
        None => match own_address(access).await? {
            address if address.is_loopback() => {
                say(&format!(
                    "the API server is reached over this machine's loopback ({address}), where it \
                     would not find the nodes: they have no ports; give --node-address to open them"
                ));
                return Ok(None);
            }
            address => address,
        },
    };
    if ports.len() < nodes {
        return Err(Failure::usage(format!(
            "--node-ports: {nodes} nodes need as many ports, and there are {} from {} to {}: widen \
             the range, or give none",
            ports.len(),
            ports.start(),
            ports.end(),
        )));
    }
    enough_files(nodes)?;
    let authority = authority(config.authentication.client_ca_file.as_deref(), access)?;
    config.authentication.client_ca_file = authority.as_ref().map(|_| PathBuf::from(AUTHORITY));
    let files = authority.map(|authority| (PathBuf::from(AUTHORITY), authority));
    Ok(Some(Doors {
        config,
        address,
        ports: ports.clone(),
        files: Arc::new(files.into_iter().collect::<BTreeMap<_, _>>()),
    }))
}

/// Each port is an open file, and so is each connection.
fn enough_files(nodes: usize) -> Result<(), Failure> {
    let needed = u64::try_from(nodes).unwrap_or(u64::MAX) + OTHER_FILES;
    let allowed = raise_open_files().map_err(|error| Failure::Failed(error.to_string()))?;
    if allowed < needed {
        return Err(Failure::Failed(format!(
            "{nodes} nodes with a port each have about {needed} files open, and this process may \
             have {allowed}: raise the limit (ulimit -n {needed}), or give --node-ports none"
        )));
    }
    Ok(())
}

/// Whose certificates count: those of the file that is configured, else those of the
/// cluster's own CA, as on a node that was joined.
fn authority(
    configured: Option<&Path>,
    access: &ClusterAccess,
) -> Result<Option<Vec<u8>>, Failure> {
    let Some(path) = configured else {
        return Ok(access.authority()?.map(String::into_bytes));
    };
    let read = std::fs::read(path);
    let read = read.map_err(|error| {
        Failure::Failed(format!(
            "clientCAFile {}: {error}; correct it in the file that --kubelet-config names",
            path.display()
        ))
    })?;
    Ok(Some(read))
}

/// The address that this machine has on its way to the API server.
async fn own_address(access: &ClusterAccess) -> Result<IpAddr, Failure> {
    let server = &access.config.server;
    let unknown = |cause: &dyn std::fmt::Display| {
        Failure::Failed(format!(
            "the way to {} cannot be found: {cause}; give the nodes' address with --node-address, \
             or --node-ports none",
            server.text
        ))
    };
    let host = server.uri.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = server.uri.port_u16().unwrap_or(443);
    let found = lookup_host((host, port)).await;
    let mut found = found.map_err(|cause| unknown(&cause))?;
    let server: SocketAddr = found.next().ok_or_else(|| unknown(&"it has no address"))?;
    let any: IpAddr = match server {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    // Nothing is sent: the kernel chooses the way, and with it our end.
    let own = async {
        let socket = UdpSocket::bind((any, 0)).await?;
        socket.connect(server).await?;
        socket.local_addr()
    };
    own.await
        .map(|own| own.ip().to_canonical())
        .map_err(|cause| unknown(&cause))
}

/// What the nodes' ports tell of this process. It is none of theirs alone: how much it logs
/// is not for one of them to say.
pub(crate) fn process() -> Process {
    Process {
        version: version::kubelet(),
        command: std::env::args().collect(),
        flags: Arc::new(BTreeMap::new),
        set_verbosity: Arc::new(|_| {}),
        log: Arc::new(|| Ok(())),
        profiler: profiler(),
    }
}
