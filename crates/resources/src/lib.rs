//! What pods may use of the machine, and how the kernel is told.
//!
//! In: pods as the API has them, the node's settings, and what the machine has.
//! Out: classes of service, sums of requests and limits, the resources of containers in
//! CRI's words, and cgroups: their names, their values, and a tree of them on the
//! machine behind its seam; ids for pods with users of their own ([`users`]);
//! [`garbage`], which takes away what dead containers leave; [`logs`], which keeps the
//! logs of those that run from filling the disk; and [`eviction`], which finds pods that
//! have more on the disk than they may. All but that tree, the record of those ids and
//! the tasks of these three is pure.
//!
//! It must not know who runs the pods. Managers of CPUs, memory and devices, and
//! eviction when the node runs short are to come.

pub mod cgroups;
pub mod eviction;
pub mod garbage;
pub mod linux;
pub mod logs;
mod memory_qos;
mod metrics;
pub mod qos;
pub mod requests;
#[cfg(test)]
mod testing;
pub mod users;

pub use cgroups::{CgroupDriver, CgroupName, Layout, PodCgroups};
pub use linux::Enforcement;
pub use memory_qos::{Asked, MemoryQos};
pub use metrics::Metrics;
pub use qos::QosClass;
pub use requests::{Amounts, Overhead};
pub use users::PodUsers;
