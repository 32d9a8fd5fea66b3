//! The small endpoints: what is a page of code each.

pub(crate) mod configz;
pub(crate) mod debug;
pub(crate) mod health;
mod negotiated;
pub(crate) mod pods;
pub(crate) mod zpages;
