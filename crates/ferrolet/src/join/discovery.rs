//! Finding the cluster: by a token and a pin, or by a file that was brought along.

use std::time::Duration;

use cluster::Token;
use cluster::cluster_info::{
    self, Credentials, DiscoveryError, DiscoveryFile, FetchError, POLL_INTERVAL, Pinning, Verified,
};
use cluster::kubeconfig::{
    self, BOOTSTRAP_USER, DEFAULT_CLUSTER_NAME, Endpoint, KubeconfigError, KubeconfigText,
};
use seams::Clock;
use thiserror::Error;

use super::connection::{ConnectionError, Connections};

/// The cluster, and what the node logs in there with at first.
pub(super) struct Found {
    pub(super) endpoint: Endpoint,
    pub(super) bootstrap: KubeconfigText,
    /// What was proven, for people.
    pub(super) proven: &'static str,
}

/// Why the cluster was not found.
#[derive(Debug, Error)]
pub(super) enum FindError {
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    #[error(
        "the discovery file holds nothing to log in with; give a token with --token or --tls-bootstrap-token"
    )]
    NoCredentials,
    #[error(
        "the token in the discovery file is not a bootstrap token; give one with --tls-bootstrap-token"
    )]
    OtherToken,
}

/// How long to look.
#[derive(Clone, Copy)]
pub(super) struct Patience<'a> {
    pub(super) clock: &'a dyn Clock,
    pub(super) limit: Duration,
}

/// The five steps with a token. Afterwards the node logs in with `login`.
pub(super) async fn by_token(
    connections: &Connections,
    server: &str,
    token: &Token,
    pinning: &Pinning,
    login: &Token,
    patience: Patience<'_>,
    on_wait: impl FnMut(&DiscoveryError),
) -> Result<Found, FindError> {
    let waiting = cluster_info::Waiting {
        clock: patience.clock,
        limit: patience.limit,
    };
    let unverified = async || {
        let client = connections.unverified(server).map_err(no_client)?;
        cluster_info::fetch(&client).await
    };
    let verified = async |authority| {
        let client = connections.verified(server, authority).map_err(no_client)?;
        cluster_info::fetch(&client).await
    };
    let found = cluster_info::discover(
        server, token, pinning, waiting, unverified, verified, on_wait,
    )
    .await?;
    Ok(Found {
        bootstrap: kubeconfig::bootstrap(&found.endpoint, DEFAULT_CLUSTER_NAME, login)?,
        endpoint: found.endpoint,
        proven: match found.verified {
            Verified::ByToken => "signed with the token; its CA was not checked, as you wished",
            Verified::ByTokenAndPin => "signed with the token, and its CA is the pinned one",
        },
    })
}

/// What the file says, once the server has proven itself to its authority.
pub(super) async fn by_file(
    connections: &Connections,
    file: &DiscoveryFile,
    login: Option<&Token>,
    patience: Patience<'_>,
    mut on_wait: impl FnMut(&DiscoveryError),
) -> Result<Found, FindError> {
    let endpoint = file.endpoint.clone();
    let bootstrap = bootstrap_of_file(file, login)?;
    let server = endpoint.server().to_owned();
    let until = patience.clock.uptime() + patience.limit;
    loop {
        let authority = endpoint.authority_pem().to_vec();
        let answer = match connections.verified(&server, authority).map_err(no_client) {
            Ok(client) => cluster_info::fetch(&client).await,
            Err(error) => Err(error),
        };
        let error = match answer {
            // Clusters that are not kubeadm's have none, or show it to nobody.
            Ok(_) | Err(FetchError::Missing | FetchError::Forbidden(_)) => break,
            Err(FetchError::Untrusted(cause)) => {
                return Err(DiscoveryError::NotProven { server, cause }.into());
            }
            Err(cause) => DiscoveryError::Fetch {
                server: server.clone(),
                cause,
            },
        };
        if !error.may_pass() || patience.clock.uptime() + POLL_INTERVAL >= until {
            return Err(error.into());
        }
        on_wait(&error);
        patience.clock.sleep(POLL_INTERVAL).await;
    }
    Ok(Found {
        endpoint,
        bootstrap,
        proven: "its certificate is of the CA in the discovery file",
    })
}

fn bootstrap_of_file(
    file: &DiscoveryFile,
    login: Option<&Token>,
) -> Result<KubeconfigText, FindError> {
    let endpoint = &file.endpoint;
    let with_token = |token: &Token| kubeconfig::bootstrap(endpoint, DEFAULT_CLUSTER_NAME, token);
    match (login, &file.credentials) {
        (Some(token), _) => Ok(with_token(token)?),
        (None, Credentials::None) => Err(FindError::NoCredentials),
        (None, Credentials::Token(text)) => {
            let token = text.expose().parse().map_err(|_| FindError::OtherToken)?;
            Ok(with_token(&token)?)
        }
        (
            None,
            Credentials::Certificate {
                certificate_pem,
                key_pem,
            },
        ) => Ok(kubeconfig::client_certificate(
            endpoint,
            DEFAULT_CLUSTER_NAME,
            BOOTSTRAP_USER,
            certificate_pem,
            key_pem.expose(),
        )?),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is handed to map_err")]
fn no_client(error: ConnectionError) -> FetchError {
    FetchError::Unreachable(error.to_string())
}

#[cfg(test)]
mod tests;
