//! Who makes a request: by certificate, by token, or nobody in particular.

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rustls_pki_types::CertificateDer;
use serde::Deserialize;
use thiserror::Error;

use super::bootstrap_token::{self, Token};
use super::client_certificate::{CertificateFault, ClientTrust};
use super::service_account::{self, Bound, Claims, TokenRefusal};
use super::token_key::{TokenFault, TokenKey};
use super::user::User;
use crate::clock::Clock;
use crate::kinds::{Kind, NODES, PODS, SECRETS, SERVICE_ACCOUNTS};
use crate::store::{Key, Store};

/// Why credentials were not taken. The client hears "Unauthorized", the log the rest.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unauthenticated {
    #[error(transparent)]
    Certificate(#[from] CertificateFault),
    #[error("the token is none of this cluster's: {0}")]
    UnknownToken(&'static str),
    #[error("the token is not accepted: {0}")]
    Token(#[from] TokenRefusal),
}

/// A user, and for which of the audiences that were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    pub user: User,
    pub audiences: Vec<String>,
}

/// Knows the users of one cluster.
#[derive(Clone, Debug)]
pub struct Authenticator {
    pub(super) trust: ClientTrust,
    pub(super) token_key: Arc<TokenKey>,
    /// Whom tokens name as their issuer; also the audience of the API server.
    pub(super) issuer: String,
    pub(super) store: Store,
    pub(super) clock: Clock,
}

/// An object of which only the metadata matters.
#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    metadata: ObjectMeta,
}

impl Authenticator {
    pub fn new(
        trust: ClientTrust,
        token_key: Arc<TokenKey>,
        issuer: String,
        store: Store,
        clock: Clock,
    ) -> Self {
        Self {
            trust,
            token_key,
            issuer,
            store,
            clock,
        }
    }

    /// The user of a request: the client's certificates are those of its connection.
    /// Credentials that are given and not good are an error, even for what is open to
    /// everyone; without credentials the user is the anonymous one.
    pub fn user(
        &self,
        chain: &[CertificateDer<'_>],
        headers: &HeaderMap,
    ) -> Result<User, Unauthenticated> {
        let by_certificate = self.trust.user(chain, self.clock.timestamp());
        if let Ok(Some(user)) = by_certificate {
            return Ok(user);
        }
        match bearer(headers) {
            Some(token) => {
                let login = self.token(token, std::slice::from_ref(&self.issuer))?;
                Ok(login.user)
            }
            None => by_certificate
                .map(|_| User::anonymous())
                .map_err(Unauthenticated::from),
        }
    }

    /// The user of a token, for one of these audiences.
    pub fn token(&self, token: &str, audiences: &[String]) -> Result<Login, Unauthenticated> {
        let now = self.clock.timestamp();
        if let Some(token) = Token::parse(token) {
            // Tokens without an audience are for the API server.
            let own = audiences
                .iter()
                .filter(|audience| **audience == self.issuer);
            let audiences: Vec<_> = own.cloned().collect();
            return self
                .bootstrapper(token, now)
                .filter(|_| !audiences.is_empty())
                .map(|user| Login { user, audiences })
                .ok_or(Unauthenticated::UnknownToken(
                    "no bootstrap token of this id is good",
                ));
        }
        let claims: Claims = self.token_key.open(token).map_err(|fault| {
            Unauthenticated::UnknownToken(match fault {
                TokenFault::NotJwt => "it has the form of no token that there is",
                TokenFault::OtherKey => "it was signed with another key",
                TokenFault::Signature => "its signature is not valid",
                TokenFault::Claims => "its claims cannot be read",
            })
        })?;
        let audiences = service_account::check_claims(&claims, &self.issuer, audiences, now)?;
        self.check_objects(&claims, now)?;
        Ok(Login {
            user: service_account::user_of(&claims),
            audiences,
        })
    }

    fn bootstrapper(&self, token: Token<'_>, now: Timestamp) -> Option<User> {
        let key = Key::new(&SECRETS, bootstrap_token::NAMESPACE, token.secret_name());
        let secret: Secret = self.store.get(&key)?.decode().ok()?;
        token.login(&secret, now)
    }

    fn check_objects(&self, claims: &Claims, now: Timestamp) -> Result<(), TokenRefusal> {
        let namespace = &claims.kubernetes.namespace;
        let account = &claims.kubernetes.serviceaccount.name;
        let found = self.find(&SERVICE_ACCOUNTS, namespace, account);
        service_account::check_account(claims, found.as_ref(), now)?;
        for (bound, claimed) in service_account::bound_to(claims) {
            let (kind, namespace) = match bound {
                Bound::Secret => (&SECRETS, namespace.as_str()),
                Bound::Pod => (&PODS, namespace.as_str()),
                Bound::Node => (&NODES, ""),
            };
            let found = self.find(kind, namespace, &claimed.name);
            service_account::check_bound(bound, claimed, found.as_ref(), now)?;
        }
        Ok(())
    }

    fn find(&self, kind: &'static Kind, namespace: &str, name: &str) -> Option<ObjectMeta> {
        let found = self.store.get(&Key::new(kind, namespace, name))?;
        let named: Named = found.decode().ok()?;
        Some(named.metadata)
    }
}

/// The token of a request. The scheme's name may be written in any case.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers
        .get(AUTHORIZATION)?
        .to_str()
        .ok()?
        .trim()
        .split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_token_is_found_whatever_the_case_of_its_scheme() {
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, text.parse().unwrap());
            bearer(&headers).map(str::to_owned)
        };
        assert_eq!(of("Bearer a.b"), Some("a.b".to_owned()));
        assert_eq!(of("bearer  a.b "), Some("a.b".to_owned()));
        for text in ["Bearer", "Bearer ", "Basic a", "a.b"] {
            assert_eq!(of(text), None, "{text}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
