//! The messages of the Container Runtime Interface, v1, and the paths of its
//! calls. Made of `proto/runtime.proto` when the crate is built; not written by
//! hand.

#![allow(
    clippy::pedantic,
    clippy::doc_markdown,
    reason = "the generator's code follows the generator's style"
)]

include!(concat!(env!("OUT_DIR"), "/runtime.v1.rs"));
