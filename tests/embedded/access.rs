//! The way to an embedded API server, as the agent goes it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use api::kubeconfig::{Kubeconfig, Surroundings};
use api::metrics::ClientMetrics;
use api::transport::{Credentials, LaneOptions, Options, Transport};
use kube::Client;
use linux::SystemClock;
use rustls::crypto::ring;

/// Connections of their own, with a client on them.
pub(crate) struct Access {
    pub(crate) client: Client,
    transport: Transport,
}

impl Access {
    /// As whom the kubeconfig says. To be called inside a runtime.
    pub(crate) fn new(kubeconfig: &Path) -> Result<Self> {
        let config = Kubeconfig::read(kubeconfig)?.resolve(None)?;
        let transport = Transport::new(&config, Credentials::Configured, options())?;
        let lane = transport.lane(LaneOptions {
            name: "test",
            limits: None,
            timeout: None,
            own_connections: false,
        });
        Ok(Self {
            client: lane.client("default"),
            transport,
        })
    }

    pub(crate) async fn close(self) {
        self.transport.close().await;
    }
}

fn options() -> Options {
    Options {
        clock: Arc::new(SystemClock::start()),
        provider: Arc::new(ring::default_provider()),
        user_agent: "ferrolet-embedded-tests".to_owned(),
        surroundings: Surroundings {
            environment: BTreeMap::new(),
            terminal: false,
            timeout: Duration::from_secs(60),
        },
        environment_proxy: None,
        metrics: ClientMetrics::new(),
    }
}
