//! What a node tells the API server of itself: that it exists (registration),
//! what it is and how it fares (status), and that it lives (lease); beside them
//! its `CSINode` and the events about it.
//!
//! In: a [`Config`], the machine and the clock through `seams`, two clients (one
//! for ordinary requests, one for heartbeats), and snapshots that other parts
//! publish on `watch` channels: what the container runtime says ([`RuntimeFacts`]),
//! pressure, volumes in use, the node's own object. Out: requests, and channels
//! that say whether the node is registered and ready.
//!
//! What to send is decided by pure functions (one file per field of the object);
//! the tasks only look, ask them, and send. It must not know which machine or
//! which runtime it speaks of, nor run pods.

pub mod addresses;
pub mod allocatable;
mod announce;
pub mod capacity;
pub mod conditions;
pub mod config;
pub mod csinode;
pub mod images;
pub mod info;
pub mod labels;
pub mod lease;
mod metrics;
pub mod observe;
pub mod parts;
pub mod patch;
pub mod posted;
pub mod preview;
pub mod readiness;
pub mod reconcile;
pub mod register;
pub mod report;
pub mod resources;
pub mod runtime;
pub mod runtime_watch;
pub mod status;
pub mod update;

#[cfg(test)]
mod testapi;
#[cfg(test)]
mod testdata;
#[cfg(test)]
mod tests;

pub use config::{Config, FlagValues};
pub use metrics::Metrics;
pub use parts::{Clients, Inputs, NodeParts, Outputs};
pub use preview::Preview;
pub use runtime::RuntimeFacts;
pub use runtime_watch::RuntimeWatch;
