//! `ferrolet csr show`: a request decoded, and what stops it.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use cluster::CallError;
use cluster::csr::{
    Access, Approval, AutoApproval, Described, MissingRole, NODE_CLIENT_SIGNER, RequestContent,
    auto_approval, describe,
};
use identity::certificate::read_leaves;
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::Api;
use serde::Serialize;

use crate::cluster_access::{self, ClusterAccess, ClusterArguments};
use crate::output::{Failure, Format, NONE, age, print, printable, rendered};

const LABEL: usize = 20;

pub(super) fn run(
    name: &str,
    cluster: &ClusterArguments,
    output: Option<Format>,
) -> Result<(), Failure> {
    cluster_access::run(cluster, async |access| {
        let requests: Api<CertificateSigningRequest> = Api::all(access.client.clone());
        let found = requests.get_opt(name).await;
        let found =
            found.map_err(|cause| CallError::new("read", format!("the request {name}"), &cause))?;
        let csr = found.ok_or_else(|| {
            Failure::Failed(format!(
                "there is no request {name}; `ferrolet csr list` shows those that there are (they are cleared away after an hour or a day)"
            ))
        })?;
        let shown = Shown::of(&csr, would_be_approved(access, &csr).await);
        match output {
            None => print(&shown.text(access.now())),
            Some(format) => print(&rendered(format, &shown)?),
        }
    })
}

/// The verdict. Only for nodes' client certificates does it depend on what the
/// requester may, and so on a question to the API server.
async fn would_be_approved(
    access: &ClusterAccess,
    csr: &CertificateSigningRequest,
) -> Result<AutoApproval, String> {
    let verdict = auto_approval(csr, Access::default());
    if csr.spec.signer_name != NODE_CLIENT_SIGNER || !matches!(verdict, AutoApproval::Forbidden(_))
    {
        return Ok(verdict);
    }
    let allowed = cluster::csr::access(&access.client, csr).await;
    allowed
        .map(|allowed| auto_approval(csr, allowed))
        .map_err(|error| error.to_string())
}

/// A request as it is shown, in the order in which it is.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    name: String,
    signer: String,
    requester: Requester,
    condition: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expiration_seconds: Option<u64>,
    usages: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<Asked>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    issued_until: Option<Timestamp>,
    auto_approval: Verdict,
}

#[derive(Serialize)]
struct Requester {
    username: String,
    groups: Vec<String>,
}

/// What the request's own text says.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    subject: String,
    common_name: String,
    organizations: Vec<String>,
    dns_names: Vec<String>,
    ip_addresses: Vec<String>,
    emails: Vec<String>,
    uris: Vec<String>,
    other_names: Vec<String>,
    key: String,
    /// Absent where it cannot be checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    signed_by_its_key: Option<bool>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Verdict {
    /// Absent where it could not be found out, or there is nothing left to approve.
    #[serde(skip_serializing_if = "Option::is_none")]
    would_approve: Option<bool>,
    reason: String,
    /// Any one of these would let it through.
    commands: Vec<String>,
}

impl Shown {
    fn of(csr: &CertificateSigningRequest, approval: Result<AutoApproval, String>) -> Self {
        let described = describe(csr);
        let (request, unreadable) = match &described.content {
            Ok(content) => (Some(Asked::of(content)), None),
            Err(fault) => (None, Some(fault.to_string())),
        };
        let status = csr.status.as_ref();
        let certificate = status.and_then(|status| status.certificate.as_ref());
        let leaf = certificate.and_then(|pem| read_leaves(&pem.0).ok()?.into_iter().next());
        Self {
            decision: decision(&described),
            failure: described.condition.failed.as_ref().map(said),
            condition: described.condition.to_string(),
            created: described.created.and_then(to_timestamp),
            expiration_seconds: described.wished_life.map(|life| life.as_secs()),
            issued_until: leaf.and_then(|leaf| to_timestamp(leaf.not_after)),
            auto_approval: Verdict::of(approval),
            request,
            unreadable,
            name: described.name,
            signer: described.signer,
            requester: Requester {
                username: described.requester,
                groups: described.requester_groups,
            },
            usages: described.usages,
        }
    }

