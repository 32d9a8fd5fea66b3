//! Our way to the API server and our certificates, in process, against the
//! real API server and the real signer; and the whole agent while the API server
//! is away or answers badly.
//!
//! In: crates `api` and `identity`, wired as the agent wires them, `agent`, and
//! the shared lab through its loopback port. Out: verdicts, and the figures behind
//! them. Connections are counted where they arrive, in the control plane's
//! machine, not where we believe to have made them.
//!
//! The tests bend the control plane for everybody, so they run one at a time
//! and put it back.

#![allow(
    clippy::disallowed_methods,
    reason = "a test owns its process: it reads the clock and the environment"
)]

mod afflicted;
mod authority;
mod control_plane;
mod fault;
mod figures;
mod first_request;
#[path = "../in_process.rs"]
mod in_process;
mod load;
mod many_watches;
mod node;
mod outage;
mod rotation;
mod watches;
