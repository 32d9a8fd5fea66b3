//! Who the node is: its keys, the certificates it asks for, the pairs it keeps,
//! and when it must ask again.
//!
//! In: PEM text, node names and addresses, certificate signing requests as the
//! API server shows them, files below the certificate directory, and the time
//! as a value. Out: requests to send, pairs to shake hands with, files in
//! upstream's layout, and decisions (which kubeconfig, rotate when, wait how
//! long, what an operator must do).
//!
//! Must not know: how requests travel, the clock, the environment, the working
//! directory, and what the rest of the node does with its identity. Private
//! keys leave it only towards 0600 files and TLS handshakes, never towards a log.

pub mod bootstrap;
pub mod bootstrap_key;
pub mod certificate;
pub mod client;
pub mod csr;
pub mod decide;
mod files;
pub mod keeper;
pub mod keys;
pub mod metrics;
pub mod pair;
pub mod published;
pub mod request;
pub mod serving;
pub mod store;
#[cfg(test)]
mod testapi;
#[cfg(test)]
mod testdata;
pub mod tls;

pub use certificate::Leaf;
pub use files::FileError;
pub use keys::{KeyKind, PrivateKey};
pub use pair::Pair;
pub use request::{Purpose, SigningRequest, Template};
pub use store::PairStore;
