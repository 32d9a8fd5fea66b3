//! What has become of a request, read from the object that the API server shows.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// What has become of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nobody has approved it yet.
    Waiting,
    /// Approved; the signer has still to sign.
    Approved,
    /// Signed: the certificate, PEM.
    Issued(Vec<u8>),
    Denied {
        reason: String,
        message: String,
    },
    Failed {
        reason: String,
        message: String,
    },
    /// Another request has taken the name.
    Replaced,
}

impl Verdict {
    /// Reads `object`, which must still be the one with `uid`. A refusal outdoes
    /// an approval, and a certificate without an approval counts for nothing.
    pub fn of(object: &Value, uid: &str) -> Self {
        if object.pointer("/metadata/uid").and_then(Value::as_str) != Some(uid) {
            return Self::Replaced;
        }
        let conditions = object
            .pointer("/status/conditions")
            .and_then(Value::as_array);
        let mut approved = false;
        for condition in conditions.into_iter().flatten() {
            let text = |field: &str| {
                let value = condition.get(field).and_then(Value::as_str);
                value.unwrap_or_default().to_owned()
            };
            let (reason, message) = (text("reason"), text("message"));
            match text("type").as_str() {
                "Denied" => return Self::Denied { reason, message },
                "Failed" => return Self::Failed { reason, message },
                "Approved" => approved = true,
                _ => {}
            }
        }
        let certificate = object
            .pointer("/status/certificate")
            .and_then(Value::as_str);
        match certificate.and_then(|text| STANDARD.decode(text).ok()) {
            Some(pem) if approved && !pem.is_empty() => Self::Issued(pem),
            _ if approved => Self::Approved,
            _ => Self::Waiting,
        }
    }
}
