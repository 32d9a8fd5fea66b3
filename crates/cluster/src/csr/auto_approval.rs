//! Whether the control plane approves a request by itself, and if not, what stops
//! it.

use std::fmt;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::api::PostParams;
use kube::{Api, Client};

use super::describe::Condition;
use super::pkcs10::{RequestContent, RequestFault};
use super::structure::{StructuralFault, structural_faults};
use super::{NODE_CLIENT_SIGNER, NODE_SERVING_SIGNER, NODES_GROUP};
use crate::call::CallError;
use crate::rbac::{BOOTSTRAPPERS, NODE_CLIENT, SELF_NODE_CLIENT};

/// By what the approver knows a request, in the order in which it tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recogniser {
    /// A node that asks for its own next certificate.
    SelfNodeClient,
    /// Somebody who asks for a node's first certificate.
    NodeClient,
}

impl Recogniser {
    fn subresource(self) -> &'static str {
        match self {
            Self::SelfNodeClient => "selfnodeclient",
            Self::NodeClient => "nodeclient",
        }
    }

    /// The stock role whose holder has such requests approved.
    pub fn role(self) -> &'static str {
        match self {
            Self::SelfNodeClient => SELF_NODE_CLIENT,
            Self::NodeClient => NODE_CLIENT,
        }
    }
}

/// What the requester may, as the API server says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    pub self_node_client: bool,
    pub node_client: bool,
}

impl Access {
    fn allows(self, recogniser: Recogniser) -> bool {
        match recogniser {
            Recogniser::SelfNodeClient => self.self_node_client,
            Recogniser::NodeClient => self.node_client,
        }
    }
}

/// Whether the control plane approves a request by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AutoApproval {
    Taken(Recogniser),
    /// It has been decided; there is nothing left to approve.
    Decided(Condition),
    /// It looks at requests for nodes' client certificates only.
    OtherSigner(String),
    Unreadable(RequestFault),
    Structure(Vec<StructuralFault>),
    /// The requester lacks the role. Any one of these would do.
    Forbidden(Vec<MissingRole>),
}

/// A role that a requester lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingRole {
    pub role: &'static str,
    /// kubectl's flag for whom to bind it to.
    subject: String,
    binding: String,
}

impl MissingRole {
    /// The command that binds it.
    pub fn command(&self) -> String {
        format!(
            "kubectl create clusterrolebinding {} --clusterrole={} {}",
            self.binding, self.role, self.subject
        )
    }

    fn of(recogniser: Recogniser, csr: &CertificateSigningRequest) -> Self {
        let (subject, binding) = match recogniser {
            Recogniser::SelfNodeClient => (
                format!("--group={NODES_GROUP}"),
                "node-autoapprove-certificate-rotation",
            ),
            Recogniser::NodeClient => (bootstrap_subject(csr), "node-autoapprove-bootstrap"),
        };
        Self {
            role: recogniser.role(),
            subject,
            binding: binding.to_owned(),
        }
    }
}

/// The narrowest group of tokens that the requester is in, else the requester.
fn bootstrap_subject(csr: &CertificateSigningRequest) -> String {
    let groups = csr.spec.groups.as_deref().unwrap_or_default();
    let of_tokens = groups
        .iter()
        .filter(|group| group.starts_with(BOOTSTRAPPERS))
        .max_by_key(|group| group.len());
    match of_tokens {
        Some(group) => format!("--group={group}"),
        None => format!(
            "--user={}",
            csr.spec.username.as_deref().unwrap_or_default()
        ),
    }
}

