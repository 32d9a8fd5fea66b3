//! Tests that share one lab and run side by side.
//!
//! In: the lab that runs, or a new one. Out: verdicts. Each test makes nodes
//! and namespaces of its own; none may know of, stop or count what the others
//! have.

#![allow(
    clippy::disallowed_methods,
    clippy::panic,
    reason = "a test reads the clock, and panics to say no"
)]

mod chaos;
mod cluster_tools;
mod compare;
mod cri;
mod healthz;
mod heartbeat;
mod identity;
mod join;
mod node;
mod pods;
mod registry;
mod sim;
mod upstream_kubelet;
mod wire;
