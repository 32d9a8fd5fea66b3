//! The verbs, for every kind.

pub(crate) mod bounds;
mod created;
mod deleted;
mod expiry;
mod list;
mod objects;
mod updated;
mod written;

pub use created::CreateOptions;
pub use deleted::{DeleteOptions, Deletion};
pub use expiry::expire_events;
pub use list::{ListOptions, Page, VersionMatch};
pub use objects::{Objects, Part};
pub use updated::{UpdateOptions, belongs};
pub use written::Written;

#[cfg(test)]
mod tests;
