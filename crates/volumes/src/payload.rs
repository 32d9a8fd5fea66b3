//! What is in a volume that is made of objects: files by path, with modes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::KeyToPath;
use seams::storage::TreeFile;
use thiserror::Error;

use crate::downward_api::DownwardError;
use crate::pod::FileOwners;

/// Files by path, as a pod asks for them.
pub type Payload = BTreeMap<String, TreeFile>;

/// What the API server fills in where a volume has no mode.
pub const DEFAULT_MODE: i32 = 0o644;

/// Why a payload cannot be made. The words are upstream's.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PayloadError {
    #[error("configmap {name:?} not found")]
    NoConfigMap { name: String },
    #[error("secret {name:?} not found")]
    NoSecret { name: String },
    #[error("configmap references non-existent config key: {key}")]
    NoConfigKey { key: String },
    #[error("references non-existent secret key: {key}")]
    NoSecretKey { key: String },
    #[error(transparent)]
    DownwardApi(#[from] DownwardError),
    #[error(transparent)]
    Unanswered(#[from] api::objects::Unanswered),
    #[error(transparent)]
    Token(#[from] crate::tokens::TokenError),
    #[error(transparent)]
    TrustBundles(#[from] api::objects::TrustBundlesError),
    #[error(transparent)]
    TrustAnchors(#[from] crate::cluster_trust_bundle::TrustAnchorsError),
    #[error("not supported due to running kubelet in standalone mode")]
    Standalone,
    #[error("cannot setup projected volume {volume} because kube client is not configured")]
    NoClient { volume: String },
    #[error("projections of {kind} are not supported by this kubelet yet")]
    UnsupportedProjection { kind: &'static str },
    #[error("{}", aggregate(.0))]
    Several(Vec<PayloadError>),
}

impl PayloadError {
    /// One error of several: upstream lists them only if there are several.
    pub(crate) fn of(mut errors: Vec<Self>) -> Option<Self> {
        match errors.len() {
            0 => None,
            1 => errors.pop(),
            _ => Some(Self::Several(errors)),
        }
    }
}

/// As upstream lists errors: each once.
pub(crate) fn aggregate<E: ToString>(errors: &[E]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for text in errors.iter().map(ToString::to_string) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.as_slice() {
        [text] => text.clone(),
        _ => format!("[{}]", texts.join(", ")),
    }
}

/// A file of a mode that came from the API, where modes are signed.
pub(crate) fn file(content: Vec<u8>, mode: i32) -> TreeFile {
    TreeFile {
        content,
        mode: u32::try_from(mode).unwrap_or_default() & 0o777,
        owner: None,
    }
}

/// A file that only the one user of the pod reads, or its group (which gets its bits
/// when the volume is shared with it); all do if neither is known.
pub(crate) fn owned_file(content: Vec<u8>, owners: FileOwners, default_mode: i32) -> TreeFile {
    let is_known = owners.user.is_some() || owners.group.is_some();
    let mode = if is_known { 0o600 } else { default_mode };
    TreeFile {
        owner: owners.user,
        ..file(content, mode)
    }
}

/// Those keys that are asked for, at their paths; all at their own names, if none
/// is. `missing` is what to say of a key that is not there.
pub(crate) fn select<'a>(
    data: &BTreeMap<&'a str, &'a [u8]>,
    items: &[KeyToPath],
    default_mode: i32,
    optional: bool,
    missing: impl Fn(&str) -> PayloadError,
) -> Result<Payload, PayloadError> {
    if items.is_empty() {
        let all = data.iter();
        let files =
            all.map(|(key, content)| ((*key).to_owned(), file(content.to_vec(), default_mode)));
        return Ok(files.collect());
    }
    let mut payload = Payload::new();
    for item in items {
        match data.get(item.key.as_str()) {
            Some(content) => {
                let mode = item.mode.unwrap_or(default_mode);
                payload.insert(item.path.clone(), file(content.to_vec(), mode));
            }
            None if optional => {}
            None => return Err(missing(&item.key)),
        }
    }
    Ok(payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_errors_are_listed_and_one_stands_alone() {
        let missing = |key: &str| PayloadError::NoSecretKey {
            key: key.to_owned(),
        };
        assert_eq!(PayloadError::of(Vec::new()), None);
        let one = PayloadError::of(vec![missing("a")]).unwrap();
        assert_eq!(one.to_string(), "references non-existent secret key: a");
        let two = PayloadError::of(vec![missing("a"), missing("b"), missing("a")]).unwrap();
        assert_eq!(
            two.to_string(),
            "[references non-existent secret key: a, references non-existent secret key: b]"
        );
    }
}
