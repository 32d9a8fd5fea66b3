//! What is said to a program, and what it answers: one JSON object each way.
//!
//! No error here quotes what a program printed: there are passwords in it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;
use types::duration::GoDuration;

use crate::credentials::{Login, LoginFields};

pub(super) const V1: &str = "credentialprovider.kubelet.k8s.io/v1";

/// Sorted, as upstream lists them.
pub(super) const API_VERSIONS: [&str; 3] = [
    V1,
    "credentialprovider.kubelet.k8s.io/v1alpha1",
    "credentialprovider.kubelet.k8s.io/v1beta1",
];

const RESPONSE: &str = "CredentialProviderResponse";

/// Why an answer is none.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum ResponseError {
    #[error("what it printed is not JSON (column {column} of line {line})")]
    NotJson { line: usize, column: usize },
    #[error(
        "apiVersion from credential plugin response did not match expected apiVersion:{wanted}, actual apiVersion:{found}"
    )]
    Version { wanted: String, found: String },
    #[error(
        "error decoding credential provider plugin response from stdout: it has to be a {RESPONSE}, with no fields but those of one"
    )]
    Content,
    #[error("credential provider plugin did not return a valid cacheKeyType: {0}")]
    CacheKeyType(String),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    kind: &'static str,
    api_version: &'a str,
    image: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    service_account_token: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    service_account_annotations: &'a BTreeMap<String, String>,
}

/// What a program reads.
pub(super) fn request(
    api_version: &str,
    image: &str,
    token: &str,
    annotations: &BTreeMap<String, String>,
) -> Vec<u8> {
    let request = Request {
        kind: "CredentialProviderRequest",
        api_version,
        image,
        service_account_token: token,
        service_account_annotations: annotations,
    };
    // Plain texts can always be written.
    let mut text = serde_json::to_vec(&request).unwrap_or_default();
    text.push(b'\n');
    text
}

/// For which images an answer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Image,
    Registry,
    Global,
}

/// What a program answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Response {
    pub(super) reach: Reach,
    /// `None`: as long as is configured. Zero: it is not kept.
    pub(super) keep: Option<Duration>,
    /// By the address that they are for.
    pub(super) logins: Vec<(String, Login)>,
    /// Any password is what this says.
    pub(super) passwords: Passwords,
}

/// To be compared, and for nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Passwords(Vec<Login>);

