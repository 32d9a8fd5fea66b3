//! What a pod can show to a registry: first what its pull secrets have, then what
//! the machine has for everybody, then what credential provider plugins have.

mod docker_config;
mod keyring;
mod matching;
mod node_files;
pub mod plugins;

use api::Secret;
use seams::cri::AuthConfig;
use serde::Serialize;
use sha2::{Digest, Sha256};

pub use docker_config::{DockerConfig, DockerConfigError};
pub use keyring::{BadPullSecret, Keyring, from_secrets};
pub use node_files::{NodeFiles, Places};
pub use plugins::{Accounts, Asking, Plugins};

/// One way to log in, and who has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    pub login: Login,
    pub source: Source,
}

/// Where a credential is from, and so who may use what was pulled with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The machine: every pod on it.
    Node,
    /// A pull secret: pods that have it.
    Secret(SecretName),
    /// A plugin that was told of the pod's service account: pods that have it.
    ServiceAccount(AccountName),
}

/// A service account for its whole life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountName {
    pub uid: String,
    pub namespace: String,
    pub name: String,
}

/// A secret for its whole life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretName {
    pub uid: String,
    pub namespace: String,
    pub name: String,
}

/// What is sent to the registry. `Debug` shows none of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login(Secret<LoginFields>);

#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct LoginFields {
    pub(crate) username: String,
    pub(crate) password: String,
    pub(crate) email: String,
    pub(crate) identity_token: String,
    pub(crate) registry_token: String,
}

impl Login {
    pub(crate) fn new(fields: LoginFields) -> Self {
        Self(Secret::new(fields))
    }

    /// For the runtime, which passes it on.
    pub fn to_cri(&self) -> AuthConfig {
        let fields = self.0.expose();
        AuthConfig {
            username: fields.username.clone(),
            password: fields.password.clone(),
            identity_token: fields.identity_token.clone(),
            registry_token: fields.registry_token.clone(),
            ..AuthConfig::default()
        }
    }

    /// By which it is known again: the SHA-256 of its JSON, as Go writes that, so
    /// that records of the kubelet hold for us and ours for it.
    pub fn hash(&self) -> String {
        let fields = self.0.expose();
        let json = serde_json::to_string(&Hashed {
            username: &fields.username,
            password: &fields.password,
            email: &fields.email,
            identitytoken: &fields.identity_token,
            registrytoken: &fields.registry_token,
        });
        // Plain texts can always be written.
        let json = as_go_writes(&json.unwrap_or_default());
        hex(&Sha256::digest(json.as_bytes()))
    }
}

/// The names and their order are part of the hash.
#[derive(Serialize)]
struct Hashed<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    username: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    password: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    email: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    identitytoken: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    registrytoken: &'a str,
}

/// Go escapes what a browser could take for markup; none of it occurs in JSON but
/// inside texts.
fn as_go_writes(json: &str) -> String {
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(username: &str, password: &str) -> Login {
        Login::new(LoginFields {
            username: username.to_owned(),
            password: password.to_owned(),
            ..LoginFields::default()
        })
    }

    #[test]
    fn a_login_is_not_in_its_debug_text() {
        let credential = Credential {
            login: login("robot", "hunter2"),
            source: Source::Node,
        };
        let text = format!("{credential:?}");
        assert!(
            !text.contains("hunter2") && !text.contains("robot"),
            "{text}"
        );
    }

    #[test]
    fn the_hash_is_that_of_the_json_that_go_writes() {
        let of = |json: &str| hex(&Sha256::digest(json.as_bytes()));
        for (username, password, json) in [
            ("u", "p", r#"{"username":"u","password":"p"}"#),
            ("u", "", r#"{"username":"u"}"#),
            ("", "", "{}"),
            (
                "<&>",
                "\"",
                r#"{"username":"\u003c\u0026\u003e","password":"\""}"#,
            ),
        ] {
            assert_eq!(login(username, password).hash(), of(json), "{json}");
        }
        assert_eq!(
            login("", "").hash(),
            "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
        );
    }
}
