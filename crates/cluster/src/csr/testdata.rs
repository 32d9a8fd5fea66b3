//! Requests for the tests of this module.

use identity::PrivateKey;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{NODE_CLIENT_SIGNER, NODE_SERVING_SIGNER, NewRequest};

pub(super) fn object(new: &NewRequest) -> CertificateSigningRequest {
    new.object(&PrivateKey::generate().unwrap()).unwrap()
}

/// What a node asks for with its token.
pub(super) fn first_client() -> CertificateSigningRequest {
    let mut object = object(&NewRequest {
        name: Some("csr-tbj64".to_owned()),
        subject: "O=system:nodes,CN=system:node:up1".parse().unwrap(),
        signer: NODE_CLIENT_SIGNER.to_owned(),
        ..NewRequest::default()
    });
    object.metadata.uid = Some("u1".to_owned());
    object.metadata.creation_timestamp = Some(Time("2026-11-15T06:07:35Z".parse().unwrap()));
    object.spec.username = Some("system:bootstrap:8ahdcp".to_owned());
    object.spec.groups = Some(
        [
            "system:bootstrappers",
            "system:bootstrappers:kubeadm:default-node-token",
            "system:authenticated",
        ]
        .map(str::to_owned)
        .to_vec(),
    );
    object
}

/// What a node asks for with its certificate.
pub(super) fn serving() -> CertificateSigningRequest {
    let mut object = object(&NewRequest {
        name: Some("csr-serving".to_owned()),
        subject: "O=system:nodes,CN=system:node:up1".parse().unwrap(),
        dns_names: vec!["up1".to_owned()],
        addresses: vec!["192.0.2.21".parse().unwrap()],
        signer: NODE_SERVING_SIGNER.to_owned(),
        ..NewRequest::default()
    });
    object.spec.username = Some("system:node:up1".to_owned());
    object.spec.groups = Some(vec![
        "system:nodes".to_owned(),
        "system:authenticated".to_owned(),
    ]);
    object
}

pub(super) fn condition(kind: &str) -> CertificateSigningRequestCondition {
    CertificateSigningRequestCondition {
        type_: kind.to_owned(),
        status: "True".to_owned(),
        reason: Some("Because".to_owned()),
        message: Some("of this".to_owned()),
        ..CertificateSigningRequestCondition::default()
    }
}

pub(super) fn with_condition(
    mut object: CertificateSigningRequest,
    kind: &str,
) -> CertificateSigningRequest {
    let status = object.status.get_or_insert_default();
    status
        .conditions
        .get_or_insert_default()
        .push(condition(kind));
    object
}
