//! Approving and denying. The conditions of others stay as they are.

use std::time::SystemTime;

use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::PostParams;
use kube::{Api, Client};
use thiserror::Error;

use super::describe::{Approval, Condition};
use crate::call::{CallError, CallProblem};

/// How often a decision is written again when somebody else was quicker.
const ATTEMPTS: usize = 5;

/// What is decided, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub word: Word,
    /// One word for machines, such as `FerroletApprove`.
    pub reason: String,
    /// A sentence for people.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    Approve,
    Deny,
}

impl Word {
    fn condition(self) -> &'static str {
        match self {
            Self::Approve => "Approved",
            Self::Deny => "Denied",
        }
    }
}

/// What a decision came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decided {
    Now,
    /// Somebody has decided the same before.
    Before,
}

/// Why nothing was decided.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecideError {
    #[error(
        "{name} has been denied ({reason}: {message}), which cannot be taken back; let a new request be made"
    )]
    Denied {
        name: String,
        reason: String,
        message: String,
    },
    #[error(
        "{name} has been approved ({reason}: {message}), which cannot be taken back; where its certificate must not be used, remove what its user may"
    )]
    Approved {
        name: String,
        reason: String,
        message: String,
    },
    #[error(
        "there is no request {0}; `ferrolet csr list` shows those that there are (they are cleared away after an hour or a day)"
    )]
    Missing(String),
    #[error(transparent)]
    Call(CallError),
}

impl Decision {
    pub fn approve() -> Self {
        Self {
            word: Word::Approve,
            reason: "FerroletApprove".to_owned(),
            message: "Approved by ferrolet csr approve.".to_owned(),
        }
    }

    pub fn deny() -> Self {
        Self {
            word: Word::Deny,
            reason: "FerroletDeny".to_owned(),
            message: "Denied by ferrolet csr deny.".to_owned(),
        }
    }
}

/// The object with the decision added; `None` where it has it already.
pub fn with_decision(
    csr: &CertificateSigningRequest,
    decision: &Decision,
    now: SystemTime,
) -> Result<Option<CertificateSigningRequest>, DecideError> {
    let name = csr.metadata.name.clone().unwrap_or_default();
    match (decision.word, Condition::of(csr).approval) {
        (Word::Approve, Approval::Approved { .. }) | (Word::Deny, Approval::Denied { .. }) => {
            return Ok(None);
        }
        (Word::Approve, Approval::Denied { reason, message }) => {
            return Err(DecideError::Denied {
                name,
                reason,
                message,
            });
        }
        (Word::Deny, Approval::Approved { reason, message }) => {
            return Err(DecideError::Approved {
                name,
                reason,
                message,
            });
        }
        (_, Approval::Pending) => {}
    }
    // A clock outside the calendar leaves the time to the API server.
    let time = Timestamp::try_from(now).ok();
    let time = time.and_then(|time| Timestamp::from_second(time.as_second()).ok());
    let mut decided = csr.clone();
    let status = decided.status.get_or_insert_default();
    status
        .conditions
        .get_or_insert_default()
        .push(CertificateSigningRequestCondition {
            type_: decision.word.condition().to_owned(),
            status: "True".to_owned(),
            reason: Some(decision.reason.clone()),
            message: Some(decision.message.clone()),
            last_update_time: time.map(Time),
            last_transition_time: None,
        });
    Ok(Some(decided))
}

/// Decides about the request as it stands. If `still` is given, it must still be
/// the one with that uid: what was looked at is what is decided.
pub async fn decide(
    client: &Client,
    name: &str,
    still: Option<&str>,
    decision: &Decision,
    now: SystemTime,
) -> Result<Decided, DecideError> {
    let requests: Api<CertificateSigningRequest> = Api::all(client.clone());
    let mut attempt = 1;
    loop {
        let found = requests.get(name).await;
        let found = found.map_err(|cause| refusal("read", name, &cause))?;
        if still.is_some() && still != found.metadata.uid.as_deref() {
            return Err(DecideError::Missing(name.to_owned()));
        }
        let Some(decided) = with_decision(&found, decision, now)? else {
            return Ok(Decided::Before);
        };
        let written = requests
            .replace_subresource("approval", name, &PostParams::default(), &decided)
            .await;
        let Err(cause) = written else {
            return Ok(Decided::Now);
        };
        let error = refusal("decide about", name, &cause);
        let conflict =
            matches!(&error, DecideError::Call(call) if call.problem == CallProblem::Conflict);
        if !conflict || attempt == ATTEMPTS {
            return Err(error);
        }
        attempt += 1;
    }
}

