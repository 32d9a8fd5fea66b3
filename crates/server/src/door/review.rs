//! Questions to the API server: who a token is, and what somebody may do. Asked again as
//! upstream does when the answer is that there is none yet.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::core::Resource;
use kube::{Api, Client};
use seams::{SharedClock, timeout};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

use super::metrics::{Asked, DoorMetrics};
use super::user::User;

/// For all tries of one question.
const LONGEST: Duration = Duration::from_secs(30);

/// Before the second try; then half as long again each time.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const FACTOR: f64 = 1.5;
const JITTER: f64 = 0.2;
const TRIES: u32 = 5;

/// Why there is no answer; for logs, not for who asked.
pub(crate) type ReviewError = Arc<str>;

/// Asks the API server.
#[derive(Clone)]
pub(crate) struct Reviews {
    pub(crate) client: Client,
    pub(crate) clock: SharedClock,
    pub(crate) node_name: Arc<str>,
    pub(crate) metrics: DoorMetrics,
}

impl std::fmt::Debug for Reviews {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Reviews").finish_non_exhaustive()
    }
}

/// What somebody wants to do with the node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) verb: &'static str,
    pub(crate) subresource: &'static str,
}

impl Reviews {
    /// Whose token it is. `None`: nobody's, for all that is known.
    pub(crate) async fn token(self, token: String) -> Result<Option<User>, ReviewError> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token,
                // No audiences: the API server's own, as with upstream.
                audiences: None,
            },
            ..TokenReview::default()
        };
        let answer = self.ask(Asked::Token, &review).await?;
        let status = answer.status.unwrap_or_default();
        if status.authenticated != Some(true) {
            return match status.error.filter(|error| !error.is_empty()) {
                Some(error) => Err(error.into()),
                None => Ok(None),
            };
        }
        let user = status.user.unwrap_or_default();
        Ok(Some(User {
            name: user.username.unwrap_or_default(),
            uid: user.uid.unwrap_or_default(),
            groups: user.groups.unwrap_or_default(),
            extra: user.extra.unwrap_or_default(),
        }))
    }

    /// Whether somebody may do this.
    pub(crate) async fn access(self, spec: SubjectAccessReviewSpec) -> Result<bool, ReviewError> {
        let review = SubjectAccessReview {
            spec,
            ..SubjectAccessReview::default()
        };
        let answer = self.ask(Asked::Access, &review).await?;
        let status = answer.status.unwrap_or_default();
        match (status.allowed, status.denied.unwrap_or(false)) {
            (true, true) => Err("the API server says both yes and no".into()),
            (allowed, _) => Ok(allowed),
        }
    }

    /// The question that [`Self::access`] asks.
    pub(crate) fn question(&self, user: &User, wish: Wish) -> SubjectAccessReviewSpec {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        SubjectAccessReviewSpec {
            user: given(&user.name),
            uid: given(&user.uid),
            groups: Some(user.groups.clone()).filter(|groups| !groups.is_empty()),
            extra: Some(user.extra.clone()).filter(|extra| !extra.is_empty()),
            resource_attributes: Some(ResourceAttributes {
                verb: given(wish.verb),
                version: Some("v1".to_owned()),
                resource: Some("nodes".to_owned()),
                subresource: Some(wish.subresource.to_owned()),
                name: Some(self.node_name.as_ref().to_owned()),
                ..ResourceAttributes::default()
            }),
            non_resource_attributes: None,
        }
    }

    async fn ask<K>(&self, asked: Asked, question: &K) -> Result<K, ReviewError>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
    {
        let api = Api::<K>::all(self.client.clone());
        let tries = async {
            let mut pause = FIRST_PAUSE;
            let mut tried = 1;
            loop {
                let begun = self.clock.uptime();
                let answer = api.create(&PostParams::default(), question).await;
                let code = match &answer {
                    Ok(_) => "201".to_owned(),
                    Err(kube::Error::Api(status)) => status.code.to_string(),
                    Err(_) => "<error>".to_owned(),
                };
                let took = self.clock.uptime().saturating_sub(begun);
                self.metrics.asked(asked, &code, took);
                match answer {
                    Ok(answer) => return Ok(answer),
                    Err(error) if tried < TRIES && is_worth_another_try(&error) => {
                        let spread = 1.0 + JITTER * self.clock.random();
                        self.clock.sleep(pause.mul_f64(spread)).await;
                        pause = pause.mul_f64(FACTOR);
                        tried += 1;
                    }
                    Err(error) => return Err(ReviewError::from(error.to_string())),
                }
            }
        };
        match timeout(&*self.clock, LONGEST, tries).await {
            Ok(answer) => answer,
            Err(_) => Err("the API server has not answered in time".into()),
        }
    }
}

/// Another try may have an answer: upstream's list. One that cannot be reached at all is not
/// waited for, nor is one that is merely slow.
fn is_worth_another_try(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => {
            let details = status.details.as_ref();
            let asks = details.is_some_and(|details| details.retry_after_seconds > 0);
            asks || matches!(status.code, 429 | 500 | 504)
        }
        error => {
            let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
            while let Some(one) = cause {
                let io = one.downcast_ref::<io::Error>();
                let reset = io.is_some_and(|io| io.kind() == io::ErrorKind::ConnectionReset);
                // The server has left pings without an answer: Go's `client connection lost`.
                let hyper = one.downcast_ref::<hyper::Error>();
                if reset || hyper.is_some_and(hyper::Error::is_timeout) {
                    return true;
                }
                cause = one.source();
            }
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use serde_json::json;

    use super::*;

    #[test]
    fn another_try_is_made_where_upstream_makes_one() {
        let said = |code: u16, seconds: u32| {
            let details = json!({"retryAfterSeconds": seconds});
            let status = json!({"code": code, "message": "no", "details": details});
            kube::Error::Api(serde_json::from_value::<Box<Status>>(status).unwrap())
        };
        let broken = |kind: io::ErrorKind| kube::Error::Service(Box::new(io::Error::from(kind)));
        for (error, wanted) in [
            (said(429, 0), true),
            (said(500, 0), true),
            (said(503, 0), false),
            (said(503, 1), true),
            (said(504, 0), true),
            (said(403, 0), false),
            (broken(io::ErrorKind::ConnectionReset), true),
            (broken(io::ErrorKind::ConnectionRefused), false),
            (broken(io::ErrorKind::TimedOut), false),
        ] {
            assert_eq!(is_worth_another_try(&error), wanted, "{error}");
        }
    }
}
