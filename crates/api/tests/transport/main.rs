//! The transport against a real TLS server in this process.
//!
//! In: HTTP/2 and HTTP/1.1 servers, proxies and certificates that the tests make. Out: verdicts.
//! They know the transport by its public face only, and count connections where a server would.

#![allow(
    clippy::disallowed_methods,
    reason = "tests run against real sockets, and so in real time"
)]
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "all of this is a test"
)]

mod connections;
mod draining;
mod failures;
mod requests;
mod support;
mod ways;
