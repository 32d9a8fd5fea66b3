//! Runs one node: an agent, unless its name is somebody else's.

use std::sync::Arc;
use std::time::Duration;

use agent::Running;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use tokio::sync::oneshot;
use tracing::warn;

use super::{Launch, Launched, Outcome, RosterError};
use crate::hollow::Common;
use crate::spec::FLEET_LABEL;

/// A node that failed is started again after this time, as service managers do.
const AGAIN: Duration = Duration::from_secs(10);

/// Nodes as agents of this process.
pub(super) fn agents(common: Common, client: Client) -> Launch {
    let common = Arc::new(common);
    Box::new(move |launched| {
        let (common, client) = (common.clone(), client.clone());
        Box::pin(async move {
            let clock = common.options.clock.clone();
            let Err(error) = Box::pin(run(&common, client, &launched)).await else {
                return Outcome::Ended;
            };
            let node = &launched.spec.name;
            warn!(node, err = %error, "the node has failed, and will be started again");
            let again = clock.sleep(AGAIN);
            launched.end.run_until_cancelled(again).await;
            match error {
                RosterError::Agent(error) if error.is_port_taken() => Outcome::PortTaken,
                _ => Outcome::Ended,
            }
        })
    })
}

async fn run(common: &Common, client: Client, launched: &Launched) -> Result<(), RosterError> {
    let Launched {
        spec,
        address,
        faults,
        member,
        left,
        end,
    } = launched;
    let looking = refuse_foreign(client, &spec.name, &spec.kind.labels[FLEET_LABEL]);
    match end.run_until_cancelled(looking).await {
        None => return Ok(()),
        Some(looked) => looked?,
    }
    let address = address.ok_or(RosterError::NoAddress)?;
    let (config, seams) = common.node(spec, address, faults.clone())?;
    let (tell, told) = oneshot::channel();
    let telling = async {
        if let Ok(Running { member: seen }) = told.await {
            member.send_replace(seen);
        }
    };
    let running = agent::run(config, seams, tell, end.clone());
    let (outcome, ()) = tokio::join!(running, telling);
    let member = member.send_replace(None);
    let renewed = member.and_then(|member| *member.lease_renewed.borrow());
    if renewed.is_some() {
        left.send_replace(renewed);
    }
    Ok(outcome?)
}

/// A node that somebody else has made is not taken over.
async fn refuse_foreign(client: Client, name: &str, fleet: &String) -> Result<(), RosterError> {
    let nodes: Api<Node> = Api::all(client);
    let Some(node) = nodes.get_metadata_opt(name).await? else {
        return Ok(());
    };
    let labels = node.metadata.labels.unwrap_or_default();
    if labels.get(FLEET_LABEL) == Some(fleet) {
        Ok(())
    } else {
        Err(RosterError::Foreign)
    }
}
