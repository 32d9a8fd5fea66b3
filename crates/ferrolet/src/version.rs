//! What this program calls itself.

use config::schema::RELEASE;

/// Our own version.
pub(crate) const FERROLET: &str = env!("CARGO_PKG_VERSION");

/// The kubelet's version, as nodes report it: the release whose behaviour we
/// follow, and ours behind it.
pub(crate) fn kubelet() -> String {
    format!("{RELEASE}+ferrolet.{FERROLET}")
}

/// What API servers see of a node, in the form of upstream's.
pub(crate) fn user_agent() -> String {
    format!("kubelet/{} ({}) ferrolet/{FERROLET}", kubelet(), platform())
}

/// What API servers see of a command that somebody has typed.
pub(crate) fn command_user_agent() -> String {
    format!("ferrolet/{FERROLET} ({})", platform())
}

/// Go's names for the system and the machine.
fn platform() -> String {
    let machine = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{}/{machine}", std::env::consts::OS)
}
