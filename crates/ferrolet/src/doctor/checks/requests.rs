//! Requests for certificates that wait for somebody: of an agent that does not tell
//! of its own requests, as upstream's.

use std::time::{Duration, SystemTime};

use cluster::csr::{Described, NODE_SERVING_SIGNER};

use crate::doctor::finding::Finding;
use crate::local_node::Remedies;
use crate::local_node::look::Look;

/// What the control plane approves by itself, it approves in seconds.
const APPROVER_TAKES: Duration = Duration::from_secs(15);

#[derive(Clone, Debug)]
pub(in crate::doctor) struct Facts {
    /// The newest first.
    pub(in crate::doctor) requests: Look<Vec<Described>>,
    /// The requests that the agent tells of, which are judged with its certificates.
    pub(in crate::doctor) told: Vec<String>,
    pub(in crate::doctor) now: SystemTime,
    pub(in crate::doctor) remedies: Remedies,
}

pub(in crate::doctor) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut signers: Vec<&str> = Vec::new();
    let mut findings = Vec::new();
    for request in facts.requests.seen().into_iter().flatten() {
        // An agent gives an old request up when it makes a new one.
        if signers.contains(&request.signer.as_str()) {
            continue;
        }
        signers.push(&request.signer);
        let age = request.age(facts.now).unwrap_or_default();
        let known = facts.told.contains(&request.name);
        if known || !request.condition.is_pending() || age < APPROVER_TAKES {
            continue;
        }
        let cause = if request.signer == NODE_SERVING_SIGNER {
            "the node's serving certificate waits for approval, which no controller gives by itself; until then logs and exec fail"
        } else {
            "the node's client certificate waits for approval"
        };
        let finding = Finding::error(format!("CSR {}", request.name), cause);
        let approve = format!("certificate approve {}", request.name);
        findings.push(finding.mended_by(facts.remedies.kubectl(&approve)));
    }
    findings
}

pub(in crate::doctor) fn told(facts: &Facts) -> String {
    match facts.requests.seen().map(Vec::as_slice) {
        None => "not seen".to_owned(),
        Some([]) => "none".to_owned(),
        Some([newest, ..]) => format!("the newest, {}: {}", newest.name, newest.condition),
    }
}

#[cfg(test)]
mod tests {
    use cluster::csr::{Approval, Condition, NODE_CLIENT_SIGNER, RequestFault};

    use super::*;
    use crate::doctor::checks::testing::remedies;

    fn request(name: &str, signer: &str, approval: Approval, age: u64) -> Described {
        Described {
            name: name.to_owned(),
            signer: signer.to_owned(),
            requester: String::new(),
            requester_groups: Vec::new(),
            usages: Vec::new(),
            wished_life: None,
            created: Some(now() - Duration::from_secs(age)),
            condition: Condition {
                approval,
                failed: None,
                issued: false,
            },
            content: Err(RequestFault::NotPem(String::new())),
        }
    }

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
    }

    fn names(requests: Vec<Described>, told: &[&str]) -> Vec<String> {
        let facts = Facts {
            requests: Look::Seen(requests),
            told: told.iter().map(|&name| name.to_owned()).collect(),
            now: now(),
            remedies: remedies(),
        };
        judge(&facts)
            .into_iter()
            .map(|one| one.command.unwrap())
            .collect()
    }

    #[test]
    fn the_newest_of_each_kind_that_waits_is_named_with_the_approval() {
        let approved = Approval::Approved {
            reason: String::new(),
            message: String::new(),
        };
        let serving = || request("s", NODE_SERVING_SIGNER, Approval::Pending, 60);
        let client = |approval| request("c", NODE_CLIENT_SIGNER, approval, 60);
        let old = || request("old", NODE_CLIENT_SIGNER, Approval::Pending, 6000);
        let approve = |name: &str| format!("kubectl certificate approve {name}");
        assert_eq!(
            names(vec![client(approved), serving(), old()], &[]),
            [approve("s")]
        );
        assert_eq!(
            names(vec![client(Approval::Pending), old()], &[]),
            [approve("c")]
        );
        assert!(names(vec![serving()], &["s"]).is_empty(), "told already");
        let young = request("y", NODE_CLIENT_SIGNER, Approval::Pending, 3);
        assert!(names(vec![young], &[]).is_empty());
    }
}
