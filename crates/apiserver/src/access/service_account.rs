//! Tokens of service accounts: their claims, as upstream writes them, and whether one
//! that comes back is still good.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::user::{SERVICE_ACCOUNT_PREFIX, SERVICE_ACCOUNTS, User};

/// What clocks may differ by, and for how long something deleted still counts.
const LEEWAY: SignedDuration = SignedDuration::from_mins(1);

/// What a token says.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Claims {
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "one_or_many"
    )]
    pub(crate) aud: Vec<String>,
    pub(crate) exp: i64,
    pub(crate) iat: i64,
    pub(crate) iss: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) jti: String,
    #[serde(rename = "kubernetes.io")]
    pub(crate) kubernetes: Private,
    pub(crate) nbf: i64,
    pub(crate) sub: String,
}

/// Upstream's own part of the claims.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Private {
    pub(crate) namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pod: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<Reference>,
    pub(crate) serviceaccount: Reference,
    /// When its holder should have asked for a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) warnafter: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Reference {
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) uid: String,
}

impl Reference {
    pub(crate) fn to(object: &ObjectMeta) -> Self {
        Self {
            name: object.name.clone().unwrap_or_default(),
            uid: object.uid.clone().unwrap_or_default(),
        }
    }
}

/// The object that a token is bound to, beside its service account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    Secret,
    Pod,
    Node,
}

/// Why a token that was signed here is no longer good.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TokenRefusal {
    #[error("token issuer {0:?} is invalid")]
    Issuer(String),
    #[error("token audiences {found:?} is invalid for the target audiences {wanted:?}")]
    Audiences {
        found: Vec<String>,
        wanted: Vec<String>,
    },
    #[error("service account token has expired")]
    Expired,
    #[error("service account token is not valid yet")]
    NotYet,
    #[error("service account token is issued in the future")]
    Future,
    #[error("serviceaccounts {0:?} not found")]
    NoAccount(String),
    #[error("{what} UID ({found}) does not match {claim} ({claimed})")]
    OtherUid {
        what: &'static str,
        claim: &'static str,
        found: String,
        claimed: String,
    },
    #[error("service account {0} has been deleted")]
    AccountDeleted(String),
    #[error("service account token has been invalidated")]
    Invalidated,
}

/// Whether time and audience allow it: the audiences that count.
pub(crate) fn check_claims(
    claims: &Claims,
    issuer: &str,
    wanted: &[String],
    now: Timestamp,
) -> Result<Vec<String>, TokenRefusal> {
    if claims.iss != issuer {
        return Err(TokenRefusal::Issuer(claims.iss.clone()));
    }
    let shared = claims
        .aud
        .iter()
        .filter(|audience| wanted.contains(audience));
    let shared: Vec<_> = shared.cloned().collect();
    if shared.is_empty() {
        return Err(TokenRefusal::Audiences {
            found: claims.aud.clone(),
            wanted: wanted.to_vec(),
        });
    }
    let (now, leeway) = (now.as_second(), LEEWAY.as_secs());
    if now - leeway > claims.exp {
        return Err(TokenRefusal::Expired);
    }
    if now + leeway < claims.nbf {
        return Err(TokenRefusal::NotYet);
    }
    if now + leeway < claims.iat {
        return Err(TokenRefusal::Future);
    }
    Ok(shared)
}

/// Whether the account is the one that the token was made for.
pub(crate) fn check_account(
    claims: &Claims,
    account: Option<&ObjectMeta>,
    now: Timestamp,
) -> Result<(), TokenRefusal> {
    let claimed = &claims.kubernetes.serviceaccount;
    let account = account.ok_or_else(|| TokenRefusal::NoAccount(claimed.name.clone()))?;
    check_uid("service account", "claim", claimed, account)?;
    if is_gone(account, now) {
        let namespace = &claims.kubernetes.namespace;
        let name = format!("{namespace}/{}", claimed.name);
        return Err(TokenRefusal::AccountDeleted(name));
    }
    Ok(())
}

/// What else has to be there: a node counts only when there is no pod, whose node it
/// would be.
pub(crate) fn bound_to(claims: &Claims) -> Vec<(Bound, &Reference)> {
    let own = &claims.kubernetes;
    let secret = own.secret.as_ref().map(|to| (Bound::Secret, to));
    let pod = own.pod.as_ref().map(|to| (Bound::Pod, to));
    let node = own.node.as_ref().map(|to| (Bound::Node, to));
    let node = node.filter(|_| pod.is_none());
    secret.into_iter().chain(pod).chain(node).collect()
}

pub(crate) fn check_bound(
    bound: Bound,
    claimed: &Reference,
    found: Option<&ObjectMeta>,
    now: Timestamp,
) -> Result<(), TokenRefusal> {
    let found = found.ok_or(TokenRefusal::Invalidated)?;
    let (what, claim) = match bound {
        Bound::Secret => ("secret", "service account secret ref claim"),
        Bound::Pod => ("pod", "service account pod ref claim"),
        Bound::Node => ("node", "service account node ref claim"),
    };
    check_uid(what, claim, claimed, found)?;
    if is_gone(found, now) {
        return Err(TokenRefusal::Invalidated);
    }
    Ok(())
}

/// Who the holder of a good token is.
pub(crate) fn user_of(claims: &Claims) -> User {
    let Private {
        namespace,
        serviceaccount,
        pod,
        node,
        ..
    } = &claims.kubernetes;
    let groups = vec![
        SERVICE_ACCOUNTS.to_owned(),
        format!("{SERVICE_ACCOUNTS}:{namespace}"),
    ];
    let name = user_name(namespace, &serviceaccount.name);
    let mut user = User::authenticated(name, groups);
    user.uid.clone_from(&serviceaccount.uid);
    let mut extra = BTreeMap::new();
    let mut tell = |key: &str, value: &str| {
        if !value.is_empty() {
            let key = format!("authentication.kubernetes.io/{key}");
            extra.insert(key, vec![value.to_owned()]);
        }
    };
    if let Some(pod) = pod {
        tell("pod-name", &pod.name);
        tell("pod-uid", &pod.uid);
    }
    if let Some(node) = node {
        tell("node-name", &node.name);
        tell("node-uid", &node.uid);
    }
    if !claims.jti.is_empty() {
        tell("credential-id", &format!("JTI={}", claims.jti));
    }
    user.extra = extra;
    user
}

pub(crate) fn user_name(namespace: &str, account: &str) -> String {
    format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{account}")
}

fn check_uid(
    what: &'static str,
    claim: &'static str,
    claimed: &Reference,
    found: &ObjectMeta,
) -> Result<(), TokenRefusal> {
    let found = found.uid.clone().unwrap_or_default();
    if found == claimed.uid {
        return Ok(());
    }
    Err(TokenRefusal::OtherUid {
        what,
        claim,
        found,
        claimed: claimed.uid.clone(),
    })
}

fn is_gone(object: &ObjectMeta, now: Timestamp) -> bool {
    let deleted = object.deletion_timestamp.as_ref();
    deleted.is_some_and(|deleted| now.duration_since(deleted.0) > LEEWAY)
}

/// The audience of a JWT may be one text or a list.
fn one_or_many<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Either::deserialize(input)? {
        Either::One(one) => vec![one],
        Either::Many(many) => many,
    })
}

#[cfg(test)]
mod tests;
