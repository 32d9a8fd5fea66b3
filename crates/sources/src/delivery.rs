//! What a source hands over.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use types::PodUid;
pub use types::desired::Source;

/// All pods of one source.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    pub source: Source,
    pub pods: Vec<Arc<Pod>>,
    /// Those that went last, and how many seconds they were given.
    pub departed: Vec<(PodUid, i64)>,
}

impl Delivery {
    /// Of a source that does not say when it takes a pod away.
    pub fn of(source: Source, pods: Vec<Arc<Pod>>) -> Self {
        Self {
            source,
            pods,
            departed: Vec::new(),
        }
    }
}
