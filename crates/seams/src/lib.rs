//! The seams: what a node stands on, and what a simulated machine can take the
//! place of. Below them nothing is faked, above them nobody asks.
//!
//! In: nothing. Out: traits. So far [`Clock`] and [`Host`], each as far as the
//! parts that are there need it; `Runtime` and `Net` come with theirs.
//!
//! It must not know who stands on either side.

mod clock;
pub mod host;

pub use clock::{Clock, Elapsed, SharedClock, Sleep, timeout};
pub use host::{Host, SharedHost};
