//! Certificate signing requests: what may be asked for, and who may answer what.

use std::collections::BTreeSet;

use base64::Engine as _;
use serde_json::Value;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer as _;

use super::errors::Errors;
use super::names;
use crate::schema::look::{items, text};

/// Sorted, as upstream lists them.
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

pub(super) fn check(object: &Value, errors: &mut Errors) {
    let spec = &object["spec"];
    let encoded = text(&spec["request"]);
    if let Err(problem) = request(encoded) {
        errors.invalid("spec.request", encoded, &problem);
    }
    let usages = items(&spec["usages"]);
    if usages.is_empty() {
        errors.required("spec.usages", "");
    }
    for (index, usage) in usages.iter().enumerate() {
        if !USAGES.contains(&text(usage)) {
            errors.unsupported(format!("spec.usages[{index}]"), text(usage), &USAGES);
        }
    }
    let mut seen = BTreeSet::new();
    for (index, usage) in usages.iter().enumerate() {
        if !seen.insert(text(usage)) {
            errors.duplicate(format!("spec.usages[{index}]"), text(usage));
        }
    }
    match text(&spec["signerName"]) {
        name @ "kubernetes.io/legacy-unknown" => {
            errors.invalid(
                "spec.signerName",
                name,
                "the legacy signerName is not allowed via this API version",
            );
        }
        name => signer_name(name, "spec.signerName", errors),
    }
    if let Some(seconds) = spec["expirationSeconds"]
        .as_i64()
        .filter(|seconds| *seconds < 600)
    {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.invalid("spec.expirationSeconds", seconds, detail);
    }
    conditions(&object["status"]["conditions"], errors);
}

/// Who writes to `approval` decides, who writes to `status` signs, others do neither.
pub(super) fn update(object: &Value, old: &Value, subresource: &str, errors: &mut Errors) {
    check(object, errors);
    let of = |object: &Value, kind: &str| -> Vec<Value> {
        items(&object["status"]["conditions"])
            .iter()
            .filter(|condition| condition["type"] == kind)
            .cloned()
            .collect()
    };
    for kind in ["Approved", "Denied", "Failed"] {
        let (now, before) = (of(object, kind), of(old, kind));
        let detail = if now.len() < before.len() {
            format!("updates may not remove a condition of type {kind:?}")
        } else if kind == "Failed" || subresource == "approval" {
            continue;
        } else if now.len() > before.len() {
            format!("updates may not add a condition of type {kind:?}")
        } else if now != before {
            format!("updates may not modify a condition of type {kind:?}\n")
        } else {
            continue;
        };
        errors.forbidden("status.conditions", &detail);
    }
    let (now, before) = (
        text(&object["status"]["certificate"]),
        text(&old["status"]["certificate"]),
    );
    if now != before {
        if subresource != "status" {
            errors.forbidden(
                "status.certificate",
                "updates may not set certificate content",
            );
        } else if !before.is_empty() {
            errors.forbidden(
                "status.certificate",
                "updates may not modify existing certificate content",
            );
        }
    }
}

fn request(encoded: &str) -> Result<(), String> {
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(encoded)
        .unwrap_or_default();
    let block = x509_parser::pem::parse_x509_pem(&bytes)
        .ok()
        .map(|(_, block)| block);
    let block = block.filter(|block| block.label == "CERTIFICATE REQUEST");
    let Some(block) = block else {
        return Err("PEM block type must be CERTIFICATE REQUEST".to_owned());
    };
    match X509CertificationRequest::from_der(&block.contents) {
        Ok((_, request)) => request
            .verify_signature()
            .map_err(|error| error.to_string()),
        Err(error) => Err(format!("asn1: structure error: {error}")),
    }
}

/// `example.com/signer`.
fn signer_name(name: &str, field: &str, errors: &mut Errors) {
    if name.is_empty() {
        errors.required(field, "");
        return;
    }
    let parts: Vec<&str> = name.split('/').collect();
    let [domain, path] = parts.as_slice() else {
        errors.invalid(
            field,
            name,
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        );
        return;
    };
    errors.invalid_all(field, *domain, names::dns_subdomain(domain));
    if domain.split('.').count() < 2 {
        errors.invalid(
            field,
            *domain,
            "should be a domain with at least two segments separated by dots",
        );
    }
    if path.is_empty() {
        errors.invalid(field, *path, "validating path segment: must be non-empty");
    } else {
        errors.invalid_all(field, *path, names::dns_subdomain(path));
    }
}

fn conditions(conditions: &Value, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, condition) in items(conditions).iter().enumerate() {
        let field = format!("status.conditions[{index}]");
        let kind = text(&condition["type"]);
        if kind.is_empty() {
            errors.required(format!("{field}.type"), "");
        }
        let only_true = matches!(kind, "Approved" | "Denied" | "Failed");
        let allowed: &[&str] = if only_true {
            &["True"]
        } else {
            &["False", "True", "Unknown"]
        };
        errors.choice(
            format!("{field}.status"),
            text(&condition["status"]),
            allowed,
        );
        let other = match kind {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if seen.contains(other) {
            errors.invalid(
                "status.conditions",
                kind,
                "Approved and Denied conditions are mutually exclusive",
            );
        }
        if !seen.insert(kind) {
            errors.duplicate(format!("{field}.type"), kind);
        }
    }
}
