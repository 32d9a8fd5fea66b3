//! Kubeconfig files: what is written, and what it means for one context.
//!
//! [`Kubeconfig`] is the file as written; [`Kubeconfig::resolve`] makes a [`ClientConfig`] of one
//! of its contexts. Precedence and leniency are those of client-go v0.36, as a comparison with it
//! found them. Where we differ, on purpose: what client-go finds out when it first connects (an
//! unusable server address, a CA beside `insecure-skip-tls-verify`, an unknown plugin version) is
//! found here, and `auth-provider` is refused.
//!
//! What changes while the node runs has its own reader: [`CertificateSource::load`],
//! [`Authority::load`], [`TokenFileReader`] and [`ExecAuthenticator`].

mod document;
mod environment;
mod exec;
mod fields;
mod file;
mod paths;
mod resolve;
mod server;
#[cfg(test)]
mod testing;
mod tls;
mod token;
mod validity;
mod write;

pub use document::SyntaxError;
pub use exec::{
    ExecAuthenticator, ExecCredential, ExecError, ExecPlugin, ExecProblem, ExecVersion,
    InteractiveMode, Surroundings,
};
pub use fields::FieldError;
pub use file::{Cluster, Context, ExecEntry, Impersonate, Kubeconfig, ReadError, User};
pub use resolve::{
    Authorization, ClientConfig, GivenIdentity, Identity, Impersonation, ResolveError, Unusable,
};
pub use server::{AddressError, Proxy, ProxyScheme, Server};
pub use tls::{Authority, CertificateSource, ClientCertificate, Material, Tls, TlsError, Trust};
pub use token::{TokenError, TokenFileReader};
pub use validity::{Validity, judge};
pub use write::{WriteError, write_bootstrapped};
