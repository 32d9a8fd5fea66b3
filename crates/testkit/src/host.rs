//! This machine, for tests that need real disks and mounts.

pub use linux::LinuxHost;
