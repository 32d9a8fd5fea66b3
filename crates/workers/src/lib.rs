//! One state machine per pod: from what is wanted to what the runtime runs.
//!
//! In: what the sources want and what the runtime has ([`fold`], [`slot`]), the
//! node's settings, and everything that a pod refers to. [`plan`] says what should
//! happen next, a pure function; the executor does it, one step at a time, and a
//! fresh look follows each. Out: calls to the runtime in the messages of [`spec`],
//! files beside them, reports for the status, and events.
//!
//! It must not know where pods come from, nor which machine or runtime runs them.

mod act;
pub mod admission;
pub mod allocation;
pub mod backoff;
mod crew;
pub mod fold;
mod foundations;
mod hooks;
mod metrics;
mod objects;
pub mod order;
mod orphans;
mod own_policies;
mod patience;
pub mod plan;
mod probing;
mod resizing;
mod resolv_conf;
pub mod slot;
pub mod spec;
mod startup;
mod task;
pub mod telling;
pub mod termination;
pub mod turns;
mod unseen;

pub use allocation::Actuated;
pub use crew::Crew;
pub use foundations::{Foundations, NodeView, Settings};
pub use hooks::Hooks;
pub use metrics::Metrics;
pub use objects::Objects;
pub use own_policies::OwnPolicies;
pub use telling::Telling;
pub use turns::Turns;
