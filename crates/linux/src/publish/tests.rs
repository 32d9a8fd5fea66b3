use std::time::Duration;

use tempfile::TempDir;

use super::*;
use crate::testing::beside;

const NOW: SystemTime = SystemTime::UNIX_EPOCH;

fn file(content: &str, mode: u32) -> TreeFile {
    TreeFile {
        content: content.into(),
        mode,
        owner: None,
    }
}

fn tree(files: &[(&str, &str)]) -> Tree {
    let files = files
        .iter()
        .map(|(path, content)| ((*path).to_owned(), file(content, 0o644)));
    Tree {
        files: files.collect(),
        group: None,
    }
}

/// What a user reads: every file, links followed, by its path.
fn seen(directory: &Path) -> BTreeMap<String, String> {
    let mut seen = BTreeMap::new();
    let mut unread = vec![String::new()];
    while let Some(below) = unread.pop() {
        for entry in fs::read_dir(directory.join(&below)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if below.is_empty() && name.starts_with("..") {
                continue;
            }
            let path = Path::new(&below).join(name).to_str().unwrap().to_owned();
            let full = directory.join(&path);
            if full.is_dir() {
                unread.push(path);
            } else if let Ok(content) = fs::read_to_string(full) {
                seen.insert(path, content);
            }
        }
    }
    seen
}

fn contents(tree: &Tree) -> BTreeMap<String, String> {
    let text = |file: &TreeFile| String::from_utf8(file.content.clone()).unwrap();
    let entries = tree.files.iter();
    entries
        .map(|(path, file)| (path.clone(), text(file)))
        .collect()
}

/// All names, and where links lead.
fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_tree_is_seen_through_links_with_its_modes() {
    let directory = tempfile::tempdir().unwrap();
    let mut wanted = tree(&[("a", "1"), ("sub/b", "2"), ("sub/deep/c", "3")]);
    wanted.files.insert("key".to_owned(), file("4", 0o400));
    wanted.files.insert("open".to_owned(), file("5", 0o666));
    let now = NOW + Duration::from_secs(1_767_322_985);
    assert!(publish(directory.path(), &wanted, now).unwrap());
    assert_eq!(seen(directory.path()), contents(&wanted));
    let data = fs::read_link(directory.path().join(DATA)).unwrap();
    let name = data.to_str().unwrap();
    let (moment, random) = name
        .split_once('.')
        .map_or(("", ""), |_| name.rsplit_once('.').unwrap());
    assert_eq!(moment, "..2026_01_02_03_03_05");
    assert!(!random.is_empty() && random.bytes().all(|byte| byte.is_ascii_digit()));
    assert_eq!(
        fs::read_link(directory.path().join("sub")).unwrap(),
        Path::new("..data/sub")
    );
    assert_eq!(mode(&directory.path().join("..data")), 0o755);
    assert_eq!(mode(&directory.path().join("sub/deep")), 0o755);
    assert_eq!(mode(&directory.path().join("a")), 0o644);
    assert_eq!(mode(&directory.path().join("key")), 0o400);
    assert_eq!(mode(&directory.path().join("open")), 0o666);
    assert_eq!(names(directory.path()).len(), 2 + 4);
}

#[test]
fn what_is_unchanged_is_not_touched() {
    let directory = tempfile::tempdir().unwrap();
    let wanted = tree(&[("a", "1"), ("sub/b", "2")]);
    assert!(publish(directory.path(), &wanted, NOW).unwrap());
    let before = fs::read_link(directory.path().join(DATA)).unwrap();
    assert!(!publish(directory.path(), &wanted, NOW).unwrap());
    assert_eq!(fs::read_link(directory.path().join(DATA)).unwrap(), before);
}

