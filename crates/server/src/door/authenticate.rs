//! Who asks: by certificate, by token, or nobody in particular.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::{AUTHORIZATION, CONNECTION, HeaderValue, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use rustls::pki_types::CertificateDer;
use seams::SharedClock;
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::metrics::DoorMetrics;
use super::remembered::{Asking, Remembered};
use super::review::{ReviewError, Reviews};
use super::tls::unix_time;
use super::token_metrics::TokenMetrics;
use super::trust::Trusted;
use super::user::{self, SubjectError, User};

/// Of tokens.
const MOST: usize = 4096;

const BEARER_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// Why somebody is not who they say. They are not told; the log is.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Unproven {
    #[error("the client certificate is not trusted: {0}")]
    Certificate(String),
    #[error(transparent)]
    Subject(#[from] SubjectError),
    #[error("a token was not accepted: {0}")]
    Token(ReviewError),
    #[error("a token belongs to nobody")]
    NobodysToken,
    #[error("a WebSocket's token: {0}")]
    Protocol(&'static str),
    #[error("the clock is before 1970")]
    NoTime,
}

#[derive(Debug)]
pub(crate) struct Authentication {
    pub(crate) trusted: Option<Trusted>,
    pub(crate) uid_of_certificate: bool,
    pub(crate) tokens: Option<Tokens>,
    pub(crate) anonymous: bool,
    pub(crate) clock: SharedClock,
    pub(crate) metrics: DoorMetrics,
}

impl Authentication {
    /// Who asks; `None`: nobody has said, and that is not enough. The proof is taken out of
    /// the headers, so that nobody behind this sees it. `certificates` are the client's,
    /// its own first.
    pub(crate) async fn user(
        &self,
        certificates: &[CertificateDer<'_>],
        headers: &mut HeaderMap,
    ) -> Result<Option<User>, Vec<Unproven>> {
        let mut doubts = Vec::new();
        match self.by_certificate(certificates) {
            Ok(Some(user)) => return Ok(Some(user.authenticated())),
            Ok(None) => {}
            Err(doubt) => doubts.push(doubt),
        }
        if let Some(tokens) = &self.tokens {
            match tokens.bearer(headers).await {
                Ok(Some(user)) => return Ok(Some(user.authenticated())),
                Ok(None) => {}
                Err(doubt) => doubts.push(doubt),
            }
            match tokens.subprotocol(headers).await {
                Ok(Some(user)) => return Ok(Some(user.authenticated())),
                Ok(None) => {}
                Err(doubt) => doubts.push(doubt),
            }
        }
        if !doubts.is_empty() {
            return Err(doubts);
        }
        Ok(self.anonymous.then(User::anonymous))
    }

    fn by_certificate(
        &self,
        certificates: &[CertificateDer<'_>],
    ) -> Result<Option<User>, Unproven> {
        let Some(trusted) = &self.trusted else {
            return Ok(None);
        };
        let Some((own, others)) = certificates.split_first() else {
            return Ok(None);
        };
        let now = unix_time(&self.clock).ok_or(Unproven::NoTime)?;
        if let Some(expiry) = user::expiry(own) {
            let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
            self.metrics.shown(seconds(expiry.saturating_sub(now)));
        }
        let verifier = Arc::clone(&trusted.borrow());
        verifier
            .verify_client_cert(own, others, now)
            .map_err(|cause| Unproven::Certificate(cause.to_string()))?;
        Ok(user::of_certificate(own, self.uid_of_certificate)?)
    }
}

/// For figures.
#[expect(
    clippy::cast_precision_loss,
    reason = "a figure, and no lifetime is longer than what is exact"
)]
fn seconds(whole: i64) -> f64 {
    whole as f64
}

/// Tokens, which only the API server knows; its answers are remembered.
#[derive(Debug)]
pub(crate) struct Tokens {
    reviews: Reviews,
    remembered: Remembered<Result<Option<User>, ReviewError>>,
    ttl: Duration,
    metrics: TokenMetrics,
}

impl Tokens {
    pub(crate) fn new(reviews: Reviews, ttl: Duration, metrics: TokenMetrics) -> Self {
        Self {
            reviews,
            remembered: Remembered::new(MOST),
            ttl,
            metrics,
        }
    }

    async fn bearer(&self, headers: &mut HeaderMap) -> Result<Option<User>, Unproven> {
        let Some(token) = bearer(headers) else {
            return Ok(None);
        };
        let user = self.owner(token).await?;
        headers.remove(AUTHORIZATION);
        Ok(Some(user))
    }

    async fn subprotocol(&self, headers: &mut HeaderMap) -> Result<Option<User>, Unproven> {
        if !is_web_socket(headers) {
            return Ok(None);
        }
        let Some((token, others)) = subprotocol(headers).map_err(Unproven::Protocol)? else {
            return Ok(None);
        };
        let user = self.owner(token).await?;
        if let Ok(others) = HeaderValue::from_str(&others.join(",")) {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, others);
        }
        Ok(Some(user))
    }

    async fn owner(&self, token: String) -> Result<User, Unproven> {
        let clock = self.reviews.clock.clone();
        let begun = clock.uptime();
        let key = Sha256::digest(token.as_bytes()).into();
        let answer = if let Some(answer) = self.remembered.get(&key, begun) {
            self.metrics.looked_up(true, Duration::ZERO);
            answer
        } else {
            let waits = self.metrics.waits();
            let answer = self.remembered.ask(key, || self.question(token)).await;
            drop(waits);
            let took = clock.uptime().saturating_sub(begun);
            self.metrics.looked_up(false, took);
            // A failure to answer is none.
            if answer.is_ok() {
                let until = clock.uptime() + self.ttl;
                self.remembered.put(key, answer.clone(), until);
            }
            answer
        };
        let user = answer.map_err(Unproven::Token)?;
        user.ok_or(Unproven::NobodysToken)
    }

    /// Goes on as long as anybody waits for it.
    fn question(&self, token: String) -> Asking<Result<Option<User>, ReviewError>> {
        let (reviews, metrics) = (self.reviews.clone(), self.metrics.clone());
        Box::pin(async move {
            let asks = metrics.asks();
            let answer = reviews.token(token).await;
            drop(asks);
            metrics.asked(answer.is_ok());
            answer
        })
    }
}

