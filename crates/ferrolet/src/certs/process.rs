//! Whether the agent that published a state still runs.

use std::fs;
use std::path::Path;

use serde::Serialize;

/// What goes by a process id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Process {
    Runs,
    /// No process, or one of another program that got the id since.
    Gone,
}

impl Process {
    pub(crate) fn of(id: u32) -> Self {
        let root = Path::new("/proc").join(id.to_string());
        // The name of a process can be changed by itself, and its program may be
        // shown to its owner only: either will do.
        let name = fs::read_to_string(root.join("comm")).ok();
        let program = fs::read_link(root.join("exe")).ok();
        let program = program
            .as_deref()
            .and_then(Path::file_name)
            .map(|name| name.to_string_lossy().into_owned());
        let agent = [name, program].into_iter().flatten();
        // A replaced program is shown with " (deleted)" after its name.
        if agent
            .into_iter()
            .any(|name| name.starts_with("ferrolet") || name.starts_with("kubelet"))
        {
            Self::Runs
        } else {
            Self::Gone
        }
    }
}
