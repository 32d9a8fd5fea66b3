//! A disk that takes no more while a pair is being stored.
//!
//! In: a process that may write a hundred bytes to a file and no more, as a full
//! disk or a quota would have it, and a store with a pair. Out: a verdict on what
//! the failed update leaves behind. It needs no root and no disk of its own.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "the limited process is this test once more, told so by its environment"
)]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use identity::serving::self_signed;
use identity::store::Location;
use identity::{Pair, PairStore};
use jiff::tz::TimeZone;

const NAME: &str = "a_full_disk_leaves_the_earlier_pair_in_use_and_no_key_lying_about";
/// Set for the process that has the limit: the directory of the store.
const LIMITED: &str = "FERROLET_TEST_FULL_DISK";
/// The write's signal is ignored, so that the write itself fails.
const LIMIT: &str = r#"trap '' XFSZ; exec prlimit --fsize=100 "$@""#;

fn store(directory: &Path) -> PairStore {
    PairStore::open(Location {
        directory: directory.to_owned(),
        prefix: "kubelet-client".to_owned(),
        fallback: None,
        zone: TimeZone::UTC,
    })
    .unwrap()
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000 + seconds)
}

fn pair(name: &str) -> Pair {
    self_signed(name, at(0)).unwrap()
}

fn names(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    names.sort_unstable();
    names
}

#[test]
fn a_full_disk_leaves_the_earlier_pair_in_use_and_no_key_lying_about() {
    if let Some(directory) = env::var_os(LIMITED) {
        return fail_to_store(Path::new(&directory));
    }
    let root = tempfile::tempdir().unwrap();
    let store = store(root.path());
    let first = pair("first");
    store.update(&first, at(1)).unwrap();
    let before = names(root.path());

    let output = Command::new("sh")
        .args(["-c", LIMIT, "sh"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture"])
        .env(LIMITED, root.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said} {output:?}");
    assert!(said.contains("1 passed"), "the limited process ran: {said}");

    assert_eq!(names(root.path()), before);
    assert_eq!(store.current().unwrap().unwrap().chain(), first.chain());
    let third = pair("third");
    store.update(&third, at(3)).unwrap();
    assert_eq!(store.current().unwrap().unwrap().chain(), third.chain());
}

fn fail_to_store(directory: &Path) {
    let store = store(directory);
    let error = store.update(&pair("second"), at(2)).unwrap_err();
    let error = error.to_string();
    let expected = "kubelet-client-2027-01-15-08-00-02.pem.tmp: File too large";
    assert!(error.contains(expected), "{error}");
    assert!(error.contains("; raise the limit"), "{error}");
}
