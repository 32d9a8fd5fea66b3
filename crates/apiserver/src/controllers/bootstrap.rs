//! Bootstrap tokens: `cluster-info` is signed with each that may, and those that have
//! ended are taken away.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use ring::hmac::{self, HMAC_SHA256};
use serde_json::{Value, json};
use tracing::info;

use super::agenda::Agenda;
use super::mirror::{Mirror, Name};
use super::settled;
use crate::access::bootstrap_token::{Entry, NAMESPACE};
use crate::failure::Failure;
use crate::kinds::{CONFIG_MAPS, SECRETS};
use crate::rest::{DeleteOptions, Objects, Part};
use crate::store::Key;

pub(crate) const CLUSTER_INFO: &str = "cluster-info";
pub(crate) const PUBLIC_NAMESPACE: &str = "kube-public";
const SIGNATURE_PREFIX: &str = "jws-kubeconfig-";

pub(crate) struct Bootstrap {
    pub(crate) objects: Objects,
}

impl Bootstrap {
    pub(crate) async fn run(self) {
        let clock = self.objects.clock().clone();
        let mut secrets: Mirror<Secret> = Mirror::new(self.objects.store(), &SECRETS);
        let mut config_maps: Mirror<Signed> = Mirror::new(self.objects.store(), &CONFIG_MAPS);
        // One thing to do: all tokens, one configMap.
        let only = || (PUBLIC_NAMESPACE.to_owned(), CLUSTER_INFO.to_owned());
        let mut agenda = Agenda::new(vec![only()]);
        loop {
            for name in agenda.take(|| vec![only()]) {
                let outcome = self
                    .look(
                        &secrets,
                        config_maps.get(&name.0, &name.1).map(|found| &**found),
                    )
                    .await;
                agenda.done("bootstrap", name, outcome);
            }
            tokio::select! {
                names = secrets.changed() => {
                    if names.iter().any(|(namespace, _)| namespace == NAMESPACE) {
                        agenda.now([only()]);
                    }
                }
                names = config_maps.changed() => {
                    if names.contains(&only()) {
                        agenda.now([only()]);
                    }
                }
                () = agenda.wait(&clock) => {}
            }
        }
    }

    async fn look(
        &self,
        secrets: &Mirror<Secret>,
        signed: Option<&Signed>,
    ) -> Result<Option<Duration>, Failure> {
        let now = self.objects.clock().timestamp();
        let mut next: Option<Timestamp> = None;
        let mut tokens = Vec::new();
        let own = secrets.iter().filter(|(name, _)| name.0 == NAMESPACE);
        for (name, secret) in own {
            let Some(entry) = Entry::of(secret) else {
                continue;
            };
            if entry.has_expired(now) {
                self.remove(name, secret).await?;
                continue;
            }
            let expiry = entry.expiry();
            next = next.into_iter().chain(expiry).min();
            tokens.extend(entry.signing_token(now));
        }
        if let Some(signed) = signed {
            self.sign(signed, &tokens).await?;
        }
        let wait =
            next.map(|next| next.duration_since(now).unsigned_abs() + Duration::from_millis(1));
        Ok(wait)
    }

    async fn remove(&self, name: &Name, secret: &Secret) -> Result<(), Failure> {
        info!(
            secret = name.1,
            "a bootstrap token has ended and is removed"
        );
        let options = DeleteOptions {
            uid: secret.metadata.uid.clone(),
            ..DeleteOptions::default()
        };
        let key = Key::new(&SECRETS, &name.0, &name.1);
        settled(self.objects.delete(&key, options).await)
    }

    async fn sign(&self, signed: &Signed, tokens: &[(&str, &str)]) -> Result<(), Failure> {
        if signatures(&signed.data, tokens) == signed.data {
            return Ok(());
        }
        let tokens: Vec<_> = tokens
            .iter()
            .map(|(id, secret)| ((*id).to_owned(), (*secret).to_owned()))
            .collect();
        let key = Key::new(&CONFIG_MAPS, PUBLIC_NAMESPACE, CLUSTER_INFO);
        let written = self.objects.modify(&key, Part::Whole, |object| {
            let tokens: Vec<_> = tokens
                .iter()
                .map(|(id, secret)| (id.as_str(), secret.as_str()))
                .collect();
            let data: BTreeMap<String, String> =
                serde_json::from_value(object["data"].clone()).unwrap_or_default();
            object["data"] = json!(signatures(&data, &tokens));
            true
        });
        settled(written.await)
    }
}

