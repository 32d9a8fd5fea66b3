//! What probes and hooks ask of servers: one GET, as upstream asks it.

mod exchange;
mod redirect;
mod reference;
mod request;
mod tls;

pub use exchange::{Cause, Half, Heard, NoAnswer, Web};
pub use request::{Asker, Get, GetError};

pub(crate) use exchange::dial_words;
pub(crate) use request::{authority, port};
