//! Credentials by the images that they are for.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret as SecretObject;
use thiserror::Error;

use super::{Credential, DockerConfig, DockerConfigError, SecretName, Source, matching};

const DEFAULT_REGISTRY: &str = "index.docker.io";

/// A pull secret that cannot be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "pull secret {namespace}/{name} cannot be used: {cause}; make it again with `kubectl create secret docker-registry`"
)]
pub struct BadPullSecret {
    pub namespace: String,
    pub name: String,
    pub cause: DockerConfigError,
}

/// A set of credentials.
#[derive(Debug, Default)]
pub struct Keyring {
    by_key: BTreeMap<String, Vec<Credential>>,
}

impl Keyring {
    /// Adds what a configuration has. Entries that are no address of a registry
    /// are left out, and said.
    pub fn add(&mut self, config: DockerConfig, source: &Source) {
        for (entry, login) in config.entries {
            let Some(key) = matching::key(&entry) else {
                tracing::warn!(
                    entry = matching::shown(&entry),
                    ?source,
                    "pull credentials for an address that is none"
                );
                continue;
            };
            let credential = Credential {
                login,
                source: source.clone(),
            };
            self.by_key.entry(key).or_default().push(credential);
        }
    }

    /// All that are for the image `name` (registry and path), the closest address
    /// first; those of one address in the order in which they were added.
    pub fn lookup(&self, name: &str) -> Vec<&Credential> {
        // Backwards, a longer path comes before the one that it begins with.
        let matching: Vec<&Credential> = self
            .by_key
            .iter()
            .rev()
            .filter(|(key, _)| matching::matches(key, name))
            .flat_map(|(_, credentials)| credentials)
            .collect();
        if matching.is_empty() && matching::at_default_registry(name) {
            return self
                .by_key
                .get(DEFAULT_REGISTRY)
                .into_iter()
                .flatten()
                .collect();
        }
        matching
    }
}

/// The keyring of a pod's pull secrets. Secrets of other types are passed over.
pub fn from_secrets(secrets: &[SecretObject]) -> Result<Keyring, BadPullSecret> {
    let mut keyring = Keyring::default();
    for secret in secrets {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let name = SecretName {
            uid: text(&secret.metadata.uid),
            namespace: text(&secret.metadata.namespace),
            name: text(&secret.metadata.name),
        };
        match read(secret) {
            Some(Ok(config)) => keyring.add(config, &Source::Secret(name)),
            Some(Err(cause)) => {
                return Err(BadPullSecret {
                    namespace: name.namespace,
                    name: name.name,
                    cause,
                });
            }
            None => {}
        }
    }
    Ok(keyring)
}

/// `None`: it is no pull secret, or empty.
fn read(secret: &SecretObject) -> Option<Result<DockerConfig, DockerConfigError>> {
    let data = |key: &str| {
        let content = &secret.data.as_ref()?.get(key)?.0;
        (!content.is_empty()).then_some(content)
    };
    match secret.type_.as_deref()? {
        "kubernetes.io/dockerconfigjson" => {
            Some(DockerConfig::from_json(data(".dockerconfigjson")?))
        }
        "kubernetes.io/dockercfg" => Some(DockerConfig::from_dockercfg(data(".dockercfg")?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    fn secret(name: &str, kind: &str, key: &str, content: &str) -> SecretObject {
        let mut secret = SecretObject {
            type_: Some(kind.to_owned()),
            data: Some([(key.to_owned(), ByteString(content.into()))].into()),
            ..SecretObject::default()
        };
        secret.metadata.name = Some(name.to_owned());
        secret.metadata.namespace = Some("ns".to_owned());
        secret.metadata.uid = Some(format!("uid-{name}"));
        secret
    }

    fn dockercfg(name: &str, content: &str) -> SecretObject {
        secret(name, "kubernetes.io/dockercfg", ".dockercfg", content)
    }

    fn users(keyring: &Keyring, image: &str) -> Vec<String> {
        let found = keyring.lookup(image).into_iter();
        found.map(|it| it.login.to_cri().username).collect()
    }

    #[test]
    fn all_that_match_are_found_the_closest_first_and_secrets_in_order() {
        let one = r#"{"r.io": {"username": "host"}, "r.io/team": {"username": "team"},
                      "*.io": {"username": "any"}, "q.io": {"username": "other"}}"#;
        let two = r#"{"https://r.io/v1/": {"username": "second"}}"#;
        let keyring = from_secrets(&[dockercfg("one", one), dockercfg("two", two)]).unwrap();
        assert_eq!(
            users(&keyring, "r.io/team/app"),
            ["team", "host", "second", "any"]
        );
        assert_eq!(users(&keyring, "r.io/app"), ["host", "second", "any"]);
        assert_eq!(users(&keyring, "r.org/app"), Vec::<String>::new());
    }

    #[test]
    fn the_old_name_of_the_default_registry_is_for_images_without_one() {
        let old = r#"{"https://index.docker.io/v1/": {"username": "hub"}}"#;
        let keyring = from_secrets(&[dockercfg("hub", old)]).unwrap();
        assert_eq!(users(&keyring, "docker.io/library/busybox"), ["hub"]);
        assert_eq!(users(&keyring, "r.io/busybox"), Vec::<String>::new());
        let both = r#"{"index.docker.io": {"username": "hub"}, "docker.io": {"username": "new"}}"#;
        let keyring = from_secrets(&[dockercfg("hub", both)]).unwrap();
        assert_eq!(users(&keyring, "docker.io/library/busybox"), ["new"]);
    }

    #[test]
    fn a_credential_knows_its_secret_and_other_secrets_are_passed_over() {
        let json = r#"{"auths": {"r.io": {"username": "u"}}}"#;
        let secrets = [
            secret("opaque", "Opaque", ".dockerconfigjson", json),
            secret(
                "misplaced",
                "kubernetes.io/dockercfg",
                ".dockerconfigjson",
                json,
            ),
            secret(
                "empty",
                "kubernetes.io/dockerconfigjson",
                ".dockerconfigjson",
                "",
            ),
            secret(
                "good",
                "kubernetes.io/dockerconfigjson",
                ".dockerconfigjson",
                json,
            ),
            SecretObject::default(),
        ];
        let keyring = from_secrets(&secrets).unwrap();
        let found = keyring.lookup("r.io/app");
        let expected = Source::Secret(SecretName {
            uid: "uid-good".to_owned(),
            namespace: "ns".to_owned(),
            name: "good".to_owned(),
        });
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].source, expected);
    }

    #[test]
    fn a_secret_that_cannot_be_read_is_named() {
        let refused = from_secrets(&[dockercfg("bad", "hunter2")]).unwrap_err();
        let text = refused.to_string();
        assert!(
            text.starts_with("pull secret ns/bad cannot be used: it is not JSON"),
            "{text}"
        );
        assert!(!text.contains("hunter2"), "{text}");
    }

    #[test]
    fn an_entry_without_a_proper_address_harms_no_other() {
        let content = r#"{"r.io:port": {"username": "bad"}, "r.io": {"username": "good"}}"#;
        let keyring = from_secrets(&[dockercfg("mixed", content)]).unwrap();
        assert_eq!(users(&keyring, "r.io/app"), ["good"]);
    }
}
