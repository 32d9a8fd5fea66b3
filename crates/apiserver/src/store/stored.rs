//! An object as it is kept: its bytes, and what it can be selected by.

use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Key, Revision};
use crate::kinds::Kind;

/// Cheap to clone. The JSON is kept as bytes, which is what is sent; a parsed tree takes
/// five to ten times as much, so it is made when somebody needs it.
#[derive(Clone, Debug)]
pub struct Stored(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    kind: &'static Kind,
    namespace: Box<str>,
    name: Box<str>,
    revision: Revision,
    bytes: Bytes,
    labels: Box<[(Box<str>, Box<str>)]>,
    fields: Box<[(&'static str, Box<str>)]>,
}

impl Stored {
    /// `object` with the revision written into it.
    pub(super) fn new(key: &Key, revision: Revision, mut object: Value) -> Self {
        object["metadata"]["resourceVersion"] = revision.to_string().into();
        // A tree of JSON values can always be written as JSON.
        let bytes = serde_json::to_vec(&object).unwrap_or_default();
        Self::kept(key, revision, bytes.into(), &object)
    }

    /// As it came from the disk.
    pub(super) fn kept(key: &Key, revision: Revision, bytes: Bytes, object: &Value) -> Self {
        let labels = object["metadata"]["labels"].as_object();
        let labels = labels.into_iter().flatten().map(|(name, value)| {
            let value = value.as_str().unwrap_or_default();
            (name.as_str().into(), value.into())
        });
        let fields = key.kind.selectable(object).into_iter();
        Self(Arc::new(Inner {
            kind: key.kind,
            namespace: key.namespace.as_str().into(),
            name: key.name.as_str().into(),
            revision,
            bytes,
            labels: labels.collect(),
            fields: fields.map(|(name, value)| (name, value.into())).collect(),
        }))
    }

    pub fn kind(&self) -> &'static Kind {
        self.0.kind
    }

    pub fn key(&self) -> Key {
        Key::new(self.0.kind, self.namespace(), self.name())
    }

    /// Where it is among those of its kind: lists are in the order of this.
    pub fn place(&self) -> String {
        self.key().place()
    }

    pub fn namespace(&self) -> &str {
        &self.0.namespace
    }

    pub fn name(&self) -> &str {
        &self.0.name
    }

    pub fn revision(&self) -> Revision {
        self.0.revision
    }

    /// The object as JSON, with its `resourceVersion`.
    pub fn bytes(&self) -> &Bytes {
        &self.0.bytes
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        let found = self.0.labels.iter().find(|(name, _)| **name == *key);
        found.map(|(_, value)| &**value)
    }

    /// A field that its kind can be selected by.
    pub fn field(&self, name: &str) -> Option<&str> {
        match name {
            "metadata.name" => Some(self.name()),
            "metadata.namespace" => Some(self.namespace()),
            name => {
                let found = self.0.fields.iter().find(|(field, _)| *field == name);
                found.map(|(_, value)| &**value)
            }
        }
    }

    /// Parsed now.
    pub fn value(&self) -> Value {
        self.decode().unwrap_or_default()
    }

    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0.bytes)
    }
}
