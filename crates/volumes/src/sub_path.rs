//! Why a part of a volume is not ready for a container.
//!
//! What users are told names the mount and the container and no more: the cause
//! tells of the machine. It is for the log.

use std::fmt;

use seams::storage::SubPathError;
use thiserror::Error;

/// A part of a volume that a container cannot have. Displayed as the event of the
/// pod says it, in upstream's words.
#[derive(Debug)]
pub struct SubPathFailure {
    /// Its mounts are called by its name.
    pub volume: String,
    pub container: String,
    pub problem: SubPathProblem,
}

/// What went wrong.
#[derive(Debug, Error)]
pub enum SubPathProblem {
    #[error(transparent)]
    Storage(#[from] SubPathError),
    #[error("{name:?} is not a name for a directory: it has to be a DNS label")]
    Name { name: String },
}

impl fmt::Display for SubPathFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (volume, container) = (&self.volume, &self.container);
        let what = match self.problem {
            SubPathProblem::Storage(SubPathError::Make(_)) => "create subPath directory",
            SubPathProblem::Storage(SubPathError::Bind(_)) | SubPathProblem::Name { .. } => {
                "prepare subPath"
            }
        };
        write!(
            formatter,
            "failed to {what} for volumeMount {volume:?} of container {container:?}"
        )
    }
}

impl std::error::Error for SubPathFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.problem)
    }
}
