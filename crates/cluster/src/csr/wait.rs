//! Waiting until a request is signed, or until it is clear that it will not be.

use std::time::Duration;

use identity::request::Verdict;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::{Api, Client};
use seams::Clock;
use thiserror::Error;

use crate::call::{CallError, CallProblem};

/// How long between two looks.
pub const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Why no certificate came.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WaitError {
    #[error("{name} was denied ({reason}: {message}); ask whoever denied it")]
    Denied {
        name: String,
        reason: String,
        message: String,
    },
    #[error(
        "{name} could not be signed ({reason}: {message}); correct the request and make a new one"
    )]
    Failed {
        name: String,
        reason: String,
        message: String,
    },
    #[error("{0} is gone or another request has taken its name; make a new one")]
    Gone(String),
    #[error(
        "{0} is still waiting for approval: `ferrolet csr approve {0}` (or `kubectl certificate approve {0}`); `ferrolet csr show {0}` says why nobody did it"
    )]
    NotApproved(String),
    #[error(
        "{0} is approved and still not signed; check that its signer runs (for kubernetes.io signers: the controller manager with --cluster-signing-cert-file)"
    )]
    NotSigned(String),
    #[error(transparent)]
    Call(CallError),
}

/// Waits for the certificate (PEM) of the request `name` with `uid`. `on_wait`
/// hears when it turns out that there is a wait, and when the request is approved.
pub async fn wait(
    client: &Client,
    (name, uid): (&str, &str),
    clock: &dyn Clock,
    limit: Duration,
    mut on_wait: impl FnMut(&Verdict),
) -> Result<Vec<u8>, WaitError> {
    let requests: Api<CertificateSigningRequest> = Api::all(client.clone());
    let end = clock.uptime().saturating_add(limit);
    let mut told = None;
    loop {
        let left = end.saturating_sub(clock.uptime());
        let verdict = match seams::timeout(clock, left, look(&requests, name, uid)).await {
            Ok(Ok(verdict)) => verdict,
            // The API server may come back; the limit tells if it does not.
            Ok(Err(WaitError::Call(error))) if may_pass(&error, left) => {
                clock.sleep(POLL_INTERVAL).await;
                continue;
            }
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(late(told.as_ref(), name)),
        };
        let verdict = match settle(verdict, name) {
            Ok(Settled::Issued(certificate)) => return Ok(certificate),
            Ok(Settled::Open(verdict)) => verdict,
            Err(error) => return Err(error),
        };
        if told.as_ref() != Some(&verdict) {
            on_wait(&verdict);
        }
        told = Some(verdict);
        if left <= POLL_INTERVAL {
            return Err(late(told.as_ref(), name));
        }
        clock.sleep(POLL_INTERVAL).await;
    }
}

fn may_pass(error: &CallError, left: Duration) -> bool {
    let passing = matches!(
        error.problem,
        CallProblem::Unreachable(_) | CallProblem::Rejected(_)
    );
    passing && left > POLL_INTERVAL
}

enum Settled {
    Issued(Vec<u8>),
    Open(Verdict),
}

fn settle(verdict: Verdict, name: &str) -> Result<Settled, WaitError> {
    let name = name.to_owned();
    match verdict {
        Verdict::Issued(certificate) => Ok(Settled::Issued(certificate)),
        Verdict::Waiting | Verdict::Approved => Ok(Settled::Open(verdict)),
        Verdict::Denied { reason, message } => Err(WaitError::Denied {
            name,
            reason,
            message,
        }),
        Verdict::Failed { reason, message } => Err(WaitError::Failed {
            name,
            reason,
            message,
        }),
        Verdict::Replaced => Err(WaitError::Gone(name)),
    }
}

fn late(told: Option<&Verdict>, name: &str) -> WaitError {
    match told {
        Some(Verdict::Approved) => WaitError::NotSigned(name.to_owned()),
        _ => WaitError::NotApproved(name.to_owned()),
    }
}

