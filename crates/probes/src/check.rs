//! One question to one container, in one of the four ways that there are, and what
//! came of it. What users read of it is upstream's text.

mod exec;
mod get;
mod grpc;
mod tcp;
#[cfg(test)]
mod tests;

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod, Probe};
use seams::{SharedClock, SharedNet, SharedRuntime};
use tokio_util::sync::CancellationToken;

use crate::view::limit;
use crate::web::Web;

/// How often one is asked that could not even be asked properly.
const ATTEMPTS: usize = 3;

/// A limit of ours that is noticed so much later than it was set says that we were slow,
/// and nothing of who was asked.
const NOTICED: Duration = Duration::from_millis(500);

/// What containers are asked over.
#[derive(Clone, Debug)]
pub struct Means {
    pub(crate) runtime: SharedRuntime,
    pub(crate) net: SharedNet,
    pub(crate) clock: SharedClock,
    pub(crate) web: Web,
}

/// Whom to ask.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub pod: &'a Pod,
    pub container: &'a Container,
    pub id: &'a str,
    /// Its pod's; empty: it has none.
    pub ip: &'a str,
    /// From then on no command runs in it.
    pub cut: &'a CancellationToken,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Success,
    /// It counts as well, and people are told.
    Warning(String),
    /// In words for people.
    Failure(String),
    /// Nobody could be asked, or was not understood: it counts as nothing.
    Errored {
        state: &'static str,
        cause: String,
    },
    /// The agent was too slow to hear the answer in time, by so much: it counts as
    /// nothing.
    Late(Duration),
}

/// What came of one attempt.
#[derive(Debug)]
enum Answer {
    Is(Outcome),
    /// The time that the agent gives was up.
    TimedOut(String),
}

impl From<Outcome> for Answer {
    fn from(outcome: Outcome) -> Self {
        Self::Is(outcome)
    }
}

impl Means {
    pub fn new(runtime: SharedRuntime, net: SharedNet, clock: SharedClock) -> Self {
        Self {
            runtime,
            web: Web::new(net.clone()),
            net,
            clock,
        }
    }

    /// Asks, more than once if that did not work out.
    pub async fn check(&self, probe: &Probe, subject: Subject<'_>) -> Outcome {
        let mut outcome = self.attempt(probe, subject).await;
        for _ in 1..ATTEMPTS {
            if !matches!(outcome, Outcome::Errored { .. }) {
                break;
            }
            outcome = self.attempt(probe, subject).await;
        }
        outcome
    }

    async fn attempt(&self, probe: &Probe, subject: Subject<'_>) -> Outcome {
        let limit = limit(probe);
        let began = self.clock.uptime();
        let answer = if let Some(exec) = &probe.exec {
            self.exec(exec, subject, limit).await.into()
        } else if let Some(action) = &probe.http_get {
            self.get(action, subject, limit).await
        } else if let Some(action) = &probe.tcp_socket {
            self.tcp(action, subject, limit).await
        } else if let Some(action) = &probe.grpc {
            self.grpc(action, subject, limit).await
        } else {
            missing(subject).into()
        };
        match answer {
            Answer::Is(outcome) => outcome,
            Answer::TimedOut(text) => {
                let took = self.clock.uptime().saturating_sub(began);
                match took.saturating_sub(limit) {
                    late if late > NOTICED => Outcome::Late(late),
                    _ => Outcome::Failure(text),
                }
            }
        }
    }
}

/// What upstream calls unknown: nobody was asked.
fn unknown(cause: &impl ToString) -> Outcome {
    Outcome::Errored {
        state: "unknown",
        cause: cause.to_string(),
    }
}

fn missing(subject: Subject<'_>) -> Outcome {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let metadata = &subject.pod.metadata;
    unknown(&format!(
        "missing probe handler for {}_{}({}):{}",
        text(&metadata.name),
        text(&metadata.namespace),
        text(&metadata.uid),
        subject.container.name
    ))
}
