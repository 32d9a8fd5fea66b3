//! What can be asked of the process that a node runs in. The binary gives it: below it
//! nobody knows of a process.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::small::health::Check;

#[derive(Clone)]
pub struct Process {
    /// As the node tells the cluster: `v1.36.4+…`.
    pub version: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Every flag with its value, given or default.
    pub flags: Arc<dyn Fn() -> BTreeMap<String, String> + Send + Sync>,
    /// Changes how much is logged.
    pub set_verbosity: Arc<dyn Fn(u32) + Send + Sync>,
    /// Whether what is logged can be written.
    pub log: Check,
    pub profiler: Profiler,
}

/// Begins a CPU profile of the process, or says why there is none.
pub type Profiler = Arc<dyn Fn() -> Result<Box<dyn Profiling>, String> + Send + Sync>;

/// A CPU profile that is being taken; who drops it ends it.
pub trait Profiling: Send {
    /// Takes what has been seen since the last call: to be called some twenty times a second.
    fn look(&mut self);

    /// The profile in pprof's format.
    fn finish(self: Box<Self>, begun: SystemTime, took: Duration) -> Result<Vec<u8>, String>;
}

impl fmt::Debug for Process {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Process")
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}
