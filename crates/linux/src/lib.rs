//! The real machine behind the seams: its clock, what it is made of and how it
//! is connected; and what a process can ask of it for itself ([`process`], [`profile`]).
//!
//! In: the kernel, and the files below a root that is normally `/`. Out: the
//! traits of `seams`. It must not know what a node does with them.

mod accounts;
mod below;
mod binds;
mod cgroups;
mod clearance;
mod clock;
mod compressed;
mod cpus;
mod figures;
mod files;
mod growth;
mod hints;
mod host;
mod host_paths;
mod huge_pages;
mod inside;
mod interfaces;
mod lone_files;
mod machine;
mod mounts;
mod net;
mod ownership;
pub mod process;
pub mod profile;
mod programs;
mod publish;
mod routes;
mod selinux;
mod storage;
mod sub_path;
#[cfg(test)]
mod testing;
mod trees;
mod usage;

pub use clearance::clear_away;
pub use clock::SystemClock;
pub use host::LinuxHost;
pub use net::LinuxNet;