/// What the approver would do, given what the requester may.
pub fn auto_approval(csr: &CertificateSigningRequest, access: Access) -> AutoApproval {
    let condition = Condition::of(csr);
    if !condition.is_pending() {
        return AutoApproval::Decided(condition);
    }
    if csr.spec.signer_name != NODE_CLIENT_SIGNER {
        return AutoApproval::OtherSigner(csr.spec.signer_name.clone());
    }
    let content = match RequestContent::of_pem(&csr.spec.request.0) {
        Ok(content) => content,
        Err(fault) => return AutoApproval::Unreadable(fault),
    };
    let usages = csr.spec.usages.as_deref().unwrap_or_default();
    let faults = structural_faults(NODE_CLIENT_SIGNER, &content, usages);
    if !faults.is_empty() {
        return AutoApproval::Structure(faults);
    }
    let recognisers = recognisers(csr, &content);
    match recognisers.iter().find(|one| access.allows(**one)) {
        Some(recogniser) => AutoApproval::Taken(*recogniser),
        None => AutoApproval::Forbidden(
            recognisers
                .into_iter()
                .map(|one| MissingRole::of(one, csr))
                .collect(),
        ),
    }
}

fn recognisers(csr: &CertificateSigningRequest, content: &RequestContent) -> Vec<Recogniser> {
    let own = csr.spec.username.as_deref() == Some(&content.common_name);
    let mut recognisers = Vec::new();
    if own {
        recognisers.push(Recogniser::SelfNodeClient);
    }
    recognisers.push(Recogniser::NodeClient);
    recognisers
}

/// Asks the API server what the requester may, in the approver's own words.
pub async fn access(client: &Client, csr: &CertificateSigningRequest) -> Result<Access, CallError> {
    Ok(Access {
        self_node_client: is_allowed(client, csr, Recogniser::SelfNodeClient).await?,
        node_client: is_allowed(client, csr, Recogniser::NodeClient).await?,
    })
}

