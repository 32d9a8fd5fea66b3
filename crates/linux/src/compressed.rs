//! Files that take less room: gzip's format, as other kubelets and `kubectl logs` read
//! it.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::{files, lone_files};

const PERMISSIONS: u32 = 0o7777;

/// Whenever this is broken off, what was in the file is whole: in it, or in the other,
/// or in both.
pub(crate) fn compress(file: &Path, beside: &Path, into: &Path) -> io::Result<()> {
    let from = lone_files::open(file)?.ok_or(ErrorKind::NotFound)?;
    // What a crash left there.
    lone_files::remove(beside)?;
    let outcome = pack(from, beside).and_then(|()| fs::rename(beside, into));
    if outcome.is_err() {
        let _ = lone_files::remove(beside);
    }
    outcome?;
    // The new name is on the disk before the old one goes.
    if let Some(directory) = into.parent() {
        File::open(directory)?.sync_all()?;
    }
    lone_files::remove(file)
}

fn pack(mut from: File, into: &Path) -> io::Result<()> {
    let mode = from.metadata()?.permissions().mode() & PERMISSIONS;
    let into = files::write_new(into, &[], mode)?;
    let mut packed = GzEncoder::new(into, Compression::default());
    io::copy(&mut from, &mut packed)?;
    packed.finish()?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    use flate2::read::GzDecoder;

    use super::*;
    use crate::testing::tree;

    #[test]
    fn a_file_is_replaced_by_one_that_has_the_same_in_it_and_is_smaller() {
        let text = "2026-01-02T03:04:05Z stdout F the same line\n".repeat(5000);
        let root = tree(&[("0.log.1", &text), ("0.log.1.tmp", "left by a crash")]);
        let at = |name: &str| root.path().join(name);
        let mode = fs::Permissions::from_mode(0o640);
        fs::set_permissions(at("0.log.1"), mode.clone()).unwrap();
        compress(&at("0.log.1"), &at("0.log.1.tmp"), &at("0.log.1.gz")).unwrap();
        let packed = File::open(at("0.log.1.gz")).unwrap();
        let metadata = packed.metadata().unwrap();
        assert!(metadata.len() < text.len() as u64 / 10);
        assert_eq!(metadata.permissions().mode() & PERMISSIONS, mode.mode());
        let mut read = String::new();
        GzDecoder::new(packed).read_to_string(&mut read).unwrap();
        assert_eq!(read, text);
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_be_compressed_stays_and_nothing_is_left_beside() {
        let root = tree(&[("file", "kept"), ("taken/inner", "")]);
        let at = |name: &str| root.path().join(name);
        symlink(at("file"), at("link")).unwrap();
        let compress =
            |from: &str, into: &str| compress(&at(from), &at("beside"), &at(into)).is_err();
        assert!(compress("file", "taken"), "a directory is in its place");
        assert!(compress("link", "link.gz"), "links are not followed");
        assert!(compress("absent", "absent.gz"));
        assert_eq!(fs::read_to_string(at("file")).unwrap(), "kept");
        assert!(!at("beside").exists());
    }
}
