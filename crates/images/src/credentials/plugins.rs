//! Credential provider plugins: programs of the node's operator that have credentials
//! for some images.
//!
//! In: their configuration ([`Provider`]), a machine that runs programs, and, where a
//! program is told of the pod's service account, the API server. Out: a keyring for an
//! image. A program that fails, hangs, floods or babbles has no credentials, which is
//! said in the log with its name; the pull goes on with those of others.

mod accounts;
mod cache;
mod config;
mod load;
mod protocol;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Shared, WeakShared};
use seams::host::{HostError, Program};
use seams::{SharedClock, SharedHost, timeout};
use sha2::{Digest, Sha256};
use thiserror::Error;
use types::PodUid;

use super::{AccountName, DockerConfig, Keyring, Login, Source, hex, matching};
use crate::metrics::Metrics;
use cache::{Asker, Cache};
use protocol::{Response, ResponseError};

pub use accounts::{Accounts, Asking};
pub use config::{ConfigError, Provider, TokenAttributes};
pub use load::{LoadError, Loaded, load};

/// Longer than this no program takes.
const LONGEST: Duration = Duration::from_secs(60);

/// Far above any answer.
const MOST_OUTPUT: usize = 1 << 20;

/// Why a program gave nothing.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(super) enum PluginError {
    #[error("it was not done after {}s: run it by hand and see what it waits for", LONGEST.as_secs())]
    Late,
    #[error("it cannot be run: {0}")]
    Start(String),
    #[error("it failed ({outcome}): {complaint}")]
    Failed { outcome: String, complaint: String },
    #[error("it printed more than {MOST_OUTPUT} bytes, which no answer has")]
    Flood,
    #[error("{0}; see that the program and its apiVersion in the configuration go together")]
    Response(#[from] ResponseError),
    #[error("failed to get service account: {0}")]
    Account(String),
    #[error("failed to get service account token: {0}")]
    Token(String),
    #[error("a node without an API server has no service accounts: set no tokenAttributes")]
    Standalone,
    #[error(
        "credential provider plugin returned the service account token as the password which is not allowed when service account cache type is not set to 'Token'"
    )]
    Echo,
}

/// One run of a program, for all who want to know the same.
type Run = Pin<Box<dyn Future<Output = Result<Arc<Response>, PluginError>> + Send>>;

/// What is asked of a program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Question {
    image: String,
    token_hash: String,
    annotations: Vec<(String, String)>,
}

/// The programs of one node.
#[derive(Debug)]
pub struct Plugins {
    all: Vec<Plugin>,
    runner: Runner,
    /// `None` without an API server.
    accounts: Option<Accounts>,
}

/// What runs programs.
#[derive(Clone, Debug)]
struct Runner {
    host: SharedHost,
    clock: SharedClock,
    directory: PathBuf,
    metrics: Arc<Metrics>,
}

#[derive(Debug)]
struct Plugin {
    provider: Provider,
    // Both are held for a few instructions, never over an await.
    cache: Mutex<Cache>,
    runs: Mutex<HashMap<Question, WeakShared<Run>>>,
}

/// What a program is told of who asks.
#[derive(Debug, Default)]
struct Told {
    asker: Asker,
    token: Option<api::Secret<String>>,
    token_hash: String,
    annotations: BTreeMap<String, String>,
    account: Option<AccountName>,
}

/// Credentials, and for whom.
type Provided = (Vec<(String, Login)>, Source);

impl Plugins {
    pub fn new(
        loaded: Loaded,
        host: SharedHost,
        clock: SharedClock,
        accounts: Option<Accounts>,
        metrics: Arc<Metrics>,
    ) -> Self {
        metrics.plugin_config.set(&[&loaded.digest], 1.0);
        let plugins = loaded.providers.into_iter().map(|provider| Plugin {
            provider,
            cache: Mutex::default(),
            runs: Mutex::default(),
        });
        Self {
            all: plugins.collect(),
            runner: Runner {
                host,
                clock,
                directory: loaded.directory,
                metrics,
            },
            accounts,
        }
    }

    /// What all programs together have for the image `name` (registry and path), one
    /// after the other, in the order of their configuration.
    pub(crate) async fn keyring(&self, name: &str, asking: Asking<'_>) -> Keyring {
        let mut keyring = Keyring::default();
        for plugin in &self.all {
            if !plugin.is_for(name) {
                continue;
            }
            match self.ask(plugin, name, asking).await {
                Ok(None) => {}
                Ok(Some((entries, source))) => keyring.add(DockerConfig { entries }, &source),
                Err(error) => tracing::warn!(
                    plugin = plugin.provider.name,
                    image = name,
                    pod = %asking.pod,
                    %error,
                    "a credential provider plugin gave no credentials"
                ),
            }
        }
        keyring
    }

    /// Lets go of what is kept for a pod that is gone.
    pub(crate) fn forget(&self, pod: &PodUid) {
        if let Some(accounts) = &self.accounts {
            accounts.forget(pod);
        }
    }

    /// `None`: it is none of the program's business.
    async fn ask(
        &self,
        plugin: &Plugin,
        image: &str,
        asking: Asking<'_>,
    ) -> Result<Option<Provided>, PluginError> {
        let told = match &plugin.provider.token {
            None => Told::default(),
            Some(attributes) => match self.told(attributes, asking).await? {
                Some(told) => told,
                None => return Ok(None),
            },
        };
        let source = match told.account.clone() {
            Some(account) => Source::ServiceAccount(account),
            None => Source::Node,
        };
        let now = self.runner.clock.uptime();
        if let Some(logins) = plugin.cache().get(image, &told.asker, now) {
            return Ok(Some((logins, source)));
        }
        let response = plugin.run_once(&self.runner, image, &told).await?;
        if let Some(token) = told.token.as_ref().filter(|_| !plugin.keeps_by_token())
            && response.passwords.has(token.expose())
        {
            return Err(PluginError::Echo);
        }
        let keep = response.keep.unwrap_or(plugin.provider.default_cache);
        if !keep.is_zero() {
            let until = self.runner.clock.uptime() + keep;
            let logins = response.logins.clone();
            plugin
                .cache()
                .put(image, response.reach, told.asker, logins, until);
        }
        Ok(Some((response.logins.clone(), source)))
    }

