//! Whether a node may believe what it was told: pure, on what was fetched.

use std::path::Path;

use api::kubeconfig::{Cluster, Kubeconfig};
use identity::certificate::CertificateError;
use thiserror::Error;

use super::{ClusterInfo, FetchError, verify};
use crate::kubeconfig::{Endpoint, KubeconfigError};
use crate::pin::CaPin;
use crate::token::{Token, TokenId};

/// How the authority that cluster-info names is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pinning {
    /// Any one of these; never empty where it comes from [`Pinning::to`].
    Pins(Vec<CaPin>),
    /// Not at all: whoever knows the token can pretend to be the cluster.
    Skip,
}

impl Pinning {
    /// Pins where there are some; none is only taken with an explicit wish.
    pub fn to(pins: Vec<CaPin>, unsafe_skip: bool) -> Result<Self, DiscoveryError> {
        match (pins.is_empty(), unsafe_skip) {
            (false, _) => Ok(Self::Pins(pins)),
            (true, true) => Ok(Self::Skip),
            (true, false) => Err(DiscoveryError::NoPin),
        }
    }
}

/// Where the cluster is, as far as it has been proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovered {
    pub endpoint: Endpoint,
    pub verified: Verified,
}

/// What was proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verified {
    /// The token signed it.
    ByToken,
    /// The token signed it, its authority is pinned, and whoever answers holds a
    /// certificate of that authority.
    ByTokenAndPin,
}

/// Why a node does not believe that this is its cluster, or could not ask.
#[derive(Debug, Error)]
pub enum DiscoveryError {
    #[error(
        "no --discovery-token-ca-cert-hash is given, so that anybody who knows the token could pretend to be the cluster; take the hash from `ferrolet token create --print-join-command`, or accept the risk with --discovery-token-unsafe-skip-ca-verification"
    )]
    NoPin,
    #[error("the cluster's information could not be fetched from {server}: {cause}")]
    Fetch { server: String, cause: FetchError },
    #[error(
        "{server} has no signature by the token {id} in its cluster-info, only by {others}: the token has expired or is of another cluster; create one with `ferrolet token create`"
    )]
    NotSigned {
        server: String,
        id: TokenId,
        others: String,
    },
    #[error(
        "{server} has no signature by any token in its cluster-info: the token {id} has expired or cannot sign, or the controller manager does not sign (--controllers=*,bootstrapsigner,tokencleaner); create a token with `ferrolet token create`"
    )]
    NothingSigned { server: String, id: TokenId },
    #[error(
        "the cluster-info of {0} holds no kubeconfig: that cluster is not prepared for tokens; run `kubeadm init phase bootstrap-token` there"
    )]
    NoKubeconfig(String),
    #[error(
        "the cluster-info of {server} is not what the token {id} signed: it was tampered with, or the secret half of the token is wrong; compare the token with `ferrolet token list`, and do not join until they agree"
    )]
    Tampered { server: String, id: TokenId },
    #[error(
        "the cluster-info of {server} holds a kubeconfig that cannot be used: {cause}; correct it there"
    )]
    Kubeconfig { server: String, cause: String },
    #[error(
        "the certificate authority of {server} has the hash {found}, which is none of those given; take the right one from `ferrolet token create --print-join-command`, and do not join if it stays different: somebody may be between you and the cluster"
    )]
    OtherAuthority { server: String, found: String },
    #[error(
        "{server} does not prove itself with the pinned certificate authority ({cause}): somebody may be between you and the cluster, or its address is not in its certificate; check the address"
    )]
    NotProven { server: String, cause: String },
    #[error(
        "{0} gave another kubeconfig over the verified connection than before it: somebody may be between you and the cluster, or it is being changed; try again"
    )]
    Changed(String),
}

impl DiscoveryError {
    /// Whether waiting may help: the API server or the signature is yet to come.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Fetch { cause, .. } => cause.may_pass(),
            Self::NotSigned { .. } | Self::NothingSigned { .. } => true,
            _ => false,
        }
    }
}

