//! A request as `csr show` and `csr list` tell it.

use std::fmt;
use std::time::{Duration, SystemTime};

use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition,
};

use super::pkcs10::{RequestContent, RequestFault};

/// A request, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    pub name: String,
    pub signer: String,
    pub requester: String,
    pub requester_groups: Vec<String>,
    pub usages: Vec<String>,
    /// How long the certificate is wished to live.
    pub wished_life: Option<Duration>,
    pub created: Option<SystemTime>,
    pub condition: Condition,
    pub content: Result<RequestContent, RequestFault>,
}

impl Described {
    /// How long ago it was made; nothing where it lies ahead.
    pub fn age(&self, now: SystemTime) -> Option<Duration> {
        now.duration_since(self.created?).ok()
    }
}

/// What has become of a request. `Display` is kubectl's wording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub approval: Approval,
    /// The signer could not sign: its reason and message.
    pub failed: Option<(String, String)>,
    pub issued: bool,
}

/// What an approver has said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Approval {
    Pending,
    Approved { reason: String, message: String },
    Denied { reason: String, message: String },
}

impl Condition {
    /// A denial outdoes an approval.
    pub fn of(csr: &CertificateSigningRequest) -> Self {
        let find = |kind: &str| {
            let found = conditions(csr).iter().find(|found| found.type_ == kind)?;
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            Some((text(&found.reason), text(&found.message)))
        };
        let approval = match (find("Denied"), find("Approved")) {
            (Some((reason, message)), _) => Approval::Denied { reason, message },
            (None, Some((reason, message))) => Approval::Approved { reason, message },
            (None, None) => Approval::Pending,
        };
        let certificate = csr
            .status
            .as_ref()
            .and_then(|status| status.certificate.as_ref());
        Self {
            approval,
            failed: find("Failed"),
            issued: certificate.is_some_and(|certificate| !certificate.0.is_empty()),
        }
    }

    pub fn is_pending(&self) -> bool {
        self.approval == Approval::Pending && !self.issued
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.approval {
            Approval::Pending => "Pending",
            Approval::Approved { .. } => "Approved",
            Approval::Denied { .. } => "Denied",
        })?;
        if self.failed.is_some() {
            formatter.write_str(",Failed")?;
        }
        if self.issued {
            formatter.write_str(",Issued")?;
        }
        Ok(())
    }
}

pub fn describe(csr: &CertificateSigningRequest) -> Described {
    let spec = &csr.spec;
    let created = csr.metadata.creation_timestamp.as_ref();
    let seconds = spec
        .expiration_seconds
        .and_then(|wish| u64::try_from(wish).ok());
    Described {
        name: csr.metadata.name.clone().unwrap_or_default(),
        signer: spec.signer_name.clone(),
        requester: spec.username.clone().unwrap_or_default(),
        requester_groups: spec.groups.clone().unwrap_or_default(),
        usages: spec.usages.clone().unwrap_or_default(),
        wished_life: seconds.map(Duration::from_secs),
        created: created.map(|time| time.0.into()),
        condition: Condition::of(csr),
        content: RequestContent::of_pem(&spec.request.0),
    }
}

pub(super) fn conditions(csr: &CertificateSigningRequest) -> &[CertificateSigningRequestCondition] {
    let status = csr.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    conditions.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;
    use crate::csr::testdata::{first_client, with_condition};
    use crate::testing::at;

    #[test]
    fn a_request_is_told_with_who_asked_for_what_and_when() {
        let mut csr = first_client();
        csr.spec.expiration_seconds = Some(3600);
        let described = describe(&csr);
        assert_eq!(described.name, "csr-tbj64");
        assert_eq!(described.requester, "system:bootstrap:8ahdcp");
        assert_eq!(described.usages, ["digital signature", "client auth"]);
        assert_eq!(described.wished_life, Some(Duration::from_secs(3600)));
        let age = described.age(at("2026-11-15T06:08:35Z"));
        assert_eq!(age, Some(Duration::from_secs(60)));
        assert_eq!(described.age(at("2026-11-15T06:00:00Z")), None);
        assert_eq!(described.content.unwrap().common_name, "system:node:up1");
    }

    #[test]
    fn the_condition_reads_as_in_kubectl() {
        let issued = |mut csr: CertificateSigningRequest| {
            csr.status.get_or_insert_default().certificate = Some(ByteString(b"x".to_vec()));
            csr
        };
        let approved = || with_condition(first_client(), "Approved");
        for (csr, expected) in [
            (first_client(), "Pending"),
            (approved(), "Approved"),
            (issued(approved()), "Approved,Issued"),
            (with_condition(first_client(), "Denied"), "Denied"),
            (with_condition(approved(), "Failed"), "Approved,Failed"),
            (with_condition(approved(), "Denied"), "Denied"),
        ] {
            assert_eq!(Condition::of(&csr).to_string(), expected);
        }
    }
}
