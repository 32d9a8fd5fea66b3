//! What a new token is to be, and the Secret that makes it one.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use thiserror::Error;

use super::{Token, secret_name};

/// The group that kubeadm's bindings are for.
pub const DEFAULT_GROUP: &str = "system:bootstrappers:kubeadm:default-node-token";
pub const DEFAULT_TTL: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) const NAMESPACE: &str = "kube-system";
pub(super) const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
pub(super) const USAGE_PREFIX: &str = "usage-bootstrap-";

const GROUP_PREFIX: &str = "system:bootstrappers:";
const GROUP_REST: usize = 256;

/// What a token may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Usage {
    /// To sign cluster-info, so that a node can trust the cluster.
    Signing,
    /// To log in, so that the cluster can trust a node.
    Authentication,
}

/// Why a token cannot be made as wished.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpecError {
    #[error("the usage {0:?} is not known; the usages are signing and authentication")]
    Usage(String),
    #[error(
        "the group {0:?} is not one that tokens may carry: it must begin with {GROUP_PREFIX}, go on with at most 256 characters of a-z, 0-9, ':' and '-', and end with a letter or digit"
    )]
    Group(String),
    #[error(
        "groups are given, and the token cannot be used for authentication, where they would count; add the usage authentication or leave the groups out"
    )]
    GroupsWithoutAuthentication,
    #[error("the token would expire after the end of the calendar; choose a shorter time to live")]
    TooLong,
}

/// What a new token is to be. The default is kubeadm's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenSpec {
    /// `None` and zero: it never expires.
    pub ttl: Option<Duration>,
    pub usages: Vec<Usage>,
    pub groups: Vec<String>,
    pub description: String,
}

impl Default for TokenSpec {
    fn default() -> Self {
        Self {
            ttl: Some(DEFAULT_TTL),
            usages: vec![Usage::Signing, Usage::Authentication],
            groups: vec![DEFAULT_GROUP.to_owned()],
            description: String::new(),
        }
    }
}

impl TokenSpec {
    pub fn validate(&self) -> Result<(), SpecError> {
        for group in &self.groups {
            validate_group(group)?;
        }
        if !self.groups.is_empty() && !self.usages.contains(&Usage::Authentication) {
            return Err(SpecError::GroupsWithoutAuthentication);
        }
        Ok(())
    }

    /// The Secret by which the cluster knows `token`, as kubeadm makes it.
    pub fn secret(&self, token: &Token, now: SystemTime) -> Result<Secret, SpecError> {
        self.validate()?;
        let mut data = BTreeMap::new();
        let mut put = |key: &str, value: &str| {
            data.insert(key.to_owned(), ByteString(value.as_bytes().to_vec()));
        };
        put("token-id", token.id().as_str());
        put("token-secret", token.expose_secret());
        if !self.description.is_empty() {
            put("description", &self.description);
        }
        if let Some(ttl) = self.ttl.filter(|ttl| !ttl.is_zero()) {
            put("expiration", &expiration(now, ttl)?);
        }
        for usage in &self.usages {
            put(&format!("{USAGE_PREFIX}{usage}"), "true");
        }
        if !self.groups.is_empty() {
            put("auth-extra-groups", &self.groups.join(","));
        }
        Ok(Secret {
            metadata: ObjectMeta {
                name: Some(secret_name(token.id())),
                namespace: Some(NAMESPACE.to_owned()),
                ..ObjectMeta::default()
            },
            type_: Some(SECRET_TYPE.to_owned()),
            data: Some(data),
            ..Secret::default()
        })
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Signing => "signing",
            Self::Authentication => "authentication",
        })
    }
}

impl FromStr for Usage {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "signing" => Ok(Self::Signing),
            "authentication" => Ok(Self::Authentication),
            other => Err(SpecError::Usage(other.to_owned())),
        }
    }
}

/// Whether tokens may carry the group: `system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]`.
pub fn validate_group(group: &str) -> Result<(), SpecError> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let valid = group.strip_prefix(GROUP_PREFIX).is_some_and(|rest| {
        rest.len() <= GROUP_REST
            && rest
                .bytes()
                .all(|byte| plain(byte) || b":-".contains(&byte))
            && rest.bytes().last().is_some_and(plain)
    });
    if valid {
        Ok(())
    } else {
        Err(SpecError::Group(group.to_owned()))
    }
}

