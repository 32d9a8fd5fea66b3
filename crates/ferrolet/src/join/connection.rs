//! Clients for the servers that a join talks to: one that nobody vouches for yet,
//! one whose authority is known, and the cluster, as whoever a kubeconfig says.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use api::kubeconfig::{
    AddressError, Cluster, Context, Kubeconfig, ReadError, ResolveError, Unusable,
};
use api::transport::{Credentials, LaneOptions, Options, Transport, TransportError};
use kube::Client;
use thiserror::Error;

use crate::connection;

/// kubeadm's patience with one call.
const CALL: Duration = Duration::from_secs(10);

/// Why there is no client.
#[derive(Debug, Error)]
pub(super) enum ConnectionError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    #[error("the proxy in the environment cannot be used: {0}; correct HTTPS_PROXY")]
    Proxy(#[from] AddressError),
    #[error(transparent)]
    Transport(#[from] TransportError),
}

/// What all connections of a join share.
pub(super) struct Connections {
    options: Options,
}

impl Connections {
    pub(super) fn new(options: Options) -> Self {
        Self { options }
    }

    /// As nobody, to whoever answers at the URL.
    pub(super) fn unverified(&self, server: &str) -> Result<Client, ConnectionError> {
        self.client(&anonymous(Cluster {
            insecure_skip_tls_verify: true,
            ..at(server)
        }))
    }

    /// As nobody, to a server that this authority (PEM) vouches for.
    pub(super) fn verified(
        &self,
        server: &str,
        authority_pem: Vec<u8>,
    ) -> Result<Client, ConnectionError> {
        self.client(&anonymous(Cluster {
            certificate_authority_data: Some(authority_pem),
            ..at(server)
        }))
    }

    /// As the text of a kubeconfig says.
    pub(super) fn as_told(&self, kubeconfig: &str) -> Result<Client, ConnectionError> {
        self.client(&Kubeconfig::parse(
            kubeconfig.as_bytes(),
            Path::new("/bootstrap"),
        )?)
    }

    /// As a kubeconfig file says.
    pub(super) fn as_file_says(&self, path: &Path) -> Result<Client, ConnectionError> {
        self.client(&Kubeconfig::read(path)?)
    }

    fn client(&self, kubeconfig: &Kubeconfig) -> Result<Client, ConnectionError> {
        let config = kubeconfig.resolve(None)?;
        let options = connection::with_proxy(&self.options, &config)?;
        let transport = Transport::new(&config, Credentials::Configured, options)?;
        let lane = transport.lane(LaneOptions {
            name: "join",
            limits: None,
            timeout: Some(CALL),
            own_connections: false,
        });
        Ok(lane.client("default"))
    }
}

/// Whether a URL can be that of an API server.
pub(super) fn check_address(server: &str) -> Result<(), Unusable> {
    let resolved = anonymous(at(server)).resolve(None);
    resolved.map(drop).map_err(|error| error.problem)
}

fn at(server: &str) -> Cluster {
    Cluster {
        server: Some(server.to_owned()),
        ..Cluster::default()
    }
}

fn anonymous(cluster: Cluster) -> Kubeconfig {
    const NAME: &str = "join";
    let context = Context {
        cluster: Some(NAME.to_owned()),
        user: None,
        namespace: None,
    };
    Kubeconfig {
        path: "/join".into(),
        clusters: BTreeMap::from([(NAME.to_owned(), cluster)]),
        users: BTreeMap::new(),
        contexts: BTreeMap::from([(NAME.to_owned(), context)]),
        current_context: Some(NAME.to_owned()),
    }
}
