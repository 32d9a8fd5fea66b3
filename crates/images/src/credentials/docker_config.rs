//! The files and secrets that `docker login` makes: which registry takes which
//! login. Two forms: entries by themselves (`.dockercfg`), and entries below
//! `auths` (`config.json`).
//!
//! No error here quotes what it has read: there are passwords in it.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Value};
use thiserror::Error;

use super::{Login, LoginFields, matching};

/// As forgiving as Go's: stray bits behind the end are nothing.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Logins by the registry that they are for, as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DockerConfig {
    pub entries: Vec<(String, Login)>,
}

/// Why it cannot be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DockerConfigError {
    #[error("it is not JSON: there is a mistake in line {line}, column {column}")]
    NotJson { line: usize, column: usize },
    #[error("{what} must be {must}")]
    Kind { what: String, must: &'static str },
    #[error("the auth of {registry:?} must be base64 of username:password")]
    Auth { registry: String },
}

impl DockerConfig {
    /// `config.json`, and secrets of type `kubernetes.io/dockerconfigjson`.
    pub fn from_json(content: &[u8]) -> Result<Self, DockerConfigError> {
        let value = parse(content)?;
        let top = object(&value, || "the whole".to_owned())?;
        match top.and_then(|it| field(it, "auths")) {
            Some(auths) => Self::read(auths),
            None => Ok(Self::default()),
        }
    }

    /// `.dockercfg`, and secrets of type `kubernetes.io/dockercfg`.
    pub fn from_dockercfg(content: &[u8]) -> Result<Self, DockerConfigError> {
        Self::read(&parse(content)?)
    }

    fn read(entries: &Value) -> Result<Self, DockerConfigError> {
        let entries = object(entries, || "the list of registries".to_owned())?;
        let entries = entries.into_iter().flatten();
        let entries =
            entries.map(|(registry, value)| Ok((registry.clone(), login(registry, value)?)));
        Ok(Self {
            entries: entries.collect::<Result<_, _>>()?,
        })
    }
}

fn parse(content: &[u8]) -> Result<Value, DockerConfigError> {
    serde_json::from_slice(content).map_err(|error| DockerConfigError::NotJson {
        line: error.line(),
        column: error.column(),
    })
}

/// `null` counts as nothing, as it does in Go.
fn object(
    value: &Value,
    what: impl FnOnce() -> String,
) -> Result<Option<&Map<String, Value>>, DockerConfigError> {
    match value {
        Value::Null => Ok(None),
        Value::Object(map) => Ok(Some(map)),
        _ => Err(DockerConfigError::Kind {
            what: what(),
            must: "an object",
        }),
    }
}

/// Go takes a field's name in any case.
fn field<'a>(map: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    map.get(name).or_else(|| {
        let mut named = map.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
        named.next().map(|(_, value)| value)
    })
}

fn login(entry: &str, value: &Value) -> Result<Login, DockerConfigError> {
    let registry = matching::shown(entry);
    let Some(map) = object(value, || format!("the entry of {registry:?}"))? else {
        return Ok(Login::new(LoginFields::default()));
    };
    let text = |name: &str| match field(map, name) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(DockerConfigError::Kind {
            what: format!("{name} of {registry:?}"),
            must: "a string",
        }),
    };
    let mut fields = LoginFields {
        username: text("username")?,
        password: text("password")?,
        email: text("email")?,
        identity_token: text("identitytoken")?,
        registry_token: text("registrytoken")?,
    };
    let auth = text("auth")?;
    if !auth.is_empty() {
        (fields.username, fields.password) =
            user_and_password(&auth).ok_or_else(|| DockerConfigError::Auth {
                registry: registry.to_owned(),
            })?;
    }
    Ok(Login::new(fields))
}

fn user_and_password(auth: &str) -> Option<(String, String)> {
    let encoded = auth.replace(['\r', '\n'], "");
    let decoded = BASE64.decode(encoded).ok()?;
    // A password that is no text cannot be sent; the registry refuses what is left.
    let decoded = String::from_utf8_lossy(&decoded);
    let (username, password) = decoded.split_once(':')?;
    Some((username.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(config: &DockerConfig) -> seams::cri::AuthConfig {
        config.entries[0].1.to_cri()
    }

    #[test]
    fn both_forms_bring_the_login_of_a_registry() {
        let entry = r#"{"r.io": {"username": "u", "password": "p", "email": "e"}}"#;
        let plain = DockerConfig::from_dockercfg(entry.as_bytes()).unwrap();
        let nested = format!(r#"{{"Auths": {entry}, "HttpHeaders": {{}}}}"#);
        let nested = DockerConfig::from_json(nested.as_bytes()).unwrap();
        assert_eq!(plain, nested);
        assert_eq!(plain.entries[0].0, "r.io");
        let auth = first(&plain);
        assert_eq!((&*auth.username, &*auth.password), ("u", "p"));
        assert_eq!(auth.server_address, "");
    }

    #[test]
    fn auth_has_the_last_word_on_user_and_password() {
        // "u:p:q", with and without padding, and with a line break.
        for auth in ["dTpwOnE=", "dTpwOnE", "dTpw\\nOnE="] {
            let text =
                format!(r#"{{"r.io": {{"username": "x", "password": "y", "auth": "{auth}"}}}}"#);
            let config = DockerConfig::from_dockercfg(text.as_bytes()).unwrap();
            let auth = first(&config);
            assert_eq!((&*auth.username, &*auth.password), ("u", "p:q"));
        }
    }

    #[test]
    fn tokens_are_passed_on() {
        let text = r#"{"r.io": {"auth": "dTo=", "identitytoken": "i", "registrytoken": "r"}}"#;
        let config = DockerConfig::from_dockercfg(text.as_bytes()).unwrap();
        let auth = first(&config);
        assert_eq!((&*auth.identity_token, &*auth.registry_token), ("i", "r"));
        assert_eq!((&*auth.username, &*auth.password), ("u", ""));
    }

    #[test]
    fn what_is_absent_is_nothing() {
        for text in ["{}", "null", r#"{"auths": null}"#, r#"{"auths": {}}"#] {
            let config = DockerConfig::from_json(text.as_bytes()).unwrap();
            assert_eq!(config, DockerConfig::default(), "{text}");
        }
    }

    #[test]
    fn a_mistake_is_named_without_what_is_secret() {
        for (text, error) in [
            (
                "{\"r.io\": hunter2",
                "it is not JSON: there is a mistake in line 1, column 10",
            ),
            (r#""hunter2""#, "the list of registries must be an object"),
            (
                r#"{"r.io": "hunter2"}"#,
                r#"the entry of "r.io" must be an object"#,
            ),
            (
                r#"{"https://u:hunter2@r.io/v1/": "x"}"#,
                r#"the entry of "r.io/v1/" must be an object"#,
            ),
            (
                r#"{"r.io": {"password": ["hunter2"]}}"#,
                r#"password of "r.io" must be a string"#,
            ),
            (
                r#"{"r.io": {"auth": "!hunter2"}}"#,
                r#"the auth of "r.io" must be base64 of username:password"#,
            ),
            (
                r#"{"r.io": {"auth": "aHVudGVyMg=="}}"#,
                r#"the auth of "r.io" must be base64 of username:password"#,
            ),
        ] {
            let refused = DockerConfig::from_dockercfg(text.as_bytes()).unwrap_err();
            assert_eq!(refused.to_string(), error);
        }
    }
}
