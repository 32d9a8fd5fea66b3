//! The HTTPS side: connections, who asks for what, and answers in the form that was asked
//! for.

mod answer;
mod attributes;
mod connections;
mod desk;
mod handshake;
mod negotiate;
mod pages;
mod proxy;
mod query;
mod reading;
mod request;
mod subresources;
mod verbs;
mod watching;

pub use answer::{Answer, Body};
pub use attributes::Attributes;
pub use connections::{BindError, Connections, Port};
pub use desk::{Desk, DeskParts};
pub use handshake::{HandshakeError, server_config};
pub use proxy::KubeletClient;

#[cfg(test)]
mod tests;
