use std::os::unix::fs::{PermissionsExt, symlink};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::keys::PrivateKey;
use crate::testdata::{at, pair};

const NOW: u64 = 1_763_186_855; // 2025-11-15 06:07:35 UTC
const PREFIX: &str = "kubelet-client";

struct Lab {
    root: TempDir,
}

impl Lab {
    fn new() -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
        }
    }

    fn location(&self) -> Location {
        Location {
            directory: self.root.path().join("pki"),
            prefix: PREFIX.to_owned(),
            fallback: None,
            zone: TimeZone::UTC,
        }
    }

    fn open(&self) -> PairStore {
        PairStore::open(self.location()).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join("pki").join(name)
    }

    fn put(&self, name: &str, content: &str) {
        fs::create_dir_all(self.root.path().join("pki")).unwrap();
        fs::write(self.path(name), content).unwrap();
    }

    fn link(&self, target: &str, name: &str) {
        symlink(self.path(target), self.path(name)).unwrap();
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.root.path().join("pki")).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort_unstable();
        names
    }
}

fn current_name(store: &PairStore) -> Option<String> {
    let pair = store.current().unwrap();
    pair.map(|pair| pair.leaf().common_name.clone())
}

fn combined(common_name: &str) -> String {
    pair(common_name, at(NOW), 1_000).to_combined_pem().unwrap()
}

#[test]
fn a_stored_pair_lies_in_a_dated_file_behind_a_link() {
    let lab = Lab::new();
    let store = lab.open();
    assert_eq!(current_name(&store), None);
    let stored = pair("first", at(NOW), 1_000);
    let file = store.update(&stored, at(NOW)).unwrap();

    let dated = "kubelet-client-2025-11-15-06-07-35.pem";
    assert_eq!(file, lab.path(dated));
    assert_eq!(lab.names(), [dated, "kubelet-client-current.pem"]);
    let target = fs::read_link(store.current_path()).unwrap();
    assert_eq!(target, file, "absolute");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&file), 0o600);
    assert_eq!(mode(&lab.root.path().join("pki")), 0o755);
    let text = fs::read_to_string(&file).unwrap();
    let key = text.find("-----BEGIN EC PRIVATE KEY-----").unwrap();
    assert!(text.starts_with("-----BEGIN CERTIFICATE-----") && key > 0);
    assert_eq!(store.current().unwrap().unwrap().chain(), stored.chain());

    store
        .update(&pair("second", at(NOW), 9), at(NOW + 1))
        .unwrap();
    assert_eq!(current_name(&store).as_deref(), Some("second"));
    store
        .update(&pair("same second", at(NOW), 9), at(NOW + 1))
        .unwrap();
    assert_eq!(current_name(&store).as_deref(), Some("same second"));
    assert_eq!(lab.names().len(), 3);
}

#[test]
fn file_names_carry_the_local_time() {
    let lab = Lab::new();
    let mut location = lab.location();
    location.zone = TimeZone::fixed(jiff::tz::offset(5));
    let store = PairStore::open(location).unwrap();
    let file = store.update(&pair("a", at(NOW), 9), at(NOW)).unwrap();
    assert_eq!(file, lab.path("kubelet-client-2025-11-15-11-07-35.pem"));
}

#[test]
fn the_first_place_that_has_a_pair_wins() {
    let lab = Lab::new();
    let halves = |name: &str, certificate: &str, key: &str| {
        let pair = pair(name, at(NOW), 9);
        lab.put(certificate, &pair.certificate_pem());
        lab.put(key, &pair.key().to_pem().unwrap());
    };
    let mut location = lab.location();
    location.fallback = Some((lab.path("given.crt"), lab.path("given.key")));
    let store = PairStore::open(location).unwrap();
    halves("legacy", "kubelet-client.crt", "kubelet-client.key");
    assert_eq!(current_name(&store).as_deref(), Some("legacy"));
    halves("given", "given.crt", "given.key");
    assert_eq!(current_name(&store).as_deref(), Some("given"));
    fs::remove_file(lab.path("given.key")).unwrap();
    assert_eq!(current_name(&store).as_deref(), Some("legacy"));
    store.update(&pair("stored", at(NOW), 9), at(NOW)).unwrap();
    assert_eq!(current_name(&store).as_deref(), Some("stored"));
}

