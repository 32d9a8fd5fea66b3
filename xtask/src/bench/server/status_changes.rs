//! How soon the API server hears of containers that end.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use testkit::lab::Node;
use testkit::watch::PodWatch;

const HEARD: Duration = Duration::from_secs(30);

/// A pod of one container, whose first process can be ended from outside.
pub(super) struct Mortal {
    pod: String,
    /// By the node's ids.
    process: String,
}

impl Mortal {
    pub(super) fn pod(&self) -> &str {
        &self.pod
    }

    /// Those of a namespace, by their names.
    pub(super) fn all(node: &Node, namespace: &str) -> Result<Vec<Self>> {
        let label = format!("io.kubernetes.pod.namespace={namespace}");
        let ids = node.crictl(["ps", "--quiet", "--label", &label])?;
        let template = r#"{{index .status.labels "io.kubernetes.pod.name"}} {{.info.pid}}"#;
        let of = |id: &str| -> Result<Self> {
            let words = [
                "inspect",
                "--output=go-template",
                "--template",
                template,
                id,
            ];
            let said = node.crictl(words)?;
            let (pod, process) = said.trim().split_once(' ').context("crictl inspect")?;
            Ok(Self {
                pod: pod.to_owned(),
                process: process.to_owned(),
            })
        };
        let mut all: Vec<Self> = ids.lines().map(of).collect::<Result<_>>()?;
        all.sort_by(|one, other| one.pod.cmp(&other.pod));
        Ok(all)
    }
}

/// Ends one after the other; how long it took until the API server said so.
pub(super) fn end(node: &Node, watch: &mut PodWatch, mortals: &[Mortal]) -> Result<Vec<Duration>> {
    let end = |mortal: &Mortal| {
        let begun = Instant::now();
        node.machine().run("kill", ["-KILL", &mortal.process])?;
        let heard = watch.until_ended(&mortal.pod, HEARD)?;
        Ok(heard.saturating_duration_since(begun))
    };
    mortals.iter().map(end).collect()
}

/// What 95 of 100 do not exceed.
pub(super) fn p95(times: &[Duration]) -> Option<Duration> {
    let mut times = times.to_vec();
    times.sort();
    let rank = (times.len() * 95).div_ceil(100);
    times.get(rank.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_twenty_may_be_slower() {
        let times = |count: u64| {
            (1..=count)
                .rev()
                .map(Duration::from_secs)
                .collect::<Vec<_>>()
        };
        for (count, wanted) in [(1, 1), (20, 19), (50, 48), (100, 95)] {
            assert_eq!(p95(&times(count)), Some(Duration::from_secs(wanted)));
        }
        assert_eq!(p95(&[]), None);
    }
}
