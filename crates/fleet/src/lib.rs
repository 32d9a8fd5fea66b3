//! A fleet: thousands of complete nodes in one process, on simulated machines,
//! at a real API server.
//!
//! In: what the fleet is to be ([`spec::Fleet`], which may change while it runs),
//! and connections. Out: Node objects, leases and whatever else a node makes; and
//! figures of how they fare ([`figures`]).
//!
//! It must not know what a node does: each is an [`agent`], as on a machine of its
//! own. Nor does it read files, the clock or the environment: the binary does.

pub mod figures;
pub mod metrics;
pub mod names;
pub mod plan;
pub mod report;
pub mod requests;
pub mod roster;
pub mod seat;
pub mod spec;

mod addresses;
mod hollow;

pub use hollow::{Common, Connections, Doors, Followers, HollowError, SharedConnections};
pub use roster::{Roster, RosterError};
