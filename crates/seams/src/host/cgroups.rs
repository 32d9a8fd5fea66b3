//! Cgroups, as far as a node has to do with them: groups that it makes, gives
//! values to, looks for and removes. Which groups, and which values, is its affair.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use super::HostError;

/// What a machine's kernel offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupFacts {
    pub version: CgroupVersion,
    /// `cpu`, `memory`, ….
    pub controllers: BTreeSet<String>,
    /// Whether groups can be kept from swap.
    pub swap: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CgroupVersion {
    /// A hierarchy for each controller.
    V1,
    /// One hierarchy for all.
    V2,
}

/// What is written to one file of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupValue {
    /// `cpu.max`: what stands before the first dot is the controller.
    pub file: String,
    pub value: String,
    /// Not every kernel has this file: where it is absent, nothing is amiss.
    pub optional: bool,
}

impl CgroupValue {
    #[expect(
        clippy::needless_pass_by_value,
        reason = "numbers and texts, as they come"
    )]
    pub fn new(file: impl Into<String>, value: impl ToString) -> Self {
        Self {
            file: file.into(),
            value: value.to_string(),
            optional: false,
        }
    }

    #[must_use]
    pub fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    pub fn controller(&self) -> &str {
        self.file.split('.').next().unwrap_or_default()
    }
}

/// What a machine without cgroups answers.
pub(super) fn unsupported<T>(path: &Path) -> Result<T, HostError> {
    let cause = io::Error::new(
        io::ErrorKind::Unsupported,
        "this machine has no cgroups: mount them, or set cgroupsPerQOS to false",
    );
    Err(HostError::new(format!("cgroup {}", path.display()), cause))
}
