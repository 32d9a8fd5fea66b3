//! What a scenario is.

use anyhow::Result;

use super::stage::Stage;

/// A short play with pods on one node.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub name: &'static str,
    /// One line for the list.
    pub about: &'static str,
    /// Whether every CI run plays it.
    pub ci: bool,
    pub lane: Option<Lane>,
    pub(super) play: fn(&mut Stage<'_>) -> Result<()>,
}

/// What a node has only one of: scenarios of one lane are played one after the
/// other, those of different lanes side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The image that a registry has and no node: it is removed and pulled again.
    PulledImage,
    /// The node's taints.
    Taints,
    /// The node's CPUs, all of them.
    Cpus,
}

impl Scenario {
    pub(super) const fn new(
        name: &'static str,
        about: &'static str,
        play: fn(&mut Stage<'_>) -> Result<()>,
    ) -> Self {
        Self {
            name,
            about,
            ci: false,
            lane: None,
            play,
        }
    }

    pub(super) const fn ci(self) -> Self {
        Self { ci: true, ..self }
    }

    pub(super) const fn lane(self, lane: Lane) -> Self {
        Self {
            lane: Some(lane),
            ..self
        }
    }
}
