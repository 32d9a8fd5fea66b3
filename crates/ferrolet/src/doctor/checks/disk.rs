//! Whether disks have what eviction keeps free.

use std::path::PathBuf;

use node::allocatable::Threshold;
use seams::host::DiskFigures;
use types::Quantity;
use types::quantity::Format;

use crate::doctor::finding::Finding;

/// How much more than the threshold is worth a word: a fifth.
const NEAR: u64 = 5;

#[derive(Clone, Debug)]
pub(in crate::doctor) struct Facts {
    pub(in crate::doctor) disks: Vec<Disk>,
    /// `evictionHard`: signals and what must stay free.
    pub(in crate::doctor) thresholds: Vec<(String, String)>,
}

/// A file system that the node lives on.
#[derive(Clone, Debug)]
pub(in crate::doctor) struct Disk {
    /// As signals name it.
    pub(in crate::doctor) name: &'static str,
    pub(in crate::doctor) path: PathBuf,
    pub(in crate::doctor) figures: DiskFigures,
}

pub(in crate::doctor) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (signal, text) in &facts.thresholds {
        let Some((name, what)) = signal.split_once('.') else {
            continue;
        };
        let disk = facts.disks.iter().find(|disk| disk.name == name);
        findings.extend(disk.and_then(|disk| one(disk, what, signal, text)));
    }
    findings
}

fn one(disk: &Disk, what: &str, signal: &str, text: &str) -> Option<Finding> {
    let figures = &disk.figures;
    let (free, all) = match what {
        "available" => (figures.available, figures.capacity),
        "inodesFree" => (figures.inodes_free, figures.inodes),
        _ => return None,
    };
    // A file system that does not count its inodes has no end of them.
    if all == 0 {
        return None;
    }
    let kept = Threshold::read(text)?.of(&amount(all));
    let kept = u64::try_from(kept.value()).unwrap_or_default();
    let share = free.saturating_mul(100) / all;
    let unit = if what == "available" {
        format!("{} of {}", bytes(free), bytes(all))
    } else {
        format!("{free} of {all} inodes")
    };
    let object = format!("{} ({})", disk.name, disk.path.display());
    let seen = format!("{unit} ({share} %) are free, and evictionHard {signal} is {text}");
    let finding = if free < kept {
        Finding::error(object, format!("{seen}: pods are evicted, and none start"))
    } else if free - kept < kept / NEAR {
        Finding::warning(object, format!("{seen}: that is near"))
    } else {
        return None;
    };
    Some(finding.mended_by(mending(disk)))
}

fn mending(disk: &Disk) -> String {
    let path = disk.path.display();
    match disk.name {
        "imagefs" => "crictl rmi --prune".to_owned(),
        _ => format!(
            "du --one-file-system --human-readable --max-depth=3 {path} | sort --human-numeric-sort | tail"
        ),
    }
}

fn amount(value: u64) -> Quantity {
    Quantity::new(i64::try_from(value).unwrap_or(i64::MAX), Format::BinarySi)
}

/// In the unit in which it has one to four digits.
fn bytes(count: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut left = count;
    let mut unit = 0;
    while left >= 10_000 && unit + 1 < units.len() {
        left /= 1024;
        unit += 1;
    }
    format!("{left} {}", units[unit])
}

pub(in crate::doctor) fn told(facts: &Facts) -> String {
    let disks = facts.disks.iter().map(|disk| {
        let DiskFigures {
            available,
            capacity,
            ..
        } = disk.figures;
        let share = available.saturating_mul(100) / capacity.max(1);
        format!("{} {} ({share} %) free", disk.name, bytes(available))
    });
    disks.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::checks::testing::summary;

    fn facts(available: u64, inodes_free: u64, threshold: (&str, &str)) -> Facts {
        let disk = |name| Disk {
            name,
            path: "/var/lib/x".into(),
            figures: DiskFigures {
                capacity: 100 << 30,
                available: available << 30,
                inodes: 1000,
                inodes_free,
            },
        };
        Facts {
            disks: vec![disk("nodefs"), disk("imagefs")],
            thresholds: vec![(threshold.0.to_owned(), threshold.1.to_owned())],
        }
    }

    #[test]
    fn a_disk_has_what_eviction_keeps_free() {
        for (available, inodes, threshold, expected) in [
            (50, 900, ("nodefs.available", "10%"), ""),
            (50, 900, ("memory.available", "100Mi"), ""),
            (3, 900, ("nodefs.available", "0%"), ""),
            (
                9,
                900,
                ("nodefs.available", "10%"),
                "error nodefs (/var/lib/x): 9216 MiB of 100 GiB (9 %) are free",
            ),
            (11, 900, ("nodefs.available", "10%"), "warning nodefs"),
            (9, 900, ("imagefs.available", "20Gi"), "error imagefs"),
            (
                50,
                40,
                ("nodefs.inodesFree", "5%"),
                "error nodefs (/var/lib/x): 40 of 1000 inodes",
            ),
        ] {
            let found = summary(&judge(&facts(available, inodes, threshold)));
            assert_eq!(
                found.is_empty(),
                expected.is_empty(),
                "{threshold:?}: {found:?}"
            );
            if let Some(found) = found.first() {
                assert!(found.starts_with(expected), "{found}");
            }
        }
        let full = judge(&facts(1, 900, ("imagefs.available", "10%")));
        assert_eq!(full[0].command.as_deref(), Some("crictl rmi --prune"));
    }

    #[test]
    fn a_disk_that_does_not_count_inodes_has_enough() {
        let mut facts = facts(50, 0, ("nodefs.inodesFree", "5%"));
        facts.disks[0].figures.inodes = 0;
        assert_eq!(judge(&facts), []);
    }
}
