//! The messages of the interface. Made of `proto/*.proto` when the crate is built; not
//! written by hand.

#![allow(
    clippy::pedantic,
    clippy::doc_markdown,
    unreachable_pub,
    reason = "the generator's code follows the generator's style"
)]

pub(super) mod v1 {
    include!(concat!(env!("OUT_DIR"), "/v1.rs"));
}

pub(super) mod v1alpha1 {
    include!(concat!(env!("OUT_DIR"), "/v1alpha1.rs"));
}
