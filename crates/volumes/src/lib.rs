//! The volumes of pods: what is in them, where they are on the machine, and that
//! they are there when containers start and gone when the pod is.
//!
//! In: pods, the objects that they refer to (`api`), what the node can give to
//! pods, and the machine's disks and clock through `seams`. Out: paths for
//! containers, errors in upstream's words, and when to look again.
//!
//! What is in a volume is decided by pure functions, one file per kind; a set of
//! steps on the disk follows, each of which may be repeated. It must not know of
//! containers' states nor of the runtime: it is told which pods are to have their
//! volumes and which are not any more.

mod attached;
mod claimed;
mod claims;
mod cluster_trust_bundle;
pub mod config_map;
pub mod downward_api;
mod empty_dir;
pub mod field;
mod figures;
mod host_path;
mod huge_pages;
mod kind;
pub mod layout;
mod local;
mod metrics;
mod nested;
mod notice;
mod objects;
mod on_disk;
mod one_at_a_time;
pub mod ownership;
mod payload;
mod persistent;
mod pod;
pub mod projected;
pub mod resource_field;
pub mod secret;
mod service_account_token;
mod setup;
mod snapshot;
mod sub_path;
#[cfg(test)]
mod testing;
pub mod tokens;
mod volumes;

pub use attached::{AttachError, InUse};
pub use claims::{ClaimError, ClaimProblem, Claims};
pub use cluster_trust_bundle::TrustAnchorsError;
pub use empty_dir::MediumError;
pub use figures::{Counting, DEFAULT_PERIOD};
pub use host_path::HostPathError;
pub use huge_pages::HugePagesError;
pub use kind::UnsupportedKind;
pub use layout::{Layout, Plugin};
pub use local::LocalError;
pub use metrics::Metrics;
pub use nested::BadMountPoint;
pub use notice::Notice;
pub use objects::{ApiObjects, Objects, Trust};
pub use on_disk::{PodOnDisk, UnmountError, VolumeOnDisk};
pub use payload::{DEFAULT_MODE, Payload, PayloadError};
pub use persistent::Refusal;
pub use pod::FileOwners;
pub use resource_field::Allocatable;
pub use setup::{MountedVolume, VolumeProblem};
pub use snapshot::Snapshot;
pub use sub_path::{SubPathFailure, SubPathProblem};
pub use tokens::Tokens;
pub use volumes::{Foundations, MountError, Mounted, VolumeFailure, Volumes};
