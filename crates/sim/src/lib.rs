//! What a node stands on, in memory: a machine, and a runtime that runs pods of
//! which nothing is real but their story.
//!
//! In: what the machine is made of, and what ails it ([`Faults`]). Out: the seams
//! [`seams::Host`] and [`seams::Runtime`].
//!
//! It must not know who stands on it, nor that there are others like it.

mod faults;
mod machine;
mod runtime;

pub use faults::{Faults, RuntimeFault};
pub use machine::{Machine, MachineShape};
pub use runtime::{Runtime, RuntimeShape};
