//! Where an identity stands, as one value: what is published, logged once per
//! change, counted, and shown with the command that unblocks it.

use std::fmt;
use std::time::SystemTime;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::published::seconds;
use crate::request::Purpose;

/// Where an identity stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all_fields = "camelCase")]
pub enum State {
    /// Nothing to show, and nothing asked for yet.
    NoCredentials,
    /// A request is being made.
    Requesting { last_failure: Option<String> },
    /// A request is at the API server.
    WaitingForApproval(Wait),
    /// A certificate is in use.
    Issued {
        #[serde(with = "seconds")]
        until: SystemTime,
        /// `None`: nobody renews it.
        #[serde(with = "seconds::optional")]
        rotate_at: Option<SystemTime>,
        /// Why it is in memory only, and would be lost with the process.
        unsaved: Option<String>,
    },
    /// A certificate is in use while its successor is being asked for.
    Rotating {
        #[serde(with = "seconds")]
        until: SystemTime,
        step: Step,
    },
    /// The certificate has run out, and there is no successor yet.
    Expired {
        #[serde(with = "seconds")]
        since: SystemTime,
        step: Option<Step>,
    },
}

/// A request at the API server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    pub csr: String,
    #[serde(with = "seconds")]
    pub since: SystemTime,
    /// Approved already: it is the signer that is waited for.
    pub approved: bool,
}

/// How far a request has come that is made beside a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all_fields = "camelCase")]
pub enum Step {
    Requesting { last_failure: Option<String> },
    Waiting(Wait),
}

/// What happens to an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A pair was found in the store, or issued and stored.
    Stored {
        until: SystemTime,
        rotate_at: Option<SystemTime>,
    },
    /// A pair was issued and is in use, but could not be stored.
    Unsaved { cause: String },
    /// An attempt to get a certificate began.
    Began,
    /// The API server took the request.
    Submitted { csr: String, at: SystemTime },
    /// Somebody approved the request.
    Approved,
    /// The attempt came to nothing; another one will be made.
    Failed { cause: String },
    /// Time went by.
    Passed { now: SystemTime },
}

/// What an operator reads, and may have to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    pub sentence: String,
    /// The exact command that unblocks it; none if nothing is blocked.
    pub command: Option<String>,
}

impl fmt::Display for Advice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.sentence)?;
        match &self.command {
            Some(command) => write!(formatter, ": {command}"),
            None => Ok(()),
        }
    }
}

impl State {
    /// The state after `event`. An event that cannot happen in a state (an
    /// approval without a request) leaves it as it is.
    #[must_use]
    pub fn after(self, event: Event) -> Self {
        match event {
            Event::Stored { until, rotate_at } => Self::Issued {
                until,
                rotate_at,
                unsaved: None,
            },
            Event::Unsaved { cause } => self.not_saved(cause),
            Event::Passed { now } => self.at(now),
            event => self.requested(event),
        }
    }