    fn text(&self, now: SystemTime) -> String {
        let mut text = String::new();
        let mut row = |label: &str, told: &str| {
            let told = printable(told).replace('\n', " ");
            let label = format!("{label}:");
            let _ = writeln!(text, "{label:<LABEL$}{told}");
        };
        row("Name", &self.name);
        row("Signer", &self.signer);
        row("Requested by", &self.requester.username);
        row("  in the groups", &listed(&self.requester.groups));
        let created = self.created.map(|created| {
            let age_now = now.duration_since(created.into()).unwrap_or_default();
            format!("{created} ({} ago)", age(age_now))
        });
        row("Created", created.as_deref().unwrap_or("<unknown>"));
        row("Status", &self.condition);
        for (label, told) in [("  decision", &self.decision), ("  failure", &self.failure)] {
            if let Some(told) = told {
                row(label, told);
            }
        }
        if let Some(until) = self.issued_until {
            row("  valid until", &until.to_string());
        }
        match self.expiration_seconds {
            Some(seconds) => row("Wished life", &age(Duration::from_secs(seconds))),
            None => row("Wished life", "as the signer likes"),
        }
        row("Usages", &listed(&self.usages));
        match (&self.request, &self.unreadable) {
            (Some(asked), _) => asked.rows(&mut row),
            (None, fault) => row("Unreadable", fault.as_deref().unwrap_or_default()),
        }
        let Verdict {
            would_approve,
            reason,
            ..
        } = &self.auto_approval;
        match would_approve {
            Some(true) => row("Auto-approval", &format!("yes: {reason}")),
            Some(false) => row("Auto-approval", &format!("no: {reason}")),
            None => row("Auto-approval", reason),
        }
        for command in &self.auto_approval.commands {
            row("  to allow it", command);
        }
        text
    }
}

impl Asked {
    fn of(content: &RequestContent) -> Self {
        Self {
            subject: content.subject.clone(),
            common_name: content.common_name.clone(),
            organizations: content.organizations.clone(),
            dns_names: content.dns_names.clone(),
            ip_addresses: content.addresses.iter().map(ToString::to_string).collect(),
            emails: content.emails.clone(),
            uris: content.uris.clone(),
            other_names: content.other_names.clone(),
            key: content.key.clone(),
            signed_by_its_key: content.proves_possession,
        }
    }

    fn rows(&self, row: &mut impl FnMut(&str, &str)) {
        row("Subject", &self.subject);
        row("  as a user", &self.common_name);
        row("  in the groups", &listed(&self.organizations));
        row("DNS names", &listed(&self.dns_names));
        row("IP addresses", &listed(&self.ip_addresses));
        for (label, names) in [
            ("E-mail addresses", &self.emails),
            ("URIs", &self.uris),
            ("Other names", &self.other_names),
        ] {
            if !names.is_empty() {
                row(label, &listed(names));
            }
        }
        let possession = match self.signed_by_its_key {
            Some(true) => "the request is signed with it",
            Some(false) => {
                "THE REQUEST IS NOT SIGNED WITH IT: whoever made it may not hold the key"
            }
            None => "its signature cannot be checked here",
        };
        row("Key", &format!("{}; {possession}", self.key));
    }
}

impl Verdict {
    fn of(approval: Result<AutoApproval, String>) -> Self {
        let approval = match approval {
            Ok(approval) => approval,
            Err(cause) => {
                return Self {
                    would_approve: None,
                    reason: format!("unknown: {cause}"),
                    commands: Vec::new(),
                };
            }
        };
        let (would_approve, commands) = match &approval {
            AutoApproval::Taken(_) => (Some(true), Vec::new()),
            AutoApproval::Decided(_) => (None, Vec::new()),
            AutoApproval::Forbidden(missing) => (
                Some(false),
                missing.iter().map(MissingRole::command).collect(),
            ),
            _ => (Some(false), Vec::new()),
        };
        let reason = match &approval {
            // The commands follow, each on a line of its own.
            AutoApproval::Forbidden(missing) => {
                let roles: Vec<_> = missing.iter().map(|missing| missing.role).collect();
                format!(
                    "the auto-approver may not take it: the requester lacks the role {}",
                    roles.join(" or ")
                )
            }
            other => other.to_string(),
        };
        Self {
            would_approve,
            reason,
            commands,
        }
    }
}

fn decision(described: &Described) -> Option<String> {
    match &described.condition.approval {
        Approval::Pending => None,
        Approval::Approved { reason, message } | Approval::Denied { reason, message } => {
            Some(said(&(reason.clone(), message.clone())))
        }
    }
}

fn said((reason, message): &(String, String)) -> String {
    format!("{reason}: {message}")
}

fn to_timestamp(time: SystemTime) -> Option<Timestamp> {
    let time = Timestamp::try_from(time).ok()?;
    Timestamp::from_second(time.as_second()).ok()
}

fn listed(texts: &[String]) -> String {
    if texts.is_empty() {
        return NONE.to_owned();
    }
    texts.join(", ")
}
