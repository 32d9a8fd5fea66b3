//! What the container runtime says of itself, as whoever speaks with it
//! publishes it.

use std::time::Duration;

/// A snapshot of the container runtime. The default is what is known before the
/// first answer: nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeFacts {
    /// The runtime has been asked for its status, whatever came of it. Nothing is
    /// told of a node before that, lest one that is ready be called unready each
    /// time its agent starts.
    pub probed: bool,
    /// `containerd`, `cri-o`. Empty until the runtime has told it.
    pub name: String,
    /// As the runtime writes it. `None` while it does not answer.
    pub version: Option<String>,
    /// When a status last said that the runtime is ready, on the clock's uptime.
    /// An answer that says otherwise does not count, as upstream.
    pub last_good_status: Option<Duration>,
    /// Those of the newest status that was answered; `None` before the first.
    pub conditions: Option<Vec<RuntimeCondition>>,
    pub handlers: Vec<RuntimeHandler>,
    /// `None`: the runtime does not speak of its features.
    pub supplemental_groups_policy: Option<bool>,
    /// In any order. Empty if they could not be listed.
    pub images: Vec<RuntimeImage>,
}

/// One condition of the runtime's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeCondition {
    /// `RuntimeReady`, `NetworkReady`; others are not looked at.
    pub kind: String,
    pub status: bool,
    pub reason: String,
    pub message: String,
}

/// A way to run pods; the default one has no name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeHandler {
    pub name: String,
    pub recursive_read_only_mounts: bool,
    pub user_namespaces: bool,
}

/// An image that the runtime holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeImage {
    pub id: String,
    pub repo_digests: Vec<String>,
    pub repo_tags: Vec<String>,
    /// Bytes.
    pub size: u64,
}

pub const RUNTIME_READY: &str = "RuntimeReady";
pub const NETWORK_READY: &str = "NetworkReady";

impl RuntimeCondition {
    pub fn ready(kind: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            status: true,
            reason: String::new(),
            message: String::new(),
        }
    }
}

impl RuntimeFacts {
    /// Why pods cannot have a network of their own, in upstream's words.
    pub fn network_problem(&self) -> Option<String> {
        if self.conditions.is_none() {
            return Some("network state unknown".to_owned());
        }
        let lack = self.lack_of(NETWORK_READY)?;
        Some(format!("container runtime network not ready: {lack}"))
    }

    /// What keeps the condition `kind` from being true, in upstream's words. To
    /// be asked once a status has been answered.
    pub(crate) fn lack_of(&self, kind: &str) -> Option<String> {
        let conditions = self.conditions.as_deref().unwrap_or_default();
        let condition = conditions.iter().find(|condition| condition.kind == kind);
        match condition {
            Some(condition) if condition.status => None,
            Some(condition) => Some(format!(
                "{kind}=false reason:{} message:{}",
                condition.reason, condition.message
            )),
            // As Go prints a condition that is not there.
            None => Some("<nil>".to_owned()),
        }
    }
}
