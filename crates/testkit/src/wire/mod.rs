//! The same pods on a node with the upstream kubelet and on one with our agent,
//! each over a simulated runtime that writes down what it is asked; and what the
//! two were asked for each pod, compared field by field.
//!
//! A [`Spec`] is a pod and what becomes of it (`specs`, by theme; [`fields`] says
//! which field of the pod API which of them uses). All of them are made together
//! on both nodes ([`Wires`]), brought to where they shall be, and deleted
//! ([`Run`]). Of the recordings `recording` makes one list of calls for each pod,
//! `normal` puts words in place of names, ids, addresses and times, `rules` says
//! what differs, and [`differences`] which of that is meant. No container runs, so
//! all of it costs a minute. Nothing here knows which of the nodes is ours.

pub mod differences;
pub mod fields;
mod normal;
mod objects;
mod progress;
mod recording;
mod rules;
mod run;
mod spec;
mod specs;
mod verdict;
mod wires;

pub use self::run::Run;
pub use self::spec::Spec;
pub use self::specs::all;
pub use self::verdict::{Outcome, Verdict};
pub use self::wires::Wires;