#[test]
fn a_tree_follows_another_and_nothing_of_the_old_stays() {
    let cases = [
        tree(&[("a", "1")]),
        tree(&[("a", "2")]),
        tree(&[("b", "2"), ("c/d", "3")]),
        tree(&[("c", "now a file")]),
        tree(&[("c/d", "a directory again"), ("c/e/f", "")]),
        tree(&[]),
        tree(&[("a", "1")]),
    ];
    let directory = tempfile::tempdir().unwrap();
    // Somebody else's mount point.
    fs::create_dir(directory.path().join("nested")).unwrap();
    for wanted in &cases {
        assert!(publish(directory.path(), wanted, NOW).unwrap());
        assert_eq!(seen(directory.path()), contents(wanted));
        let top: BTreeSet<_> = wanted
            .files
            .keys()
            .map(|path| path.split('/').next())
            .collect();
        assert_eq!(names(directory.path()).len(), 3 + top.len());
    }
}

#[test]
fn mount_points_stay_whatever_they_are_called_and_what_is_ours_goes() {
    let directory = tempfile::tempdir().unwrap();
    let ours = [
        "..2026_01_01_00_00_00.7",
        "..2026_01_01_00_00_00.0123456789",
    ];
    let others = [
        "..x",
        "...",
        "..2026_01_01_00_00_00",
        "..2026_01_01_00_00_00.",
        "..2026_01_01_00_00_00.x",
        "..2026_01_01-00_00_00.7",
        "nested",
    ];
    for name in ours.iter().chain(&others) {
        fs::create_dir(directory.path().join(name)).unwrap();
    }
    symlink("..2026_01_01_00_00_00.7", directory.path().join(NEW_DATA)).unwrap();
    publish(directory.path(), &tree(&[("a", "1")]), NOW).unwrap();
    let there = names(directory.path());
    for name in others {
        assert!(there.iter().any(|one| one == name), "{name}: {there:?}");
    }
    // With the link, its tree, and the name that is seen.
    assert_eq!(there.len(), others.len() + 3, "{there:?}");
}

#[test]
fn a_file_that_somebody_changed_is_put_right() {
    let directory = tempfile::tempdir().unwrap();
    let wanted = tree(&[("a", "1"), ("b", "2")]);
    publish(directory.path(), &wanted, NOW).unwrap();
    fs::write(directory.path().join("a"), "broken").unwrap();
    assert!(publish(directory.path(), &wanted, NOW).unwrap());
    fs::remove_file(directory.path().join("b")).unwrap();
    assert!(publish(directory.path(), &wanted, NOW).unwrap());
    assert_eq!(seen(directory.path()), contents(&wanted));
}

#[test]
fn a_path_that_leads_out_is_refused_and_nothing_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let error = publish(directory.path(), &tree(&[("../a", "1")]), NOW).unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid path: must not contain '..': ../a"
    );
    assert!(names(directory.path()).is_empty());
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let absent = directory.path().join("absent");
    let error = publish(&absent, &tree(&[]), NOW).unwrap_err();
    assert!(error.what.ends_with("/absent"), "{error}");
}

/// A directory in which the first is published, and what would make it the second.
fn on_the_way(first: Option<&Tree>, second: &Tree, steps: usize) -> (TempDir, usize) {
    let directory = tempfile::tempdir().unwrap();
    if let Some(first) = first {
        publish(directory.path(), first, NOW).unwrap();
    }
    let files = second.checked().unwrap();
    let present = Present::look(directory.path(), &files).unwrap();
    let fresh = present.fresh_name(NOW, || 7);
    let plan = plan(&present, &files, second.group, &fresh);
    for step in plan.iter().take(steps) {
        step.take(directory.path()).unwrap();
    }
    (directory, plan.len())
}

