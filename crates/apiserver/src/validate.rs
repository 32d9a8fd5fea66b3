//! What an object may not say, in upstream's words. Pure.
//!
//! Objects come decoded ([`crate::schema::decode`]) and with their defaults.
//!
//! Not checked, of what upstream checks: the insides of volume sources of other machines
//! and clouds, resource claims, Windows options, pod-level resources against those of
//! containers, match label keys, annotations of seccomp and `AppArmor`, addresses of
//! services, the state transitions of containers in a pod's status, node addresses of
//! load balancers. What of these cannot work is refused by the node.

pub mod errors;
mod meta;
pub mod names;
mod node;
mod objects;
mod pod;
mod requests;
mod resources;
mod storage;

pub use errors::{Errors, FieldError};

use serde_json::Value;

use crate::Failure;
use crate::kinds::Kind;
use crate::schema::look::text;

/// A new object.
pub fn create(kind: &Kind, object: &Value) -> Result<(), Failure> {
    let mut errors = Errors::default();
    meta::create(kind, object, &mut errors);
    whole(kind, object, &mut errors);
    if kind.kind == "Pod" {
        pod::create(object, &mut errors);
    }
    errors.into_result(kind, text(&object["metadata"]["name"]))
}

/// A changed object; `old` is the one that is stored.
pub fn update(kind: &Kind, object: &Value, old: &Value) -> Result<(), Failure> {
    let mut errors = Errors::default();
    meta::update(object, old, &mut errors);
    match kind.kind {
        "Pod" => pod::update::check(object, old, &mut errors),
        // Of these only the metadata is looked at again.
        "Namespace" | "ServiceAccount" => {}
        "CertificateSigningRequest" => requests::update(object, old, "", &mut errors),
        // In the order in which upstream lists what it finds.
        "ConfigMap" | "Secret" => {
            immutable(kind, object, old, &mut errors);
            whole(kind, object, &mut errors);
        }
        _ => {
            whole(kind, object, &mut errors);
            immutable(kind, object, old, &mut errors);
        }
    }
    errors.into_result(kind, text(&object["metadata"]["name"]))
}

/// An object that was written to one of its subresources.
pub fn update_subresource(
    kind: &Kind,
    subresource: &str,
    object: &Value,
    old: &Value,
) -> Result<(), Failure> {
    let mut errors = Errors::default();
    meta::update(object, old, &mut errors);
    match (kind.kind, subresource) {
        ("Pod", "status") => pod::status::check(object, old, &mut errors),
        ("Pod", "ephemeralcontainers") => pod::update::ephemeral(object, old, &mut errors),
        ("Pod", "resize") => pod::resize::check(object, old, &mut errors),
        ("Node", _) => node::update(object, old, &mut errors),
        ("Namespace", "status") => objects::namespace_status(object, &mut errors),
        ("CertificateSigningRequest", _) => requests::update(object, old, subresource, &mut errors),
        _ => {}
    }
    errors.into_result(kind, text(&object["metadata"]["name"]))
}

/// What holds of an object whenever it is written.
fn whole(kind: &Kind, object: &Value, errors: &mut Errors) {
    match kind.kind {
        "Pod" => pod::spec(object, errors),
        "Node" => node::check(object, errors),
        "ConfigMap" => objects::config_map(object, errors),
        "Secret" => objects::secret(object, errors),
        "Namespace" => objects::namespace(object, errors),
        "Service" => objects::service(object, errors),
        "Event" => objects::event(object, errors),
        "Lease" => objects::lease(object, errors),
        "RuntimeClass" => objects::runtime_class(object, errors),
        "CertificateSigningRequest" => requests::check(object, errors),
        "PersistentVolume" => storage::volume(object, errors),
        "PersistentVolumeClaim" => storage::claim(object, errors),
        "CSINode" => storage::node(object, errors),
        "CSIDriver" => storage::driver(object, errors),
        _ => {}
    }
}

/// What must stay as it was.
fn immutable(kind: &Kind, object: &Value, old: &Value, errors: &mut Errors) {
    match kind.kind {
        "Node" => node::update(object, old, errors),
        "ConfigMap" | "Secret" => objects::frozen(object, old, errors),
        "RuntimeClass" => same(object, old, "handler", errors),
        "Service" => objects::service_update(object, old, errors),
        "PersistentVolume" => storage::volume_update(object, old, errors),
        "PersistentVolumeClaim" => storage::claim_update(object, old, errors),
        "CSINode" => storage::node_update(object, old, errors),
        "CSIDriver" => storage::driver_update(object, old, errors),
        _ => {}
    }
}

/// A field of the object itself that cannot change.
fn same(object: &Value, old: &Value, field: &str, errors: &mut Errors) {
    if object[field] != old[field] {
        errors.invalid(field, object[field].clone(), "field is immutable");
    }
}

#[cfg(test)]
mod tests;
