//! The way to the API server.
//!
//! In: a kubeconfig, and what the process was given (the environment for credential plugins, the
//! time). Out: whom to call, whom to trust, and what to prove ourselves with.
//!
//! It must not know what is asked of the API server, nor read the environment, the working
//! directory or the clock: those are passed in.

pub mod kubeconfig;
mod secret;

pub use secret::Secret;