/// Steps two to four, on what came over an unverified connection: the signature,
/// the kubeconfig, the pin.
pub fn judge_first(
    server: &str,
    info: &ClusterInfo,
    token: &Token,
    pinning: &Pinning,
) -> Result<Discovered, DiscoveryError> {
    check_signature(server, info, token)?;
    let endpoint = read_endpoint(server, &info.kubeconfig)?;
    if let Pinning::Pins(pins) = pinning {
        check_pins(server, &endpoint, pins)?;
    }
    Ok(Discovered {
        endpoint,
        verified: Verified::ByToken,
    })
}

/// Step five, on what came over a connection verified with the pinned authority:
/// the same bytes.
pub fn judge_again(
    server: &str,
    first: &ClusterInfo,
    second: &ClusterInfo,
    discovered: Discovered,
) -> Result<Discovered, DiscoveryError> {
    if first.kubeconfig != second.kubeconfig {
        return Err(DiscoveryError::Changed(server.to_owned()));
    }
    Ok(Discovered {
        verified: Verified::ByTokenAndPin,
        ..discovered
    })
}

fn check_signature(server: &str, info: &ClusterInfo, token: &Token) -> Result<(), DiscoveryError> {
    let server = server.to_owned();
    let id = token.id().clone();
    if info.kubeconfig.is_empty() {
        return Err(DiscoveryError::NoKubeconfig(server));
    }
    match info.signature_of(&id) {
        Some(signature) if verify(signature, &info.kubeconfig, token) => Ok(()),
        Some(_) => Err(DiscoveryError::Tampered { server, id }),
        None if info.signatures.is_empty() => Err(DiscoveryError::NothingSigned { server, id }),
        None => {
            let others: Vec<_> = info.signatures.keys().map(String::as_str).collect();
            let others = others.join(", ");
            Err(DiscoveryError::NotSigned { server, id, others })
        }
    }
}

fn read_endpoint(server: &str, kubeconfig: &str) -> Result<Endpoint, DiscoveryError> {
    let unusable = |cause: String| DiscoveryError::Kubeconfig {
        server: server.to_owned(),
        cause,
    };
    // Paths in it would be paths of another machine; none is taken.
    let parsed = Kubeconfig::parse(kubeconfig.as_bytes(), Path::new("/cluster-info"))
        .map_err(|cause| unusable(cause.to_string()))?;
    let cluster = chosen_cluster(&parsed).map_err(unusable)?;
    let authority = cluster.certificate_authority_data.as_deref();
    let endpoint = Endpoint::new(
        cluster.server.as_deref().unwrap_or_default(),
        authority.unwrap_or_default(),
    );
    endpoint.map_err(|cause: KubeconfigError| unusable(cause.to_string()))
}

/// The cluster of the current context, else the one without a name: upstream's
/// order.
pub(super) fn chosen_cluster(kubeconfig: &Kubeconfig) -> Result<&Cluster, String> {
    let current = kubeconfig.current_context.as_deref();
    let named = current
        .and_then(|name| kubeconfig.contexts.get(name))
        .map(|context| context.cluster.clone().unwrap_or_default());
    let cluster = kubeconfig.clusters.get(&named.unwrap_or_default());
    cluster.ok_or_else(|| {
        "it has neither a current context with a cluster nor a cluster without a name".to_owned()
    })
}

fn check_pins(server: &str, endpoint: &Endpoint, pins: &[CaPin]) -> Result<(), DiscoveryError> {
    let found = CaPin::of_pem(endpoint.authority_pem()).map_err(|cause: CertificateError| {
        DiscoveryError::Kubeconfig {
            server: server.to_owned(),
            cause: cause.to_string(),
        }
    })?;
    if CaPin::any_matches(pins, &found) {
        return Ok(());
    }
    let found: Vec<_> = found.iter().map(CaPin::to_string).collect();
    Err(DiscoveryError::OtherAuthority {
        server: server.to_owned(),
        found: found.join(" and "),
    })
}
