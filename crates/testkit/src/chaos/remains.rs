//! What pods leave on a node until somebody takes it away.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::lab::Node;

const KUBELET: &str = "/var/lib/kubelet";
const LOGS: [&str; 2] = ["/var/log/pods", "/var/log/containers"];
const CGROUPS: &str = "/sys/fs/cgroup";
/// Of each kind, this many are named in a message.
const NAMED: usize = 5;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Remains {
    pub(super) sandboxes: BTreeSet<String>,
    pub(super) containers: BTreeSet<String>,
    /// Below the agent's directory.
    pub(super) mounts: BTreeSet<String>,
    pub(super) cgroups: BTreeSet<String>,
    /// The directories of pods, with their volumes.
    pub(super) directories: BTreeSet<String>,
    pub(super) logs: BTreeSet<String>,
}

impl Remains {
    pub(super) fn take(node: &Node) -> Result<Self> {
        let machine = node.machine();
        let mountinfo = format!("/proc/{}/mountinfo", machine.init().as_raw_nonzero());
        let mut logs = BTreeSet::new();
        for place in LOGS {
            logs.extend(entries(&machine.root(place), place)?);
        }
        Ok(Self {
            sandboxes: listed(&node.crictl(["pods", "--output", "json"])?, "items")?,
            containers: listed(
                &node.crictl(["ps", "--all", "--output", "json"])?,
                "containers",
            )?,
            mounts: mounts_below(KUBELET, &fs::read_to_string(mountinfo)?),
            cgroups: pod_cgroups(&machine.root(CGROUPS))?,
            directories: entries(&machine.root(&format!("{KUBELET}/pods")), "pods")?,
            logs,
        })
    }

    /// What is here and was not in `before`.
    pub(super) fn beyond(&self, before: &Self) -> Self {
        Self {
            sandboxes: &self.sandboxes - &before.sandboxes,
            containers: &self.containers - &before.containers,
            mounts: &self.mounts - &before.mounts,
            cgroups: &self.cgroups - &before.cgroups,
            directories: &self.directories - &before.directories,
            logs: &self.logs - &before.logs,
        }
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.kinds().iter().all(|(_, there)| there.is_empty())
    }

    /// Kinds of which nothing is there: a look that sees nothing of pods that
    /// run would find no leak either.
    pub(super) fn unseen(&self) -> Vec<&'static str> {
        let empty =
            |(kind, there): (&'static str, &BTreeSet<String>)| there.is_empty().then_some(kind);
        self.kinds().into_iter().filter_map(empty).collect()
    }

    fn kinds(&self) -> [(&'static str, &BTreeSet<String>); 6] {
        [
            ("sandboxes", &self.sandboxes),
            ("containers", &self.containers),
            ("mounts", &self.mounts),
            ("cgroups", &self.cgroups),
            ("directories", &self.directories),
            ("logs", &self.logs),
        ]
    }
}

impl fmt::Display for Remains {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (kind, there) in self.kinds() {
            if there.is_empty() {
                continue;
            }
            let named: Vec<&str> = there.iter().take(NAMED).map(String::as_str).collect();
            let more = if there.len() > NAMED { ", …" } else { "" };
            write!(
                formatter,
                "{separator}{} {kind} ({}{more})",
                there.len(),
                named.join(", ")
            )?;
            separator = "; ";
        }
        Ok(())
    }
}

/// What crictl lists, so that a person can tell what it is.
fn listed(json: &str, field: &str) -> Result<BTreeSet<String>> {
    let list: Value = serde_json::from_str(json).context("crictl did not print JSON")?;
    let items = list[field].as_array().into_iter().flatten();
    Ok(items
        .map(|item| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let pod = text(&item["labels"]["io.kubernetes.pod.name"]);
            let (name, attempt) = (&item["metadata"]["name"], &item["metadata"]["attempt"]);
            let attempt = attempt.as_u64().unwrap_or_default();
            format!("{pod}/{}/{attempt} {}", text(name), text(&item["id"]))
        })
        .collect())
}

fn mounts_below(top: &str, mountinfo: &str) -> BTreeSet<String> {
    let points = mountinfo.lines().filter_map(|line| line.split(' ').nth(4));
    let below = |point: &&str| {
        point
            .strip_prefix(top)
            .is_some_and(|rest| rest.starts_with('/'))
    };
    points.filter(below).map(str::to_owned).collect()
}

