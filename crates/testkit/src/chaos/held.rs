//! Containers that containerd holds: the agent was killed while it started them. containerd
//! says that they have ended, keeps a task for each, and refuses to remove a container that
//! has one (its issue 11037). Over CRI nobody can help it; containerd itself does, when it
//! is started anew.

use anyhow::{Context, Result};
use serde_json::Value;

use super::remains::Remains;
use crate::lab::Node;

/// How many of those that are left it holds.
pub(super) fn count(node: &Node, left: &Remains) -> Result<usize> {
    let mut count = 0;
    for container in &left.containers {
        let id = container.rsplit(' ').next().unwrap_or_default();
        let told = node.crictl(["inspect", "--output", "json", id])?;
        let told: Value = serde_json::from_str(&told).context("crictl did not print JSON")?;
        count += usize::from(is_held(&told["status"]));
    }
    Ok(count)
}

/// Its start was cut off after there was a task, and before that was known.
fn is_held(status: &Value) -> bool {
    let message = status["message"].as_str().unwrap_or_default();
    status["state"] == "CONTAINER_EXITED"
        && status["reason"] == "StartError"
        && message.contains("failed to get task pid: context canceled")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_container_is_held_if_its_start_was_cut_off_in_that_moment() {
        let cut_off =
            "failed to create containerd task: failed to get task pid: context canceled: unknown";
        for (state, reason, message, held) in [
            ("CONTAINER_EXITED", "StartError", cut_off, true),
            ("CONTAINER_RUNNING", "StartError", cut_off, false),
            ("CONTAINER_EXITED", "Error", cut_off, false),
            ("CONTAINER_EXITED", "StartError", "no such file", false),
        ] {
            let status = json!({ "state": state, "reason": reason, "message": message });
            assert_eq!(is_held(&status), held, "{status}");
        }
    }
}
