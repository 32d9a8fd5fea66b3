//! Credential plugins: programs that print a token or a certificate.

mod credential;
mod run;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rustls::crypto::CryptoProvider;
use tokio::sync::Mutex;

use super::fields::FieldError;
use super::tls::TlsError;
use crate::Secret;

pub(super) use credential::ExecCluster;
pub use credential::ExecCredential;

/// What a kubeconfig says about a plugin.
#[derive(Debug, Clone)]
pub struct ExecPlugin {
    /// The user that it speaks for, for errors.
    pub user: String,
    /// A path, or a name to look for in `PATH`.
    pub command: PathBuf,
    pub args: Vec<String>,
    pub env: Vec<(String, Secret<String>)>,
    pub version: ExecVersion,
    /// What to do when the program is missing.
    pub install_hint: Option<String>,
    pub interactive: InteractiveMode,
    /// What the plugin is told about the cluster, if it asked for that.
    pub(super) cluster: Option<ExecCluster>,
}

/// The words that are spoken with the plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecVersion {
    V1,
    V1Beta1,
}

impl ExecVersion {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "client.authentication.k8s.io/v1",
            Self::V1Beta1 => "client.authentication.k8s.io/v1beta1",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        [Self::V1, Self::V1Beta1]
            .into_iter()
            .find(|version| version.as_str() == text)
    }
}

/// Whether the plugin talks with a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InteractiveMode {
    Never,
    /// If there is a terminal.
    IfAvailable,
    /// Without a terminal it cannot run.
    Always,
}

impl InteractiveMode {
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "Never" => Some(Self::Never),
            "IfAvailable" => Some(Self::IfAvailable),
            "Always" => Some(Self::Always),
            _ => None,
        }
    }

    fn with_terminal(self, terminal: bool) -> Result<bool, ExecProblem> {
        match self {
            Self::Never => Ok(false),
            Self::IfAvailable => Ok(terminal),
            Self::Always if terminal => Ok(true),
            Self::Always => Err(ExecProblem::NoTerminal),
        }
    }
}

/// What a plugin finds around it.
#[derive(Clone)]
pub struct Surroundings {
    /// The environment that the plugin's own variables are laid over. Its `PATH` finds commands.
    pub environment: BTreeMap<OsString, OsString>,
    /// Standard input is a terminal with somebody at it.
    pub terminal: bool,
    /// How long one run may take. Upstream waits for ever.
    pub timeout: Duration,
}

// An environment often holds passwords.
impl fmt::Debug for Surroundings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Surroundings")
            .finish_non_exhaustive()
    }
}

/// Runs a plugin when a credential is needed, and keeps what it said until that expires.
#[derive(Debug)]
pub struct ExecAuthenticator {
    plugin: ExecPlugin,
    surroundings: Surroundings,
    provider: Arc<CryptoProvider>,
    // An async lock, held while the plugin runs: it may ask a person, so it must not run twice
    // at once, and whoever comes meanwhile wants the same answer. `timeout` bounds the wait.
    current: Mutex<Option<Arc<ExecCredential>>>,
}

