//! The two kinds of files, in the kubelet's JSON.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;

const VERSION: &str = "kubelet.config.k8s.io/v1beta1";
/// What kubelets before 1.35 have written; its fields are the same.
const OLD_VERSION: &str = "kubelet.config.k8s.io/v1alpha1";
const INTENT: &str = "ImagePullIntent";
const PULLED: &str = "ImagePulledRecord";

/// Why the content of a file is no record.
#[derive(Debug, Error)]
pub enum FormatError {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("it is a {kind} of {version}, not a {wanted} of {VERSION}")]
    Kind {
        kind: String,
        version: String,
        wanted: &'static str,
    },
}

/// An image that was pulled here, and who may use it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PulledRecord {
    /// As the runtime names it.
    pub image_ref: String,
    pub last_updated: Option<Timestamp>,
    /// By the image's name without tag and digest.
    pub credentials: BTreeMap<String, PullCredentials>,
}

/// Who may use an image under one of its names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PullCredentials {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kubernetes_secrets: Vec<PulledSecret>,
    /// Of pods for which a credential provider plugin was asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kubernetes_service_accounts: Vec<PulledServiceAccount>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub node_pods_accessible: bool,
}

/// A secret, and the login that it had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PulledSecret {
    pub uid: String,
    pub namespace: String,
    pub name: String,
    pub credential_hash: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PulledServiceAccount {
    pub uid: String,
    pub namespace: String,
    pub name: String,
}

impl PullCredentials {
    pub fn everybody() -> Self {
        Self {
            node_pods_accessible: true,
            ..Self::default()
        }
    }

    pub fn of_secret(secret: PulledSecret) -> Self {
        Self {
            kubernetes_secrets: vec![secret],
            ..Self::default()
        }
    }

    pub fn of_account(account: PulledServiceAccount) -> Self {
        Self {
            kubernetes_service_accounts: vec![account],
            ..Self::default()
        }
    }

    /// Nobody has shown anything yet.
    pub fn is_empty(&self) -> bool {
        self.kubernetes_secrets.is_empty() && self.kubernetes_service_accounts.is_empty()
    }

    fn add_accounts(&mut self, new: Vec<PulledServiceAccount>) -> bool {
        let held = &mut self.kubernetes_service_accounts;
        let before = held.len();
        for account in new {
            if !held.contains(&account) {
                held.push(account);
            }
        }
        held.sort_by(|a, b| a.coordinates().cmp(&b.coordinates()));
        held.len() != before
    }

    /// One entry per secret, with its latest login; sorted, as upstream has them.
    fn add_secrets(&mut self, new: Vec<PulledSecret>) -> bool {
        let mut changed = false;
        for secret in new {
            let held = self.kubernetes_secrets.iter_mut();
            match held.into_iter().find(|held| held.is_same_secret(&secret)) {
                Some(held) if held.credential_hash == secret.credential_hash => continue,
                Some(held) => held.credential_hash = secret.credential_hash,
                None => self.kubernetes_secrets.push(secret),
            }
            changed = true;
        }
        self.kubernetes_secrets
            .sort_by(|a, b| a.coordinates().cmp(&b.coordinates()));
        changed
    }
}

impl PulledSecret {
    pub fn is_same_secret(&self, other: &Self) -> bool {
        self.coordinates() == other.coordinates()
    }

    fn coordinates(&self) -> (&str, &str, &str) {
        (&self.namespace, &self.name, &self.uid)
    }
}

impl PulledServiceAccount {
    fn coordinates(&self) -> (&str, &str, &str) {
        (&self.namespace, &self.name, &self.uid)
    }
}

impl PulledRecord {
    /// Adds what is known of `name` now. Whether that was new.
    pub fn merge(&mut self, name: &str, new: PullCredentials) -> bool {
        let Some(held) = self.credentials.get_mut(name) else {
            self.credentials.insert(name.to_owned(), new);
            return true;
        };
        if held.node_pods_accessible {
            return false;
        }
        if new.node_pods_accessible {
            *held = PullCredentials::everybody();
            return true;
        }
        let secrets = held.add_secrets(new.kubernetes_secrets);
        held.add_accounts(new.kubernetes_service_accounts) || secrets
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct IntentFile {
    kind: String,
    api_version: String,
    image: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PulledFile {
    kind: String,
    api_version: String,
    last_updated_time: Option<Timestamp>,
    image_ref: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    credential_mapping: BTreeMap<String, PullCredentials>,
}

pub(super) fn intent(image: &str) -> Vec<u8> {
    written(&IntentFile {
        kind: INTENT.to_owned(),
        api_version: VERSION.to_owned(),
        image: image.to_owned(),
    })
}

pub(super) fn read_intent(content: &[u8]) -> Result<String, FormatError> {
    let file: IntentFile = serde_json::from_slice(content)?;
    check(file.kind, file.api_version, INTENT)?;
    Ok(file.image)
}

pub(super) fn pulled(record: &PulledRecord) -> Vec<u8> {
    written(&PulledFile {
        kind: PULLED.to_owned(),
        api_version: VERSION.to_owned(),
        last_updated_time: record.last_updated,
        image_ref: record.image_ref.clone(),
        credential_mapping: record.credentials.clone(),
    })
}

pub(super) fn read_pulled(content: &[u8]) -> Result<PulledRecord, FormatError> {
    let file: PulledFile = serde_json::from_slice(content)?;
    check(file.kind, file.api_version, PULLED)?;
    Ok(PulledRecord {
        image_ref: file.image_ref,
        last_updated: file.last_updated_time,
        credentials: file.credential_mapping,
    })
}

fn check(kind: String, version: String, wanted: &'static str) -> Result<(), FormatError> {
    if kind == wanted && [VERSION, OLD_VERSION].contains(&&*version) {
        return Ok(());
    }
    Err(FormatError::Kind {
        kind,
        version,
        wanted,
    })
}

fn written(file: &impl Serialize) -> Vec<u8> {
    // Texts, times and lists of them can always be written.
    let mut content = serde_json::to_vec(file).unwrap_or_default();
    content.push(b'\n');
    content
}
