//! `ferrolet up` as people use it: the built program, and the real kubectl on the cluster
//! that it makes.
//!
//! In: the binary, and the lab's kubectl. Out: what both say. Nothing here needs root or
//! the lab.

#![allow(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test reads the clock, waits for programs, and panics to say no"
)]

mod background;
mod cluster;
mod looking;
mod people;
mod pods;
mod start;
mod streams;
mod terminal;
