//! Bootstrap tokens: what a new node logs in with, kept as secrets in `kube-system`.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use ring::hmac::{self, HMAC_SHA256};
use ring::rand::SystemRandom;

use super::user::{BOOTSTRAP_PREFIX, BOOTSTRAPPERS, User};

pub(crate) const NAMESPACE: &str = "kube-system";
pub(crate) const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
const SECRET_PREFIX: &str = "bootstrap-token-";

/// The two halves of a token, `id.secret`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) id: &'a str,
    secret: &'a str,
}

impl<'a> Token<'a> {
    /// `None` for what is no bootstrap token at all.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (id, secret) = text.split_once('.')?;
        let is_text = |text: &str, length: usize| {
            let mut bytes = text.bytes();
            text.len() == length
                && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        (is_text(id, 6) && is_text(secret, 16)).then_some(Self { id, secret })
    }

    pub(crate) fn secret_name(self) -> String {
        format!("{SECRET_PREFIX}{}", self.id)
    }

    /// Who logs in with it, if the secret of its name says so.
    pub(crate) fn login(self, secret: &Secret, now: Timestamp) -> Option<User> {
        let entry = Entry::of(secret)?;
        let user = format!("{BOOTSTRAP_PREFIX}{}", self.id);
        let matches = same(entry.text("token-secret")?, self.secret)
            && entry.text("token-id")? == self.id
            && !entry.has_expired(now)
            && entry.is_set("usage-bootstrap-authentication");
        let groups = entry.groups()?;
        matches.then(|| User::authenticated(user, groups))
    }
}

/// A secret that holds a token.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a>(&'a Secret);

impl<'a> Entry<'a> {
    /// `None` for other secrets, and for one that is going.
    pub(crate) fn of(secret: &'a Secret) -> Option<Self> {
        let is_one = secret.type_.as_deref() == Some(SECRET_TYPE);
        let stays = secret.metadata.deletion_timestamp.is_none();
        (is_one && stays).then_some(Self(secret))
    }

    pub(crate) fn text(self, key: &str) -> Option<&'a str> {
        let value = self.0.data.as_ref()?.get(key)?;
        std::str::from_utf8(&value.0).ok()
    }

    pub(crate) fn is_set(self, usage: &str) -> bool {
        self.text(usage) == Some("true")
    }

    /// When it ends; what cannot be read has ended.
    pub(crate) fn expiry(self) -> Option<Timestamp> {
        let text = self.text("expiration").filter(|text| !text.is_empty())?;
        Some(text.parse().unwrap_or(Timestamp::UNIX_EPOCH))
    }

    pub(crate) fn has_expired(self, now: Timestamp) -> bool {
        self.expiry().is_some_and(|expiry| expiry <= now)
    }

    /// Id and secret of a token that may sign `cluster-info`.
    pub(crate) fn signing_token(self, now: Timestamp) -> Option<(&'a str, &'a str)> {
        let id = self.text("token-id")?;
        let named = self
            .0
            .metadata
            .name
            .as_deref()?
            .strip_prefix(SECRET_PREFIX)?;
        let secret = self
            .text("token-secret")
            .filter(|secret| !secret.is_empty())?;
        let signs = id == named && self.is_set("usage-bootstrap-signing") && !self.has_expired(now);
        signs.then_some((id, secret))
    }

    /// `None` if one of them is none that a token may give.
    fn groups(self) -> Option<Vec<String>> {
        let mut groups = BTreeSet::from([BOOTSTRAPPERS.to_owned()]);
        let extra = self.text("auth-extra-groups").unwrap_or_default();
        for group in extra.split(',').filter(|_| !extra.is_empty()) {
            let own = group.strip_prefix("system:bootstrappers:")?;
            let allowed = |byte: u8| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b':' | b'-')
            };
            let ends = own
                .bytes()
                .last()
                .is_some_and(|byte| byte.is_ascii_alphanumeric());
            if own.len() > 256 || !ends || !own.bytes().all(allowed) {
                return None;
            }
            groups.insert(group.to_owned());
        }
        Some(groups.into_iter().collect())
    }
}