fn refusal(verb: &'static str, name: &str, cause: &kube::Error) -> DecideError {
    let error = CallError::new(verb, format!("the request {name}"), cause);
    if error.problem == CallProblem::NotFound {
        return DecideError::Missing(name.to_owned());
    }
    DecideError::Call(error)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::csr::testdata::{condition, first_client, with_condition};
    use crate::testing::{FakeApi, at};

    const PATH: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests/csr-tbj64";

    fn now() -> SystemTime {
        at("2026-11-15T06:10:00Z")
    }

    #[test]
    fn a_decision_is_added_and_the_conditions_of_others_stay() {
        let noted = with_condition(first_client(), "Noted");
        let decided = with_decision(&noted, &Decision::approve(), now())
            .unwrap()
            .unwrap();
        let conditions = decided.status.unwrap().conditions.unwrap();
        assert_eq!(conditions[0], condition("Noted"));
        assert_eq!(
            serde_json::to_value(&conditions[1]).unwrap(),
            json!({
                "type": "Approved",
                "status": "True",
                "reason": "FerroletApprove",
                "message": "Approved by ferrolet csr approve.",
                "lastUpdateTime": "2026-11-15T06:10:00Z",
            })
        );
        assert_eq!(decided.spec, noted.spec);
    }

    #[test]
    fn the_same_decision_is_not_made_twice_and_the_other_one_not_at_all() {
        let approved = with_condition(first_client(), "Approved");
        let denied = with_condition(first_client(), "Denied");
        let (approve, deny) = (Decision::approve(), Decision::deny());
        assert_eq!(with_decision(&approved, &approve, now()), Ok(None));
        assert_eq!(with_decision(&denied, &deny, now()), Ok(None));
        assert!(matches!(
            with_decision(&denied, &approve, now()),
            Err(DecideError::Denied { .. })
        ));
        assert!(matches!(
            with_decision(&approved, &deny, now()),
            Err(DecideError::Approved { .. })
        ));
    }

    #[tokio::test]
    async fn a_decision_is_written_to_the_approval_of_the_request() {
        let api = FakeApi::new();
        api.put(PATH, serde_json::to_value(first_client()).unwrap());
        let client = api.client();
        let approve = Decision::approve();
        let outcome = decide(&client, "csr-tbj64", Some("u1"), &approve, now()).await;
        assert_eq!(outcome, Ok(Decided::Now));
        let put = format!("PUT {PATH}/approval?");
        assert!(api.requests().contains(&put), "{:?}", api.requests());
        assert_eq!(
            api.get(PATH).unwrap()["status"]["conditions"][0]["type"],
            "Approved"
        );
        let again = decide(&client, "csr-tbj64", None, &approve, now()).await;
        assert_eq!(again, Ok(Decided::Before));
    }

    #[tokio::test]
    async fn a_decision_is_written_again_when_somebody_else_was_quicker() {
        let api = FakeApi::new();
        api.put(PATH, serde_json::to_value(first_client()).unwrap());
        api.conflict(ATTEMPTS - 1);
        let client = api.client();
        let (approve, name) = (Decision::approve(), "csr-tbj64");
        let outcome = decide(&client, name, None, &approve, now()).await;
        assert_eq!(outcome, Ok(Decided::Now));
        api.put(PATH, serde_json::to_value(first_client()).unwrap());
        api.conflict(ATTEMPTS);
        let outcome = decide(&client, name, None, &approve, now()).await;
        assert!(matches!(outcome, Err(DecideError::Call(_))), "{outcome:?}");
    }

    #[tokio::test]
    async fn a_request_that_is_gone_or_was_replaced_is_not_decided() {
        let api = FakeApi::new();
        let client = api.client();
        let missing = Err(DecideError::Missing("csr-tbj64".to_owned()));
        let approve = Decision::approve();
        let outcome = decide(&client, "csr-tbj64", None, &approve, now()).await;
        assert_eq!(outcome, missing);
        api.put(PATH, serde_json::to_value(first_client()).unwrap());
        let outcome = decide(&client, "csr-tbj64", Some("u0"), &approve, now()).await;
        assert_eq!(outcome, missing);
        assert!(api.get(PATH).unwrap().get("status").is_none());
    }
}
