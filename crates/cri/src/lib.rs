//! The container runtime behind its seam: CRI v1 over gRPC on a unix socket, as
//! containerd and CRI-O serve it.
//!
//! In: endpoints and a time limit, from the node's settings. Out: a
//! [`Client`], which is a `seams::Runtime`.
//!
//! It must not know what is asked of the runtime, or why.

mod answers;
mod calls;
mod channel;
mod client;
mod endpoint;
mod terms;

pub use client::{Client, Config};
pub use endpoint::{Endpoint, EndpointError};
