//! `ferrolet fleet`, as its users run it, against the real API server: nodes that
//! come, stay, ail and go as they are told.
//!
//! In: the built program and the shared lab. Out: verdicts, and the figures behind
//! them. What a fleet says of itself is compared with what the API server says.
//!
//! The nodes load the control plane, and one test restarts it: they run one at a
//! time.

#![allow(
    clippy::disallowed_methods,
    reason = "a test owns its process: it reads the clock and the environment"
)]

mod cluster;
mod following;
mod identities;
mod mistakes;
mod outage;
mod standing;
