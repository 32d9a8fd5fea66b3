//! What is said to a plugin, and what it answers.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use rustls::crypto::CryptoProvider;
use serde::Serialize;
use serde_json::Value;

use super::super::document;
use super::super::fields::Node;
use super::super::tls::{Authority, ClientCertificate, TlsError};
use super::{ExecProblem, ExecVersion};
use crate::Secret;

/// What a plugin said.
#[derive(Debug)]
pub struct ExecCredential {
    pub token: Option<Secret<String>>,
    /// When it differs from the one before, connections have to be made anew.
    pub certificate: Option<ClientCertificate>,
    pub expires: Option<Timestamp>,
}

/// The cluster, for plugins that ask for it.
#[derive(Debug, Clone)]
pub(in super::super) struct ExecCluster {
    pub(in super::super) server: String,
    pub(in super::super) tls_server_name: Option<String>,
    pub(in super::super) insecure: bool,
    pub(in super::super) authority: Option<Authority>,
    pub(in super::super) proxy: Option<Secret<String>>,
    pub(in super::super) disable_compression: bool,
    pub(in super::super) config: Option<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Info<'a> {
    kind: &'a str,
    api_version: &'a str,
    spec: Spec<'a>,
}

#[derive(Serialize)]
struct Spec<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<ClusterInfo<'a>>,
    interactive: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct ClusterInfo<'a> {
    server: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_server_name: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    insecure_skip_tls_verify: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate_authority_data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    proxy_url: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    disable_compression: bool,
    config: Option<&'a Value>,
}

/// The value of `KUBERNETES_EXEC_INFO`.
pub(super) fn info(
    version: ExecVersion,
    interactive: bool,
    cluster: Option<&ExecCluster>,
) -> Result<String, ExecProblem> {
    let cluster = cluster.map(ClusterInfo::new).transpose()?;
    let spec = Spec {
        cluster,
        interactive,
    };
    serde_json::to_string(&Info {
        kind: "ExecCredential",
        api_version: version.as_str(),
        spec,
    })
    .map_err(|error| ExecProblem::Undecodable(error.to_string()))
}

impl<'a> ClusterInfo<'a> {
    fn new(cluster: &'a ExecCluster) -> Result<Self, TlsError> {
        let authority = cluster
            .authority
            .as_ref()
            .map(|authority| authority.0.load())
            .transpose()?;
        Ok(Self {
            server: &cluster.server,
            tls_server_name: cluster.tls_server_name.as_deref(),
            insecure_skip_tls_verify: cluster.insecure,
            certificate_authority_data: authority.map(|pem| STANDARD.encode(pem.expose())),
            proxy_url: cluster.proxy.as_ref().map(|proxy| proxy.expose().as_str()),
            disable_compression: cluster.disable_compression,
            config: cluster.config.as_ref(),
        })
    }
}

impl ExecCredential {
    pub(super) fn is_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| now > expires)
    }

    /// Whether a connection made with `other` shows the same certificate.
    pub fn has_certificate_of(&self, other: &Self) -> bool {
        let chain = |credential: &Self| {
            let certificate = credential.certificate.as_ref()?;
            Some(Arc::clone(&certificate.certified))
        };
        match (chain(self), chain(other)) {
            (None, None) => true,
            (Some(one), Some(two)) => one.cert == two.cert,
            _ => false,
        }
    }

    /// Reads what a plugin printed: JSON or, as upstream, YAML.
    pub(super) fn parse(
        output: &[u8],
        version: ExecVersion,
        provider: &CryptoProvider,
    ) -> Result<Self, ExecProblem> {
        let value =
            document::read(output).map_err(|error| ExecProblem::Undecodable(error.to_string()))?;
        let fields = Node::root(&value).fields()?;
        let kind = fields.text("kind")?.unwrap_or_default();
        if kind != "ExecCredential" {
            return Err(ExecProblem::Undecodable(format!("its kind is {kind:?}")));
        }
        let got = fields.text("apiVersion")?.unwrap_or_default();
        if got != version.as_str() {
            return Err(ExecProblem::OtherVersion {
                wanted: version.as_str(),
                got,
            });
        }
        let status = fields
            .get("status")
            .map(Node::fields)
            .transpose()?
            .ok_or(ExecProblem::NoStatus)?;
        let token = status.text("token")?.map(Secret::new);
        let certificate = status.text("clientCertificateData")?;
        let key = status.text("clientKeyData")?.map(Secret::new);
        let expires = expiry(status.text("expirationTimestamp")?)?;

        let certificate = match (certificate, key) {
            (None, None) if token.is_none() => return Err(ExecProblem::NoCredential),
            (None, None) => None,
            (Some(certificate), Some(key)) => Some(ClientCertificate::from_pem(
                certificate.as_bytes(),
                key.expose().as_bytes(),
                &(
                    "status.clientCertificateData".to_owned(),
                    "status.clientKeyData".to_owned(),
                ),
                provider,
            )?),
            _ => return Err(ExecProblem::HalfPair),
        };
        Ok(Self {
            token,
            certificate,
            expires,
        })
    }
}

fn expiry(text: Option<String>) -> Result<Option<Timestamp>, ExecProblem> {
    let Some(text) = text else { return Ok(None) };
    let time = text.parse().map_err(|_| {
        ExecProblem::Undecodable("status.expirationTimestamp is no RFC 3339 time".to_owned())
    })?;
    Ok(Some(time))
}
