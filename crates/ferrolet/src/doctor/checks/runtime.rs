//! Whether the container runtime is there, and answers as a node needs it.

use std::path::PathBuf;
use std::time::Duration;

use crate::doctor::finding::Finding;
use crate::local_node::Remedies;

/// A list of pods that takes longer holds the whole node up.
const SLOW: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
pub(in crate::doctor) struct Facts {
    pub(in crate::doctor) socket: PathBuf,
    pub(in crate::doctor) state: State,
    pub(in crate::doctor) remedies: Remedies,
    /// A runtime that listens elsewhere, and what makes the node use it.
    pub(in crate::doctor) elsewhere: Option<(PathBuf, Option<String>)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::doctor) enum State {
    /// The setting names no socket.
    NoEndpoint(String),
    /// Nobody has made the socket.
    Missing,
    /// The socket is there, and nobody behind it.
    Refuses,
    /// Not for this user.
    Forbidden,
    /// It answers what a node cannot start with.
    Unfit(String),
    Answers(Answers),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::doctor) struct Answers {
    pub(in crate::doctor) name: String,
    pub(in crate::doctor) version: String,
    /// Its own verdict on itself: `Err` says why it is not ready.
    pub(in crate::doctor) ready: Result<(), String>,
    /// How long it took to list its pods, and how many there are.
    pub(in crate::doctor) listed: Result<(Duration, usize), String>,
}

pub(in crate::doctor) fn judge(facts: &Facts) -> Vec<Finding> {
    let socket = facts.socket.display().to_string();
    let restart = facts.remedies.restart_runtime(&facts.socket);
    match &facts.state {
        State::NoEndpoint(cause) => vec![Finding::error("containerRuntimeEndpoint", cause)],
        State::Missing => vec![missing(facts, &socket)],
        State::Refuses => {
            let cause = "nobody listens at the runtime's socket";
            vec![Finding::error(socket, cause).mended_by(restart)]
        }
        State::Forbidden => Vec::new(),
        State::Unfit(cause) => vec![Finding::error(socket, cause).mended_by(restart)],
        State::Answers(answers) => {
            let mut findings = Vec::new();
            if let Err(cause) = &answers.ready {
                let cause = format!("the runtime says that it is not ready: {cause}");
                findings.push(Finding::error(&socket, cause).mended_by(&restart));
            }
            match &answers.listed {
                Err(cause) => {
                    let cause = format!("the runtime does not list its pods: {cause}");
                    findings.push(Finding::error(&socket, cause).mended_by(&restart));
                }
                Ok((took, pods)) if *took > SLOW => {
                    let cause = format!(
                        "the runtime takes {:.1} s to list {pods} pods, and a node asks each second",
                        took.as_secs_f64()
                    );
                    findings.push(Finding::warning(&socket, cause).mended_by(&restart));
                }
                Ok(_) => {}
            }
            findings
        }
    }
}

fn missing(facts: &Facts, socket: &str) -> Finding {
    match &facts.elsewhere {
        Some((other, mend)) => Finding {
            command: mend.clone(),
            ..Finding::error(
                socket,
                format!(
                    "there is no runtime's socket, but one at {}; set containerRuntimeEndpoint",
                    other.display()
                ),
            )
        },
        None => Finding::error(
            socket,
            "there is no runtime's socket; install and start a runtime, or name its socket in containerRuntimeEndpoint",
        )
        .mended_by(facts.remedies.restart_runtime(&facts.socket)),
    }
}

pub(in crate::doctor) fn told(facts: &Facts) -> String {
    match &facts.state {
        State::Answers(answers) => {
            let Answers { name, version, .. } = answers;
            format!("{name} {version} at {}", facts.socket.display())
        }
        _ => facts.socket.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::checks::testing::{remedies, summary};

    fn facts(state: State) -> Facts {
        Facts {
            socket: "/run/containerd/containerd.sock".into(),
            state,
            remedies: remedies(),
            elsewhere: None,
        }
    }

    fn answers() -> Answers {
        Answers {
            name: "containerd".to_owned(),
            version: "v2.1.4".to_owned(),
            ready: Ok(()),
            listed: Ok((Duration::from_millis(5), 3)),
        }
    }

    #[test]
    fn each_way_to_have_no_runtime_is_told_with_its_mending() {
        let unready = Answers {
            ready: Err("RuntimeNotReady: shim".to_owned()),
            ..answers()
        };
        let hung = Answers {
            listed: Err("no answer within 5 s".to_owned()),
            ..answers()
        };
        let slow = Answers {
            listed: Ok((Duration::from_secs(3), 90)),
            ..answers()
        };
        let restart = "=> systemctl restart containerd";
        for (state, expected, command) in [
            (State::Answers(answers()), "", ""),
            (State::Forbidden, "", ""),
            (State::Missing, "error /run", restart),
            (State::Refuses, "error /run", restart),
            (State::Unfit("old".to_owned()), "error /run", restart),
            (State::Answers(unready), "error /run", restart),
            (State::Answers(hung), "error /run", restart),
            (State::Answers(slow), "warning /run", restart),
            (
                State::NoEndpoint("tcp".to_owned()),
                "error containerRuntimeEndpoint",
                "=> -",
            ),
        ] {
            let found = summary(&judge(&facts(state.clone())));
            assert_eq!(found.is_empty(), expected.is_empty(), "{state:?}");
            if let Some(found) = found.first() {
                assert!(found.starts_with(expected), "{found}");
                assert!(found.ends_with(command), "{found}");
            }
        }
    }

    #[test]
    fn a_runtime_elsewhere_is_pointed_at() {
        let facts = Facts {
            elsewhere: Some(("/run/crio/crio.sock".into(), Some("mend".to_owned()))),
            ..facts(State::Missing)
        };
        let found = &judge(&facts)[0];
        assert!(found.cause.contains("/run/crio/crio.sock"), "{found:?}");
        assert_eq!(found.command.as_deref(), Some("mend"));
    }
}