impl Passwords {
    pub(super) fn has(&self, text: &str) -> bool {
        self.0.iter().any(|login| login.to_cri().password == text)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Answer {
    kind: String,
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(default)]
    cache_key_type: String,
    #[serde(default)]
    cache_duration: Option<String>,
    #[serde(default)]
    auth: Option<BTreeMap<String, Auth>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Auth {
    username: String,
    password: String,
}

pub(super) fn response(api_version: &str, printed: &[u8]) -> Result<Response, ResponseError> {
    let json: Value = serde_json::from_slice(printed).map_err(|error| ResponseError::NotJson {
        line: error.line(),
        column: error.column(),
    })?;
    let found = json.get("apiVersion").and_then(Value::as_str);
    let found = found.unwrap_or_default();
    if found != api_version {
        return Err(ResponseError::Version {
            wanted: api_version.to_owned(),
            // A version is short; what is long may be something else.
            found: found.chars().take(100).collect(),
        });
    }
    let answer: Answer = serde_json::from_value(json).map_err(|_| ResponseError::Content)?;
    if answer.kind != RESPONSE {
        return Err(ResponseError::Content);
    }
    let keep = match answer.cache_duration {
        None => None,
        Some(text) => {
            let given: GoDuration = text.parse().map_err(|_| ResponseError::Content)?;
            // What ended before it began is not kept either.
            Some(given.to_std().unwrap_or_default())
        }
    };
    let reach = match answer.cache_key_type.as_str() {
        "Image" => Reach::Image,
        "Registry" => Reach::Registry,
        "Global" => Reach::Global,
        other => {
            let other = other.chars().take(100).collect();
            return Err(ResponseError::CacheKeyType(other));
        }
    };
    let logins = answer.auth.unwrap_or_default().into_iter();
    let logins = logins.map(|(address, auth)| {
        let fields = LoginFields {
            username: auth.username,
            password: auth.password,
            ..LoginFields::default()
        };
        (address, Login::new(fields))
    });
    let logins: Vec<(String, Login)> = logins.collect();
    let passwords = Passwords(logins.iter().map(|(_, login)| login.clone()).collect());
    Ok(Response {
        reach,
        keep,
        logins,
        passwords,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_is_what_upstream_sends() {
        let none = BTreeMap::new();
        let plain = request(V1, "r.io/app", "", &none);
        let wanted = r#"{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"r.io/app"}"#;
        assert_eq!(String::from_utf8(plain).unwrap(), format!("{wanted}\n"));
        let annotations = [("a".to_owned(), "b".to_owned())].into();
        let whole: Value = serde_json::from_slice(&request(V1, "i", "t", &annotations)).unwrap();
        let wanted = json!({
            "kind": "CredentialProviderRequest", "apiVersion": V1, "image": "i",
            "serviceAccountToken": "t", "serviceAccountAnnotations": {"a": "b"},
        });
        assert_eq!(whole, wanted);
    }

    fn answer(more: &Value) -> Result<Response, ResponseError> {
        let mut whole = json!({"kind": RESPONSE, "apiVersion": V1, "cacheKeyType": "Image"});
        for (key, value) in more.as_object().unwrap() {
            whole[key] = value.clone();
        }
        response(V1, whole.to_string().as_bytes())
    }

    #[test]
    fn an_answer_has_logins_and_says_how_long_and_for_what_they_hold() {
        let auth = json!({"r.io": {"username": "u", "password": "p"}, "q.io": {}});
        let cases = [
            (json!({}), Reach::Image, None),
            (
                json!({"cacheKeyType": "Registry", "cacheDuration": "5m"}),
                Reach::Registry,
                Some(300),
            ),
            (
                json!({"cacheKeyType": "Global", "cacheDuration": "0s"}),
                Reach::Global,
                Some(0),
            ),
            (
                json!({"cacheDuration": null, "auth": null}),
                Reach::Image,
                None,
            ),
            (json!({"cacheDuration": "-5m"}), Reach::Image, Some(0)),
        ];
        for (more, reach, keep) in cases {
            let found = answer(&more).unwrap();
            let keep = keep.map(Duration::from_secs);
            assert_eq!((found.reach, found.keep), (reach, keep), "{more}");
        }
        let found = answer(&json!({ "auth": auth })).unwrap();
        assert_eq!(found.logins.len(), 2);
        assert_eq!(found.logins[1].0, "r.io");
        let login = found.logins[1].1.to_cri();
        assert_eq!(
            (login.username.as_str(), login.password.as_str()),
            ("u", "p")
        );
        assert!(found.passwords.has("p") && !found.passwords.has("q"));
    }

    #[test]
    fn what_is_no_answer_is_refused_and_not_quoted() {
        let version = |found: &str| ResponseError::Version {
            wanted: V1.to_owned(),
            found: found.to_owned(),
        };
        let cases = [
            (json!({"apiVersion": "v1"}), version("v1")),
            (json!({"apiVersion": 7}), version("")),
            (json!({"kind": "hunter2"}), ResponseError::Content),
            (json!({"secret": "hunter2"}), ResponseError::Content),
            (json!({"auth": {"r.io": "hunter2"}}), ResponseError::Content),
            (
                json!({"auth": {"r.io": {"token": "hunter2"}}}),
                ResponseError::Content,
            ),
            (json!({"cacheDuration": "soon"}), ResponseError::Content),
            (
                json!({"cacheKeyType": "Pod"}),
                ResponseError::CacheKeyType("Pod".to_owned()),
            ),
            (
                json!({"cacheKeyType": ""}),
                ResponseError::CacheKeyType(String::new()),
            ),
        ];
        for (more, wanted) in cases {
            let error = answer(&more).unwrap_err();
            assert!(!error.to_string().contains("hunter2"));
            assert_eq!(error, wanted, "{more}");
        }
        for garbage in ["", "hunter2", "{\"kind\":", "[1, 2]", "null", "\u{0}\u{1}"] {
            assert!(response(V1, garbage.as_bytes()).is_err(), "{garbage:?}");
        }
    }
}
