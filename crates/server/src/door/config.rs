//! What the settings say of the node's own port.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use config::gates::FeatureGates;
use config::settings::Settings;
use serde_json::Value;
use thiserror::Error;
use types::GoDuration;

use crate::process::Process;

/// What cannot be made of the settings.
#[derive(Debug, Error)]
pub enum DoorConfigError {
    #[error("address {0:?} is no IP address: change it")]
    Address(String),
}

/// The node's own port, and the read-only one.
#[derive(Clone, Debug)]
pub struct DoorConfig {
    pub address: SocketAddr,
    /// Plain HTTP, for everybody; `None`: closed.
    pub read_only: Option<SocketAddr>,
    pub tls: TlsConfig,
    pub authentication: AuthenticationConfig,
    pub authorization: AuthorizationConfig,
    pub handlers: Handlers,
    /// The gate `ExtendWebSocketsToKubelet`: the node itself serves streams over
    /// web sockets.
    pub websockets: bool,
    /// What `/configz` answers.
    pub configz: Bytes,
    /// What the process that it runs in gives.
    pub process: Process,
}

/// What handshakes may agree on.
#[derive(Clone, Debug, Default)]
pub struct TlsConfig {
    /// Not below TLS 1.3.
    pub only_newest: bool,
    /// Names as Go has them; empty: all that we have.
    pub cipher_suites: Vec<String>,
    /// IANA's numbers; empty: all that we have.
    pub groups: Vec<u16>,
}

/// Who is known, and how.
#[derive(Clone, Debug)]
pub struct AuthenticationConfig {
    pub client_ca_file: Option<PathBuf>,
    /// Tokens are asked about at the API server, and remembered for so long.
    pub tokens: Option<Duration>,
    pub anonymous: bool,
    /// The gate `AllowParsingUserUIDFromCertAuth`.
    pub uid_of_certificate: bool,
}

/// Who may do what.
#[derive(Clone, Copy, Debug)]
pub enum AuthorizationConfig {
    AlwaysAllow,
    /// The API server is asked.
    Webhook {
        /// How long a yes is remembered.
        allowed: Duration,
        /// The same for a no.
        denied: Duration,
    },
}

/// What is there to be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the configuration"
)]
pub struct Handlers {
    /// `enableDebuggingHandlers`.
    pub debugging: bool,
    /// `enableSystemLogHandler`.
    pub system_logs: bool,
    /// `enableSystemLogQuery`.
    pub system_log_query: bool,
    /// `enableProfilingHandler`.
    pub profiling: bool,
    /// `enableDebugFlagsHandler`.
    pub debug_flags: bool,
    /// The gate `ContainerCheckpoint`.
    pub checkpoint: bool,
    /// The gate `ComponentFlagz`.
    pub flagz: bool,
    /// The gate `ComponentStatusz`.
    pub statusz: bool,
    /// The gate `PodLogsQuerySplitStreams`.
    pub split_streams: bool,
}

impl DoorConfig {
    /// `None`: there is to be no such port (`enableServer`). Paths are taken from
    /// `directory`.
    pub fn from_settings(
        settings: &Settings,
        gates: &FeatureGates,
        directory: &Path,
        process: Process,
    ) -> Result<Option<Self>, DoorConfigError> {
        if !settings.bool("enableServer") {
            return Ok(None);
        }
        let address = address(settings.text("address"))?;
        let read_only = port(settings, "readOnlyPort");
        // In the order of the table, which is upstream's.
        let written = serde_json::to_string(settings).unwrap_or_default();
        let configz = format!("{{\"kubeletconfig\":{written}}}");
        Ok(Some(Self {
            address: SocketAddr::new(address, port(settings, "port").unwrap_or_default()),
            read_only: read_only.map(|port| SocketAddr::new(address, port)),
            tls: TlsConfig::of(settings),
            authentication: authentication(settings, gates, directory),
            authorization: authorization(settings),
            handlers: Handlers {
                debugging: settings.bool("enableDebuggingHandlers"),
                system_logs: settings.bool("enableSystemLogHandler"),
                system_log_query: settings.bool("enableSystemLogQuery"),
                profiling: settings.bool("enableProfilingHandler"),
                debug_flags: settings.bool("enableDebugFlagsHandler"),
                checkpoint: gates.enabled("ContainerCheckpoint"),
                flagz: gates.enabled("ComponentFlagz"),
                statusz: gates.enabled("ComponentStatusz"),
                split_streams: gates.enabled("PodLogsQuerySplitStreams"),
            },
            websockets: gates.enabled("ExtendWebSocketsToKubelet"),
            configz: Bytes::from(configz),
            process,
        }))
    }
}

impl TlsConfig {
    pub(super) fn of(settings: &Settings) -> Self {
        Self {
            only_newest: settings.text("tlsMinVersion") == "VersionTLS13",
            cipher_suites: texts(settings, "tlsCipherSuites"),
            groups: numbers(settings, "tlsCurvePreferences"),
        }
    }
}

fn authentication(
    settings: &Settings,
    gates: &FeatureGates,
    directory: &Path,
) -> AuthenticationConfig {
    let file = match settings.text("authentication.x509.clientCAFile") {
        "" => None,
        path => Some(directory.join(path)),
    };
    let asks = settings.bool("authentication.webhook.enabled");
    let ttl = span(settings.duration("authentication.webhook.cacheTTL"));
    AuthenticationConfig {
        client_ca_file: file,
        tokens: asks.then_some(ttl),
        anonymous: settings.bool("authentication.anonymous.enabled"),
        uid_of_certificate: gates.enabled("AllowParsingUserUIDFromCertAuth"),
    }
}

fn authorization(settings: &Settings) -> AuthorizationConfig {
    let remembered = |name: &str| span(settings.duration(name));
    match settings.text("authorization.mode") {
        "AlwaysAllow" => AuthorizationConfig::AlwaysAllow,
        // The one other that configuration is allowed to have.
        _ => AuthorizationConfig::Webhook {
            allowed: remembered("authorization.webhook.cacheAuthorizedTTL"),
            denied: remembered("authorization.webhook.cacheUnauthorizedTTL"),
        },
    }
}

/// No address means all, as Go reads it.
fn address(text: &str) -> Result<IpAddr, DoorConfigError> {
    match text {
        "" => Ok(IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        text => text
            .parse()
            .map_err(|_| DoorConfigError::Address(text.to_owned())),
    }
}

fn port(settings: &Settings, name: &str) -> Option<u16> {
    let port = u16::try_from(settings.int(name)).unwrap_or_default();
    (port != 0).then_some(port)
}

fn texts(settings: &Settings, name: &str) -> Vec<String> {
    let values = settings.list(name).iter().filter_map(Value::as_str);
    values.map(str::to_owned).collect()
}

fn numbers(settings: &Settings, name: &str) -> Vec<u16> {
    let values = settings.list(name).iter().filter_map(Value::as_u64);
    values
        .filter_map(|number| u16::try_from(number).ok())
        .collect()
}

fn span(duration: GoDuration) -> Duration {
    duration.to_std().unwrap_or_default()
}
