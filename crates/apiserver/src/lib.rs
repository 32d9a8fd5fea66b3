//! The embedded API server: the part of Kubernetes' API that a node and a person with
//! kubectl need, on a store of its own. `ferrolet up` and our fast tests run on it.
//!
//! In: options (where to listen, where to keep data, a clock). Out: an HTTPS server whose
//! clients are unmodified kubectl, kubelet and client libraries.
//!
//! It must not know how our node agent works: a node is a client like any other.

pub mod access;
pub mod clock;
pub mod controllers;
pub mod defaults;
pub mod discovery;
pub mod failure;
pub mod faults;
pub mod front;
pub mod kinds;
pub mod openapi;
pub mod patch;
pub mod rest;
pub mod schema;
pub mod selectors;
mod server;
pub mod store;
pub mod tables;
pub mod validate;

pub use clock::Clock;
pub use failure::Failure;
pub use front::Attributes;
pub use kinds::Kind;
pub use rest::Objects;
pub use server::{Options, Server, StartError};
pub use store::{Key, Store, Stored};
