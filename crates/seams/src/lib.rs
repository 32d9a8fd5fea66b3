//! The seams: what a node stands on, and what a simulated machine can take the
//! place of. Below them nothing is faked, above them nobody asks.
//!
//! In: nothing. Out: traits, and the messages of CRI that one of them speaks.
//! [`Clock`], [`Host`] with its [`Storage`], [`Net`], and [`Runtime`], each as far as the parts that
//! are there need it.
//!
//! It must not know who stands on either side.

mod clock;
pub mod cri;
pub mod host;
pub mod net;
pub mod runtime;
pub mod storage;

pub use clock::{Clock, Elapsed, SharedClock, Sleep, timeout};
pub use host::{Host, SharedHost};
pub use net::{Net, SharedNet};
pub use runtime::{Runtime, RuntimeError, SharedRuntime};
pub use storage::{SharedStorage, Storage};
