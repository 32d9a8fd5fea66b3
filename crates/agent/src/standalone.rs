//! A node that no API server knows of: what is left of it.

use node::{RuntimeFacts, RuntimeWatch};
use tokio::sync::watch;
use tracing::info;

use crate::parts::Parts;
use crate::serving::{ServingSource, StartServingError};
use crate::{AgentError, Seams};

/// Starts what needs no API server.
pub(crate) fn start(
    pod_cidr: Option<String>,
    serving: Option<ServingSource>,
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
    let (facts, _) = watch::channel(RuntimeFacts::default());
    let runtime = RuntimeWatch {
        runtime: seams.runtime.clone(),
        clock: seams.options.clock.clone(),
        facts,
        pod_cidrs: watch::channel(pod_cidr).1,
    };
    parts.start("runtime", |ending| runtime.run(ending));
    Ok(())
}
