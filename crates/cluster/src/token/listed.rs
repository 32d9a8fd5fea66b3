//! Tokens as the cluster has them: read back from their Secrets, the broken ones
//! with what is wrong.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use thiserror::Error;

use super::spec::{SECRET_TYPE, USAGE_PREFIX, validate_group};
use super::{Token, TokenId, secret_name};

/// A token Secret: what it says, or why it is of no use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredToken {
    /// The Secret's name.
    pub name: String,
    pub content: Result<ListedToken, BrokenToken>,
}

/// A token that the cluster would take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedToken {
    pub token: Token,
    pub expiry: Expiry,
    /// By name, sorted; unknown ones are shown too.
    pub usages: Vec<String>,
    pub description: String,
    pub groups: Vec<String>,
}

/// When a token ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    Never,
    At(Timestamp),
}

impl Expiry {
    /// What is left. `None`: for ever. Zero: it has expired, and the cluster is
    /// about to remove it.
    pub fn left(self, now: SystemTime) -> Option<Duration> {
        let Self::At(end) = self else {
            return None;
        };
        let end = SystemTime::from(end);
        Some(end.duration_since(now).unwrap_or_default())
    }
}

/// Why the cluster does not take a token.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BrokenToken {
    #[error("its type is {0:?}, not {SECRET_TYPE}; delete the Secret and create the token anew")]
    OtherType(String),
    #[error("it has no {0}; delete the Secret and create the token anew")]
    Missing(&'static str),
    #[error(
        "its token-id or token-secret is not of the form of a token; delete the Secret and create the token anew"
    )]
    Malformed,
    #[error("it belongs under the name {expected}; delete the Secret and create the token anew")]
    Misnamed { expected: String },
    #[error("its expiration {0:?} is not a time of RFC 3339, so that it counts as expired")]
    Expiration(String),
    #[error("its group {0:?} is not one that tokens may carry, so that nobody can log in with it")]
    Group(String),
    #[error("it is being deleted")]
    Deleting,
}

/// Reads a Secret as the cluster does.
pub fn read_secret(secret: &Secret) -> StoredToken {
    StoredToken {
        name: secret.metadata.name.clone().unwrap_or_default(),
        content: read(secret),
    }
}

fn read(secret: &Secret) -> Result<ListedToken, BrokenToken> {
    let kind = secret.type_.as_deref().unwrap_or_default();
    if kind != SECRET_TYPE {
        return Err(BrokenToken::OtherType(kind.to_owned()));
    }
    if secret.metadata.deletion_timestamp.is_some() {
        return Err(BrokenToken::Deleting);
    }
    let token = read_token(secret)?;
    let groups: Vec<String> = text(secret, "auth-extra-groups")
        .split(',')
        .filter(|group| !group.is_empty())
        .map(str::to_owned)
        .collect();
    if let Some(group) = groups.iter().find(|group| validate_group(group).is_err()) {
        return Err(BrokenToken::Group(group.clone()));
    }
    Ok(ListedToken {
        token,
        expiry: read_expiry(&text(secret, "expiration"))?,
        usages: read_usages(secret),
        description: text(secret, "description"),
        groups,
    })
}

fn read_token(secret: &Secret) -> Result<Token, BrokenToken> {
    let (id, token_secret) = (text(secret, "token-id"), text(secret, "token-secret"));
    if id.is_empty() {
        return Err(BrokenToken::Missing("token-id"));
    }
    let id: TokenId = id.parse().map_err(|_| BrokenToken::Malformed)?;
    let expected = secret_name(&id);
    if secret.metadata.name.as_deref() != Some(&expected) {
        return Err(BrokenToken::Misnamed { expected });
    }
    if token_secret.is_empty() {
        return Err(BrokenToken::Missing("token-secret"));
    }
    let token = format!("{id}.{token_secret}").parse();
    token.map_err(|_| BrokenToken::Malformed)
}

fn read_expiry(expiration: &str) -> Result<Expiry, BrokenToken> {
    if expiration.is_empty() {
        return Ok(Expiry::Never);
    }
    let end = expiration.parse().map(Expiry::At);
    end.map_err(|_| BrokenToken::Expiration(expiration.to_owned()))
}

