//! The embedded API server and `ferrolet up`, and our fast tests on that server, which meets
//! the agent with faults by rule; without the lab.
//!
//! In: the built program, or crate `apiserver` in this process, and agents of ours on simulated
//! machines. Out: verdicts, by what clients see and what the simulated runtime was asked for.
//! Nothing here needs root.

#![allow(
    clippy::disallowed_methods,
    reason = "a test owns its process: it reads the clock and the environment, and chooses its moments"
)]

#[path = "../api_server.rs"]
mod api_server;
#[path = "../in_process.rs"]
mod in_process;

mod access;
mod identity;
mod killed;
mod ledger;
mod node;
mod pods;
mod program;
mod server;
