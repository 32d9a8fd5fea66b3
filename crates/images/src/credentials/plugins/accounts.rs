//! The service accounts of pods, for programs that are told of them: looked up at each
//! question, as upstream does, and tokens that are asked for, kept and renewed.

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
use types::{PodRef, PodUid};

/// A server that takes longer is away.
const ANSWER: Duration = Duration::from_secs(30);
/// The API's default: no other life is asked for.
const LIFE: Duration = Duration::from_secs(3600);
/// A token is asked for anew when so much of its life is left.
const LEFT: f64 = 0.2;
/// Or when it is as old as this, however long it lives.
const OLDEST: Duration = Duration::from_secs(24 * 3600);

/// A pod that wants an image.
#[derive(Clone, Copy, Debug)]
pub struct Asking<'a> {
    pub pod: &'a PodRef,
    /// Empty: it has none.
    pub service_account: &'a str,
}

/// What a token is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Purpose {
    pod: PodRef,
    account: String,
    account_uid: String,
    audience: String,
}

#[derive(Clone, Debug)]
struct Token {
    text: Secret<String>,
    expires: SystemTime,
    renew_at: SystemTime,
}

/// Service accounts, as the API server has them.
pub struct Accounts {
    client: Client,
    clock: SharedClock,
    /// Held for one access.
    kept: Mutex<BTreeMap<Purpose, Token>>,
}

impl fmt::Debug for Accounts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Accounts").finish_non_exhaustive()
    }
}

impl Accounts {
    pub fn new(client: Client, clock: SharedClock) -> Self {
        Self {
            client,
            clock,
            kept: Mutex::default(),
        }
    }

    /// The pod's account.
    pub(super) async fn account(&self, asking: Asking<'_>) -> Result<ServiceAccount, String> {
        let accounts = self.of(asking);
        for pause in NOT_YET_OURS {
            match self.patiently(accounts.get(asking.service_account)).await {
                Err(problem) if is_not_yet_ours(&problem) => self.clock.sleep(pause).await,
                answer => return answer,
            }
        }
        self.patiently(accounts.get(asking.service_account)).await
    }

    /// A token of it, bound to the pod.
    pub(super) async fn token(
        &self,
        asking: Asking<'_>,
        account_uid: &str,
        audience: &str,
    ) -> Result<Secret<String>, String> {
        let purpose = Purpose {
            pod: asking.pod.clone(),
            account: asking.service_account.to_owned(),
            account_uid: account_uid.to_owned(),
            audience: audience.to_owned(),
        };
        let kept = self.with(|kept| kept.get(&purpose).cloned());
        let now = self.clock.now();
        if let Some(token) = kept.as_ref().filter(|token| now < token.renew_at) {
            return Ok(token.text.clone());
        }
        match (self.fetch(asking, &purpose).await, kept) {
            (Ok(token), _) => {
                let text = token.text.clone();
                self.with(|kept| kept.insert(purpose, token));
                Ok(text)
            }
            // An old one is better than none, as long as it is good.
            (Err(problem), Some(old)) if now < old.expires => {
                tracing::warn!(pod = %asking.pod, problem, "a token could not be renewed");
                Ok(old.text)
            }
            (Err(problem), _) => Err(problem),
        }
    }

    /// Lets go of what is kept for a pod that is gone.
    pub(super) fn forget(&self, pod: &PodUid) {
        self.with(|kept| kept.retain(|purpose, _| purpose.pod.uid != *pod));
    }

    fn of(&self, asking: Asking<'_>) -> Api<ServiceAccount> {
        Api::namespaced(self.client.clone(), &asking.pod.name.namespace)
    }

    async fn fetch(&self, asking: Asking<'_>, purpose: &Purpose) -> Result<Token, String> {
        let accounts = self.of(asking);
        let (parameters, request) = (PostParams::default(), request(purpose));
        let asked = || {
            let name = asking.service_account;
            self.patiently(accounts.create_token_request(name, &parameters, &request))
        };
        let mut answer = asked().await;
        for pause in NOT_YET_OURS {
            match &answer {
                Err(problem) if is_not_yet_ours(problem) => {
                    self.clock.sleep(pause).await;
                    answer = asked().await;
                }
                _ => break,
            }
        }
        let status = answer?.status.ok_or("the API server sent no token")?;
        let (Some(text), Some(expires)) = (status.token, status.expiration_timestamp) else {
            return Err("the API server sent no token".to_owned());
        };
        let (now, expires) = (self.clock.now(), SystemTime::from(expires.0));
        let life = expires.duration_since(now).unwrap_or_default();
        Ok(Token {
            text: Secret::new(text),
            expires,
            renew_at: now + life.mul_f64(1.0 - LEFT).min(OLDEST),
        })
    }

    async fn patiently<T>(
        &self,
        answer: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, String> {
        let answer = timeout(&*self.clock, ANSWER, answer).await;
        let answer = answer.map_err(|_| "the API server does not answer".to_owned())?;
        answer.map_err(|error| match error {
            kube::Error::Api(status) => status.message.clone(),
            error => error.to_string(),
        })
    }

    fn with<T>(&self, access: impl FnOnce(&mut BTreeMap<Purpose, Token>) -> T) -> T {
        access(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn request(purpose: &Purpose) -> TokenRequest {
    let mut request = TokenRequest {
        spec: Some(TokenRequestSpec {
            audiences: Some(vec![purpose.audience.clone()]),
            expiration_seconds: i64::try_from(LIFE.as_secs()).ok(),
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: Some(purpose.pod.name.name.clone()),
                uid: Some(purpose.pod.uid.to_string()),
            }),
        }),
        ..TokenRequest::default()
    };
    // Not for another account that has come to have the same name.
    request.metadata.uid = Some(purpose.account_uid.clone());
    request
}