    /// A word for metrics and logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::NoCredentials => "NoCredentials",
            Self::Requesting { .. } => "Requesting",
            Self::WaitingForApproval(_) => "WaitingForApproval",
            Self::Issued { .. } => "Issued",
            Self::Rotating { .. } => "Rotating",
            Self::Expired { .. } => "Expired",
        }
    }

    /// The request that somebody has still to approve.
    pub fn unapproved(&self) -> Option<&str> {
        let wait = self.waiting()?;
        (!wait.approved).then_some(&wait.csr)
    }

    /// The request that is at the API server.
    pub fn waiting(&self) -> Option<&Wait> {
        let (Self::WaitingForApproval(wait)
        | Self::Rotating {
            step: Step::Waiting(wait),
            ..
        }
        | Self::Expired {
            step: Some(Step::Waiting(wait)),
            ..
        }) = self
        else {
            return None;
        };
        Some(wait)
    }

    /// Something went wrong, or is over: more than waiting.
    pub fn is_trouble(&self) -> bool {
        let failed = |step: &Step| {
            matches!(
                step,
                Step::Requesting {
                    last_failure: Some(_)
                }
            )
        };
        match self {
            Self::NoCredentials | Self::WaitingForApproval(_) => false,
            Self::Requesting { last_failure } => last_failure.is_some(),
            Self::Issued { unsaved, .. } => unsaved.is_some(),
            Self::Rotating { step, .. } => failed(step),
            Self::Expired { .. } => true,
        }
    }

    /// What an operator should know, and what to run if somebody waits for them.
    pub fn advice(&self, purpose: Purpose) -> Advice {
        let noun = match purpose {
            Purpose::Client => "client certificate",
            Purpose::Serving => "serving certificate",
        };
        match self {
            Self::NoCredentials => nothing_yet(purpose),
            Self::Requesting { last_failure } => {
                requesting(&format!("no {noun} yet"), last_failure.as_deref())
            }
            Self::WaitingForApproval(wait) => waiting("", wait, purpose),
            Self::Issued {
                until,
                rotate_at,
                unsaved,
            } => {
                let renewal = rotate_at.map_or_else(
                    || "nobody renews it (rotateCertificates is off)".to_owned(),
                    |at| format!("will be renewed at {}", utc(at)),
                );
                let sentence = format!("the {noun} is valid until {}, and {renewal}", utc(*until));
                in_use(sentence, unsaved.as_deref())
            }
            Self::Rotating { until, step } => {
                let head = format!("the {noun}, valid until {}, is being renewed", utc(*until));
                step.advice(&head, purpose)
            }
            Self::Expired { since, step } => {
                let head = format!("the {noun} expired at {}", utc(*since));
                match step {
                    Some(step) => step.advice(&head, purpose),
                    None => lapsed(&head, purpose),
                }
            }
        }
    }

    fn not_saved(self, cause: String) -> Self {
        match self {
            Self::Issued {
                until, rotate_at, ..
            } => Self::Issued {
                until,
                rotate_at,
                unsaved: Some(cause),
            },
            state => state,
        }
    }

    fn at(self, now: SystemTime) -> Self {
        let expired = |since, step| Self::Expired { since, step };
        match self {
            Self::Issued { until, .. } if now > until => expired(until, None),
            Self::Rotating { until, step } if now > until => expired(until, Some(step)),
            state => state,
        }
    }

    fn requested(self, event: Event) -> Self {
        match self {
            Self::NoCredentials => match Step::after(None, event) {
                Some(step) => step.into(),
                None => Self::NoCredentials,
            },
            Self::Requesting { last_failure } => {
                let step = Step::Requesting { last_failure };
                step.next(event).into()
            }
            Self::WaitingForApproval(wait) => Step::Waiting(wait).next(event).into(),
            Self::Issued { until, .. } => match Step::after(None, event) {
                Some(step) => Self::Rotating { until, step },
                None => self,
            },
            Self::Rotating { until, step } => Self::Rotating {
                until,
                step: step.next(event),
            },
            Self::Expired { since, step } => Self::Expired {
                since,
                step: Step::after(step, event),
            },
        }
    }
}

impl From<Step> for State {
    fn from(step: Step) -> Self {
        match step {
            Step::Requesting { last_failure } => Self::Requesting { last_failure },
            Step::Waiting(wait) => Self::WaitingForApproval(wait),
        }
    }
}

impl Step {
    fn after(step: Option<Self>, event: Event) -> Option<Self> {
        match (step, event) {
            (Some(step), event) => Some(step.next(event)),
            (None, Event::Approved) => None,
            (None, event) => Some(Self::Requesting { last_failure: None }.next(event)),
        }
    }

    fn next(self, event: Event) -> Self {
        match (self, event) {
            (_, Event::Submitted { csr, at }) => Self::Waiting(Wait {
                csr,
                since: at,
                approved: false,
            }),
            (_, Event::Failed { cause }) => Self::Requesting {
                last_failure: Some(cause),
            },
            (Self::Waiting(wait), Event::Approved) => Self::Waiting(Wait {
                approved: true,
                ..wait
            }),
            (Self::Waiting(_), Event::Began) => Self::Requesting { last_failure: None },
            (step, _) => step,
        }
    }

    fn advice(&self, head: &str, purpose: Purpose) -> Advice {
        match self {
            Self::Requesting { last_failure } => requesting(head, last_failure.as_deref()),
            Self::Waiting(wait) => waiting(&format!("{head}; "), wait, purpose),
        }
    }
}

fn nothing_yet(purpose: Purpose) -> Advice {
    let (sentence, command) = match purpose {
        Purpose::Client => (
            "there is no client certificate and no bootstrap credential to ask for one with; make a token on a control plane node and join with it",
            "kubeadm token create --print-join-command",
        ),
        Purpose::Serving => (
            "no serving certificate has been asked for: the node's own object shows no IP address yet",
            "kubectl get nodes -o wide",
        ),
    };
    Advice {
        sentence: sentence.to_owned(),
        command: Some(command.to_owned()),
    }
}

