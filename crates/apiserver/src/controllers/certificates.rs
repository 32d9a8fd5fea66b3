//! Requests for certificates: approved when a node asks for its own, signed when they
//! are approved, taken away when nobody needs them any more.

pub(crate) mod decide;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use serde_json::{Value, json};
use tracing::info;

use super::agenda::Agenda;
use super::mirror::{Mirror, Name};
use crate::access::certificate_request;
use crate::access::{Authorizer, Pki, User};
use crate::failure::Failure;
use crate::front::Attributes;
use crate::kinds::CERTIFICATE_SIGNING_REQUESTS;
use crate::rest::{DeleteOptions, Objects, Part};
use crate::store::Key;
use decide::{Rules, Step};

/// As often as upstream looks for what is old.
const CLEANING: Duration = Duration::from_secs(3600);

pub(crate) struct Certificates {
    pub(crate) objects: Objects,
    pub(crate) authorizer: Authorizer,
    pub(crate) pki: Arc<Pki>,
    pub(crate) rules: Rules,
}

impl Certificates {
    pub(crate) async fn run(self) {
        let clock = self.objects.clock().clone();
        let mut requests: Mirror<CertificateSigningRequest> =
            Mirror::new(self.objects.store(), &CERTIFICATE_SIGNING_REQUESTS);
        let mut agenda = Agenda::new(requests.names());
        loop {
            for name in agenda.take(|| requests.names()) {
                let outcome = match requests.get("", &name.1) {
                    Some(request) => self.look(&name, request).await,
                    None => Ok(None),
                };
                agenda.done("certificates", name, outcome);
            }
            tokio::select! {
                names = requests.changed() => agenda.now(names),
                () = agenda.wait(&clock) => {}
            }
        }
    }

    async fn look(
        &self,
        name: &Name,
        request: &CertificateSigningRequest,
    ) -> Result<Option<Duration>, Failure> {
        let now = self.objects.clock().timestamp();
        if decide::is_old(request, now) {
            return self.clean(name, request).await;
        }
        let may = |user: &User, asked: &Attributes| self.authorizer.decide(user, asked).allowed;
        let seconds = self.objects.clock().seconds();
        let step = decide::step(request, &self.rules, &may, now);
        match step {
            Step::Nothing => {}
            Step::Approve(message) => {
                info!(csr = name.1, "a request for a certificate is approved");
                self.add_condition(request, "Approved", "AutoApproved", message, &seconds)
                    .await?;
            }
            Step::Fail(message) => {
                info!(
                    csr = name.1,
                    err = message,
                    "a request for a certificate breaks the rules of its signer"
                );
                self.add_condition(
                    request,
                    "Failed",
                    "SignerValidationFailure",
                    &message,
                    &seconds,
                )
                .await?;
            }
            Step::Sign {
                content,
                usages,
                from,
                until,
            } => {
                let certificate =
                    certificate_request::issue(&content, &usages, from, until, &self.pki.ca)
                        .map_err(Failure::internal)?;
                let certificate = base64_of(&certificate);
                info!(
                    csr = name.1,
                    subject = content.common_name,
                    "a certificate is issued"
                );
                self.modify(request, |object| {
                    object["status"]["certificate"] = json!(certificate);
                })
                .await?;
            }
        }
        Ok(Some(CLEANING))
    }

    async fn clean(
        &self,
        name: &Name,
        request: &CertificateSigningRequest,
    ) -> Result<Option<Duration>, Failure> {
        let options = DeleteOptions {
            uid: request.metadata.uid.clone(),
            ..DeleteOptions::default()
        };
        let key = Key::global(&CERTIFICATE_SIGNING_REQUESTS, &name.1);
        super::settled(self.objects.delete(&key, options).await)?;
        Ok(None)
    }

    async fn add_condition(
        &self,
        request: &CertificateSigningRequest,
        kind: &str,
        reason: &str,
        message: &str,
        now: &str,
    ) -> Result<(), Failure> {
        let condition = json!({
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastUpdateTime": now,
            "lastTransitionTime": now,
        });
        self.modify(request, |object| {
            let conditions = &mut object["status"]["conditions"];
            let has = |one: &Value| one["type"] == condition["type"];
            if conditions.as_array().is_some_and(|all| all.iter().any(has)) {
                return;
            }
            match conditions.as_array_mut() {
                Some(all) => all.push(condition.clone()),
                None => *conditions = json!([condition]),
            }
        })
        .await
    }

    /// Changes the request that was judged, unless somebody has decided it meanwhile.
    async fn modify(
        &self,
        request: &CertificateSigningRequest,
        change: impl Fn(&mut Value) + Send + Sync,
    ) -> Result<(), Failure> {
        let name = request.metadata.name.as_deref().unwrap_or_default();
        let key = Key::global(&CERTIFICATE_SIGNING_REQUESTS, name);
        let modified = self.objects.modify(&key, Part::Whole, |object| {
            let is_open = super::is_still(object, &request.metadata) && is_open(object);
            if is_open {
                change(object);
            }
            is_open
        });
        super::settled(modified.await)
    }
}

/// Whether anything can still become of a request.
fn is_open(request: &Value) -> bool {
    let status = &request["status"];
    let conditions = status["conditions"].as_array();
    let ended = |one: &Value| one["type"] == "Denied" || one["type"] == "Failed";
    let ended = conditions.is_some_and(|all| all.iter().any(ended));
    let certificate = status["certificate"].as_str().unwrap_or_default();
    !ended && certificate.is_empty()
}

fn base64_of(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_refused_or_issued_is_left_alone() {
        for (status, open) in [
            (json!(null), true),
            (json!({"conditions": []}), true),
            (json!({"conditions": [{"type": "Approved"}]}), true),
            (
                json!({"conditions": [{"type": "Approved"}, {"type": "Failed"}]}),
                false,
            ),
            (json!({"conditions": [{"type": "Denied"}]}), false),
            (json!({"certificate": ""}), true),
            (json!({"certificate": "LS0t"}), false),
        ] {
            assert_eq!(is_open(&json!({"status": status})), open, "{status}");
        }
    }
}
