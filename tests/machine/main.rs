//! What a node keeps on its machine, on real directories: the tree of cgroups, for both
//! versions and both drivers, and the record of the ids of users that pods were given.
//!
//! In: pods, and directories that stand for a machine's. Out: what is in the files
//! afterwards, for whoever runs the node next. It needs no lab and no root.

#![allow(
    clippy::unwrap_used,
    reason = "what a test stands on works, or the test fails"
)]

mod cgroups;
mod kernel;
mod users;