#[test]
fn a_crash_after_any_step_leaves_the_old_or_the_new_and_the_next_time_mends_it() {
    let first = tree(&[
        ("both", "old"),
        ("gone", "old"),
        ("sub/x", "old"),
        ("sub/y", "old"),
    ]);
    let second = tree(&[
        ("both", "new"),
        ("come", "new"),
        ("sub/x", "new"),
        ("top/z", "new"),
    ]);
    let third = tree(&[("both", "newest")]);
    for before in [None, Some(&first)] {
        let (_, all) = on_the_way(before, &second, 0);
        assert!(all > 8, "{all} steps");
        for steps in 0..=all {
            for after in [&first, &second, &third] {
                let (directory, _) = on_the_way(before, &second, steps);
                let path = directory.path();
                // What can be read is of one tree.
                let now = seen(path);
                let is_part = |tree: &Tree| {
                    let whole = contents(tree);
                    now.iter().all(|(path, text)| whole.get(path) == Some(text))
                };
                assert!(is_part(&first) || is_part(&second), "{steps}: {now:?}");
                if before.is_some() {
                    assert!(now.contains_key("both"), "{steps}: {now:?}");
                }
                publish(path, after, NOW).unwrap();
                assert_eq!(seen(path), contents(after), "after {steps} steps");
                let top: BTreeSet<_> = after
                    .files
                    .keys()
                    .map(|path| path.split('/').next())
                    .collect();
                assert_eq!(names(path).len(), 2 + top.len(), "{:?}", names(path));
                assert!(!publish(path, after, NOW).unwrap());
            }
        }
    }
}

#[test]
fn a_file_that_was_cut_short_by_a_crash_is_never_seen() {
    let wanted = tree(&[("a", "whole")]);
    let (directory, _) = on_the_way(None, &wanted, 2);
    let fresh = names(directory.path()).remove(0);
    fs::write(directory.path().join(fresh).join("a"), "wh").unwrap();
    assert!(seen(directory.path()).is_empty());
    publish(directory.path(), &wanted, NOW).unwrap();
    assert_eq!(seen(directory.path()), contents(&wanted));
}

/// A megabyte in five hundred files, as often as not half written when it is looked at.
#[test]
fn a_reader_never_sees_half_an_update_however_large_it_is() {
    const KEYS: usize = 500;
    const UPDATES: usize = 50;
    let update = |number: usize| {
        let content = format!("{number:06} {}", "x".repeat((1 << 20) / KEYS - 7));
        let files = (0..KEYS).map(|key| (format!("key-{key:03}"), file(&content, 0o644)));
        Tree {
            files: files.collect(),
            group: None,
        }
    };
    // Twenty-five thousand files: in memory, where there is some.
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let directory = directory.unwrap();
    let path = directory.path();
    publish(path, &update(0), NOW).unwrap();
    let seen = std::sync::Mutex::new(BTreeSet::new());
    let read = || {
        // As an application reads that wants all of one update: through one name.
        let data = fs::read_link(path.join(DATA)).unwrap();
        let read = |key: usize| fs::read(path.join(&data).join(format!("key-{key:03}")));
        let all: Result<BTreeSet<Vec<u8>>, _> = (0..KEYS).map(read).collect();
        match all {
            Ok(all) => {
                assert_eq!(all.len(), 1, "files of several updates");
                let content = all.into_iter().next().unwrap();
                assert_eq!(content.len(), (1 << 20) / KEYS, "half a file");
                seen.lock().unwrap().insert(content[..6].to_vec());
            }
            // The update was replaced meanwhile, as a whole.
            Err(cause) => assert_eq!(cause.kind(), ErrorKind::NotFound, "{cause}"),
        }
        // And who reads one file by its own name finds it whole, or gone by then.
        let one = fs::read(path.join("key-250")).unwrap_or_default();
        assert!(matches!(one.len(), 0 | 2097), "{} bytes", one.len());
    };
    beside(read, || {
        for number in 1..=UPDATES {
            assert!(publish(path, &update(number), NOW).unwrap());
        }
    });
    read();
    let last = format!("{UPDATES:06}").into_bytes();
    assert!(
        seen.lock().unwrap().contains(&last),
        "the last was not seen"
    );
    assert_eq!(names(path).len(), 2 + KEYS);
}
