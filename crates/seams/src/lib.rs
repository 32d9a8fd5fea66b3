//! The seams: what a node stands on, and what a simulated machine can take the
//! place of. Below them nothing is faked, above them nobody asks.
//!
//! In: nothing. Out: traits, the messages of CRI that one of them speaks, and what a node asks of
//! any runtime before it relies on it ([`start`]).
//! [`Clock`], [`Host`] with its [`Storage`], [`Net`], and [`Runtime`], each as far as the parts that
//! are there need it.
//!
//! It must not know who stands on either side.

mod clock;
pub mod cri;
pub mod host;
pub mod net;
pub mod runtime;
pub mod start;
pub mod storage;

pub use clock::{Clock, Elapsed, SharedClock, Sleep, timeout};
pub use host::{Host, SharedHost};
pub use net::{Net, SharedNet};
pub use runtime::{Runtime, RuntimeError, SharedRuntime};
pub use storage::{SharedStorage, Storage};
