//! A thing that was looked at, or why it was not.

use serde::Serialize;

/// What a look gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Look<T> {
    Seen(T),
    /// Not for this user, or not with these credentials.
    Hidden(Hidden),
    /// There was no way to look, for a reason that is told elsewhere, or nothing to
    /// look at.
    Skipped,
}

/// Why something could not be seen, and what would show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Hidden {
    pub(crate) why: String,
    pub(crate) command: Option<String>,
}

impl Hidden {
    pub(crate) fn new(why: impl Into<String>, command: Option<&str>) -> Self {
        Self {
            why: why.into(),
            command: command.map(str::to_owned),
        }
    }
}

impl<T> Look<T> {
    pub(crate) fn seen(&self) -> Option<&T> {
        match self {
            Self::Seen(seen) => Some(seen),
            Self::Hidden(_) | Self::Skipped => None,
        }
    }

    pub(crate) fn hidden(&self) -> Option<&Hidden> {
        match self {
            Self::Hidden(hidden) => Some(hidden),
            Self::Seen(_) | Self::Skipped => None,
        }
    }
}