fn in_use(sentence: String, unsaved: Option<&str>) -> Advice {
    let Some(cause) = unsaved else {
        return Advice {
            sentence,
            command: None,
        };
    };
    Advice {
        sentence: format!(
            "{sentence}; it is in memory only and is lost if the node agent ends before it can be stored ({cause})"
        ),
        command: Some("df -h".to_owned()),
    }
}

fn requesting(head: &str, last_failure: Option<&str>) -> Advice {
    let sentence = match last_failure {
        None => format!("{head}, a request is on its way to the API server"),
        Some(cause) => {
            format!("{head}, the last request came to nothing ({cause}), and another will be made")
        }
    };
    let command = last_failure.map(|_| "kubectl get --raw /readyz; kubectl get csr".to_owned());
    Advice { sentence, command }
}

fn waiting(head: &str, wait: &Wait, purpose: Purpose) -> Advice {
    let Wait {
        csr,
        since,
        approved,
    } = wait;
    let since = utc(*since);
    if *approved {
        let signer = purpose.signer_name();
        return Advice {
            sentence: format!(
                "{head}CSR {csr}, made at {since}, is approved and waits for the signer {signer}, which kube-controller-manager should run"
            ),
            command: Some(format!("kubectl describe csr {csr}")),
        };
    }
    Advice {
        sentence: format!("{head}CSR {csr} has been waiting for approval since {since}"),
        command: Some(format!("kubectl certificate approve {csr}")),
    }
}

fn lapsed(head: &str, purpose: Purpose) -> Advice {
    match purpose {
        Purpose::Client => Advice {
            sentence: format!(
                "{head} and is not being renewed; make a token on a control plane node and put it into the bootstrap kubeconfig"
            ),
            command: Some("kubeadm token create".to_owned()),
        },
        Purpose::Serving => Advice {
            sentence: format!("{head} and is not being renewed"),
            command: Some("kubectl get csr".to_owned()),
        },
    }
}

