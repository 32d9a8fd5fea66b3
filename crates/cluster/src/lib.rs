//! What people do by hand with kubeadm, openssl and kubectl to let a node into
//! a cluster: bootstrap tokens, cluster-info discovery, roles, certificate
//! signing requests, kubeconfigs, and the files and checks of a joining node.
//!
//! In: a client of the API server where one is needed, text that a person
//! typed, facts about the machine, and the time as a value or a clock. Out: API
//! objects as kubeadm makes them, plans of files to write or remove, verdicts
//! with their reasons, and errors that say what to do next.
//!
//! Must not know: how requests travel (fetchers and clients are passed in), the
//! command line above it, and what the node does once it has joined. Secrets
//! leave it only towards API objects and 0600 files.

mod call;
pub mod cluster_info;
pub mod csr;
mod files;
pub mod join;
pub mod kubeconfig;
pub mod layout;
pub mod pin;
pub mod preflight;
pub mod rbac;
#[cfg(test)]
mod testing;
pub mod token;

pub use call::{CallError, CallProblem};
pub use files::FileError;
pub use pin::CaPin;
pub use token::Token;
