//! The real kubectl, unmodified, against the embedded API server: what a person at a
//! terminal does, and what they are told.
//!
//! In: the lab's kubectl, and a server in this process for each test. Out: what kubectl
//! printed, and how it ended.
//!
//! It must not know the server's insides: only faults are set by hand.

#![allow(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test waits for programs, reads the real clock, and panics to say no"
)]

mod certificates;
mod objects;
mod pods;
mod server;
mod watching;