fn utc(time: SystemTime) -> String {
    // Beyond jiff's years there is nothing worth a date.
    Timestamp::try_from(time).map_or_else(
        |_| "an unknown time".to_owned(),
        |time| format!("{time:.0}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testdata::at;

    fn stored() -> Event {
        Event::Stored {
            until: at(1_000),
            rotate_at: Some(at(800)),
        }
    }

    fn submitted() -> Event {
        Event::Submitted {
            csr: "csr-x7k2p".to_owned(),
            at: at(10),
        }
    }

    fn failed() -> Event {
        Event::Failed {
            cause: "CSR csr-x7k2p was denied".to_owned(),
        }
    }

    fn passed(seconds: u64) -> Event {
        Event::Passed { now: at(seconds) }
    }

    fn run(events: impl IntoIterator<Item = Event>) -> State {
        events.into_iter().fold(State::NoCredentials, State::after)
    }

    #[test]
    fn an_identity_passes_through_its_states_in_order() {
        let life = [
            (Event::Began, "Requesting"),
            (submitted(), "WaitingForApproval"),
            (passed(20), "WaitingForApproval"),
            (Event::Approved, "WaitingForApproval"),
            (stored(), "Issued"),
            (passed(1_000), "Issued"),
            (Event::Began, "Rotating"),
            (submitted(), "Rotating"),
            (stored(), "Issued"),
            (Event::Began, "Rotating"),
            (failed(), "Rotating"),
            (passed(1_001), "Expired"),
            (Event::Began, "Expired"),
            (submitted(), "Expired"),
            (stored(), "Issued"),
            (passed(1_001), "Expired"),
        ];
        let mut state = State::NoCredentials;
        for (step, (event, expected)) in life.into_iter().enumerate() {
            state = state.after(event);
            assert_eq!(state.name(), expected, "step {step}");
        }
    }

    #[test]
    fn a_failed_request_is_remembered_until_the_next_one_is_taken() {
        let refused = run([Event::Began, submitted(), failed(), Event::Began]);
        let State::Requesting { last_failure } = &refused else {
            panic!("{refused:?}")
        };
        assert_eq!(last_failure.as_deref(), Some("CSR csr-x7k2p was denied"));
        let State::WaitingForApproval(wait) = refused.after(submitted()) else {
            panic!("the request was taken")
        };
        assert!(!wait.approved);
    }

    #[test]
    fn a_request_is_unapproved_until_somebody_says_yes() {
        let open = |events: &[Event]| run(events.iter().cloned()).unapproved().map(str::to_owned);
        let csr = Some("csr-x7k2p".to_owned());
        assert_eq!(open(&[submitted()]), csr);
        assert_eq!(open(&[stored(), submitted()]), csr);
        assert_eq!(open(&[stored(), passed(2_000), submitted()]), csr);
        assert_eq!(open(&[submitted(), Event::Approved]), None);
        assert_eq!(open(&[stored()]), None);
    }

    #[test]
    fn waiting_is_no_trouble_but_failing_is() {
        let trouble = |events: &[Event]| run(events.iter().cloned()).is_trouble();
        assert!(!trouble(&[]) && !trouble(&[Event::Began, submitted()]));
        assert!(!trouble(&[stored()]) && !trouble(&[stored(), Event::Began]));
        assert!(trouble(&[Event::Began, failed()]));
        assert!(trouble(&[stored(), failed()]));
        assert!(trouble(&[stored(), passed(2_000)]));
    }

    #[test]
    fn events_that_cannot_happen_change_nothing() {
        assert_eq!(run([Event::Approved]), State::NoCredentials);
        let issued = run([stored()]);
        assert_eq!(issued.clone().after(Event::Approved), issued);
        assert_eq!(run([passed(u64::from(u32::MAX))]), State::NoCredentials);
    }

    #[test]
    fn each_state_says_what_it_waits_for_and_the_command_that_unblocks_it() {
        let advise = |events: &[Event]| {
            run(events.iter().cloned())
                .advice(Purpose::Client)
                .to_string()
        };
        let join = "there is no client certificate and no bootstrap credential to ask for one with; make a token on a control plane node and join with it: kubeadm token create --print-join-command";
        assert_eq!(advise(&[]), join);
        assert_eq!(
            advise(&[Event::Began]),
            "no client certificate yet, a request is on its way to the API server"
        );
        assert_eq!(
            advise(&[Event::Began, failed()]),
            "no client certificate yet, the last request came to nothing (CSR csr-x7k2p was denied), and another will be made: kubectl get --raw /readyz; kubectl get csr"
        );
        assert_eq!(
            advise(&[submitted()]),
            "CSR csr-x7k2p has been waiting for approval since 1970-01-01T00:00:10Z: kubectl certificate approve csr-x7k2p"
        );
        assert_eq!(
            advise(&[submitted(), Event::Approved]),
            "CSR csr-x7k2p, made at 1970-01-01T00:00:10Z, is approved and waits for the signer kubernetes.io/kube-apiserver-client-kubelet, which kube-controller-manager should run: kubectl describe csr csr-x7k2p"
        );
        assert_eq!(
            advise(&[stored()]),
            "the client certificate is valid until 1970-01-01T00:16:40Z, and will be renewed at 1970-01-01T00:13:20Z"
        );
        let once = Event::Stored {
            until: at(1_000),
            rotate_at: None,
        };
        assert_eq!(
            advise(&[once]),
            "the client certificate is valid until 1970-01-01T00:16:40Z, and nobody renews it (rotateCertificates is off)"
        );
        let unsaved = Event::Unsaved {
            cause: "no space left".to_owned(),
        };
        assert_eq!(
            advise(&[stored(), unsaved]),
            "the client certificate is valid until 1970-01-01T00:16:40Z, and will be renewed at 1970-01-01T00:13:20Z; it is in memory only and is lost if the node agent ends before it can be stored (no space left): df -h"
        );
        assert_eq!(
            advise(&[stored(), Event::Began, submitted()]),
            "the client certificate, valid until 1970-01-01T00:16:40Z, is being renewed; CSR csr-x7k2p has been waiting for approval since 1970-01-01T00:00:10Z: kubectl certificate approve csr-x7k2p"
        );
        assert_eq!(
            advise(&[stored(), passed(2_000)]),
            "the client certificate expired at 1970-01-01T00:16:40Z and is not being renewed; make a token on a control plane node and put it into the bootstrap kubeconfig: kubeadm token create"
        );
        assert_eq!(
            advise(&[stored(), Event::Began, submitted(), passed(2_000)]),
            "the client certificate expired at 1970-01-01T00:16:40Z; CSR csr-x7k2p has been waiting for approval since 1970-01-01T00:00:10Z: kubectl certificate approve csr-x7k2p"
        );
        let serving = run([]).advice(Purpose::Serving);
        assert_eq!(
            serving.command.as_deref(),
            Some("kubectl get nodes -o wide")
        );
    }
}
