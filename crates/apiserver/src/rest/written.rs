//! What became of a write.

use bytes::Bytes;
use serde_json::Value;

use crate::store::Stored;

/// The object after a write.
#[derive(Clone, Debug)]
pub enum Written {
    Stored(Stored),
    /// What it would be: nothing was stored.
    Dry(Value),
    /// The write let go of an object that was to go: what was last stored of it, and what the
    /// write made of it, which nobody will find.
    Last(Stored, Value),
}

impl Written {
    pub fn value(&self) -> Value {
        match self {
            Self::Stored(stored) => stored.value(),
            Self::Dry(value) | Self::Last(_, value) => value.clone(),
        }
    }

    pub fn bytes(&self) -> Bytes {
        match self {
            Self::Stored(stored) => stored.bytes().clone(),
            Self::Dry(value) | Self::Last(_, value) => value.to_string().into(),
        }
    }
}
