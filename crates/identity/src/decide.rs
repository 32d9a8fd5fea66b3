//! Decisions without acts: which kubeconfig to use, whether a certificate still
//! serves, when to rotate, how long to wait, and what an operator must do.

pub mod health;
pub mod kubeconfig;
pub mod rotation;
pub mod state;