async fn look(
    requests: &Api<CertificateSigningRequest>,
    name: &str,
    uid: &str,
) -> Result<Verdict, WaitError> {
    let found = requests.get(name).await.map_err(|cause| {
        let error = CallError::new("read", format!("the request {name}"), &cause);
        match error.problem {
            CallProblem::NotFound => WaitError::Gone(name.to_owned()),
            _ => WaitError::Call(error),
        }
    })?;
    // An object that was just read can be written as JSON.
    let found = serde_json::to_value(found).unwrap_or_default();
    Ok(Verdict::of(&found, uid))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use testkit::clock::TokioClock;

    use super::*;
    use crate::csr::testdata::{first_client, with_condition};
    use crate::testing::{FakeApi, at};

    const PATH: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests/csr-tbj64";
    const LIMIT: Duration = Duration::from_secs(60);

    async fn waited(api: &FakeApi, on_wait: impl FnMut(&Verdict)) -> Result<Vec<u8>, WaitError> {
        let clock = TokioClock::starting_at(at("2026-11-15T06:00:00Z"));
        let outcome = wait(&api.client(), ("csr-tbj64", "u1"), &clock, LIMIT, on_wait).await;
        assert!(clock.uptime() <= LIMIT);
        outcome
    }

    fn holding(csr: &CertificateSigningRequest) -> FakeApi {
        let api = FakeApi::new();
        api.put(PATH, serde_json::to_value(csr).unwrap());
        api
    }

    fn issued() -> Value {
        let approved = with_condition(first_client(), "Approved");
        let mut object = serde_json::to_value(approved).unwrap();
        object["status"]["certificate"] = json!("UEVN");
        object
    }

    #[tokio::test(start_paused = true)]
    async fn the_certificate_is_handed_over_as_soon_as_it_is_there() {
        let api = holding(&first_client());
        let mut heard = Vec::new();
        let approved = with_condition(first_client(), "Approved");
        let outcome = waited(&api, |verdict| {
            heard.push(verdict.clone());
            // The world moves on by one step whenever the wait is told of.
            let next = match verdict {
                Verdict::Waiting => serde_json::to_value(&approved).unwrap(),
                _ => issued(),
            };
            api.put(PATH, next);
        })
        .await;
        assert_eq!(outcome, Ok(b"PEM".to_vec()));
        assert_eq!(heard, [Verdict::Waiting, Verdict::Approved]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_missing_when_the_time_is_up_is_told() {
        let mut heard = Vec::new();
        let outcome = waited(&holding(&first_client()), |verdict| {
            heard.push(verdict.clone());
        })
        .await;
        assert_eq!(heard, [Verdict::Waiting], "told once");
        let error = outcome.unwrap_err();
        assert_eq!(error, WaitError::NotApproved("csr-tbj64".to_owned()));
        assert!(error.to_string().contains("ferrolet csr approve csr-tbj64"));
        let approved = with_condition(first_client(), "Approved");
        let outcome = waited(&holding(&approved), |_| {}).await;
        assert_eq!(outcome, Err(WaitError::NotSigned("csr-tbj64".to_owned())));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_will_never_be_signed_is_not_waited_for() {
        let denied = with_condition(first_client(), "Denied");
        let outcome = waited(&holding(&denied), |_| {}).await;
        assert!(matches!(outcome, Err(WaitError::Denied { .. })));
        let failed = with_condition(first_client(), "Failed");
        let outcome = waited(&holding(&failed), |_| {}).await;
        assert!(matches!(outcome, Err(WaitError::Failed { .. })));
        let gone = Err(WaitError::Gone("csr-tbj64".to_owned()));
        assert_eq!(waited(&FakeApi::new(), |_| {}).await, gone);
        let mut other = first_client();
        other.metadata.uid = Some("u2".to_owned());
        assert_eq!(waited(&holding(&other), |_| {}).await, gone);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_without_permission_is_told_at_once() {
        let api = holding(&first_client());
        api.forbid(PATH);
        let outcome = waited(&api, |_| {}).await;
        assert!(matches!(outcome, Err(WaitError::Call(_))), "{outcome:?}");
        assert_eq!(api.requests().len(), 1);
    }
}
