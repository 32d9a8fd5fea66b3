//! The images of a pod's containers: whether to pull one, when it is its turn,
//! with which credentials, and who may use what is on the machine already.
//!
//! In: requests of pods ([`Request`]), the runtime, the machine's files and the
//! clock through `seams`. Out: the runtime's name of the image ([`Ensured`]) or
//! why the container waits ([`Waiting`]), and events as data ([`Said`]) for
//! whoever records them. On disk: records of pulls, as upstream keeps them.
//!
//! What to do is decided by pure functions ([`policy`], [`backoff`], [`records`]);
//! [`pull`] only asks them, and the runtime. It must not know what a container is
//! made of, nor write to the API.
//!
//! Not here yet: removing images to make room, and with it the removal of their
//! records.

pub mod backoff;
pub mod config;
pub mod credentials;
mod limits;
mod metrics;
pub mod policy;
pub mod pull;
pub mod records;
pub mod reference;

#[cfg(test)]
mod testing;

pub use config::Config;
pub use metrics::Metrics;
pub use policy::{PullPolicy, Reason, Said, Waiting};
pub use pull::{Ensured, Images, Parts, Request};
