//! What is to be done with a request for a certificate. Pure.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use crate::access::User;
use crate::access::certificate_request::{
    CLIENT_KUBELET_SIGNER, CLIENT_SIGNER, CertificateRequest, SERVING_SIGNER, Usage,
};
use crate::access::pair::BACKDATE;
use crate::access::user::{NODE_PREFIX, NODES};
use crate::front::Attributes;

const SHORT: SignedDuration = SignedDuration::from_hours(8);
const LEAST: SignedDuration = SignedDuration::from_mins(10);
const KEPT_DECIDED: SignedDuration = SignedDuration::from_hours(1);
const KEPT_PENDING: SignedDuration = SignedDuration::from_hours(24);

/// What the signer holds to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// How long a certificate lives at most.
    pub(crate) longest: SignedDuration,
    /// When the CA's own certificate ends.
    pub(crate) ca_end: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Nothing,
    Approve(&'static str),
    Fail(String),
    Sign {
        content: Box<CertificateRequest>,
        usages: Vec<Usage>,
        from: Timestamp,
        until: Timestamp,
    },
}

/// The next step; `may` answers as authorization does.
pub(crate) fn step(
    request: &CertificateSigningRequest,
    rules: &Rules,
    may: &dyn Fn(&User, &Attributes) -> bool,
    now: Timestamp,
) -> Step {
    let has = |kind: &str| conditions(request).any(|(found, _)| found == kind);
    let is_issued = certificate(request).is_some();
    if is_issued || has("Denied") || has("Failed") {
        return Step::Nothing;
    }
    let signer = request.spec.signer_name.as_str();
    // Who else signs, decides for themselves.
    if ![CLIENT_SIGNER, CLIENT_KUBELET_SIGNER, SERVING_SIGNER].contains(&signer) {
        return Step::Nothing;
    }
    let Ok(content) = CertificateRequest::of_pem(&request.spec.request.0) else {
        return Step::Nothing;
    };
    let usages = usages(request);
    if !has("Approved") {
        return approval(request, &content, &usages, may);
    }
    if let Some(fault) = fault(signer, &content, &usages) {
        return Step::Fail(fault);
    }
    let (from, until) = validity(request.spec.expiration_seconds, rules, now);
    Step::Sign {
        content: Box::new(content),
        usages: usages
            .iter()
            .filter_map(|usage| Usage::named(usage))
            .collect(),
        from,
        until,
    }
}

/// Only nodes' client certificates are approved without a person: a first one for who
/// may ask for any, the next for the node itself.
fn approval(
    request: &CertificateSigningRequest,
    content: &CertificateRequest,
    usages: &BTreeSet<&str>,
    may: &dyn Fn(&User, &Attributes) -> bool,
) -> Step {
    let signer = request.spec.signer_name.as_str();
    if signer != CLIENT_KUBELET_SIGNER || fault(signer, content, usages).is_some() {
        return Step::Nothing;
    }
    let spec = &request.spec;
    let user = User {
        name: spec.username.clone().unwrap_or_default(),
        uid: spec.uid.clone().unwrap_or_default(),
        groups: spec.groups.clone().unwrap_or_default(),
        extra: spec.extra.clone().unwrap_or_default(),
    };
    let asked = |subresource: &str| Attributes {
        verb: "create".to_owned(),
        group: "certificates.k8s.io".to_owned(),
        version: "*".to_owned(),
        resource: "certificatesigningrequests".to_owned(),
        subresource: subresource.to_owned(),
        ..Attributes::default()
    };
    if user.name == content.common_name && may(&user, &asked("selfnodeclient")) {
        return Step::Approve(
            "Auto approving self kubelet client certificate after SubjectAccessReview.",
        );
    }
    if may(&user, &asked("nodeclient")) {
        return Step::Approve(
            "Auto approving kubelet client certificate after SubjectAccessReview.",
        );
    }
    Step::Nothing
}

