//! A request's way through the API server: created, found again, waited for.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt;
use http::Request;
use kube::Client;
use kube::api::WatchEvent;
use seams::{Clock, timeout};
use serde_json::Value;
use thiserror::Error;

use crate::decide::health::Attempt;
use crate::request::{SigningRequest, Verdict};

const COLLECTION: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// A server that takes longer than this to answer a short question is away.
const ANSWER: Duration = Duration::from_secs(60);

/// The pause after a question that came to nothing, and the least time between
/// two watches: a server that ends each at once must not be stormed.
const PAUSE: Duration = Duration::from_secs(1);

/// How long one watch is asked to last, in seconds; then the request is looked
/// at anew.
const WATCH_SECONDS: u32 = 300;

/// How long it may last by our clock.
const WATCH_LIMIT: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 30);

/// A request that the API server keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submitted {
    pub name: String,
    pub uid: String,
}

/// Why the API server did not take a request, or did not tell of one.
#[derive(Debug, Error)]
pub enum CallError {
    /// Answered, with an HTTP error. `from_api` as in [`Attempt::Refused`].
    #[error("the API server refused with {status}: {message}")]
    Refused {
        status: u16,
        from_api: bool,
        message: String,
    },
    #[error("the API server did not answer: {cause}")]
    Unanswered { cause: String },
    #[error("the API server's answer makes no sense: {cause}")]
    Nonsense { cause: String },
}

impl CallError {
    /// What this tells of the server, if it happened while a request was created.
    pub fn attempt(&self) -> Attempt {
        match self {
            Self::Refused {
                status, from_api, ..
            } => Attempt::Refused {
                status: *status,
                from_api: *from_api,
            },
            Self::Unanswered { .. } | Self::Nonsense { .. } => Attempt::Unanswered,
        }
    }

    pub fn is(&self, code: u16) -> bool {
        matches!(self, Self::Refused { status, .. } if *status == code)
    }
}

/// As whom a request was made: what to do about a refusal depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requester {
    /// With the bootstrap kubeconfig.
    Bootstrap,
    /// With a valid certificate of the node.
    Node,
    /// With what the kubeconfig holds beside a certificate; perhaps nothing.
    Kubeconfig,
}

impl Requester {
    /// What an operator can do about a refusal; empty where nothing is known.
    pub fn remedy(self, error: &CallError) -> &'static str {
        let CallError::Refused { status, .. } = error else {
            return "";
        };
        match (self, status) {
            (Self::Bootstrap, 401) => {
                "; its token is not known or has run out: put a new one into the bootstrap kubeconfig, made with `kubeadm token create`"
            }
            (Self::Bootstrap, 403) => {
                "; let bootstrap tokens make requests: kubectl create clusterrolebinding kubelet-bootstrap --clusterrole=system:node-bootstrapper --group=system:bootstrappers"
            }
            (Self::Node, 401) => {
                "; it does not know this node's certificate: its client CA may have changed. Bootstrap again with a token from `kubeadm token create`"
            }
            (Self::Node, 403) => {
                "; the node's name must be the one in its certificate: see `ferrolet certs status`"
            }
            (Self::Kubeconfig, 401 | 403) => {
                "; there is no valid certificate and no bootstrap kubeconfig: give one with a token from `kubeadm token create` as --bootstrap-kubeconfig"
            }
            _ => "",
        }
    }
}

/// Why a request that was taken gave no certificate.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotIssued {
    #[error("CSR {csr} was denied{}", told(.reason, .message))]
    Denied {
        csr: String,
        reason: String,
        message: String,
    },
    #[error("the signer failed on CSR {csr}{}", told(.reason, .message))]
    Failed {
        csr: String,
        reason: String,
        message: String,
    },
    #[error("CSR {csr} was deleted while it was waited for")]
    Deleted { csr: String },
    #[error("CSR {csr} was replaced by another of the same name")]
    Replaced { csr: String },
    #[error(
        "CSR {csr} was not answered within {} minutes; approve it, or set up the approver: kubectl certificate approve {csr}",
        .after.as_secs() / 60
    )]
    TimedOut { csr: String, after: Duration },
}

fn told(reason: &str, message: &str) -> String {
    let words: Vec<&str> = [reason, message]
        .into_iter()
        .filter(|word| !word.is_empty())
        .collect();
    if words.is_empty() {
        return String::new();
    }
    format!(" ({})", words.join(": "))
}

/// Creates the request.
pub async fn submit(
    client: &Client,
    clock: &dyn Clock,
    request: &SigningRequest,
) -> Result<Submitted, CallError> {
    let body = request.object().to_string().into_bytes();
    let builder = Request::post(COLLECTION).header("content-type", "application/json");
    let object = call(client, clock, builder.body(body)).await?;
    submitted(&object)
}

/// The request of that name, whoever made it.
pub async fn get(client: &Client, clock: &dyn Clock, name: &str) -> Result<Value, CallError> {
    let request = Request::get(format!("{COLLECTION}/{name}")).body(Vec::new());
    call(client, clock, request).await
}

/// Waits until the request has its certificate (PEM), or will never have one.
/// `approved` is called once, when somebody has said yes and the signer has not
/// signed yet.
pub async fn wait(
    client: &Client,
    clock: &dyn Clock,
    csr: &Submitted,
    limit: Duration,
    approved: impl FnMut() + Send,
) -> Result<Vec<u8>, NotIssued> {
    let watched = observe(client, clock, csr, approved);
    timeout(clock, limit, watched).await.unwrap_or_else(|_| {
        Err(NotIssued::TimedOut {
            csr: csr.name.clone(),
            after: limit,
        })
    })
}