/// A plugin that gave no credential.
#[derive(Debug, thiserror::Error)]
#[error("credential plugin {command} of user {user:?}: {problem}")]
pub struct ExecError {
    pub user: String,
    pub command: PathBuf,
    pub problem: ExecProblem,
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum ExecProblem {
    #[error("the program is not found; install it, or correct the command in the kubeconfig{}", hint.as_ref().map(|hint| format!(": {hint}")).unwrap_or_default())]
    NotFound { hint: Option<String> },
    #[error("it cannot be started: {0}")]
    Start(io::Error),
    #[error("it failed with {status}{}", if said.is_empty() { String::new() } else { format!(": {said}") })]
    Failed { status: ExitStatus, said: String },
    #[error("it gave no answer within {} s and was ended", after.as_secs())]
    TimedOut { after: Duration },
    #[error("its output cannot be read: {0}")]
    Output(io::Error),
    #[error("it wrote more than {limit} bytes")]
    TooLong { limit: u64 },
    #[error(
        "it needs a terminal (interactiveMode Always), and there is none; use a plugin that works without"
    )]
    NoTerminal,
    #[error("its output is no ExecCredential: {0}")]
    Undecodable(String),
    #[error("its output is no ExecCredential: {0}")]
    Field(#[from] FieldError),
    #[error("the kubeconfig asks for {wanted}, and it answered with {got:?}")]
    OtherVersion { wanted: &'static str, got: String },
    #[error("its output has no status")]
    NoStatus,
    #[error("it gave neither a token nor a certificate and key")]
    NoCredential,
    #[error("it gave only half of a certificate and key")]
    HalfPair,
    #[error("{0}")]
    Tls(#[from] TlsError),
}

impl ExecAuthenticator {
    pub fn new(
        plugin: ExecPlugin,
        surroundings: Surroundings,
        provider: Arc<CryptoProvider>,
    ) -> Self {
        Self {
            plugin,
            surroundings,
            provider,
            current: Mutex::new(None),
        }
    }

    /// The credential to use at `now`; runs the plugin if there is none or it has expired.
    pub async fn credential(&self, now: Timestamp) -> Result<Arc<ExecCredential>, ExecError> {
        let mut current = self.current.lock().await;
        match &*current {
            Some(credential) if !credential.is_expired(now) => Ok(Arc::clone(credential)),
            _ => self.renew(&mut current).await,
        }
    }

    /// The server said 401 to `rejected`: runs the plugin again, unless that credential has been
    /// replaced since. A failure leaves the old one in place.
    pub async fn replace(
        &self,
        rejected: &Arc<ExecCredential>,
    ) -> Result<Arc<ExecCredential>, ExecError> {
        let mut current = self.current.lock().await;
        match &*current {
            Some(credential) if !Arc::ptr_eq(credential, rejected) => Ok(Arc::clone(credential)),
            _ => self.renew(&mut current).await,
        }
    }

    async fn renew(
        &self,
        current: &mut Option<Arc<ExecCredential>>,
    ) -> Result<Arc<ExecCredential>, ExecError> {
        let credential = self.run().await.map_err(|problem| ExecError {
            user: self.plugin.user.clone(),
            command: self.plugin.command.clone(),
            problem,
        })?;
        Ok(Arc::clone(current.insert(Arc::new(credential))))
    }

    async fn run(&self) -> Result<ExecCredential, ExecProblem> {
        let plugin = &self.plugin;
        let interactive = plugin
            .interactive
            .with_terminal(self.surroundings.terminal)?;
        let info = credential::info(plugin.version, interactive, plugin.cluster.as_ref())?;

        let mut environment = self.surroundings.environment.clone();
        for (name, value) in &plugin.env {
            environment.insert(name.into(), value.expose().into());
        }
        environment.insert("KUBERNETES_EXEC_INFO".into(), info.into());

        let program =
            run::find(&plugin.command, &self.surroundings.environment).ok_or_else(|| {
                ExecProblem::NotFound {
                    hint: plugin.install_hint.clone(),
                }
            })?;
        let call = run::Call {
            program,
            plugin,
            environment,
            interactive,
        };
        let output = call.output(self.surroundings.timeout).await?;
        ExecCredential::parse(output.expose(), plugin.version, &self.provider)
    }
}

/// Text of others, made safe for a terminal and a log: what steers either is spelled out.
pub(super) fn printable(text: &str) -> String {
    text.chars()
        .map(|character| {
            let steering = character.is_control() && !matches!(character, '\t'..='\r')
                || matches!(character, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
            if steering { format!("U+{:04X}", u32::from(character)) } else { character.to_string() }
        })
        .collect()
}

#[cfg(test)]
mod tests;