#[test]
fn an_interrupted_swap_of_upstreams_is_finished() {
    let lab = Lab::new();
    lab.put("kubelet-client-2025-01-01-00-00-00.pem", &combined("new"));
    lab.link(
        "kubelet-client-2025-01-01-00-00-00.pem",
        "kubelet-client-updated.pem",
    );
    let looked_at = PairStore::view(lab.location()).unwrap();
    assert_eq!(
        current_name(&looked_at),
        None,
        "who only looks repairs nothing"
    );
    assert_eq!(current_name(&lab.open()).as_deref(), Some("new"));
    assert!(
        !lab.names()
            .contains(&"kubelet-client-updated.pem".to_owned())
    );
}

#[test]
fn an_update_finishes_an_interrupted_swap_before_its_own() {
    let lab = Lab::new();
    let store = lab.open();
    lab.put("kubelet-client-2025-01-01-00-00-00.pem", &combined("old"));
    lab.link(
        "kubelet-client-2025-01-01-00-00-00.pem",
        "kubelet-client-updated.pem",
    );
    store.update(&pair("new", at(NOW), 9), at(NOW)).unwrap();
    assert_eq!(current_name(&store).as_deref(), Some("new"));
}

#[test]
fn a_link_left_beside_a_good_one_is_replaced() {
    let lab = Lab::new();
    let store = lab.open();
    store.update(&pair("old", at(NOW), 9), at(NOW)).unwrap();
    lab.link("nowhere", "kubelet-client-updated.pem");
    store.update(&pair("new", at(NOW), 9), at(NOW + 1)).unwrap();
    assert_eq!(current_name(&lab.open()).as_deref(), Some("new"));
}

#[test]
fn dangling_links_count_as_nothing_and_are_replaced() {
    let lab = Lab::new();
    lab.put("other", "");
    lab.link("gone", "kubelet-client-current.pem");
    let store = lab.open();
    assert_eq!(current_name(&store), None);
    store.update(&pair("new", at(NOW), 9), at(NOW)).unwrap();
    assert_eq!(current_name(&store).as_deref(), Some("new"));
}

#[test]
fn what_is_not_a_link_is_never_replaced() {
    let new = pair("new", at(NOW), 9);
    for (name, found) in [
        ("kubelet-client-current.pem", "a regular file"),
        ("kubelet-client-updated.pem", "a regular file"),
        ("kubelet-client-current.pem", "a directory"),
        ("kubelet-client-updated.pem", "a directory"),
    ] {
        let lab = Lab::new();
        let store = lab.open();
        lab.put("x", "");
        if found == "a directory" {
            fs::create_dir(lab.path(name)).unwrap();
        } else {
            lab.put(name, &combined("theirs"));
        }
        let before = lab.names();
        let error = store.update(&new, at(NOW)).unwrap_err().to_string();
        let path = lab.path(name).display().to_string();
        assert!(error.contains(&path) && error.contains(found), "{error}");
        assert!(error.contains(&format!("mv {path} {path}.old")), "{error}");
        assert_eq!(lab.names(), before, "nothing has changed");
        if name.contains("updated") {
            let reopened = PairStore::open(lab.location()).unwrap_err();
            assert!(
                matches!(reopened, StoreError::NotALink { .. }),
                "{reopened}"
            );
        }
    }
}

#[test]
fn a_regular_file_as_current_is_read_though_never_replaced() {
    let lab = Lab::new();
    lab.put("kubelet-client-current.pem", &combined("theirs"));
    assert_eq!(current_name(&lab.open()).as_deref(), Some("theirs"));
}

