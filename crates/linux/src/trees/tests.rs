use std::os::unix::fs::symlink;

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
fn a_file_has_exactly_its_mode_whatever_the_mask_and_keeps_what_it_is_given_later() {
    let root = tempfile::tempdir().unwrap();
    for (name, wanted) in [("all", 0o666), ("own", 0o600), ("read", 0o444)] {
        let path = root.path().join(name);
        make_file(&path, wanted).unwrap();
        assert_eq!(mode(&path), wanted, "{name}");
    }
    let path = root.path().join("all");
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    make_file(&path, 0o666).unwrap();
    assert_eq!(mode(&path), 0o640);
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