/// Compared in a time that tells nothing of either: as tags under a key of the moment.
fn same(one: &str, other: &str) -> bool {
    let Ok(key) = hmac::Key::generate(HMAC_SHA256, &SystemRandom::new()) else {
        return false;
    };
    let tag = hmac::sign(&key, one.as_bytes());
    hmac::verify(&key, other.as_bytes(), tag.as_ref()).is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn now() -> Timestamp {
        "2026-11-16T12:00:00Z".parse().unwrap()
    }

    fn secret(changes: &[(&str, &str)]) -> Secret {
        use base64::Engine as _;
        use base64::engine::general_purpose::STANDARD;
        let mut data = serde_json::Map::new();
        let usual = [
            ("token-id", "abcdef"),
            ("token-secret", "0123456789abcdef"),
            ("usage-bootstrap-authentication", "true"),
            ("usage-bootstrap-signing", "true"),
            (
                "auth-extra-groups",
                "system:bootstrappers:kubeadm:default-node-token",
            ),
            ("expiration", "2026-11-17T12:00:00Z"),
        ];
        for (key, value) in usual.iter().chain(changes) {
            data.insert((*key).to_owned(), Value::String(STANDARD.encode(value)));
        }
        serde_json::from_value(json!({
            "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system"},
            "type": SECRET_TYPE,
            "data": data,
        }))
        .unwrap()
    }

    fn login(text: &str, secret: &Secret) -> Option<User> {
        Token::parse(text).unwrap().login(secret, now())
    }

    #[test]
    fn a_token_logs_in_with_its_groups() {
        let user = login("abcdef.0123456789abcdef", &secret(&[])).unwrap();
        assert_eq!(user.name, "system:bootstrap:abcdef");
        assert_eq!(
            user.groups,
            [
                "system:bootstrappers",
                "system:bootstrappers:kubeadm:default-node-token",
                "system:authenticated"
            ]
        );
        let plain = secret(&[("auth-extra-groups", ""), ("expiration", "")]);
        assert!(login("abcdef.0123456789abcdef", &plain).is_some());
    }

    #[test]
    fn what_is_wrong_expired_or_not_for_logins_is_refused() {
        let good = "abcdef.0123456789abcdef";
        assert!(login("abcdef.0123456789abcdeg", &secret(&[])).is_none());
        for change in [
            ("token-id", "abcdeg"),
            ("expiration", "2026-11-16T12:00:00Z"),
            ("expiration", "tomorrow"),
            ("usage-bootstrap-authentication", "false"),
            ("auth-extra-groups", "system:masters"),
            ("auth-extra-groups", "system:bootstrappers:a,"),
            ("auth-extra-groups", "system:bootstrappers:a-"),
        ] {
            assert!(login(good, &secret(&[change])).is_none(), "{change:?}");
        }
        let mut other = secret(&[]);
        other.type_ = Some("Opaque".to_owned());
        assert!(login(good, &other).is_none());
        let mut going = secret(&[]);
        going.metadata.deletion_timestamp =
            Some(serde_json::from_value(json!("2026-11-16T12:00:00Z")).unwrap());
        assert!(login(good, &going).is_none());
    }

    #[test]
    fn only_tokens_look_like_tokens() {
        for text in [
            "",
            "abcdef",
            "abcdef.0123",
            "ABCDEF.0123456789abcdef",
            "abcde.0123456789abcdefg",
            "eyJ.eyJ.x",
        ] {
            assert!(Token::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn signing_needs_its_own_usage() {
        let token = |secret: &Secret| {
            Entry::of(secret)
                .and_then(|entry| entry.signing_token(now()))
                .is_some()
        };
        assert!(token(&secret(&[(
            "usage-bootstrap-authentication",
            "false"
        )])));
        assert!(!token(&secret(&[("usage-bootstrap-signing", "false")])));
        assert!(!token(&secret(&[("expiration", "2026-11-16T12:00:00Z")])));
        assert!(!token(&secret(&[("token-id", "other1")])));
    }
}
