//! Who asks, and whether they may: the cluster's keys and certificates, authentication,
//! authorization, and the reviews that answer from the same rules.

pub mod authenticate;
pub mod authorize;
pub(crate) mod bootstrap_token;
pub(crate) mod certificate_request;
pub mod client_certificate;
mod files;
pub mod impersonate;
pub mod node_restriction;
mod node_rules;
pub(crate) mod pair;
pub mod pki;
mod pod_references;
pub(crate) mod references;
pub mod reviews;
mod rules;
pub mod service_account;
mod token_key;
mod token_request;
pub mod user;

pub use authenticate::Authenticator;
pub use authorize::{Authorizer, Decision};
pub use client_certificate::ClientTrust;
pub use pair::Pair;
pub use pki::{Pki, ServingNames};
pub use token_key::TokenKey;
pub use user::User;

/// Two small letters or figures for each byte.
fn hexadecimal(bytes: &[u8]) -> String {
    const FIGURES: &[u8; 16] = b"0123456789abcdef";
    let figures = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    figures
        .map(|figure| char::from(FIGURES[usize::from(figure)]))
        .collect()
}
