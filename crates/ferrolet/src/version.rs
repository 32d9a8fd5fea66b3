//! What this program calls itself.

use config::schema::RELEASE;

/// Our own version.
pub(crate) const FERROLET: &str = env!("CARGO_PKG_VERSION");

/// The kubelet's version, as nodes report it: the release whose behaviour we
/// follow, and ours behind it.
pub(crate) fn kubelet() -> String {
    format!("{RELEASE}+ferrolet.{FERROLET}")
}

/// What API servers see of this program, in the form of upstream's.
pub(crate) fn user_agent() -> String {
    let (system, machine) = (std::env::consts::OS, std::env::consts::ARCH);
    let machine = match machine {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!(
        "kubelet/{} ({system}/{machine}) ferrolet/{FERROLET}",
        kubelet()
    )
}
