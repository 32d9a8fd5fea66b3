//! What a node answers to those who ask it: its own port, on which everybody has to say
//! who they are and may do what the API server allows (`door`), the read-only port, the
//! port for health checks, and one for figures.
//!
//! In: addresses to listen on, the seams, the node's certificate, and what is answered
//! with. Out: answers like the upstream kubelet's, down to headers and bodies.
//!
//! It must not know what a node does, nor which machine it runs on: what it
//! answers with is passed in.

mod answer;
mod body;
mod door;
mod figures;
mod healthz;
mod listen;
mod logs;
mod metrics;
mod packed;
mod pod_resources;
mod process;
mod query;
mod seats;
mod small;
pub mod stats;
mod streams;

pub use body::{Body, full};
pub use door::{
    AuthenticationConfig, AuthorizationConfig, Door, DoorConfig, DoorConfigError, DoorError,
    DoorFoundations, Endpoints, Handlers, Line, PathWords, TlsConfig, TlsSetupError, TrustError,
};
pub use figures::{About, Figures, Slis};
pub use listen::{BindError, PlainPort, Purpose};
pub use logs::{ContainerLogs, ContainerLogsConfig, NodeLogs};
pub use pod_resources::{GivenPod, GivenPods, PodResources};
pub use process::{Process, Profiler, Profiling};
pub use small::configz::Configz;
pub use small::debug::{Debugging, Running};
pub use small::health::{Check, Health, Notes};
pub use small::pods::PodLists;
pub use small::zpages::ZPages;
pub use streams::{StreamParts, Streams};