#[derive(Debug, serde::Deserialize)]
struct Signed {
    #[serde(default)]
    data: BTreeMap<String, String>,
}

/// The data of `cluster-info` with a signature for each token, and no others.
fn signatures(
    data: &BTreeMap<String, String>,
    tokens: &[(&str, &str)],
) -> BTreeMap<String, String> {
    let mut signed = data.clone();
    signed.retain(|key, _| !key.starts_with(SIGNATURE_PREFIX));
    if let Some(content) = data.get("kubeconfig") {
        for (id, secret) in tokens {
            signed.insert(
                format!("{SIGNATURE_PREFIX}{id}"),
                signature(content, id, secret),
            );
        }
    }
    signed
}

/// A detached JWS (HS256); the order of the header's fields is part of what is signed.
fn signature(content: &str, id: &str, secret: &str) -> String {
    let header = URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"HS256","kid":"{id}"}}"#));
    let input = format!("{header}.{}", URL_SAFE_NO_PAD.encode(content));
    let tag = hmac::sign(
        &hmac::Key::new(HMAC_SHA256, secret.as_bytes()),
        input.as_bytes(),
    );
    format!("{header}..{}", URL_SAFE_NO_PAD.encode(tag))
}

/// `cluster-info` as kubeadm writes it, before it is signed.
pub(crate) fn cluster_info(server: &str, ca: &str) -> Value {
    let ca = base64::engine::general_purpose::STANDARD.encode(ca);
    let kubeconfig = format!(
        "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: {ca}\n    server: {server}\n  name: \"\"\ncontexts: null\ncurrent-context: \"\"\nkind: Config\nusers: null\n"
    );
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": CLUSTER_INFO, "namespace": PUBLIC_NAMESPACE},
        "data": {"kubeconfig": kubeconfig},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_those_that_upstream_makes() {
        assert_eq!(
            signature("apiVersion: v1\n", "abcdef", "0123456789abcdef"),
            "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9..K1chermAQEq0rdqy-ehj0VDfmA_ytv8Wzh9g26FldrE"
        );
    }

    #[test]
    fn there_is_one_signature_for_each_token_and_what_else_is_there_stays() {
        let data = |entries: &[(&str, &str)]| -> BTreeMap<String, String> {
            entries
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect()
        };
        let before = data(&[
            ("kubeconfig", "k"),
            ("note", "n"),
            ("jws-kubeconfig-oldone", "x"),
        ]);
        let after = signatures(&before, &[("abcdef", "s"), ("ghijkl", "t")]);
        let keys: Vec<_> = after.keys().map(String::as_str).collect();
        assert_eq!(
            keys,
            [
                "jws-kubeconfig-abcdef",
                "jws-kubeconfig-ghijkl",
                "kubeconfig",
                "note"
            ]
        );
        assert_eq!(
            signatures(&after, &[("abcdef", "s"), ("ghijkl", "t")]),
            after
        );
        assert_eq!(
            signatures(&after, &[]),
            data(&[("kubeconfig", "k"), ("note", "n")])
        );
        assert_eq!(
            signatures(&data(&[("note", "n")]), &[("abcdef", "s")]),
            data(&[("note", "n")])
        );
    }

    #[test]
    fn cluster_info_is_a_kubeconfig_without_users() {
        let object = cluster_info("https://192.0.2.1:6443", "ca");
        let text = object["data"]["kubeconfig"].as_str().unwrap();
        assert!(text.contains("    certificate-authority-data: Y2E=\n    server: https://192.0.2.1:6443\n  name: \"\"\n"));
    }
}