/// Every cgroup of a pod, in every hierarchy. What is below it goes with it.
fn pod_cgroups(top: &Path) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut unread = vec![top.to_path_buf()];
    while let Some(dir) = unread.pop() {
        let entries = match fs::read_dir(&dir) {
            // It went while we looked.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            entries => entries.with_context(|| format!("cannot read {}", dir.display()))?,
        };
        for entry in entries.flatten() {
            // A second name for a hierarchy is a link: it is not followed.
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let path = entry.path();
            if is_pod_cgroup(&entry.file_name().to_string_lossy()) {
                let below = path.strip_prefix(top).unwrap_or(&path);
                found.insert(below.display().to_string());
            } else {
                unread.push(path);
            }
        }
    }
    Ok(found)
}

/// `pod<uid>`, or a systemd slice that ends so, with underscores. A static
/// pod's uid is a hash.
fn is_pod_cgroup(name: &str) -> bool {
    let name = name.strip_suffix(".slice").unwrap_or(name);
    let Some((_, uid)) = name.rsplit_once("pod") else {
        return false;
    };
    let of_uid = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-' || byte == b'_';
    uid.len() >= 32 && uid.bytes().all(of_uid)
}

fn entries(dir: &Path, shown: &str) -> Result<BTreeSet<String>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeSet::new()),
        entries => entries.with_context(|| format!("cannot read {}", dir.display()))?,
    };
    Ok(entries
        .flatten()
        .map(|entry| format!("{shown}/{}", entry.file_name().to_string_lossy()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "4b4c2852-691f-4eff-b98a-87166c78af04";

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn pods_are_told_from_what_holds_them_by_the_names_of_their_cgroups() {
        let slice = UID.replace('-', "_");
        let cases = [
            (format!("pod{UID}"), true),
            (format!("kubepods-besteffort-pod{slice}.slice"), true),
            ("pod0123456789abcdef0123456789abcdef".to_owned(), true),
            ("kubepods".to_owned(), false),
            ("kubepods-burstable.slice".to_owned(), false),
            ("besteffort".to_owned(), false),
            ("podman".to_owned(), false),
            (UID.to_owned(), false),
        ];
        for (name, expected) in cases {
            assert_eq!(is_pod_cgroup(&name), expected, "{name}");
        }
    }

    #[test]
    fn cgroups_of_pods_are_found_in_every_hierarchy_and_only_once() {
        let top = tempfile::tempdir().unwrap();
        for hierarchy in ["memory", "pids"] {
            let pod = format!("{hierarchy}/kubepods/besteffort/pod{UID}/0123");
            fs::create_dir_all(top.path().join(pod)).unwrap();
        }
        std::os::unix::fs::symlink("pids", top.path().join("other")).unwrap();
        let found = pod_cgroups(top.path()).unwrap();
        let of = |hierarchy| format!("{hierarchy}/kubepods/besteffort/pod{UID}");
        assert_eq!(found, BTreeSet::from([of("memory"), of("pids")]));
    }

    #[test]
    fn only_mounts_below_the_agents_directory_count() {
        let mountinfo = "\
1 0 0:1 / / rw - ext4 /dev/a rw
2 1 0:2 / /var/lib/kubelet rw shared:1 - ext4 /dev/a rw
3 2 0:3 / /var/lib/kubelet/pods/x/volumes/y rw - tmpfs tmpfs rw
4 1 0:4 / /var/lib/kubelet-other/z rw - tmpfs tmpfs rw
";
        assert_eq!(
            mounts_below("/var/lib/kubelet", mountinfo),
            set(&["/var/lib/kubelet/pods/x/volumes/y"])
        );
    }

    #[test]
    fn what_crictl_lists_is_named_by_pod_container_attempt_and_id() {
        let json = r#"{"containers": [{"id": "c1", "metadata": {"name": "main", "attempt": 2},
            "labels": {"io.kubernetes.pod.name": "web"}}]}"#;
        assert_eq!(listed(json, "containers").unwrap(), set(&["web/main/2 c1"]));
        assert!(listed(r#"{"items": []}"#, "items").unwrap().is_empty());
    }

    #[test]
    fn only_what_came_since_is_left_behind() {
        let before = Remains {
            mounts: set(&["old"]),
            logs: set(&["gone since"]),
            ..Remains::default()
        };
        let now = Remains {
            mounts: set(&["old", "new"]),
            ..Remains::default()
        };
        let left = now.beyond(&before);
        assert!(!left.is_nothing());
        assert_eq!(left.to_string(), "1 mounts (new)");
        assert!(before.beyond(&now).mounts.is_empty());
        assert!(now.beyond(&now).is_nothing());
    }

    #[test]
    fn a_kind_of_which_nothing_is_seen_is_named() {
        let seen = Remains {
            sandboxes: set(&["a"]),
            containers: set(&["a"]),
            mounts: set(&["a"]),
            cgroups: set(&["a"]),
            directories: BTreeSet::new(),
            logs: set(&["a"]),
        };
        assert_eq!(seen.unseen(), ["directories"]);
    }
}
