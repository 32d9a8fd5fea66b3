//! What a node answers to those who ask it. So far the port for health checks,
//! and one for figures.
//!
//! In: an address to listen on, the clock, and what tells it to end. Out: answers
//! like the upstream kubelet's, down to headers and bodies.
//!
//! It must not know what a node does, nor which machine it runs on: what it
//! answers with is passed in.

mod answer;
mod healthz;
mod listen;
mod metrics;

pub use listen::{BindError, PlainPort, Purpose};
