//! The node's own port, ours and upstream's, asked by real clients.

mod access;
mod bad_input;
pub(crate) mod door;
mod figures;
mod logs;
mod network;
mod pod_resources;
mod pods;
mod profiles;
mod read_only;
mod small;
mod stats;
mod streams;
mod upgrades;
