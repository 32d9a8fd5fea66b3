//! This machine, for tests that need real disks, mounts and connections.

pub use linux::{LinuxHost, LinuxNet};
