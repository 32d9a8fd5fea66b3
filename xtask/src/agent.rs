//! Who runs a node that a task looks at.

use clap::ValueEnum;
use testkit::lab::Agent;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Who {
    /// Our agent
    Ferrolet,
    /// The upstream kubelet in its place: shows that what is expected holds for the reference
    Upstream,
}

impl Who {
    /// Our agent as `cargo test` builds it.
    pub(crate) fn as_tested(self) -> Agent {
        match self {
            Self::Ferrolet => Agent::Ferrolet,
            Self::Upstream => Agent::Upstream,
        }
    }

    /// Our agent as it is released.
    pub(crate) fn as_released(self) -> Agent {
        match self {
            Self::Ferrolet => Agent::FerroletRelease,
            Self::Upstream => Agent::Upstream,
        }
    }
}
