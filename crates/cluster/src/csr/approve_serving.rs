//! One round over the serving requests that wait: each is compared with the Node
//! that asks for it, and approved or left with the reasons. Whoever watches calls
//! it again whenever something may have changed.

use std::time::SystemTime;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client};

use super::NODE_SERVING_SIGNER;
use super::decide::{DecideError, Decision, Word, decide};
use super::describe::Condition;
use super::serving::{ServingRefusal, serving_approvable};
use crate::call::CallError;

/// A request and what became of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Reviewed {
    pub name: String,
    pub requester: String,
    pub outcome: ServingOutcome,
}

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum ServingOutcome {
    Approved,
    /// Left as it is, for a person to look at.
    Refused(Vec<ServingRefusal>),
    /// Its Node could not be read, or the approval not be written.
    Undecided(DecideError),
}

/// Reviews every request for a serving certificate that nobody has decided.
pub async fn approve_serving(client: &Client, now: SystemTime) -> Result<Vec<Reviewed>, CallError> {
    let requests: Api<CertificateSigningRequest> = Api::all(client.clone());
    let of_nodes = ListParams::default().fields(&format!("spec.signerName={NODE_SERVING_SIGNER}"));
    let found = requests.list(&of_nodes).await;
    let found =
        found.map_err(|cause| CallError::new("list", "CertificateSigningRequests", &cause))?;
    let mut reviewed = Vec::new();
    for csr in &found.items {
        let pending = Condition::of(csr).is_pending();
        if pending && csr.spec.signer_name == NODE_SERVING_SIGNER {
            reviewed.push(Reviewed {
                name: csr.metadata.name.clone().unwrap_or_default(),
                requester: csr.spec.username.clone().unwrap_or_default(),
                outcome: review(client, csr, now).await,
            });
        }
    }
    Ok(reviewed)
}

async fn review(
    client: &Client,
    csr: &CertificateSigningRequest,
    now: SystemTime,
) -> ServingOutcome {
    let Some(node_name) = ServingRefusal::node_of(csr) else {
        let requester = csr.spec.username.clone().unwrap_or_default();
        return ServingOutcome::Refused(vec![ServingRefusal::NotANode(requester)]);
    };
    let nodes: Api<Node> = Api::all(client.clone());
    let node = match nodes.get_opt(node_name).await {
        Ok(Some(node)) => node,
        Ok(None) => {
            let unknown = ServingRefusal::UnknownNode(node_name.to_owned());
            return ServingOutcome::Refused(vec![unknown]);
        }
        Err(cause) => {
            let error = CallError::new("read", format!("the Node {node_name}"), &cause);
            return ServingOutcome::Undecided(DecideError::Call(error));
        }
    };
    if let Err(refusals) = serving_approvable(csr, &node) {
        return ServingOutcome::Refused(refusals);
    }
    let decision = Decision {
        word: Word::Approve,
        reason: "FerroletServingApprove".to_owned(),
        message: format!("Every name in it is an address of the Node {node_name}."),
    };
    let name = csr.metadata.name.as_deref().unwrap_or_default();
    let uid = csr.metadata.uid.as_deref();
    match decide(client, name, uid, &decision, now).await {
        Ok(_) => ServingOutcome::Approved,
        Err(error) => ServingOutcome::Undecided(error),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::csr::testdata::{first_client, serving};
    use crate::testing::{FakeApi, at};

    const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

    fn api(address: &str) -> FakeApi {
        let api = FakeApi::new();
        for csr in [serving(), first_client()] {
            let path = format!("{REQUESTS}/{}", csr.metadata.name.clone().unwrap());
            api.put(&path, serde_json::to_value(csr).unwrap());
        }
        api.put(
            "/api/v1/nodes/up1",
            json!({
                "metadata": { "name": "up1" },
                "status": { "addresses": [
                    { "type": "Hostname", "address": "up1" },
                    { "type": "InternalIP", "address": address },
                ] },
            }),
        );
        api
    }

    async fn round(api: &FakeApi) -> Vec<Reviewed> {
        let now = at("2026-11-15T06:10:00Z");
        approve_serving(&api.client(), now).await.unwrap()
    }

    #[tokio::test]
    async fn a_nodes_own_request_is_approved_and_others_are_not_looked_at() {
        let api = api("192.0.2.21");
        let reviewed = round(&api).await;
        assert_eq!(reviewed.len(), 1, "{reviewed:?}");
        assert_eq!(reviewed[0].outcome, ServingOutcome::Approved);
        let stored = |name: &str| api.get(&format!("{REQUESTS}/{name}")).unwrap();
        assert_eq!(
            stored("csr-serving")["status"]["conditions"][0]["type"],
            "Approved"
        );
        assert!(stored("csr-tbj64").get("status").is_none());
        assert!(round(&api).await.is_empty(), "what is decided is done");
    }

    #[tokio::test]
    async fn a_request_for_a_foreign_address_is_left_with_its_reason() {
        let api = api("192.0.2.99");
        let reviewed = round(&api).await;
        let ServingOutcome::Refused(refusals) = &reviewed[0].outcome else {
            panic!("{reviewed:?}");
        };
        assert!(matches!(refusals[..], [ServingRefusal::ForeignName { .. }]));
        let stored = api.get(&format!("{REQUESTS}/csr-serving")).unwrap();
        assert!(stored.get("status").is_none());
    }

    #[tokio::test]
    async fn a_node_that_is_not_there_or_cannot_be_read_decides_nothing() {
        let api = FakeApi::new();
        let path = format!("{REQUESTS}/csr-serving");
        api.put(&path, serde_json::to_value(serving()).unwrap());
        let unknown = vec![ServingRefusal::UnknownNode("up1".to_owned())];
        assert_eq!(
            round(&api).await[0].outcome,
            ServingOutcome::Refused(unknown)
        );
        api.forbid("/api/v1/nodes");
        let reviewed = round(&api).await;
        assert!(matches!(
            reviewed[0].outcome,
            ServingOutcome::Undecided(DecideError::Call(_))
        ));
    }
}