fn bearer(headers: &HeaderMap) -> Option<String> {
    let header = headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let mut words = header.splitn(3, ' ');
    let kind = words.next()?;
    let token = words.next()?;
    let is_token = kind.eq_ignore_ascii_case("bearer") && !token.is_empty();
    is_token.then(|| token.to_owned())
}

fn is_web_socket(headers: &HeaderMap) -> bool {
    let has = |name, wanted: &str| {
        headers.get_all(name).iter().any(|value| {
            let value = value.to_str().unwrap_or_default().to_ascii_lowercase();
            value.split(',').any(|word| word.trim() == wanted)
        })
    };
    has(UPGRADE, "websocket") && has(CONNECTION, "upgrade")
}

/// The token among the protocols that a WebSocket offers, and the others.
fn subprotocol(headers: &HeaderMap) -> Result<Option<(String, Vec<String>)>, &'static str> {
    let mut token = None;
    let mut others = Vec::new();
    for header in headers.get_all(SEC_WEBSOCKET_PROTOCOL) {
        let header = header.to_str().unwrap_or_default();
        for protocol in header.split(',').map(str::trim) {
            let Some(encoded) = protocol.strip_prefix(BEARER_PROTOCOL) else {
                others.push(protocol.to_owned());
                continue;
            };
            if token.is_some() {
                return Err("there is more than one");
            }
            let decoded = BASE64_URL_SAFE_NO_PAD.decode(encoded);
            let decoded = decoded.map_err(|_| "it is not written in base64url")?;
            let decoded = String::from_utf8(decoded).map_err(|_| "it is no text")?;
            token = Some(decoded);
        }
    }
    match token.filter(|token| !token.is_empty()) {
        None => Ok(None),
        Some(_) if others.is_empty() => Err("no other protocol is offered beside it"),
        Some(token) => Ok(Some((token, others))),
    }
}

#[cfg(test)]
mod tests;
