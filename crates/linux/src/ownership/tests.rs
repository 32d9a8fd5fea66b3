use std::os::unix::fs::{MetadataExt, symlink};

use nix::mount::MsFlags;

use super::*;
use crate::testing::{beside, exchange, privately, put, tree};

const GROUP: u32 = 4242;

fn look(path: &Path) -> (u32, u32) {
    let metadata = fs::symlink_metadata(path).unwrap();
    (metadata.mode() & 0o7777, metadata.gid())
}

fn set(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn to_group(read_only: bool, unless_root_matches: bool) -> GroupShare {
    GroupShare {
        // Only root may give files to any group.
        group: if rustix::process::geteuid().is_root() {
            GROUP
        } else {
            rustix::process::getegid().as_raw()
        },
        read_only,
        unless_root_matches,
    }
}

#[test]
fn what_is_shared_is_the_groups_to_its_leaves_and_links_are_not_followed() {
    let root = tree(&[("v/a", "x"), ("v/sub/b", "x"), ("outside", "x")]);
    let at = |name: &str| root.path().join(name);
    symlink(at("outside"), at("v/link")).unwrap();
    let before = [
        ("v", 0o755),
        ("v/a", 0o600),
        ("v/sub", 0o700),
        ("v/sub/b", 0o4755),
        ("outside", 0o600),
    ];
    let cases = [
        (true, [0o2755, 0o640, 0o2750, 0o4755]),
        (false, [0o2775, 0o660, 0o2770, 0o4775]),
    ];
    for (read_only, wanted) in cases {
        for (name, mode) in before {
            set(&at(name), mode);
        }
        let (given, done) = (to_group(read_only, false), AtomicU64::default());
        let outcome = share(&at("v"), given, &done).unwrap();
        assert_eq!((outcome.refused, done.into_inner()), (0, 5));
        for ((name, _), mode) in before.into_iter().zip(wanted) {
            assert_eq!(look(&at(name)), (mode, given.group), "{name}");
        }
        assert_eq!(look(&at("v/link")).1, given.group);
        assert_eq!(look(&at("outside")).0, 0o600);
    }
}

#[test]
fn a_root_that_matches_spares_the_walk_if_that_is_wanted() {
    let root = tree(&[("v/a", "x")]);
    let (v, a) = (root.path().join("v"), root.path().join("v/a"));
    set(&v, 0o755);
    // What the root has, whether the walk is wanted, and what becomes of the file.
    let cases = [
        (0o755, true, 0o660),
        (0o2775, true, 0o600),
        (0o2777, true, 0o600),
        (0o775, true, 0o660),
        (0o2755, true, 0o660),
        (0o2775, false, 0o660),
    ];
    for (mode, unless_root_matches, wanted) in cases {
        set(&v, mode);
        set(&a, 0o600);
        let given = to_group(false, unless_root_matches);
        share(&v, given, &AtomicU64::default()).unwrap();
        assert_eq!(look(&a).0, wanted, "{mode:o}");
        assert_eq!(look(&v).0 & 0o2770, 0o2770);
    }
    // Read-only needs less of the root.
    set(&v, 0o2755);
    set(&a, 0o600);
    share(&v, to_group(true, true), &AtomicU64::default()).unwrap();
    assert_eq!(look(&a).0, 0o600);
}

#[test]
fn what_is_so_already_is_not_touched() {
    let root = tree(&[("v/a", "x")]);
    let v = root.path().join("v");
    share(&v, to_group(false, false), &AtomicU64::default()).unwrap();
    let changed =
        || ["v", "v/a"].map(|name| fs::metadata(root.path().join(name)).unwrap().ctime_nsec());
    let before = changed();
    share(&v, to_group(false, false), &AtomicU64::default()).unwrap();
    assert_eq!(changed(), before);
}

#[test]
fn what_is_mounted_inside_is_not_its() {
    privately(|| {
        let root = tree(&[
            ("v/own", ""),
            ("v/dir/.keep", ""),
            ("v/file", ""),
            ("precious/data", ""),
        ]);
        let at = |name: &str| root.path().join(name);
        for (from, to) in [("precious", "v/dir"), ("precious/data", "v/file")] {
            let (none, bind) = (None::<&str>, MsFlags::MS_BIND);
            nix::mount::mount(Some(&at(from)), &at(to), none, bind, none).unwrap();
        }
        set(&at("precious"), 0o700);
        set(&at("precious/data"), 0o600);
        let outcome = share(&at("v"), to_group(false, false), &AtomicU64::default());
        assert_eq!(outcome.unwrap().refused, 0);
        assert_eq!(look(&at("v/own")).1, GROUP);
        assert_eq!(look(&at("precious")), (0o700, 0));
        assert_eq!(look(&at("precious/data")), (0o600, 0));
    });
}

#[test]
fn a_file_that_cannot_be_given_away_does_not_keep_the_others() {
    privately(|| {
        let root = tree(&[("v/.keep", "")]);
        let v = root.path().join("v");
        let (none, flags) = (None::<&str>, MsFlags::empty());
        nix::mount::mount(Some("tmpfs"), &v, Some("tmpfs"), flags, none).unwrap();
        put(&v, "a", "");
        put(&v, "b", "");
        let read_only = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        nix::mount::mount(none, &v, none, read_only, none).unwrap();
        let done = AtomicU64::default();
        let outcome = share(&v, to_group(false, false), &done).unwrap();
        assert_eq!((outcome.refused, done.into_inner()), (3, 3));
        let why = outcome.why.unwrap();
        assert!(why.what.starts_with(&v.display().to_string()), "{why}");
    });
}

#[test]
fn what_is_too_deep_stays_as_it_is_and_keeps_nothing_else() {
    let root = tree(&[("v/a", "x")]);
    let at = |depth: usize| root.path().join("v").join("d/".repeat(depth));
    fs::create_dir_all(at(DEEPEST + 3)).unwrap();
    for depth in [0, DEEPEST, DEEPEST + 2] {
        set(&at(depth), 0o700);
    }
    let outcome = share(
        &root.path().join("v"),
        to_group(false, false),
        &AtomicU64::default(),
    );
    let outcome = outcome.unwrap();
    assert_eq!(outcome.refused, 1);
    let why = outcome.why.unwrap().to_string();
    assert!(why.contains("more than 500 directories"), "{why}");
    let modes = [0, DEEPEST, DEEPEST + 2].map(|depth| look(&at(depth)).0);
    assert_eq!(modes, [0o2770, 0o2770, 0o700]);
}

/// A pod swaps a directory for a link to elsewhere while its volume is given away.
#[test]
fn nothing_outside_is_given_away_whatever_is_swapped_meanwhile() {
    privately(|| {
        let root = tree(&[("v/a/b", ""), ("v/c", ""), ("outside/b", "")]);
        let at = |name: &str| root.path().join(name);
        symlink(at("outside"), at("v/link")).unwrap();
        symlink(at("outside/b"), at("v/other")).unwrap();
        set(&at("outside"), 0o700);
        set(&at("outside/b"), 0o600);
        let swap = || {
            exchange(&at("v/a"), &at("v/link"));
            exchange(&at("v/c"), &at("v/other"));
        };
        beside(swap, || {
            for group in 0..500 {
                let given = GroupShare {
                    group: GROUP + group,
                    ..to_group(false, false)
                };
                share(&at("v"), given, &AtomicU64::default()).unwrap();
            }
        });
        assert_eq!(look(&at("outside")), (0o700, 0));
        assert_eq!(look(&at("outside/b")), (0o600, 0));
    });
}
