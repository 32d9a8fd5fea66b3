use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use super::*;
use crate::testing::{put, tree};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn a_directory_has_exactly_its_mode_whatever_the_mask() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("pods/1/volumes/v");
    for _ in 0..2 {
        make_directory(&path, 0o777, 0o750).unwrap();
        assert_eq!(mode(&path), 0o777);
        assert_eq!(mode(path.parent().unwrap()), 0o750);
    }
    // What a group was given stays.
    fs::set_permissions(&path, Permissions::from_mode(0o2777)).unwrap();
    make_directory(&path, 0o777, 0o750).unwrap();
    assert_eq!(mode(&path), 0o2777);
}

#[test]
fn a_link_or_a_file_in_a_directorys_place_is_an_error() {
    let root = tree(&[("file", "x")]);
    symlink("/", root.path().join("link")).unwrap();
    for name in ["file", "link"] {
        let error = make_directory(&root.path().join(name), 0o777, 0o750).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotADirectory, "{name}");
    }
}

#[test]
fn what_is_at_a_path_is_told_by_its_kind() {
    let root = tree(&[("file", "x"), ("directory/x", "")]);
    let _socket = UnixListener::bind(root.path().join("socket")).unwrap();
    symlink("directory", root.path().join("link")).unwrap();
    let at = |name: &str| root.path().join(name);
    let cases = [
        (at("file"), PathKind::File),
        (at("directory"), PathKind::Directory),
        (at("link"), PathKind::Directory),
        (at("socket"), PathKind::Socket),
        ("/dev/null".into(), PathKind::CharacterDevice),
    ];
    let kinds = [
        PathKind::Directory,
        PathKind::File,
        PathKind::Socket,
        PathKind::CharacterDevice,
        PathKind::BlockDevice,
    ];
    for (path, is) in &cases {
        for kind in kinds {
            for make in [false, true] {
                assert_eq!(
                    has(path, kind, make).unwrap(),
                    kind == *is,
                    "{path:?} {kind:?}"
                );
            }
        }
    }
    for kind in kinds {
        assert!(!has(&at("absent"), kind, false).unwrap());
        assert!(!has(&at("file/absent"), kind, false).unwrap());
    }
}

#[test]
fn a_missing_directory_or_file_is_made_if_that_is_wanted() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("a/b");
    assert!(has(&directory, PathKind::Directory, true).unwrap());
    assert_eq!(mode(&directory), 0o755);
    let file = directory.join("file");
    assert!(has(&file, PathKind::File, true).unwrap());
    assert_eq!(
        (mode(&file), fs::metadata(&file).unwrap().len()),
        (0o644, 0)
    );
    // The file's directory has to be there.
    assert!(has(&root.path().join("no/file"), PathKind::File, true).is_err());
    assert!(!has(&root.path().join("socket"), PathKind::Socket, true).unwrap());
}

#[test]
fn a_tree_is_removed_but_not_what_its_links_lead_to() {
    let root = tree(&[("keep/file", "kept"), ("gone/a/b", ""), ("gone/c", "")]);
    let gone = root.path().join("gone");
    symlink(root.path().join("keep"), gone.join("a/link")).unwrap();
    symlink("/nowhere", gone.join("dangling")).unwrap();
    remove(&gone).unwrap();
    assert!(!gone.exists());
    let kept = fs::read_to_string(root.path().join("keep/file")).unwrap();
    assert_eq!(kept, "kept");
    // Nothing there is fine, and of a link only the link goes.
    remove(&gone).unwrap();
    symlink(root.path().join("keep"), &gone).unwrap();
    remove(&gone).unwrap();
    assert!(root.path().join("keep/file").exists());
}

#[test]
fn a_tree_that_is_deeper_than_any_path_is_removed() {
    let root = tempfile::tempdir().unwrap();
    let top = root.path().join("deep");
    fs::create_dir(&top).unwrap();
    // A name that the removal would like to use.
    put(&top, ".removed-1/file", "x");
    let mut inner = openat(rustix::fs::CWD, &top, directory_flags(), Mode::empty()).unwrap();
    for _ in 0..2500 {
        rustix::fs::mkdirat(&inner, "d", Mode::from_raw_mode(0o755)).unwrap();
        inner = openat(&inner, "d", directory_flags(), Mode::empty()).unwrap();
    }
    remove(&top).unwrap();
    assert!(!top.exists());
}

#[test]
fn what_is_shared_is_the_groups_to_its_leaves_and_links_are_not_followed() {
    let root = tree(&[("v/a", "x"), ("v/sub/b", "x"), ("outside", "x")]);
    let at = |name: &str| root.path().join(name);
    let group = own_or(4242);
    for (name, bits) in [
        ("v", 0o755),
        ("v/a", 0o600),
        ("v/sub", 0o700),
        ("v/sub/b", 0o644),
        ("outside", 0o600),
    ] {
        fs::set_permissions(at(name), Permissions::from_mode(bits)).unwrap();
    }
    symlink(at("outside"), at("v/link")).unwrap();
    let cases = [
        (
            true,
            [
                ("v", 0o2755),
                ("v/a", 0o640),
                ("v/sub", 0o2750),
                ("v/sub/b", 0o644),
            ],
        ),
        (
            false,
            [
                ("v", 0o2775),
                ("v/a", 0o660),
                ("v/sub", 0o2770),
                ("v/sub/b", 0o664),
            ],
        ),
    ];
    for (read_only, wanted) in cases {
        let given = GroupShare {
            group,
            read_only,
            unless_root_matches: false,
        };
        share(&at("v"), given).unwrap();
        for (name, bits) in wanted {
            assert_eq!(mode(&at(name)), bits, "{name}");
            assert_eq!(fs::metadata(at(name)).unwrap().gid(), group, "{name}");
        }
        assert_eq!(fs::symlink_metadata(at("v/link")).unwrap().gid(), group);
        assert_eq!(mode(&at("outside")), 0o600);
    }
}

#[test]
fn a_root_that_matches_spares_the_walk_if_that_is_wanted() {
    let root = tree(&[("v/a", "x")]);
    let (v, a) = (root.path().join("v"), root.path().join("v/a"));
    let given = |unless_root_matches| GroupShare {
        group: own_or(4242),
        read_only: false,
        unless_root_matches,
    };
    let spoil = || fs::set_permissions(&a, Permissions::from_mode(0o600)).unwrap();
    spoil();
    share(&v, given(true)).unwrap();
    assert_eq!(mode(&a), 0o660, "the root did not match");
    spoil();
    share(&v, given(true)).unwrap();
    assert_eq!(mode(&a), 0o600, "it matches now");
    share(&v, given(false)).unwrap();
    assert_eq!(mode(&a), 0o660);
}

/// Only root may give files to any group.
fn own_or(group: u32) -> u32 {
    if rustix::process::geteuid().is_root() {
        group
    } else {
        rustix::process::getegid().as_raw()
    }
}
