//! Two equal nodes: one with the upstream kubelet, and one to be compared.

use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};

use crate::lab::{Agent, Lab, Node, Runtime};

const READY: Duration = Duration::from_secs(60);

/// Who runs the second node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Second {
    Ferrolet,
    /// The upstream kubelet too: shows what upstream does not do twice alike.
    Upstream,
}

/// Both nodes, ready. They go when this value goes.
#[derive(Debug)]
pub struct Pair {
    pub(super) lab: Lab,
    pub(super) nodes: [Node; 2],
}

impl Pair {
    /// `name` is the beginning of the nodes' names.
    pub fn make(lab: &Lab, name: &str, second: Second) -> Result<Self> {
        let nodes = both(second, |letter, agent| {
            let node = lab.node(&format!("{name}-{letter}"), Runtime::Containerd2)?;
            node.start_health()?;
            node.start_agent(agent, "", &[])?;
            node.wait_ready(READY)?;
            Ok(node)
        })?;
        Ok(Self {
            lab: lab.clone(),
            nodes,
        })
    }

    /// Ends both nodes, with all that runs on them.
    pub fn remove(self) -> Result<()> {
        self.nodes.into_iter().try_for_each(Node::remove)
    }
}

/// Starts upstream's node and the second one at the same time, each under a letter of
/// its own.
pub(crate) fn both<T: Send>(
    second: Second,
    start: impl Fn(&str, Agent) -> Result<T> + Sync,
) -> Result<[T; 2]> {
    let (second, letter) = match second {
        Second::Ferrolet => (Agent::Ferrolet, "o"),
        Second::Upstream => (Agent::Upstream, "v"),
    };
    thread::scope(|scope| {
        let second = scope.spawn(|| start(letter, second));
        let first = start("u", Agent::Upstream);
        let second = second
            .join()
            .map_err(|_| anyhow!("a thread has panicked"))?;
        Ok([first?, second?])
    })
}
