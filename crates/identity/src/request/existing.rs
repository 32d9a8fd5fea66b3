//! A request of our deterministic name is there already: is it ours to wait for?

use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use thiserror::Error;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;

use super::{SigningRequest, TAG};
use crate::certificate;
use crate::keys::PrivateKey;

/// An existing request that may be waited for in place of a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reused {
    pub name: String,
    pub uid: String,
}

/// Why an existing request of our name is not ours, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "CSR {name} exists and cannot be used: {cause}; delete it and start again: kubectl delete csr {name}"
)]
pub struct Incompatible {
    pub name: String,
    pub cause: String,
}

impl SigningRequest {
    /// Whether `existing`, which the API server keeps under this request's name,
    /// asks for the same thing with the same key, and has not run out.
    pub fn reuse(
        &self,
        existing: &Value,
        key: &PrivateKey,
        now: SystemTime,
    ) -> Result<Reused, Incompatible> {
        let metadata = |field: &str| text(existing, &["metadata", field]).to_owned();
        let name = metadata("name");
        match self.judge(existing, key, now) {
            Ok(()) => Ok(Reused {
                name,
                uid: metadata("uid"),
            }),
            Err(cause) => Err(Incompatible { name, cause }),
        }
    }

    fn judge(&self, existing: &Value, key: &PrivateKey, now: SystemTime) -> Result<(), String> {
        let theirs_der = request_der(&decode(text(existing, &["spec", "request"]))?)?;
        let ours_der = request_der(self.pem().as_bytes())?;
        let theirs = parse(&theirs_der)?;
        let ours = parse(&ours_der)?;
        let (theirs_info, ours_info) = (
            &theirs.certification_request_info,
            &ours.certification_request_info,
        );
        if subject(&theirs) != subject(&ours) {
            return Err(format!(
                "its subject is \"{}\", ours is \"{}\"",
                theirs_info.subject, ours_info.subject
            ));
        }
        let signer_name = text(existing, &["spec", "signerName"]);
        if !signer_name.is_empty() && signer_name != self.signer_name() {
            return Err(format!(
                "its signer is {signer_name}, ours is {}",
                self.signer_name()
            ));
        }
        let ours_signed_it =
            key.matches(theirs_info.subject_pki.raw) && theirs.verify_signature().is_ok();
        if !ours_signed_it {
            return Err("it was not signed with our key".to_owned());
        }
        judge_certificate(text(existing, &["status", "certificate"]), now)
    }
}

fn judge_certificate(encoded: &str, now: SystemTime) -> Result<(), String> {
    if encoded.is_empty() {
        return Ok(());
    }
    let leaves = certificate::read_leaves(&decode(encoded)?)
        .map_err(|cause| format!("its certificate is unusable: {cause}"))?;
    if leaves.iter().any(|leaf| leaf.is_expired(now)) {
        return Err("the certificate issued for it has expired".to_owned());
    }
    Ok(())
}

/// Attribute types and values: how the strings are encoded says nothing.
fn subject(request: &X509CertificationRequest<'_>) -> Vec<(String, String)> {
    let attributes = request.certification_request_info.subject.iter_attributes();
    attributes
        .map(|attribute| {
            let value = attribute.as_str().unwrap_or_default();
            (attribute.attr_type().to_id_string(), value.to_owned())
        })
        .collect()
}

fn parse(der: &[u8]) -> Result<X509CertificationRequest<'_>, String> {
    match X509CertificationRequest::from_der(der) {
        Ok((_, request)) => Ok(request),
        Err(cause) => Err(format!("its PKCS#10 request cannot be read: {cause}")),
    }
}

fn request_der(pem_text: &[u8]) -> Result<Vec<u8>, String> {
    let block = pem::parse(pem_text).map_err(|cause| format!("it is not PEM text: {cause}"))?;
    if block.tag() != TAG {
        return Err(format!("it holds a \"{}\", not a \"{TAG}\"", block.tag()));
    }
    Ok(block.into_contents())
}

fn decode(encoded: &str) -> Result<Vec<u8>, String> {
    STANDARD
        .decode(encoded)
        .map_err(|cause| format!("it is not base64: {cause}"))
}

fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    let found = path
        .iter()
        .try_fold(object, |value, field| value.get(field));
    found.and_then(Value::as_str).unwrap_or_default()
}