/// RFC 3339 in UTC, whole seconds, rounded down as Go's format does.
fn expiration(now: SystemTime, ttl: Duration) -> Result<String, SpecError> {
    let end = now.checked_add(ttl).ok_or(SpecError::TooLong)?;
    let end = Timestamp::try_from(end).map_err(|_| SpecError::TooLong)?;
    let whole = Timestamp::from_second(end.as_second()).map_err(|_| SpecError::TooLong)?;
    Ok(whole.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::at;

    fn token() -> Token {
        "abcdef.0123456789abcdef".parse().unwrap()
    }

    #[test]
    fn the_secret_is_the_one_that_kubeadm_makes() {
        let spec = TokenSpec {
            description: "oracle token".to_owned(),
            ..TokenSpec::default()
        };
        // A day before kubeadm's expiration of 2026-11-16T06:14:27Z, and a bit.
        let now = at("2026-11-15T06:14:27Z") + Duration::from_millis(900);
        let secret = spec.secret(&token(), now).unwrap();
        assert_eq!(
            serde_json::to_value(&secret).unwrap(),
            json!({
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": { "name": "bootstrap-token-abcdef", "namespace": "kube-system" },
                "type": "bootstrap.kubernetes.io/token",
                "data": {
                    "auth-extra-groups":
                        "c3lzdGVtOmJvb3RzdHJhcHBlcnM6a3ViZWFkbTpkZWZhdWx0LW5vZGUtdG9rZW4=",
                    "description": "b3JhY2xlIHRva2Vu",
                    "expiration": "MjAyNi0xMS0xNlQwNjoxNDoyN1o=",
                    "token-id": "YWJjZGVm",
                    "token-secret": "MDEyMzQ1Njc4OWFiY2RlZg==",
                    "usage-bootstrap-authentication": "dHJ1ZQ==",
                    "usage-bootstrap-signing": "dHJ1ZQ==",
                },
            })
        );
    }

    #[test]
    fn a_token_without_time_to_live_never_expires_and_empty_fields_are_left_out() {
        for ttl in [None, Some(Duration::ZERO)] {
            let spec = TokenSpec {
                ttl,
                usages: vec![Usage::Signing],
                groups: Vec::new(),
                description: String::new(),
            };
            let secret = spec.secret(&token(), at("2026-11-15T06:14:27Z")).unwrap();
            let keys: Vec<_> = secret.data.unwrap().into_keys().collect();
            assert_eq!(
                keys,
                ["token-id", "token-secret", "usage-bootstrap-signing"]
            );
        }
    }

    #[test]
    fn a_time_to_live_beyond_the_calendar_is_refused() {
        let spec = TokenSpec {
            ttl: Some(Duration::from_secs(u64::MAX / 4)),
            ..TokenSpec::default()
        };
        let outcome = spec.secret(&token(), at("2026-11-15T06:14:27Z"));
        assert_eq!(outcome.unwrap_err(), SpecError::TooLong);
    }

    #[test]
    fn groups_are_those_below_system_bootstrappers() {
        let longest = format!("system:bootstrappers:{}", "a".repeat(256));
        for good in [
            DEFAULT_GROUP,
            "system:bootstrappers:a",
            "system:bootstrappers:-a",
            &longest,
        ] {
            assert_eq!(validate_group(good), Ok(()), "{good}");
        }
        let too_long = format!("{longest}a");
        for bad in [
            "",
            "system:bootstrappers",
            "system:bootstrappers:",
            "system:bootstrappers:a-",
            "system:bootstrappers:a:",
            "system:bootstrappers:A",
            "system:bootstrappers:a,b",
            "system:masters",
            &too_long,
        ] {
            assert!(validate_group(bad).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn groups_need_the_usage_in_which_they_count() {
        let spec = TokenSpec {
            usages: vec![Usage::Signing],
            ..TokenSpec::default()
        };
        assert_eq!(spec.validate(), Err(SpecError::GroupsWithoutAuthentication));
    }

    #[test]
    fn usages_are_read_by_their_names() {
        for usage in [Usage::Signing, Usage::Authentication] {
            assert_eq!(usage.to_string().parse(), Ok(usage));
        }
        assert!("Signing".parse::<Usage>().is_err());
    }
}
