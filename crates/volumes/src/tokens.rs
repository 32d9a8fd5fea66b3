//! Tokens of service accounts for pods: asked for, kept, and renewed in time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use api::Secret;
use api::objects::{NOT_YET_OURS, is_not_yet_ours};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::{Api, Client};
use seams::{SharedClock, timeout};
use thiserror::Error;
use tracing::warn;
use types::{PodRef, PodUid};

/// How long a token lives if the pod does not say: the API's default.
pub const DEFAULT_LIFE: i64 = 3600;

/// A token is renewed when it is as old as this, however long it lives.
const OLDEST: Duration = Duration::from_secs(24 * 3600);
/// Or when so much of its life is left, in percent.
const LEFT_PERCENT: i64 = 20;
/// Renewals are spread over so much time.
const SPREAD: Duration = Duration::from_secs(10);
/// After a renewal, failed or not, at least this long passes until the next.
const AGAIN: Duration = Duration::from_secs(60);
/// A server that takes longer is away.
const ANSWER: Duration = Duration::from_secs(30);

/// What a token is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenAsk {
    pub pod: PodRef,
    pub service_account: String,
    /// The API server itself, if empty.
    pub audience: String,
    pub expiration_seconds: i64,
}

/// A token that is good for some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub token: Secret<String>,
    pub expires: SystemTime,
    /// When it should be asked for again.
    pub renew_at: SystemTime,
}

/// Why there is no token. It says no more of it than its name.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TokenError {
    #[error("failed to fetch token: {problem}")]
    Fetch { problem: String },
    #[error("token {ask} expired and refresh failed: {problem}")]
    Expired { ask: String, problem: String },
}

/// The tokens of a node's pods.
pub struct Tokens {
    client: Client,
    clock: SharedClock,
    /// Held for one access.
    kept: Mutex<BTreeMap<TokenAsk, Token>>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tokens").finish_non_exhaustive()
    }
}

impl Tokens {
    pub fn new(client: Client, clock: SharedClock) -> Self {
        Self {
            client,
            clock,
            kept: Mutex::default(),
        }
    }

    /// A token that is good: the one that is kept, unless it is time for another.
    pub async fn get(&self, ask: &TokenAsk) -> Result<Token, TokenError> {
        let kept = self.with(|kept| kept.get(ask).cloned());
        let now = self.clock.now();
        if let Some(token) = kept.as_ref().filter(|token| now < token.renew_at) {
            return Ok(token.clone());
        }
        let token = match (self.fetch_patiently(ask).await, kept) {
            (Ok(token), _) => Token {
                // By a clock that is ahead of the server's it may be due already.
                renew_at: token.renew_at.max(self.clock.now() + AGAIN),
                ..token
            },
            (Err(problem), None) => return Err(TokenError::Fetch { problem }),
            (Err(problem), Some(old)) if now > old.expires => {
                let ask = ask.to_string();
                return Err(TokenError::Expired { ask, problem });
            }
            (Err(problem), Some(old)) => {
                let pod = &ask.pod;
                warn!(%pod, problem, "a token could not be renewed, the old one stays");
                let renew_at = now + AGAIN;
                Token { renew_at, ..old }
            }
        };
        self.with(|kept| kept.insert(ask.clone(), token.clone()));
        Ok(token)
    }

    /// Forgets the tokens of a pod that is gone.
    pub fn forget(&self, uid: &PodUid) {
        self.with(|kept| kept.retain(|ask, _| ask.pod.uid != *uid));
    }

    /// How many tokens are kept.
    pub fn count(&self) -> usize {
        self.with(|kept| kept.len())
    }

    /// The API server learns that a pod is on this node at the same time as we do,
    /// by another way: who is quick asks again.
    async fn fetch_patiently(&self, ask: &TokenAsk) -> Result<Token, String> {
        for pause in NOT_YET_OURS {
            match self.fetch(ask).await {
                Err(problem) if is_not_yet_ours(&problem) => self.clock.sleep(pause).await,
                answer => return answer,
            }
        }
        self.fetch(ask).await
    }

    async fn fetch(&self, ask: &TokenAsk) -> Result<Token, String> {
        let accounts: Api<ServiceAccount> =
            Api::namespaced(self.client.clone(), &ask.pod.name.namespace);
        let (parameters, request) = (PostParams::default(), request(ask));
        let answer = accounts.create_token_request(&ask.service_account, &parameters, &request);
        let answer = timeout(&*self.clock, ANSWER, answer).await;
        let answer = answer.map_err(|_| "the API server does not answer".to_owned())?;
        let answer = answer.map_err(|error| match error {
            kube::Error::Api(status) => status.message.clone(),
            error => error.to_string(),
        })?;
        let status = answer.status.ok_or("the API server sent no token")?;
        let (Some(token), Some(expires)) = (status.token, status.expiration_timestamp) else {
            return Err("the API server sent no token".to_owned());
        };
        // The server may have made it live longer than was asked for.
        let life = answer.spec.and_then(|spec| spec.expiration_seconds);
        let life = life.unwrap_or(ask.expiration_seconds);
        let expires = SystemTime::from(expires.0);
        Ok(Token {
            token: Secret::new(token),
            expires,
            renew_at: renew_at(expires, life, self.clock.random()),
        })
    }

    fn with<T>(&self, access: impl FnOnce(&mut BTreeMap<TokenAsk, Token>) -> T) -> T {
        access(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn request(ask: &TokenAsk) -> TokenRequest {
    let audience = Some(&ask.audience).filter(|audience| !audience.is_empty());
    TokenRequest {
        spec: Some(TokenRequestSpec {
            audiences: audience.map(|audience| vec![audience.clone()]),
            expiration_seconds: Some(ask.expiration_seconds),
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: Some(ask.pod.name.name.clone()),
                uid: Some(ask.pod.uid.to_string()),
            }),
        }),
        ..TokenRequest::default()
    }
}

/// When a token that lives for so many seconds is to be renewed; `random` is in
/// [0, 1).
fn renew_at(expires: SystemTime, life: i64, random: f64) -> SystemTime {
    let seconds = |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    let issued = expires - seconds(life);
    let late = expires - seconds(life * LEFT_PERCENT / 100);
    late.min(issued + OLDEST) - SPREAD.mul_f64(random)
}

/// Nothing in it is confidential.
impl fmt::Display for TokenAsk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pod, account) = (&self.pod, &self.service_account);
        let (audience, life) = (&self.audience, self.expiration_seconds);
        write!(
            formatter,
            "of service account {account:?} for pod {pod}, audience {audience:?}, {life}s"
        )
    }
}

#[cfg(test)]
mod tests;
