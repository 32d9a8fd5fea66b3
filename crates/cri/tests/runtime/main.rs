//! The client against a real gRPC server, in this process and on a real socket:
//! what the calls carry, and what becomes of them when the runtime does not do
//! what it should.
//!
//! In: a server that answers, refuses, hangs or dies as it is told. Out:
//! verdicts.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "support of tests panics to say no"
)]

mod calls;
mod events;
mod failures;
mod limits;
mod reach;
mod start;
mod support;