    /// What a program is told of the pod's account; `None` if it is not asked.
    async fn told(
        &self,
        attributes: &TokenAttributes,
        asking: Asking<'_>,
    ) -> Result<Option<Told>, PluginError> {
        if asking.service_account.is_empty() {
            let none = Told::default();
            return Ok((!attributes.require_account).then_some(none));
        }
        let accounts = self.accounts.as_ref().ok_or(PluginError::Standalone)?;
        let account = accounts.account(asking).await;
        let account = account.map_err(PluginError::Account)?.metadata;
        let all = account.annotations.unwrap_or_default();
        let Some(annotations) = chosen(attributes, &all) else {
            return Ok(None);
        };
        let uid = account.uid.unwrap_or_default();
        let token = accounts.token(asking, &uid, &attributes.audience).await;
        let token = token.map_err(PluginError::Token)?;
        let token_hash = format!("sha256:{}", hex(&Sha256::digest(token.expose())));
        let namespace = &asking.pod.name.namespace;
        let asker = Asker {
            namespace: namespace.clone(),
            account: asking.service_account.to_owned(),
            account_uid: uid.clone(),
            annotations: annotations.clone().into_iter().collect(),
            token_hash: if attributes.cache_by_token {
                token_hash.clone()
            } else {
                String::new()
            },
        };
        let account = AccountName {
            uid,
            namespace: namespace.clone(),
            name: asking.service_account.to_owned(),
        };
        Ok(Some(Told {
            asker,
            token: Some(token),
            token_hash,
            annotations,
            account: Some(account),
        }))
    }
}

/// Of an account's annotations those that a program wants; `None` if one that it needs
/// is missing.
fn chosen(
    attributes: &TokenAttributes,
    all: &BTreeMap<String, String>,
) -> Option<BTreeMap<String, String>> {
    let pair = |key: &String| Some((key.clone(), all.get(key)?.clone()));
    let required: Option<BTreeMap<_, _>> =
        attributes.required_annotations.iter().map(pair).collect();
    let mut chosen = required?;
    chosen.extend(attributes.optional_annotations.iter().filter_map(pair));
    Some(chosen)
}

impl Plugin {
    fn is_for(&self, image: &str) -> bool {
        let mut patterns = self.provider.match_images.iter();
        patterns.any(|pattern| matching::matches(pattern, image))
    }

    fn keeps_by_token(&self) -> bool {
        let token = self.provider.token.as_ref();
        token.is_some_and(|token| token.cache_by_token)
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those who ask the same at the same time share one run. It ends, and its program
    /// with it, when none of them waits any more.
    async fn run_once(
        &self,
        runner: &Runner,
        image: &str,
        told: &Told,
    ) -> Result<Arc<Response>, PluginError> {
        let question = Question {
            image: image.to_owned(),
            token_hash: told.token_hash.clone(),
            annotations: told.asker.annotations.clone(),
        };
        let run = self.run(question, || {
            let run: Run = Box::pin(
                runner
                    .clone()
                    .run(self.provider.clone(), self.program(runner, image, told)),
            );
            run.shared()
        });
        run.await
    }

    fn run(&self, question: Question, begin: impl FnOnce() -> Shared<Run>) -> Shared<Run> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.retain(|_, run| run.upgrade().is_some_and(|run| run.peek().is_none()));
        if let Some(run) = runs.get(&question).and_then(WeakShared::upgrade) {
            return run;
        }
        let run = begin();
        runs.extend(run.downgrade().map(|weak| (question, weak)));
        run
    }

    fn program(&self, runner: &Runner, image: &str, told: &Told) -> Program {
        let token = told.token.as_ref().map_or("", |token| token.expose());
        let Provider {
            name,
            api_version,
            arguments,
            environment,
            ..
        } = &self.provider;
        let variables = environment.iter();
        Program {
            path: runner.directory.join(name),
            arguments: arguments.iter().map(Into::into).collect(),
            environment: variables
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            input: protocol::request(api_version, image, token, &told.annotations),
            most_output: MOST_OUTPUT,
        }
    }
}

impl Runner {
    async fn run(self, provider: Provider, program: Program) -> Result<Arc<Response>, PluginError> {
        let began = self.clock.uptime();
        let outcome = self.try_run(&provider, program).await;
        let took = self.clock.uptime().saturating_sub(began);
        let name = [provider.name.as_str()];
        self.metrics.plugin_runs.took(&name, took);
        if outcome.is_err() {
            self.metrics.plugin_failures.inc(&name);
        }
        outcome
    }

    async fn try_run(
        &self,
        provider: &Provider,
        program: Program,
    ) -> Result<Arc<Response>, PluginError> {
        let run = self.host.execute(program);
        let executed = timeout(&*self.clock, LONGEST, run).await;
        let executed = executed
            .map_err(|_| PluginError::Late)?
            .map_err(|error: HostError| PluginError::Start(error.to_string()))?;
        if let Err(outcome) = executed.outcome {
            return Err(PluginError::Failed {
                outcome,
                complaint: executed.complaint,
            });
        }
        if executed.is_cut {
            return Err(PluginError::Flood);
        }
        let response = protocol::response(&provider.api_version, &executed.output)?;
        Ok(Arc::new(response))
    }
}
