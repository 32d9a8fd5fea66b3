//! The resources that the server has: names, verbs, subresources, and the fields by
//! which they can be selected. Pure.

use serde_json::Value;

mod fields;
mod table;

pub use table::*;

/// One resource, as discovery tells of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// Empty for the core group.
    pub group: &'static str,
    pub version: &'static str,
    pub plural: &'static str,
    pub singular: &'static str,
    pub kind: &'static str,
    pub namespaced: bool,
    pub short_names: &'static [&'static str],
    pub categories: &'static [&'static str],
    pub verbs: &'static [&'static str],
    pub subresources: &'static [Subresource],
    /// Whether there are objects of it in the store; reviews are only answered.
    pub stored: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Subresource {
    pub name: &'static str,
    /// What it takes and gives, which may be of another group.
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub verbs: &'static [&'static str],
}

impl Kind {
    /// `v1` or `coordination.k8s.io/v1`.
    pub fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// `pods` or `leases.coordination.k8s.io`, as messages name it.
    pub fn qualified(&self) -> String {
        match self.group {
            "" => self.plural.to_owned(),
            group => format!("{}.{group}", self.plural),
        }
    }

    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }

    pub fn allows(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    /// What field selectors of this resource may name, and their values in `object`.
    /// `metadata.name` and `metadata.namespace` are selectable everywhere.
    pub fn selectable(&self, object: &Value) -> Vec<(&'static str, String)> {
        fields::of(self, object)
    }

    pub fn selects_by(&self, field: &str) -> bool {
        fields::known(self, field)
    }
}

pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Kind> {
    let named = |kind: &&&'static Kind| {
        kind.group == group && kind.version == version && kind.plural == plural
    };
    KINDS.iter().find(named).copied()
}

/// By what objects say of themselves.
pub fn find_kind(api_version: &str, kind: &str) -> Option<&'static Kind> {
    KINDS
        .iter()
        .find(|known| known.kind == kind && known.api_version() == api_version)
        .copied()
}
