//! Selectors of labels and fields: read and matched as upstream does. Pure.

mod fields;
mod labels;

pub use fields::FieldSelector;
pub use labels::{LabelSelector, Operator, Requirement};