#[test]
fn an_unusable_pair_is_named_with_its_path() {
    let lab = Lab::new();
    let whole = combined("x");
    let mixed = pair("a", at(NOW), 9).certificate_pem()
        + &PrivateKey::generate().unwrap().to_pem().unwrap();
    for (content, expected) in [
        ("", "holds no certificate"),
        (&whole[..whole.len() / 2], "holds no"),
        (&mixed, "does not belong"),
    ] {
        lab.put("kubelet-client-current.pem", content);
        let error = lab.open().current().unwrap_err().to_string();
        assert!(error.contains("kubelet-client-current.pem"), "{error}");
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_directory_that_cannot_be_one_is_an_error_with_a_way_out() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    fs::write(&file, "").unwrap();
    let mut location = Lab::new().location();
    location.directory = file.join("pki");
    let error = PairStore::open(location.clone()).unwrap_err().to_string();
    assert!(error.contains("move away the file"), "{error}");
    location.directory = PathBuf::from("pki");
    let error = PairStore::open(location).unwrap_err().to_string();
    assert!(error.contains("--cert-dir"), "{error}");
}

#[test]
fn expired_pairs_are_pruned_but_for_the_last_three_and_the_one_in_use() {
    let lab = Lab::new();
    let store = lab.open();
    for age in 1..=6 {
        store
            .update(&pair("old", at(NOW), 10 + age), at(NOW + age))
            .unwrap();
    }
    store
        .update(&pair("still valid", at(NOW), 5_000), at(NOW))
        .unwrap();
    store
        .update(&pair("in use", at(NOW), 1), at(NOW + 7))
        .unwrap();
    lab.put("kubelet-client-2020-01-01-00-00-00.pem", "unreadable");
    lab.put(
        "kubelet-client-not-a-date.pem",
        &pair("x", at(0), 1).certificate_pem(),
    );
    let before = lab.names().len();

    let removed = store.prune(at(NOW + 1_000)).unwrap();
    let dated = |second: u64| lab.path(&format!("kubelet-client-2025-11-15-06-07-{second}.pem"));
    assert_eq!(removed, [dated(36), dated(37), dated(38)]);
    assert_eq!(lab.names().len(), before - 3);
    assert_eq!(current_name(&store).as_deref(), Some("in use"));
    assert!(store.prune(at(NOW + 1_000)).unwrap().is_empty());
    assert!(store.prune(at(0)).unwrap().is_empty());
}

/// A process that dies: it takes some steps of its update, and perhaps a part
/// of the file that it was about to write.
fn die(store: &PairStore, pair: &Pair, now: SystemTime, steps_taken: usize, torn: bool) {
    let path = store.path(&store.stamp(now).unwrap());
    let content = pair.to_combined_pem().unwrap();
    let steps = store.plan_update(&path, content).unwrap();
    let taken = steps_taken.min(steps.len());
    files::run_all(&steps[..taken]).unwrap();
    if let (true, Some(Step::Write { path, content, .. })) = (torn, steps.get(taken)) {
        fs::write(path, &content[..content.len() / 2]).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// However often in a row a node dies while it stores a pair, and wherever,
    /// it finds the old pair or the new one, and can store the next.
    #[test]
    fn a_store_killed_between_any_two_steps_opens_with_the_old_or_the_new_pair(
        deaths in prop::collection::vec((0..12_usize, any::<bool>(), 0..2_u64), 1..6),
        has_first in any::<bool>(),
    ) {
        let lab = Lab::new();
        let mut known = None;
        if has_first {
            lab.open().update(&pair("first", at(NOW), 9), at(NOW)).unwrap();
            known = Some("first".to_owned());
        }
        let mut now = NOW;
        for (index, (steps_taken, torn, later)) in deaths.into_iter().enumerate() {
            now += later;
            let name = format!("pair {index}");
            die(&lab.open(), &pair(&name, at(NOW), 9), at(now), steps_taken, torn);
            let found = current_name(&lab.open());
            prop_assert!(found == known || found.as_deref() == Some(name.as_str()),
                "{found:?} is neither {known:?} nor {name}");
            known = found;
        }
        let store = lab.open();
        store.update(&pair("last", at(NOW), 9), at(now + 9)).unwrap();
        prop_assert_eq!(current_name(&lab.open()), Some("last".to_owned()));
        prop_assert!(!lab.names().iter().any(|name| name.contains(".tmp")));
    }
}
