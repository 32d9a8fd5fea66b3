//! Where a node's pods come from: manifests in files, manifests at a URL, and the
//! API server; and the mirrors by which the API server knows of the first two.
//!
//! In: a path and the machine's files, a URL, the pods that `api` follows. Each
//! source publishes all of its pods whenever something changed ([`Delivery`], on a
//! `watch` channel). Out: the [`Desired`] set, in which each pod is found by its
//! uid with its source and its mirror; what changed on the way; and the requests
//! that make and remove mirrors.
//!
//! What a manifest means ([`decode`], [`defaults`], [`validate`]), what a delivery
//! changes ([`merge`]) and what a mirror needs ([`mirror::decide`]) are pure functions;
//! the tasks only look, ask them, and publish. It must not know what is done with a
//! pod, whether it is admitted, or how it runs.

pub mod annotations;
pub mod api;
pub mod decode;
pub mod defaults;
mod delivery;
mod fetch;
pub mod file;
pub mod http;
pub mod manifest;
pub mod merge;
pub mod mirror;
#[cfg(test)]
mod testing;
pub mod validate;

pub use delivery::{Delivery, Source};
pub use types::desired::{Desired, DesiredPod};
