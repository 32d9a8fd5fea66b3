//! What every part of the node speaks: the values of the Kubernetes API and of
//! the kubelet's configuration, read and written exactly as upstream does.
//!
//! In: text, from manifests, configuration files, flags and API objects. Out:
//! typed values that compare, add up and print back in canonical form, and
//! errors that tell an operator what is allowed.
//!
//! Pure: this crate must not know of files, clocks, environment, runtimes or
//! API clients, and imports nothing of ours.

pub mod allocation;
pub mod cpu_set;
pub mod desired;
mod digits;
pub mod disk_figures;
pub mod duration;
pub mod eviction;
pub mod expand;
pub mod figures;
pub mod names;
pub mod node_selector;
pub mod observed;
pub mod pod;
pub mod pod_defaults;
pub mod qos;
pub mod quantity;
pub mod served;
pub mod taint;
pub mod volume_figures;

pub use allocation::PodResources;
pub use cpu_set::CpuSet;
pub use duration::GoDuration;
pub use pod::{PodName, PodRef, PodUid};
pub use qos::QosClass;
pub use quantity::Quantity;
pub use served::PodBook;
pub use taint::{Taint, TaintEffect};
