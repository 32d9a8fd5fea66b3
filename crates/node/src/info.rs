//! What the node is made of, in words: versions and identifiers.

use k8s_openapi::api::core::v1::{NodeSwapStatus, NodeSystemInfo};
use seams::host::MachineFacts;

use crate::resources::saturated;
use crate::runtime::RuntimeFacts;

pub const OPERATING_SYSTEM: &str = "linux";

/// Brings `info` up to date. What is not known now stays as it was.
pub fn refresh(
    info: &mut NodeSystemInfo,
    machine: Option<&MachineFacts>,
    runtime: &RuntimeFacts,
    kubelet_version: &str,
) {
    if let Some(machine) = machine {
        info.machine_id.clone_from(&machine.machine_id);
        info.system_uuid.clone_from(&machine.system_uuid);
        info.boot_id.clone_from(&machine.boot_id);
        info.kernel_version.clone_from(&machine.kernel_release);
        info.os_image.clone_from(&machine.os_image);
        info.architecture.clone_from(&machine.architecture);
        // As upstream: swap that was turned off stays told of until somebody
        // makes the object anew.
        if machine.swap != 0 {
            info.swap = Some(NodeSwapStatus {
                capacity: Some(saturated(machine.swap)),
            });
        }
    }
    if !runtime.name.is_empty() {
        info.container_runtime_version = runtime_version(runtime);
    }
    kubelet_version.clone_into(&mut info.kubelet_version);
    OPERATING_SYSTEM.clone_into(&mut info.operating_system);
    // Cleared where an older kubelet has left one.
    info.kube_proxy_version.clear();
}

/// `containerd://2.1.9`.
pub fn runtime_version(runtime: &RuntimeFacts) -> String {
    let version = runtime.version.as_deref().and_then(plain_version);
    let version = version.unwrap_or_else(|| "Unknown".to_owned());
    format!("{}://{version}", runtime.name)
}

/// A version as upstream prints it again: without a leading `v`, and with what
/// follows the numbers only if that is semantic versioning. `None`: no version.
fn plain_version(text: &str) -> Option<String> {
    let text = text.trim_start();
    let text = text.strip_prefix('v').unwrap_or(text);
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let end = text.find(|c| !is_number(c)).unwrap_or(text.len());
    let (numbers, _) = text.split_at(end);
    let numbers = numbers.trim_end_matches('.');
    let extra = text.strip_prefix(numbers)?;
    semantic(numbers, extra).or_else(|| generic(numbers))
}

fn semantic(numbers: &str, extra: &str) -> Option<String> {
    let parts: Vec<&str> = numbers.split('.').collect();
    let plain =
        |part: &&str| part.parse::<u64>().is_ok() && (*part == "0" || !part.starts_with('0'));
    if parts.len() != 3 || !parts.iter().all(plain) {
        return None;
    }
    let extra = extra.trim_end();
    let (before, build) = match extra.split_once('+') {
        Some((before, build)) => (before, Some(build)),
        None => (extra, None),
    };
    let words = |text: &str| {
        let letter = |c: char| c.is_ascii_alphanumeric() || c == '-';
        text.split('.')
            .all(|word| !word.is_empty() && word.chars().all(letter))
    };
    let release = before.strip_prefix('-');
    let fits = release.map_or(before.is_empty(), words) && build.is_none_or(words);
    let numeric = |word: &str| word.parse::<u64>().is_ok() && word.starts_with('0') && word != "0";
    let zero_prefixed = release.is_some_and(|release| release.split('.').any(numeric));
    (fits && !zero_prefixed).then(|| format!("{numbers}{extra}"))
}

fn generic(numbers: &str) -> Option<String> {
    let parts: Vec<&str> = numbers.split('.').collect();
    let first_is_plain = parts
        .first()
        .is_some_and(|first| *first == "0" || !first.starts_with('0'));
    if parts.len() < 2 || !first_is_plain {
        return None;
    }
    let numbers: Option<Vec<u64>> = parts.iter().map(|part| part.parse().ok()).collect();
    let printed: Vec<String> = numbers?.iter().map(ToString::to_string).collect();
    Some(printed.join("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testdata::machine;

    #[test]
    fn a_runtime_version_is_printed_as_upstream_prints_it() {
        for (version, expected) in [
            (Some("2.1.9+unknown"), "2.1.9+unknown"),
            (Some("v2.1.0"), "2.1.0"),
            (Some("v2.0.0-rc.1"), "2.0.0-rc.1"),
            (Some("1.6.20~ds1"), "1.6.20"),
            (Some("1.30"), "1.30"),
            (Some("1.02.3"), "1.2.3"),
            (Some("2.1.9+"), "2.1.9"),
            (Some("7"), "Unknown"),
            (Some("unknown"), "Unknown"),
            (Some(""), "Unknown"),
            (None, "Unknown"),
        ] {
            let runtime = RuntimeFacts {
                name: "containerd".to_owned(),
                version: version.map(str::to_owned),
                ..RuntimeFacts::default()
            };
            let expected = format!("containerd://{expected}");
            assert_eq!(runtime_version(&runtime), expected, "{version:?}");
        }
    }

    #[test]
    fn what_is_not_known_now_stays_as_it_was() {
        let mut info = NodeSystemInfo {
            machine_id: "old".to_owned(),
            container_runtime_version: "containerd://1.0.0".to_owned(),
            kube_proxy_version: "v1.20.0".to_owned(),
            ..NodeSystemInfo::default()
        };
        refresh(&mut info, None, &RuntimeFacts::default(), "v1.36.4");
        assert_eq!(info.machine_id, "old");
        assert_eq!(info.container_runtime_version, "containerd://1.0.0");
        assert_eq!(info.kubelet_version, "v1.36.4");
        assert_eq!(info.kube_proxy_version, "");
    }

    #[test]
    fn swap_is_told_of_where_there_is_some() {
        for (swap, expected) in [(0, None), (1 << 30, Some(1 << 30))] {
            let mut machine = machine();
            machine.swap = swap;
            let mut info = NodeSystemInfo::default();
            refresh(&mut info, Some(&machine), &RuntimeFacts::default(), "");
            assert_eq!(info.swap.and_then(|swap| swap.capacity), expected);
        }
    }
}
