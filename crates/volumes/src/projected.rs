//! What is in a projected volume: several sources in one directory.

use k8s_openapi::api::core::v1::{Pod, ProjectedVolumeSource, VolumeProjection};

use crate::payload::{DEFAULT_MODE, Payload, PayloadError, owned_file};
use crate::pod::{self, FileOwners};
use crate::resource_field::Allocatable;
use crate::snapshot::{Snapshot, TrustSeen};
use crate::{cluster_trust_bundle, config_map, downward_api, secret, service_account_token};

/// The files of all sources; of two at one path the later one.
pub fn payload(
    source: &ProjectedVolumeSource,
    pod: &Pod,
    snapshot: &Snapshot,
    allocatable: &Allocatable,
) -> Result<Payload, PayloadError> {
    let projecting = Projecting {
        pod,
        snapshot,
        allocatable,
        default_mode: source.default_mode.unwrap_or(DEFAULT_MODE),
        owners: pod::file_owners(pod),
    };
    let mut payload = Payload::new();
    let mut errors = Vec::new();
    for source in source.sources.iter().flatten() {
        match projecting.payload(source) {
            Ok(files) => payload.extend(files),
            Err(error) => errors.push(error),
        }
    }
    PayloadError::of(errors).map_or(Ok(payload), Err)
}

struct Projecting<'a> {
    pod: &'a Pod,
    snapshot: &'a Snapshot,
    allocatable: &'a Allocatable,
    default_mode: i32,
    owners: FileOwners,
}

impl Projecting<'_> {
    fn payload(&self, source: &VolumeProjection) -> Result<Payload, PayloadError> {
        let mode = self.default_mode;
        if let Some(source) = &source.secret {
            let items = source.items.as_deref().unwrap_or_default();
            let secret = self.snapshot.secret(&source.name)?;
            let optional = source.optional == Some(true);
            return secret::payload(&source.name, secret.as_deref(), items, mode, optional);
        }
        if let Some(source) = &source.config_map {
            let items = source.items.as_deref().unwrap_or_default();
            let object = self.snapshot.config_map(&source.name)?;
            let optional = source.optional == Some(true);
            return config_map::payload(&source.name, object.as_deref(), items, mode, optional);
        }
        if let Some(source) = &source.downward_api {
            let items = source.items.as_deref().unwrap_or_default();
            return downward_api::payload(items, self.pod, self.allocatable, mode);
        }
        if let Some(source) = &source.service_account_token {
            let token = self
                .snapshot
                .token(&service_account_token::ask(self.pod, source))?;
            let file = service_account_token::file(&token, self.owners, mode);
            return Ok([(source.path.clone(), file)].into());
        }
        if let Some(source) = &source.cluster_trust_bundle {
            let TrustSeen { bundles, order } = self.snapshot.trust()?;
            let anchors = cluster_trust_bundle::anchors(source, bundles, *order)?;
            let file = owned_file(anchors, self.owners, mode);
            return Ok([(source.path.clone(), file)].into());
        }
        if source.pod_certificate.is_some() {
            let kind = "podCertificate";
            return Err(PayloadError::UnsupportedProjection { kind });
        }
        Ok(Payload::new())
    }
}

#[cfg(test)]
mod tests;
