//! Which object.

use std::fmt;

use crate::kinds::Kind;

/// The name of an object in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    pub kind: &'static Kind,
    /// Empty for kinds without namespaces.
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub fn new(kind: &'static Kind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            kind,
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// Of a kind that has no namespaces.
    pub fn global(kind: &'static Kind, name: impl Into<String>) -> Self {
        Self::new(kind, "", name)
    }

    /// Its place among those of its kind: no name has a slash in it.
    pub(super) fn place(&self) -> String {
        match self.namespace.as_str() {
            "" => self.name.clone(),
            namespace => format!("{namespace}/{}", self.name),
        }
    }

    /// Its place on disk.
    pub(super) fn on_disk(&self) -> String {
        let Kind { group, plural, .. } = self.kind;
        format!("{group}/{plural}/{}", self.place())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name, .. } = self;
        match self.namespace.as_str() {
            "" => write!(formatter, "{} {name}", kind.qualified()),
            namespace => write!(formatter, "{} {namespace}/{name}", kind.qualified()),
        }
    }
}
