//! A node that no API server knows of: what is left of it.

use std::sync::Arc;

use node::readiness::Ailments;
use node::{Preview, RuntimeFacts, RuntimeWatch};
use server::DoorConfig;
use tokio::sync::watch;
use tracing::info;

use crate::door;
use crate::node::reports;
use crate::parts::Parts;
use crate::pods::{self, OfNode, PodsConfig};
use crate::serving::{ServingSource, StartServingError};
use crate::{AgentError, Seams};

/// Starts what needs no API server.
pub(crate) fn start(
    pod_cidr: Option<String>,
    node: node::Config,
    (serving, door): (Option<ServingSource>, Option<DoorConfig>),
    pods: PodsConfig,
    seams: &Seams,
    parts: &mut Parts,
) -> Result<(), AgentError> {
    if matches!(serving, Some(ServingSource::Signer { .. })) {
        return Err(StartServingError::NoSigner.into());
    }
    info!("standalone: without --kubeconfig this node speaks with no API server");
    let serving = serving.map(|serving| serving.start(None, seams, parts));
    let serving = serving.transpose()?;
    let (facts, runtime_facts) = watch::channel(RuntimeFacts::default());
    let runtime = RuntimeWatch {
        runtime: seams.runtime.clone(),
        clock: seams.options.clock.clone(),
        facts,
        pod_cidrs: watch::channel(pod_cidr).1,
    };
    parts.start("runtime", |ending| runtime.run(ending));
    let (in_use, volumes_in_use) = watch::channel(None);
    let (ailments, ailing) = watch::channel(Ailments::default());
    let name = node.identity.node_name.clone();
    let of_node = OfNode {
        name: node.identity.node_name.clone(),
        runtime: runtime_facts.clone(),
        preview: Arc::new(Preview::new(
            node,
            seams.host.clone(),
            seams.options.clock.clone(),
            reports(runtime_facts, ailing, volumes_in_use),
        )),
        ailments,
        in_use,
    };
    let of_pods = pods::start(pods, &of_node, None, seams, parts)?;
    if let (Some(door), Some(serving)) = (door, serving) {
        let certificate = serving.certificate();
        door::start(door, name, (certificate, None), of_pods, seams, parts)?;
    }
    Ok(())
}
