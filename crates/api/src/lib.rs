//! The way to the API server.
//!
//! In: a kubeconfig, and what the process was given (the environment for credential plugins, the
//! time, the certificates that others manage). Out: whom to call, whom to trust, what to prove
//! ourselves with, and a [`transport`] that does so, with its [`metrics`].
//!
//! It must not know what is asked of the API server, nor read the environment, the working
//! directory or the clock: those are passed in.

pub mod events;
mod files;
pub mod kubeconfig;
pub mod metrics;
pub mod objects;
mod secret;
pub mod transport;

pub use secret::Secret;