/// The first rule of the signer that the request breaks, in upstream's words.
fn fault(signer: &str, content: &CertificateRequest, usages: &BTreeSet<&str>) -> Option<String> {
    if signer == CLIENT_SIGNER {
        let allowed = ["digital signature", "key encipherment", "client auth"];
        if let Some(other) = usages.iter().find(|usage| !allowed.contains(usage)) {
            return Some(format!("invalid usage for client certificate: {other}"));
        }
        return (!usages.contains("client auth"))
            .then(|| "missing required usage for client certificate: client auth".to_owned());
    }
    let serving = signer == SERVING_SIGNER;
    let names = !content.dns_names.is_empty() || !content.addresses.is_empty();
    let purpose = if serving {
        "server auth"
    } else {
        "client auth"
    };
    let least = BTreeSet::from(["digital signature", purpose]);
    let mut found = usages.clone();
    found.remove("key encipherment");
    let words = if content.organizations != [NODES] {
        "subject organization is not system:nodes"
    } else if serving && !names {
        "DNS or IP subjectAltName is required"
    } else if !serving && !content.dns_names.is_empty() {
        "DNS subjectAltNames are not allowed"
    } else if !content.emails.is_empty() {
        "Email subjectAltNames are not allowed"
    } else if !serving && !content.addresses.is_empty() {
        "IP subjectAltNames are not allowed"
    } else if !content.uris.is_empty() {
        "URI subjectAltNames are not allowed"
    } else if !content.common_name.starts_with(NODE_PREFIX) {
        "subject common name does not begin with system:node:"
    } else if found != least {
        let mut wanted = ["digital signature", "key encipherment", purpose];
        wanted.sort_unstable();
        return Some(format!("usages did not match [{}]", wanted.join(" ")));
    } else {
        return None;
    };
    Some(words.to_owned())
}

/// From when until when: what was asked for within bounds, and never past the CA's end.
fn validity(asked: Option<i32>, rules: &Rules, now: Timestamp) -> (Timestamp, Timestamp) {
    let life = match asked {
        None => rules.longest,
        Some(seconds) => {
            let asked = SignedDuration::from_secs(i64::from(seconds));
            asked.max(LEAST).min(rules.longest)
        }
    };
    // Of a long life the time before now is taken off, so that it is exact.
    let end = if life < SHORT {
        now + life
    } else {
        now + life - BACKDATE
    };
    (now - BACKDATE, end.min(rules.ca_end))
}

/// Whether it has been kept for long enough.
pub(crate) fn is_old(request: &CertificateSigningRequest, now: Timestamp) -> bool {
    let older = |moment: Option<Timestamp>, than: SignedDuration| {
        moment.is_some_and(|moment| now.duration_since(moment) > than)
    };
    let certificate = certificate(request);
    if let Some(certificate) = certificate
        && conditions(request).any(|(kind, _)| kind == "Approved")
        && has_ended(certificate, now)
    {
        return true;
    }
    let decided = conditions(request).any(|(kind, updated)| match kind {
        "Denied" | "Failed" => older(updated, KEPT_DECIDED),
        "Approved" if certificate.is_some() => older(updated, KEPT_DECIDED),
        "Approved" => older(updated, KEPT_PENDING),
        _ => false,
    });
    let created = request
        .metadata
        .creation_timestamp
        .as_ref()
        .map(|time| time.0);
    let is_pending = conditions(request).next().is_none();
    decided || is_pending && older(created, KEPT_PENDING)
}

fn has_ended(certificate: &[u8], now: Timestamp) -> bool {
    let Ok(block) = pem::parse(certificate) else {
        return false;
    };
    let parsed = X509Certificate::from_der(block.contents());
    parsed.is_ok_and(|(_, parsed)| parsed.validity().not_after.timestamp() < now.as_second())
}

fn certificate(request: &CertificateSigningRequest) -> Option<&[u8]> {
    let certificate = request.status.as_ref()?.certificate.as_ref()?;
    Some(certificate.0.as_slice()).filter(|bytes| !bytes.is_empty())
}

fn conditions(
    request: &CertificateSigningRequest,
) -> impl Iterator<Item = (&str, Option<Timestamp>)> {
    let status = request.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let conditions = conditions.unwrap_or_default().iter();
    conditions.map(|one| {
        let updated = one.last_update_time.as_ref().map(|time| time.0);
        (one.type_.as_str(), updated)
    })
}

fn usages(request: &CertificateSigningRequest) -> BTreeSet<&str> {
    let usages = request.spec.usages.as_deref().unwrap_or_default();
    usages.iter().map(String::as_str).collect()
}

#[cfg(test)]
mod tests;
