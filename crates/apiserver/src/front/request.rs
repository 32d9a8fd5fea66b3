//! One request, as those who answer it see it.

use bytes::Bytes;
use http::HeaderMap;

use super::attributes::Attributes;
use super::negotiate::Wanted;
use super::query::Query;
use crate::access::User;
use crate::kinds::Kind;
use crate::store::Key;

/// Who asks for what, with everything that came along.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) user: User,
    pub(super) attributes: Attributes,
    pub(super) query: Query,
    pub(super) headers: HeaderMap,
    pub(super) wanted: Wanted,
    pub(super) body: Bytes,
}

impl Asked {
    pub(super) fn key(&self, kind: &'static Kind) -> Key {
        Key::new(kind, self.namespace(kind), self.attributes.name.as_str())
    }

    pub(super) fn namespace(&self, kind: &Kind) -> &str {
        if kind.namespaced {
            &self.attributes.namespace
        } else {
            ""
        }
    }

    /// `None` means all of them.
    pub(super) fn scope(&self, kind: &Kind) -> Option<&str> {
        Some(self.namespace(kind)).filter(|namespace| !namespace.is_empty())
    }
}
