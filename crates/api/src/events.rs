//! Events: what a node tells people about, as objects of the API.

mod correlate;
mod recorder;

pub use recorder::{Recorder, Recording, about_node, about_pod};

/// Whether somebody should look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    Normal,
    Warning,
}
