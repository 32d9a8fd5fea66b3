//! The cgroups of a node's pods: how they are called, what they are given, and
//! the tree of them on the machine.

mod held;
mod name;
mod tree;
mod values;

pub use held::Held;
pub use name::{CgroupDriver, CgroupName, Layout, NotAName};
pub use tree::{CgroupError, FoundCgroup, PodCgroups};
pub use values::Limits;
