//! The status of pods: what the API is told of them, and when.
//!
//! In: a pod's spec, what the runtime holds of it (an observation), what its worker
//! knows besides, and what the API last said. Out: the status that follows, by pure
//! functions, one file per group of fields; what differs from the API's, as the
//! patch that upstream would send; and one task per node that sends it.
//!
//! It must not know how pods are run, nor decide what becomes of them.

mod addresses;
mod compute;
mod conditions;
mod containers;
mod equal;
mod input;
mod merge;
mod metrics;
mod normal;
mod patch;
mod phase;
pub mod pod_resources;
mod probes;
pub mod qos;
mod reports;
mod resources;
mod spec;
mod sync;
mod terminate;
#[cfg(test)]
mod testapi;
#[cfg(test)]
mod tests;
mod transition;

pub use addresses::one_of_each_family;
pub use compute::status;
pub use conditions::restarts_everything;
pub use equal::is_equal;
pub use input::{Ended, Input, Known, NodeFacts, Probed, Waiting};
pub use merge::merge;
pub use metrics::Metrics;
pub use normal::normalise;
pub use patch::two_way;
pub use reports::{Report, Reports};
pub use spec::{restarts, restarts_all};
pub use sync::StatusSync;
pub use terminate::terminate;
pub use transition::{IllegalTransition, check as check_transition};
