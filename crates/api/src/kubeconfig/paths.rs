//! Paths inside of a kubeconfig are meant from the directory that the file lies in.

use std::path::{Component, Path, PathBuf};

/// `reference` as seen from `base`. An absolute one stays as written; else `.` and `..` are taken
/// out by their names alone, as Go's `filepath.Join` does.
pub(super) fn resolve(base: &Path, reference: &str) -> PathBuf {
    let reference = Path::new(reference);
    if reference.is_absolute() {
        reference.to_owned()
    } else {
        clean(&base.join(reference))
    }
}

/// The shortest path with the same meaning, links aside.
pub(super) fn clean(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => match clean.components().next_back() {
                Some(Component::Normal(_)) => {
                    clean.pop();
                }
                Some(Component::RootDir) => {}
                _ => clean.push(component),
            },
            _ => clean.push(component),
        }
    }
    if clean.as_os_str().is_empty() {
        PathBuf::from(".")
    } else {
        clean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved_as_upstream_resolves_them() {
        let cases = [
            ("ca.crt", "/etc/kubernetes/ca.crt"),
            ("./pki/ca.crt", "/etc/kubernetes/pki/ca.crt"),
            ("../pki//ca.crt", "/etc/pki/ca.crt"),
            ("../../../ca.crt", "/ca.crt"),
            ("/a/../b", "/a/../b"),
        ];
        for (reference, expected) in cases {
            assert_eq!(
                resolve(Path::new("/etc/kubernetes"), reference),
                Path::new(expected),
                "{reference}"
            );
        }
        assert_eq!(clean(Path::new("aws")), Path::new("aws"));
        assert_eq!(clean(Path::new("../a/../b")), Path::new("../b"));
    }
}
