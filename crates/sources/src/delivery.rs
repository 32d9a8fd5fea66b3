//! What a source hands over.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
pub use types::desired::Source;

/// All pods of one source.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    pub source: Source,
    pub pods: Vec<Arc<Pod>>,
}
