//! What people should know of a volume that was set up.

/// A word to a pod's people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Of the event, as upstream has it.
    pub reason: &'static str,
    pub message: String,
}

impl Notice {
    /// Another pod has the volume, with another group: this one's may not be able to
    /// use it.
    pub(crate) fn other_group(volume: &str, wanted: u32, found: u32) -> Self {
        Self {
            reason: "AlreadyMountedVolume",
            message: format!(
                "The requested fsGroup is {wanted}, but the volume {volume} has GID {found}. The volume may not be shareable."
            ),
        }
    }
}