async fn is_allowed(
    client: &Client,
    csr: &CertificateSigningRequest,
    recogniser: Recogniser,
) -> Result<bool, CallError> {
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let review = review(csr, recogniser);
    let answer = reviews.create(&PostParams::default(), &review).await;
    let answer = answer.map_err(|cause| {
        let user = csr.spec.username.as_deref().unwrap_or_default();
        CallError::new("ask what is allowed to", user, &cause)
    })?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

fn review(csr: &CertificateSigningRequest, recogniser: Recogniser) -> SubjectAccessReview {
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: csr.spec.username.clone(),
            uid: csr.spec.uid.clone(),
            groups: csr.spec.groups.clone(),
            extra: csr.spec.extra.clone(),
            resource_attributes: Some(ResourceAttributes {
                group: Some("certificates.k8s.io".to_owned()),
                resource: Some("certificatesigningrequests".to_owned()),
                subresource: Some(recogniser.subresource().to_owned()),
                verb: Some("create".to_owned()),
                version: Some("*".to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

impl fmt::Display for AutoApproval {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken(recogniser) => write!(
                formatter,
                "the auto-approver takes it: the requester has {}",
                recogniser.role()
            ),
            Self::Decided(condition) => write!(formatter, "it is decided already: {condition}"),
            Self::OtherSigner(signer) if signer == NODE_SERVING_SIGNER => formatter.write_str(
                "the auto-approver never takes serving certificates; approve it with `ferrolet csr approve`, or let `ferrolet csr approve --watch --kubelet-serving` check and approve such requests",
            ),
            Self::OtherSigner(signer) => write!(
                formatter,
                "the auto-approver does not look at requests for {signer}; approve it with `ferrolet csr approve`"
            ),
            Self::Unreadable(fault) => write!(
                formatter,
                "the auto-approver cannot read it: {fault}"
            ),
            Self::Structure(faults) => {
                formatter.write_str("the auto-approver passes over it: ")?;
                let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
                formatter.write_str(&faults.join("; "))
            }
            Self::Forbidden(missing) => {
                formatter.write_str("the auto-approver may not take it: the requester lacks ")?;
                let roles: Vec<_> = missing
                    .iter()
                    .map(|missing| format!("{} (`{}`)", missing.role, missing.command()))
                    .collect();
                formatter.write_str(&roles.join(" or "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csr::testdata::{first_client, serving, with_condition};
    use crate::testing::FakeApi;

    const ALL: Access = Access {
        self_node_client: true,
        node_client: true,
    };
    const NONE: Access = Access {
        self_node_client: false,
        node_client: false,
    };

    fn renewal() -> CertificateSigningRequest {
        let mut csr = first_client();
        csr.spec.username = Some("system:node:up1".to_owned());
        csr.spec.groups = Some(vec!["system:nodes".to_owned()]);
        csr
    }

    #[test]
    fn a_request_is_taken_by_the_first_recogniser_that_is_allowed() {
        let taken = |csr: &CertificateSigningRequest, access| auto_approval(csr, access);
        let (own, first) = (Recogniser::SelfNodeClient, Recogniser::NodeClient);
        assert_eq!(taken(&renewal(), ALL), AutoApproval::Taken(own));
        assert_eq!(taken(&first_client(), ALL), AutoApproval::Taken(first));
        let only_first = Access {
            node_client: true,
            ..NONE
        };
        assert_eq!(taken(&renewal(), only_first), AutoApproval::Taken(first));
        let only_own = Access {
            self_node_client: true,
            ..NONE
        };
        assert!(
            matches!(taken(&first_client(), only_own), AutoApproval::Forbidden(_)),
            "a token is not the node"
        );
    }

    #[test]
    fn a_missing_role_is_told_with_the_command_that_binds_it() {
        let AutoApproval::Forbidden(missing) = auto_approval(&first_client(), NONE) else {
            panic!("nothing is allowed");
        };
        let commands: Vec<_> = missing.iter().map(MissingRole::command).collect();
        assert_eq!(
            commands,
            [
                "kubectl create clusterrolebinding node-autoapprove-bootstrap \
              --clusterrole=system:certificates.k8s.io:certificatesigningrequests:nodeclient \
              --group=system:bootstrappers:kubeadm:default-node-token"
            ]
        );
        let AutoApproval::Forbidden(missing) = auto_approval(&renewal(), NONE) else {
            panic!("nothing is allowed");
        };
        let commands: Vec<_> = missing.iter().map(MissingRole::command).collect();
        assert!(commands[0].ends_with("selfnodeclient --group=system:nodes"));
        assert!(commands[1].ends_with("--user=system:node:up1"));
    }

    #[test]
    fn what_is_decided_of_another_signer_or_broken_is_not_taken() {
        let approved = with_condition(first_client(), "Approved");
        assert!(matches!(
            auto_approval(&approved, ALL),
            AutoApproval::Decided(_)
        ));
        let other = auto_approval(&serving(), ALL);
        assert!(matches!(other, AutoApproval::OtherSigner(_)));
        assert!(other.to_string().contains("--kubelet-serving"));
        let mut broken = first_client();
        broken.spec.request.0 = b"x".to_vec();
        assert!(matches!(
            auto_approval(&broken, ALL),
            AutoApproval::Unreadable(_)
        ));
        let mut usages = first_client();
        usages.spec.usages = Some(vec!["client auth".to_owned()]);
        assert!(matches!(
            auto_approval(&usages, ALL),
            AutoApproval::Structure(_)
        ));
    }

    #[tokio::test]
    async fn the_review_asks_about_the_requester_and_its_answer_counts() {
        let api = FakeApi::new();
        api.allow_subresource("nodeclient");
        let found = access(&api.client(), &first_client()).await.unwrap();
        assert_eq!(
            found,
            Access {
                self_node_client: false,
                node_client: true
            }
        );
        let sent = serde_json::to_value(review(&first_client(), Recogniser::NodeClient)).unwrap();
        assert_eq!(
            sent["spec"],
            serde_json::json!({
                "user": "system:bootstrap:8ahdcp",
                "groups": [
                    "system:bootstrappers",
                    "system:bootstrappers:kubeadm:default-node-token",
                    "system:authenticated",
                ],
                "resourceAttributes": {
                    "group": "certificates.k8s.io",
                    "resource": "certificatesigningrequests",
                    "subresource": "nodeclient",
                    "verb": "create",
                    "version": "*",
                },
            })
        );
    }
}
