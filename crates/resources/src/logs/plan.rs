//! What becomes of the files of a log when it is rotated. The names are upstream's:
//! `0.log` is written to, `0.log.20260102-030405` was before, and those before that
//! one are `….gz`.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jiff::Timestamp;
use jiff::tz::TimeZone;

const PACKED: &str = ".gz";
const UNFINISHED: &str = ".tmp";

/// What to do in a log's directory, by names in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// First of all, the oldest first: whoever reads a log from its beginning loses
    /// least.
    pub(super) remove: Vec<String>,
    /// The name that the log gets.
    pub(super) rotated: String,
    /// Last of all. The newest is not among them: somebody may read it to its end.
    pub(super) compress: Vec<String>,
}

/// Where a file is packed, and into what.
pub(super) struct Packing {
    pub(super) file: PathBuf,
    pub(super) beside: PathBuf,
    pub(super) into: PathBuf,
}

impl Packing {
    pub(super) fn of(directory: &Path, name: &str) -> Self {
        Self {
            file: directory.join(name),
            beside: directory.join(format!("{name}{UNFINISHED}")),
            into: directory.join(format!("{name}{PACKED}")),
        }
    }
}

/// What to do with a log, given the files in its directory. `None`: it has been rotated
/// in this very second, and what was rotated then has the name.
pub(super) fn plan(files: &[String], log: &str, second: &str, most_files: usize) -> Option<Plan> {
    let before = format!("{log}.");
    let mut parts: Vec<&String> = files
        .iter()
        .filter(|file| file.starts_with(&before))
        .collect();
    parts.sort();
    let rotated = format!("{log}.{second}");
    let packed = format!("{rotated}{PACKED}");
    if parts
        .iter()
        .any(|part| **part == rotated || **part == packed)
    {
        return None;
    }
    let (used, unused): (Vec<&String>, Vec<&String>) =
        parts.iter().partition(|part| is_used(part, &parts));
    // Beside the one that is written to, and the one that was until now.
    let kept = most_files.saturating_sub(2).min(used.len());
    let (excess, kept) = used.split_at(used.len() - kept);
    let owned = |names: &[&String]| names.iter().map(|name| (*name).clone()).collect::<Vec<_>>();
    let mut compress = owned(kept);
    compress.retain(|name| !name.ends_with(PACKED));
    Some(Plan {
        remove: [owned(&unused), owned(excess)].concat(),
        rotated,
        compress,
    })
}

/// Not what an earlier rotation was about to make, nor what it has packed already.
fn is_used(part: &str, all: &[&String]) -> bool {
    let packed = format!("{part}{PACKED}");
    !part.ends_with(UNFINISHED) && !all.iter().any(|other| **other == packed)
}

/// The moment, as it is in a rotated log's name: to the second, as the node's people
/// tell the time.
pub(super) fn second(now: SystemTime, zone: &TimeZone) -> String {
    let now = Timestamp::try_from(now).unwrap_or_default();
    let local = now.to_zoned(zone.clone());
    local.strftime("%Y%m%d-%H%M%S").to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: &str = "20260102-030405";

    struct Case {
        name: &'static str,
        files: &'static [&'static str],
        most_files: usize,
        remove: &'static [&'static str],
        compress: &'static [&'static str],
    }

    const CASES: &[Case] = &[
        Case {
            name: "the first rotation has nothing to do but to rename",
            files: &["0.log", "1.log.20250101-000000", "0.logs"],
            most_files: 5,
            remove: &[],
            compress: &[],
        },
        Case {
            name: "what was rotated the last time is packed",
            files: &["0.log", "0.log.20260102-030400"],
            most_files: 5,
            remove: &[],
            compress: &["0.log.20260102-030400"],
        },
        Case {
            name: "packed ones stay up to the limit, and the oldest go, the oldest first",
            files: &[
                "0.log",
                "0.log.20260102-030002.gz",
                "0.log.20260102-030001.gz",
                "0.log.20260102-030003.gz",
                "0.log.20260102-030004",
            ],
            most_files: 4,
            remove: &["0.log.20260102-030001.gz", "0.log.20260102-030002.gz"],
            compress: &["0.log.20260102-030004"],
        },
        Case {
            name: "with two files nothing old stays",
            files: &["0.log", "0.log.20260102-030004"],
            most_files: 2,
            remove: &["0.log.20260102-030004"],
            compress: &[],
        },
        Case {
            name: "what a crash left goes: unfinished ones, and pairs of which one is packed",
            files: &[
                "0.log",
                "0.log.20260102-030001.tmp",
                "0.log.20260102-030002",
                "0.log.20260102-030002.gz",
                "0.log.20260102-030003",
                "0.log.20260102-030003.tmp",
            ],
            most_files: 5,
            remove: &[
                "0.log.20260102-030001.tmp",
                "0.log.20260102-030002",
                "0.log.20260102-030003.tmp",
            ],
            compress: &["0.log.20260102-030003"],
        },
    ];

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_log_is_rotated_as_its_directory_demands() {
        for case in CASES {
            let found = plan(&owned(case.files), "0.log", NOW, case.most_files);
            let wanted = Plan {
                remove: owned(case.remove),
                rotated: "0.log.20260102-030405".to_owned(),
                compress: owned(case.compress),
            };
            assert_eq!(found, Some(wanted), "{}", case.name);
        }
    }

    #[test]
    fn a_name_that_is_taken_is_not_taken_again() {
        for taken in ["0.log.20260102-030405", "0.log.20260102-030405.gz"] {
            let files = owned(&["0.log", taken]);
            assert_eq!(plan(&files, "0.log", NOW, 5), None, "{taken}");
        }
    }

    #[test]
    fn the_second_is_told_in_the_nodes_own_time() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_323_045);
        assert_eq!(second(now, &TimeZone::UTC), "20260102-030405");
        let east = TimeZone::fixed(jiff::tz::offset(5));
        assert_eq!(second(now, &east), "20260102-080405");
    }
}
