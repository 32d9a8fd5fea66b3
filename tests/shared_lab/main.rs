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
mod cri;
mod doctor;
mod healthz;
mod heartbeat;
mod hollow;
mod identity;
mod join;
mod node;
mod pods;
mod registry;
mod server;
mod sim;
mod up;
mod upstream_kubelet;
mod volume_worlds;
mod volumes;