fn read_usages(secret: &Secret) -> Vec<String> {
    let entries = secret.data.iter().flatten();
    entries
        .filter(|(_, value)| value.0 == b"true")
        .filter_map(|(key, _)| key.strip_prefix(USAGE_PREFIX))
        .map(str::to_owned)
        .collect()
}

fn text(secret: &Secret, key: &str) -> String {
    let value = secret.data.as_ref().and_then(|data| data.get(key));
    value
        .map(|value| String::from_utf8_lossy(&value.0).into_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;
    use crate::testing::at;
    use crate::token::TokenSpec;

    fn secret() -> Secret {
        let spec = TokenSpec {
            description: "for the new rack".to_owned(),
            ..TokenSpec::default()
        };
        let token = "abcdef.0123456789abcdef".parse().unwrap();
        spec.secret(&token, at("2026-11-15T06:00:00Z")).unwrap()
    }

    fn with(key: &str, value: Option<&str>) -> Secret {
        let mut secret = secret();
        let data = secret.data.get_or_insert_default();
        match value {
            Some(value) => data.insert(key.to_owned(), ByteString(value.as_bytes().to_vec())),
            None => data.remove(key),
        };
        secret
    }

    #[test]
    fn what_was_written_is_read_back() {
        let listed = read_secret(&secret()).content.unwrap();
        assert_eq!(listed.token.expose(), "abcdef.0123456789abcdef");
        assert_eq!(listed.usages, ["authentication", "signing"]);
        assert_eq!(listed.description, "for the new rack");
        assert_eq!(listed.groups, [crate::token::DEFAULT_GROUP]);
        assert_eq!(
            listed.expiry,
            Expiry::At("2026-11-16T06:00:00Z".parse().unwrap())
        );
    }

    #[test]
    fn what_is_left_shrinks_to_nothing_and_never_runs_out_where_there_is_no_end() {
        let expiry = Expiry::At("2026-11-16T06:00:00Z".parse().unwrap());
        assert_eq!(
            expiry.left(at("2026-11-16T05:59:50Z")),
            Some(Duration::from_secs(10))
        );
        assert_eq!(
            expiry.left(at("2026-11-17T00:00:00Z")),
            Some(Duration::ZERO)
        );
        assert_eq!(Expiry::Never.left(at("2026-11-17T00:00:00Z")), None);
        let forever = read_secret(&with("expiration", None)).content.unwrap();
        assert_eq!(forever.expiry, Expiry::Never);
    }

    #[test]
    fn a_broken_token_is_shown_with_what_is_wrong() {
        let broken = |secret: &Secret| read_secret(secret).content.unwrap_err();
        assert_eq!(
            broken(&with("token-id", None)),
            BrokenToken::Missing("token-id")
        );
        assert_eq!(
            broken(&with("token-secret", None)),
            BrokenToken::Missing("token-secret")
        );
        assert_eq!(
            broken(&with("token-secret", Some("short"))),
            BrokenToken::Malformed
        );
        assert_eq!(
            broken(&with("token-id", Some("ABC"))),
            BrokenToken::Malformed
        );
        assert_eq!(
            broken(&with("token-id", Some("zzzzzz"))),
            BrokenToken::Misnamed {
                expected: "bootstrap-token-zzzzzz".to_owned()
            }
        );
        assert_eq!(
            broken(&with("expiration", Some("tomorrow"))),
            BrokenToken::Expiration("tomorrow".to_owned())
        );
        assert_eq!(
            broken(&with(
                "auth-extra-groups",
                Some("system:bootstrappers:a,system:masters")
            )),
            BrokenToken::Group("system:masters".to_owned())
        );
        let opaque = Secret {
            type_: Some("Opaque".to_owned()),
            ..secret()
        };
        assert_eq!(broken(&opaque), BrokenToken::OtherType("Opaque".to_owned()));
    }

    #[test]
    fn a_usage_that_is_not_true_is_none() {
        let listed = read_secret(&with("usage-bootstrap-signing", Some("True")));
        assert_eq!(listed.content.unwrap().usages, ["authentication"]);
    }
}
