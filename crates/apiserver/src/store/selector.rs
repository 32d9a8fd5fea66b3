//! Which objects are meant: by namespace, labels and fields.

use super::Stored;
use crate::failure::Failure;
use crate::kinds::Kind;
use crate::selectors::{FieldSelector, LabelSelector};

/// Fields by which so many watch one object each that their watches are found by value.
const PIVOTS: [&str; 2] = ["metadata.name", "spec.nodeName"];

/// All of it has to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    namespace: Option<String>,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selector {
    pub fn in_namespace(namespace: Option<&str>) -> Self {
        Self {
            namespace: namespace.map(str::to_owned),
            ..Self::default()
        }
    }

    /// Of the query parameters `labelSelector` and `fieldSelector`.
    pub fn parse(
        kind: &Kind,
        namespace: Option<&str>,
        labels: &str,
        fields: &str,
    ) -> Result<Self, Failure> {
        Ok(Self {
            namespace: namespace.map(str::to_owned),
            labels: LabelSelector::parse(labels)?,
            fields: FieldSelector::parse(kind, fields)?,
        })
    }

    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Whether it means all objects of its namespace.
    pub fn is_broad(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether an object is among those that are looked at: of some fields it is known at once who
    /// has which value.
    pub fn is_near(&self, object: &Stored) -> bool {
        let pivot = self.pivot();
        pivot.is_none_or(|(field, value)| object.field(field).unwrap_or_default() == &*value)
    }

    pub fn matches(&self, object: &Stored) -> bool {
        let in_namespace = |namespace: &String| namespace == object.namespace();
        let mut labels = self.labels.requirements().iter();
        self.namespace.as_ref().is_none_or(in_namespace)
            && self.fields.terms().all(|(field, value, equal)| {
                (object.field(field).unwrap_or_default() == value) == equal
            })
            && labels.all(|requirement| requirement.holds(object.label(&requirement.key)))
    }

    /// A field with one value, by which a watch with this selector can be found.
    pub(super) fn pivot(&self) -> Option<Pivot> {
        PIVOTS.iter().find_map(|field| {
            let value = self.fields.exact(field)?;
            Some((*field, value.into()))
        })
    }
}

pub(super) type Pivot = (&'static str, Box<str>);

/// The pivots by which watches of this object are found.
pub(super) fn pivots(object: &Stored) -> impl Iterator<Item = Pivot> + '_ {
    PIVOTS
        .iter()
        .filter_map(|field| Some((*field, object.field(field)?.into())))
}

#[cfg(test)]
mod tests;
