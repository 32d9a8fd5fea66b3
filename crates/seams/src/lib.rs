//! The seams: what a node stands on, and what a simulated machine can take the
//! place of. Below them nothing is faked, above them nobody asks.
//!
//! In: nothing. Out: traits. So far there is one, the [`Clock`]; `Runtime`,
//! `Host` and `Net` come with the parts that need them.
//!
//! It must not know who stands on either side.

mod clock;

pub use clock::{Clock, Elapsed, SharedClock, Sleep, timeout};
