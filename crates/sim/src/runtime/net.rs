//! The network to the simulated pods: who listens where.

use std::io;
use std::net::{IpAddr, SocketAddr};

use seams::Net;
use seams::net::{Connection, Destination, DialError, Dialing};
use serde::Deserialize;

use super::Runtime;
use super::container::Container;
use super::moment::Moment;
use super::sandbox::Sandbox;
use super::state::State;
use super::streams;
use crate::faults::RuntimeFault;
use crate::net::{Conversation, Manner};

/// Where the node writes down which ports a container has.
const PORTS: &str = "io.kubernetes.container.ports";

#[derive(Deserialize)]
struct Port {
    #[serde(rename = "containerPort")]
    number: u16,
}

/// The pods of this runtime are all that can be reached, and its own streaming server.
impl Net for Runtime {
    fn dial<'a>(&'a self, to: Destination<'a>) -> Dialing<'a> {
        Box::pin(async move {
            let Ok(ip) = to.host.parse::<IpAddr>() else {
                return Err(DialError::Lookup {
                    host: to.host.to_owned(),
                    cause: io::Error::new(io::ErrorKind::NotFound, "no such host"),
                });
            };
            let address = SocketAddr::new(ip, to.port);
            if address == streams::IN_MEMORY {
                return self
                    .streams()
                    .map_err(|cause| DialError::Connect { address, cause });
            }
            let (state, now) = self.core.look();
            match listener(&state, ip, to.port, now) {
                Some(manner) => Ok(Box::new(Conversation::new(manner)) as _),
                None => Err(DialError::Connect {
                    address,
                    cause: io::ErrorKind::ConnectionRefused.into(),
                }),
            }
        })
    }
}

impl Runtime {
    /// To its streaming server, which goes down with it.
    fn streams(&self) -> io::Result<Box<dyn Connection>> {
        if self.core.faults.borrow().runtime == RuntimeFault::Down {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        Ok(streams::connect(&self.core))
    }
}

/// How the program at that address and port answers; `None`: nobody listens. That is
/// the container that has the port; in a pod of which none says so, any.
fn listener(state: &State, ip: IpAddr, port: u16, now: Moment) -> Option<Manner> {
    let ready = || state.sandboxes().filter(|sandbox| sandbox.is_ready());
    let own = ready().find(|sandbox| sandbox.addresses().contains(&ip));
    // An address that is no pod's is taken for the node's own.
    let fits = |sandbox: &&Sandbox| match own {
        Some(own) => sandbox.id == own.id,
        None => sandbox.in_host_network(),
    };
    let sandboxes: Vec<&str> = ready().filter(fits).map(|sandbox| &*sandbox.id).collect();
    answers(state, &sandboxes, port, own.is_some(), now)
}

/// The same, for whoever is in the network of a pod.
pub(super) fn listener_in(state: &State, sandbox: &str, port: u16, now: Moment) -> Option<Manner> {
    let sandbox = state.sandbox(sandbox).ok()?;
    let own = !sandbox.in_host_network();
    answers(state, &[&sandbox.id], port, own, now)
}

/// How a program of those pods answers that has the port; where all are of one network, any
/// may have one of which it does not tell.
fn answers(
    state: &State,
    sandboxes: &[&str],
    port: u16,
    one_network: bool,
    now: Moment,
) -> Option<Manner> {
    let running = sandboxes
        .iter()
        .flat_map(|sandbox| state.containers_of(sandbox))
        .filter(|container| container.is_running());
    let running: Vec<&Container> = running.collect();
    let listens = |container: &Container| {
        let ran = container.ran(now)?;
        container.story.listens(ran)
    };
    let with_port = running.iter().find(|one| has_port(one, port));
    match with_port {
        Some(container) => listens(container),
        None if one_network => running.into_iter().find_map(listens),
        None => None,
    }
}

fn has_port(container: &Container, port: u16) -> bool {
    let ports = container.made_of.annotations.get(PORTS);
    let ports: Option<Vec<Port>> = ports.and_then(|text| serde_json::from_str(text).ok());
    ports.into_iter().flatten().any(|one| one.number == port)
}
