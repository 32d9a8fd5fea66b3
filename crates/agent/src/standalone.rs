//! A node that no API server knows of: what is left of it.

use std::sync::Arc;

use node::readiness::Ailments;
use node::{Preview, RuntimeFacts, RuntimeWatch};
use tokio::sync::watch;
use tracing::info;

use crate::node::reports;
use crate::parts::Parts;
use crate::pods::{self, OfNode, PodsConfig};
use crate::serving::{ServingSource, StartServingError};
use crate::{AgentError, Seams};

/// Starts what needs no API server.
pub(crate) fn start(
    pod_cidr: Option<String>,
    node: node::Config,
    serving: Option<ServingSource>,
    pods: PodsConfig,
    seams: &Seams,
    parts: &mut Parts,
) -> Result<(), AgentError> {
    if matches!(serving, Some(ServingSource::Signer { .. })) {
        return Err(StartServingError::NoSigner.into());
    }
    info!("standalone: without --kubeconfig this node speaks with no API server");
    if let Some(serving) = serving {
        serving.start(None, seams, parts)?;
    }
    let (facts, runtime_facts) = watch::channel(RuntimeFacts::default());
    let runtime = RuntimeWatch {
        runtime: seams.runtime.clone(),
        clock: seams.options.clock.clone(),
        facts,
        pod_cidrs: watch::channel(pod_cidr).1,
    };
    parts.start("runtime", |ending| runtime.run(ending));
    let (ailments, ailing) = watch::channel(Ailments::default());
    let of_node = OfNode {
        name: node.identity.node_name.clone(),
        runtime: runtime_facts.clone(),
        preview: Arc::new(Preview::new(
            node,
            seams.host.clone(),
            seams.options.clock.clone(),
            reports(runtime_facts, ailing),
        )),
        ailments,
    };
    pods::start(pods, &of_node, None, seams, parts)
}
