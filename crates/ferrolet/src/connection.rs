//! What this process gives to every way to an API server: its clock, its
//! cryptography, its name, and the proxies that its environment names.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::Duration;

use api::kubeconfig::{AddressError, ClientConfig, Proxy, Surroundings};
use api::metrics::ClientMetrics;
use api::transport::Options;
use linux::SystemClock;
use rustls::crypto::ring;

/// How long a credential plugin may take.
const PLUGIN_PATIENCE: Duration = Duration::from_secs(60);

/// What all ways have in common. The proxy depends on the server: [`with_proxy`].
pub(crate) fn options(user_agent: String) -> Options {
    Options {
        clock: Arc::new(SystemClock::start()),
        provider: Arc::new(ring::default_provider()),
        user_agent,
        surroundings: Surroundings {
            environment: std::env::vars_os().collect(),
            terminal: io::stdin().is_terminal(),
            timeout: PLUGIN_PATIENCE,
        },
        environment_proxy: None,
        metrics: ClientMetrics::new(),
    }
}

/// The options for one server: with the proxy that the environment names for it.
pub(crate) fn with_proxy(
    options: &Options,
    config: &ClientConfig,
) -> Result<Options, AddressError> {
    let environment = &options.surroundings.environment;
    Ok(Options {
        environment_proxy: Proxy::from_environment(&config.server, environment)?,
        ..options.clone()
    })
}
