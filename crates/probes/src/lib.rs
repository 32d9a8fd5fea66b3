//! Whether containers live, are ready, and have started: what a pod's probes find.
//!
//! In: how each pod with probes stands ([`View`], told through a [`Place`] at the
//! [`Probes`] desk), the runtime and the network to ask. Out: what was found of each
//! container ([`Findings`], on a `watch` channel for each pod), events, figures. One
//! task ([`Prober`]) keeps the time for all pods of a node; what becomes of one probe is
//! a pure function ([`course`]), and so is when it is due ([`rhythm`]).
//!
//! It must not know what is done about a container that is found ill.

pub mod check;
pub mod course;
mod desk;
mod metrics;
mod prober;
pub mod rhythm;
mod view;
pub mod web;

pub use course::Verdict;
pub use desk::{Finding, Findings, Place, Probes};
pub use prober::{Means, Prober};
pub use view::{End, Purpose, View};
