//! The token of a pod's service account, as a file of a projected volume.

use k8s_openapi::api::core::v1::{Pod, ServiceAccountTokenProjection};
use seams::storage::TreeFile;

use crate::pod::{self, FileOwners};
use crate::tokens::{DEFAULT_LIFE, Token, TokenAsk};

/// The token that a projection asks for.
pub(crate) fn ask(pod: &Pod, source: &ServiceAccountTokenProjection) -> TokenAsk {
    let spec = pod.spec.as_ref();
    let account = spec.and_then(|spec| spec.service_account_name.clone());
    TokenAsk {
        pod: pod::reference(pod),
        service_account: account.unwrap_or_default(),
        audience: source.audience.clone().unwrap_or_default(),
        expiration_seconds: source.expiration_seconds.unwrap_or(DEFAULT_LIFE),
    }
}

/// Only the one user of the pod reads it, or its group (which gets its bits when
/// the volume is shared with it); all do if neither is known.
pub(crate) fn file(token: &Token, owners: FileOwners, default_mode: i32) -> TreeFile {
    let is_known = owners.user.is_some() || owners.group.is_some();
    let mode = if is_known { 0o600 } else { default_mode };
    TreeFile {
        owner: owners.user,
        ..crate::payload::file(token.token.expose().clone().into_bytes(), mode)
    }
}
