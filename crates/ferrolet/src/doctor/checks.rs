//! The checks: each a pure function of its facts, in a file of its own, and all of
//! them in the order in which they are told.

pub(super) mod agent;
pub(super) mod api_server;
pub(super) mod certificates;
pub(super) mod cgroups;
pub(super) mod clock;
pub(super) mod configuration;
pub(super) mod disk;
pub(super) mod lease;
pub(super) mod network;
pub(super) mod ports;
pub(super) mod readiness;
pub(super) mod relist;
pub(super) mod requests;
pub(super) mod runtime;
pub(super) mod swap;

use std::path::PathBuf;

use serde::Serialize;

use super::finding::{Finding, Severity};
use crate::local_node::look::{Hidden, Look};

/// Everything that was seen of a machine, and of its node if it is one.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) node_name: String,
    /// Where the cluster is kept, if it is one of `ferrolet up`.
    pub(super) cluster: Option<PathBuf>,
    /// The node's machine is a story: what this one is like does not matter to it.
    pub(super) is_simulated: bool,
    pub(super) agent: agent::Facts,
    pub(super) configuration: configuration::Facts,
    pub(super) cgroups: cgroups::Facts,
    pub(super) runtime: runtime::Facts,
    pub(super) network: network::Facts,
    pub(super) swap: swap::Facts,
    pub(super) ports: ports::Facts,
    pub(super) disk: disk::Facts,
    /// `None`: the machine belongs to no cluster.
    pub(super) membership: Option<Membership>,
}

/// What was seen of the node's part in its cluster.
#[derive(Debug)]
pub(super) struct Membership {
    pub(super) clock: clock::Facts,
    pub(super) api_server: api_server::Facts,
    pub(super) certificates: certificates::Facts,
    pub(super) requests: requests::Facts,
    pub(super) lease: lease::Facts,
    pub(super) relist: relist::Facts,
    pub(super) readiness: readiness::Facts,
}

/// One check, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Checked {
    pub(super) name: &'static str,
    /// What was seen, in a line.
    pub(super) seen: String,
    pub(super) findings: Vec<Finding>,
    pub(super) not_seen: Vec<Hidden>,
}

impl Checked {
    fn new(name: &'static str, seen: String, findings: Vec<Finding>) -> Self {
        Self {
            name,
            seen,
            findings,
            not_seen: Vec::new(),
        }
    }

    fn without<T>(mut self, look: &Look<T>) -> Self {
        self.not_seen.extend(look.hidden().cloned());
        self
    }

    pub(super) fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }
}

pub(super) fn judge(facts: &Facts) -> Vec<Checked> {
    let mut all = vec![Checked::new(
        "agent",
        agent::told(&facts.agent),
        agent::judge(&facts.agent),
    )];
    if facts.is_simulated {
        let told = "simulated: this machine's own checks are left out".to_owned();
        all.push(Checked::new("machine", told, Vec::new()));
    } else {
        all.extend(of_machine(facts));
    }
    if let Some(membership) = &facts.membership {
        all.extend(of_member(membership));
    }
    all
}

fn of_machine(facts: &Facts) -> Vec<Checked> {
    let mut runtime = Checked::new(
        "runtime",
        runtime::told(&facts.runtime),
        runtime::judge(&facts.runtime),
    );
    if facts.runtime.state == runtime::State::Forbidden {
        runtime.not_seen.push(Hidden::new(
            format!("{} is not for this user", facts.runtime.socket.display()),
            Some("sudo ferrolet doctor"),
        ));
    }
    vec![
        Checked::new(
            "configuration",
            configuration::told(&facts.configuration),
            configuration::judge(&facts.configuration),
        ),
        Checked::new(
            "cgroups",
            cgroups::told(&facts.cgroups),
            cgroups::judge(&facts.cgroups),
        ),
        runtime,
        Checked::new(
            "network",
            network::told(&facts.network),
            network::judge(&facts.network),
        ),
        Checked::new("swap", swap::told(&facts.swap), swap::judge(&facts.swap)),
        Checked::new(
            "ports",
            ports::told(&facts.ports),
            ports::judge(&facts.ports),
        ),
        Checked::new("disk", disk::told(&facts.disk), disk::judge(&facts.disk)),
    ]
}

fn of_member(facts: &Membership) -> Vec<Checked> {
    let mut certificates = Checked::new(
        "certificates",
        certificates::told(&facts.certificates),
        certificates::judge(&facts.certificates),
    );
    certificates.not_seen = certificates::hidden(&facts.certificates);
    vec![
        Checked::new(
            "API server",
            api_server::told(&facts.api_server),
            api_server::judge(&facts.api_server),
        ),
        Checked::new(
            "clock",
            clock::told(&facts.clock),
            clock::judge(&facts.clock),
        ),
        certificates,
        Checked::new(
            "requests",
            requests::told(&facts.requests),
            requests::judge(&facts.requests),
        )
        .without(&facts.requests.requests),
        Checked::new(
            "lease",
            lease::told(&facts.lease),
            lease::judge(&facts.lease),
        )
        .without(&facts.lease.lease),
        Checked::new(
            "relist",
            relist::told(&facts.relist),
            relist::judge(&facts.relist),
        )
        .without(&facts.relist.last),
        Checked::new(
            "node",
            readiness::told(&facts.readiness),
            readiness::judge(&facts.readiness),
        )
        .without(&facts.readiness.node),
    ]
}

#[cfg(test)]
pub(super) mod testing {
    use super::Finding;
    use crate::local_node::{Agent, Remedies};

    /// Of a machine with systemd, whose agent is process 812.
    pub(in crate::doctor) fn remedies() -> Remedies {
        let agent = Agent::untold(812);
        Remedies::new(true, Some(&agent), &[])
    }

    /// Of one whose agent does not run.
    pub(in crate::doctor) fn stopped() -> Remedies {
        Remedies::new(true, None, &[])
    }

    /// Of a node of a `ferrolet up` in `/d`.
    pub(in crate::doctor) fn of_up() -> Remedies {
        Remedies::of_up_in("/d".into())
    }

    pub(in crate::doctor) fn summary(findings: &[Finding]) -> Vec<String> {
        let line = |finding: &Finding| {
            let Finding {
                severity,
                object,
                cause,
                command,
            } = finding;
            let command = command.as_deref().unwrap_or("-");
            format!("{} {object}: {cause} => {command}", severity.word())
        };
        findings.iter().map(line).collect()
    }
}
