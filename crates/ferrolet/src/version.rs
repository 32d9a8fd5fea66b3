//! What this program calls itself.

/// Our own version.
pub(crate) const FERROLET: &str = env!("CARGO_PKG_VERSION");

/// The kubelet's version, as nodes report it: the release whose behaviour we
/// follow, and ours behind it.
pub(crate) const KUBELET: &str = concat!("v1.36.4+ferrolet.", env!("CARGO_PKG_VERSION"));
