//! Whoever has seen a certificate may rely on it.

use anyhow::{Context, Result};
use tokio::runtime::Runtime;

use crate::control_plane::{ControlPlane, Swept, unique};
use crate::load::create_lease;
use crate::node::{LiveNode, heartbeats};

/// A race that is lost one time in three must not pass.
const NODES: usize = 20;

#[test]
fn the_first_request_after_the_first_certificate_is_made_as_the_node() -> Result<()> {
    let control_plane = ControlPlane::take()?;
    let lab = &control_plane.lab;
    let mut swept = Swept::new(lab);
    let runtime = Runtime::new()?;
    let _inside = runtime.enter();
    for number in 0..NODES {
        let name = format!("{}-{number}", unique("first"));
        let node = runtime.block_on(LiveNode::join(lab, &name))?;
        // On a connection of its own, so that it is made now.
        let heartbeat = heartbeats(&node.transport).client("default");
        let created = runtime.block_on(create_lease(heartbeat, &name));
        created.with_context(|| format!("node {} of {NODES}", number + 1))?;
        swept.later("lease", "kube-node-lease", &name);
        runtime.block_on(node.end())?;
    }
    Ok(())
}
