//! Who may do what.

use std::time::Duration;

use sha2::{Digest, Sha256};

use super::config::AuthorizationConfig;
use super::remembered::Remembered;
use super::review::{ReviewError, Reviews, Wish};
use super::user::User;

/// Of answers; upstream's.
const MOST: usize = 8192;

#[derive(Debug)]
pub(crate) enum Authorization {
    AlwaysAllow,
    Asked(Box<Asked>),
}

/// The API server is asked, and answers are remembered for so long.
#[derive(Debug)]
pub(crate) struct Asked {
    reviews: Reviews,
    remembered: Remembered<Result<bool, ReviewError>>,
    allowed: Duration,
    denied: Duration,
}

/// What became of a wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allowed,
    Forbidden,
    /// It is not known; the sub-resource that was asked about.
    Unknown(&'static str, ReviewError),
}

impl Authorization {
    /// Without an API server nobody can be asked.
    pub(crate) fn new(config: AuthorizationConfig, reviews: Option<Reviews>) -> Option<Self> {
        match (config, reviews) {
            (AuthorizationConfig::AlwaysAllow, _) => Some(Self::AlwaysAllow),
            (AuthorizationConfig::Webhook { .. }, None) => None,
            (AuthorizationConfig::Webhook { allowed, denied }, Some(reviews)) => {
                Some(Self::Asked(Box::new(Asked {
                    reviews,
                    remembered: Remembered::new(MOST),
                    allowed,
                    denied,
                })))
            }
        }
    }

    /// Whether somebody may have one of these, which are asked about in turn.
    pub(crate) async fn judge(
        &self,
        user: &User,
        verb: &'static str,
        subresources: &'static [&'static str],
    ) -> Verdict {
        for subresource in subresources {
            match self.may(user, Wish { verb, subresource }).await {
                Ok(true) => return Verdict::Allowed,
                Ok(false) => {}
                Err(error) => return Verdict::Unknown(subresource, error),
            }
        }
        Verdict::Forbidden
    }

    async fn may(&self, user: &User, wish: Wish) -> Result<bool, ReviewError> {
        let Self::Asked(asked) = self else {
            return Ok(true);
        };
        let Asked {
            reviews,
            remembered,
            allowed,
            denied,
        } = &**asked;
        let question = reviews.question(user, wish);
        let written = serde_json::to_vec(&question);
        let written = written.map_err(|error| ReviewError::from(error.to_string()))?;
        let key = Sha256::digest(&written).into();
        if let Some(answer) = remembered.get(&key, reviews.clock.uptime()) {
            return answer;
        }
        let asking = reviews.clone();
        let answer = remembered
            .ask(key, move || Box::pin(asking.access(question)) as _)
            .await;
        if let Ok(may) = answer {
            let ttl = if may { *allowed } else { *denied };
            let until = reviews.clock.uptime() + ttl;
            remembered.put(key, answer.clone(), until);
        }
        answer
    }
}
