//! The container runtime behind its seam: CRI v1 over gRPC on a unix socket, as
//! containerd and CRI-O serve it.
//!
//! In: endpoints and a time limit, from the node's settings. Out: a
//! [`Client`], which is a `seams::Runtime`, and what a node asks before it
//! starts ([`start`]).
//!
//! It must not know what is asked of the runtime, or why.

mod answers;
mod calls;
mod channel;
mod client;
mod endpoint;
pub mod start;
mod terms;

pub use client::{Client, Config};
pub use endpoint::{Endpoint, EndpointError};
