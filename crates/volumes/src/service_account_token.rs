//! The token of a pod's service account, as a file of a projected volume.

use k8s_openapi::api::core::v1::{Pod, ServiceAccountTokenProjection};
use seams::storage::TreeFile;

use crate::payload::owned_file;
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

pub(crate) fn file(token: &Token, owners: FileOwners, default_mode: i32) -> TreeFile {
    owned_file(
        token.token.expose().clone().into_bytes(),
        owners,
        default_mode,
    )
}
