//! What this program calls itself.

use config::schema::RELEASE;

/// Our own version.
pub(crate) const FERROLET: &str = env!("CARGO_PKG_VERSION");

/// The kubelet's version, as nodes report it: the release whose behaviour we
/// follow, and ours behind it.
pub(crate) fn kubelet() -> String {
    format!("{RELEASE}+ferrolet.{FERROLET}")
}
