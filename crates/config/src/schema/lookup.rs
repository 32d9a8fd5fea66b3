//! Rows by name.

use super::{FIELDS, FLAGS, Field, Flag, GATES, Gate, REMOVED_FLAGS, RETIRED_GATES, RemovedFlag};

/// The row of a field, by its exact path.
pub fn field(path: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.path == path)
}

/// The row of a flag of today, by its exact name without dashes.
pub fn flag(name: &str) -> Option<&'static Flag> {
    let index = FLAGS.binary_search_by(|flag| flag.name.cmp(name)).ok()?;
    FLAGS.get(index)
}

/// The row of a flag of older kubelets, by its exact name without dashes.
pub fn removed_flag(name: &str) -> Option<&'static RemovedFlag> {
    let index = REMOVED_FLAGS
        .binary_search_by(|flag| flag.name.cmp(name))
        .ok()?;
    REMOVED_FLAGS.get(index)
}

/// The row of a feature gate, by its exact name.
pub fn gate(name: &str) -> Option<&'static Gate> {
    let index = GATES.binary_search_by(|gate| gate.name.cmp(name)).ok()?;
    GATES.get(index)
}

/// Whether an older kubelet had a gate of this name that is gone now.
pub fn is_retired_gate(name: &str) -> bool {
    RETIRED_GATES.binary_search(&name).is_ok()
}

/// The fields directly below an object, or of the items of a list of objects;
/// those of the top level for the empty path.
pub fn children(path: &str) -> impl Iterator<Item = &'static Field> {
    FIELDS.iter().filter(move |field| {
        let name = if path.is_empty() {
            Some(field.path)
        } else {
            field
                .path
                .strip_prefix(path)
                .map(|rest| rest.strip_prefix("[]").unwrap_or(rest))
                .and_then(|rest| rest.strip_prefix('.'))
        };
        name.is_some_and(|name| !name.contains('.'))
    })
}
