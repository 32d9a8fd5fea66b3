//! Why the runtime does not do as it is told.

use std::time::Duration;

use seams::RuntimeError;
use seams::runtime::Code;
use thiserror::Error;

use super::network::NetworkError;
use super::story::StoryError;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum Refusal {
    #[error("{kind} {id:?}: not found")]
    NotFound { kind: &'static str, id: String },
    #[error("the request has no {0}; a request must have one")]
    Incomplete(&'static str),
    #[error("the name {name:?} is reserved for {kind} {holder:?}; remove that first")]
    NameTaken {
        kind: &'static str,
        name: String,
        holder: String,
    },
    #[error(transparent)]
    Story(#[from] StoryError),
    #[error("container {id:?} is in {state} state, it cannot be {wanted}")]
    WrongState {
        id: String,
        state: &'static str,
        wanted: &'static str,
    },
    #[error("sandbox container {0:?} is not running")]
    SandboxNotReady(String),
    #[error("failed to set up the network of sandbox {sandbox:?}: {source}")]
    Network {
        sandbox: String,
        source: NetworkError,
    },
    #[error("pod CIDR: {0}")]
    PodCidr(NetworkError),
    #[error("failed to pull image {image:?}: {text}")]
    Pull { image: String, text: String },
    #[error("image name {0:?} cannot be read; give NAME, NAME:TAG or NAME@sha256:DIGEST")]
    ImageName(String),
    #[error("failed to open the log {path:?}: {text}")]
    Log { path: String, text: String },
    #[error("failed to exec in container: timeout {0:?} exceeded: context deadline exceeded")]
    TooLong(Duration),
    #[error("maximum number of in-flight requests exceeded")]
    TooManyStreams,
    #[error(
        "failed to exec in container: failed to start exec {id:?}: OCI runtime exec failed: exec \
         failed: unable to start container process: exec: {program:?}: executable file not found \
         in $PATH: unknown"
    )]
    NoProgram { id: String, program: String },
}

impl Refusal {
    pub(super) fn container(id: &str) -> Self {
        Self::NotFound {
            kind: "container",
            id: id.to_owned(),
        }
    }

    pub(super) fn sandbox(id: &str) -> Self {
        Self::NotFound {
            kind: "sandbox",
            id: id.to_owned(),
        }
    }

    pub(super) fn image(name: &str) -> Self {
        Self::NotFound {
            kind: "image",
            id: name.to_owned(),
        }
    }

    pub(super) fn of(self, call: &'static str) -> RuntimeError {
        RuntimeError::new(call, self.code(), self.to_string())
    }

    /// Those of containerd, which has a code for few things.
    fn code(&self) -> Code {
        match self {
            Self::NotFound { .. } => Code::NotFound,
            Self::Incomplete(_) | Self::Story(_) | Self::PodCidr(_) | Self::ImageName(_) => {
                Code::InvalidArgument
            }
            Self::TooManyStreams => Code::ResourceExhausted,
            Self::TooLong(_) => Code::DeadlineExceeded,
            Self::NameTaken { .. }
            | Self::WrongState { .. }
            | Self::SandboxNotReady(_)
            | Self::Network { .. }
            | Self::Pull { .. }
            | Self::Log { .. }
            | Self::NoProgram { .. } => Code::Unknown,
        }
    }
}
