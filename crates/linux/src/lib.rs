//! The real machine behind the seams. So far that is its clock.
//!
//! In: the kernel. Out: the traits of `seams`. It must not know what a node
//! does with them.

mod clock;

pub use clock::SystemClock;
