//! What a source hands over.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

/// Where a pod comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    File,
    Http,
    Api,
}

impl Source {
    /// As annotations and events have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Http => "http",
            Self::Api => "api",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// All pods of one source.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    pub source: Source,
    pub pods: Vec<Arc<Pod>>,
}
