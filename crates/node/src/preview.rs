//! The node's object before there is one: what the API server will be told. Pods
//! that need no API server are let in by it.

use std::fmt;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::Node;
use seams::{SharedClock, SharedHost};
use tokio::sync::watch;

use crate::config::Config;
use crate::observe::{Observer, Reports};
use crate::posted::posted;
use crate::readiness::CsiNodeState;

/// One that can say what the node's object would be.
pub struct Preview {
    pub(crate) observer: Arc<Observer>,
}

impl fmt::Debug for Preview {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Preview").finish_non_exhaustive()
    }
}

impl Preview {
    /// Of a node that no API server knows of.
    pub fn new(config: Config, host: SharedHost, clock: SharedClock, reports: Reports) -> Self {
        let observer = Observer {
            config: Arc::new(config),
            host,
            clock,
            reports,
            csi_node: watch::channel(CsiNodeState::default()).1,
            said: Mutex::default(),
        };
        Self {
            observer: Arc::new(observer),
        }
    }

    /// The object, as the machine is now.
    pub async fn node(&self) -> Node {
        posted(&self.observer.config, &self.observer.look().await).node
    }
}