/// Looks, watches until the watch ends, and looks again.
async fn observe(
    client: &Client,
    clock: &dyn Clock,
    csr: &Submitted,
    mut approved: impl FnMut() + Send,
) -> Result<Vec<u8>, NotIssued> {
    let mut told_approved = false;
    let mut judge = |object: &Value| {
        let decided = decided(object, csr);
        if matches!(decided, Decided::NotYet { approved: true }) && !told_approved {
            told_approved = true;
            approved();
        }
        match decided {
            Decided::NotYet { .. } => None,
            Decided::Finally(outcome) => Some(outcome),
        }
    };
    loop {
        match list(client, clock, &csr.name).await {
            Ok(Listed {
                item: Some(item),
                version,
            }) => {
                if let Some(outcome) = judge(&item) {
                    return outcome;
                }
                // A server that takes a watch and then says nothing must not keep
                // us from looking again.
                let watched = watch(client, csr, &version, &mut judge);
                if let Ok(Some(outcome)) = timeout(clock, WATCH_LIMIT, watched).await {
                    return outcome;
                }
            }
            Ok(Listed { item: None, .. }) => {
                return Err(NotIssued::Deleted {
                    csr: csr.name.clone(),
                });
            }
            Err(error) => {
                tracing::debug!(csr = csr.name, err = %error, "cannot look at the certificate request, will try again");
            }
        }
        clock.sleep(PAUSE).await;
    }
}

/// Ends with an outcome, or with `None` when it is time to look again.
async fn watch(
    client: &Client,
    csr: &Submitted,
    version: &str,
    judge: &mut (impl FnMut(&Value) -> Option<Result<Vec<u8>, NotIssued>> + Send),
) -> Option<Result<Vec<u8>, NotIssued>> {
    let query = selector(&csr.name);
    let uri = format!(
        "{COLLECTION}?{query}&watch=true&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}"
    );
    let request = Request::get(uri).body(Vec::new()).ok()?;
    let events = client.request_events::<Value>(request).await.ok()?;
    let mut events = pin!(events);
    while let Ok(Some(event)) = events.try_next().await {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                if let Some(outcome) = judge(&object) {
                    return Some(outcome);
                }
            }
            WatchEvent::Deleted(_) => {
                return Some(Err(NotIssued::Deleted {
                    csr: csr.name.clone(),
                }));
            }
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(_) => return None,
        }
    }
    None
}

enum Decided {
    NotYet { approved: bool },
    Finally(Result<Vec<u8>, NotIssued>),
}

fn decided(object: &Value, submitted: &Submitted) -> Decided {
    let csr = submitted.name.clone();
    Decided::Finally(match Verdict::of(object, &submitted.uid) {
        Verdict::Waiting => return Decided::NotYet { approved: false },
        Verdict::Approved => return Decided::NotYet { approved: true },
        Verdict::Issued(pem) => Ok(pem),
        Verdict::Denied { reason, message } => Err(NotIssued::Denied {
            csr,
            reason,
            message,
        }),
        Verdict::Failed { reason, message } => Err(NotIssued::Failed {
            csr,
            reason,
            message,
        }),
        Verdict::Replaced => Err(NotIssued::Replaced { csr }),
    })
}

struct Listed {
    item: Option<Value>,
    version: String,
}

async fn list(client: &Client, clock: &dyn Clock, name: &str) -> Result<Listed, CallError> {
    let uri = format!("{COLLECTION}?{}", selector(name));
    let mut list = call(client, clock, Request::get(uri).body(Vec::new())).await?;
    let version = list.pointer("/metadata/resourceVersion");
    let version = version
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let items = list.get_mut("items").and_then(Value::as_array_mut);
    let items = items.ok_or_else(|| CallError::Nonsense {
        cause: "a list without items".to_owned(),
    })?;
    Ok(Listed {
        item: items.pop(),
        version,
    })
}

/// Names of requests need no escaping: the API server takes DNS names only.
fn selector(name: &str) -> String {
    format!("fieldSelector=metadata.name%3D{name}")
}

fn submitted(object: &Value) -> Result<Submitted, CallError> {
    let text = |field: &str| {
        let value = object.pointer(field).and_then(Value::as_str);
        value.map(str::to_owned).ok_or_else(|| CallError::Nonsense {
            cause: format!("a certificate signing request without {field}"),
        })
    };
    Ok(Submitted {
        name: text("/metadata/name")?,
        uid: text("/metadata/uid")?,
    })
}

async fn call(
    client: &Client,
    clock: &dyn Clock,
    request: Result<Request<Vec<u8>>, http::Error>,
) -> Result<Value, CallError> {
    let request = request.map_err(|cause| CallError::Nonsense {
        cause: cause.to_string(),
    })?;
    answered(clock, client.request::<Value>(request)).await
}

async fn answered<T>(
    clock: &dyn Clock,
    answer: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, CallError> {
    match timeout(clock, ANSWER, answer).await {
        Ok(answer) => answer.map_err(call_error),
        Err(_) => Err(CallError::Unanswered {
            cause: format!("nothing within {} seconds", ANSWER.as_secs()),
        }),
    }
}

fn call_error(error: kube::Error) -> CallError {
    match error {
        kube::Error::Api(status) => CallError::Refused {
            status: status.code,
            // kube's own words for a body that is none of the API's.
            from_api: status.reason != "Failed to parse error data",
            message: status.message,
        },
        kube::Error::SerdeError(cause) => CallError::Nonsense {
            cause: cause.to_string(),
        },
        other => CallError::Unanswered {
            cause: innermost(&other),
        },
    }
}

/// What the layers say, without the layers' own names.
fn innermost(error: &dyn fmt::Display) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("ServiceError: ").unwrap_or(&text);
    text.to_owned()
}
