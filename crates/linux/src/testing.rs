//! Machines made of files, for tests.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

/// A directory with these files, and their directories.
pub(crate) fn tree(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in files {
        put(root.path(), path, content);
    }
    root
}

pub(crate) fn put(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}
