//! The key of a blocking bootstrap, kept until its certificate is there: the
//! request's name follows from the key, so a restarted node finds its request.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::files::{self, Entry, FileError, Step};
use crate::keys::{KeyError, PrivateKey};
use crate::store::PairStore;

const FILE_NAME: &str = "kubelet-client.key.tmp";

/// Why there is no key to bootstrap with.
#[derive(Debug, Error)]
pub enum BootstrapKeyError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("the key in {} cannot be used: {cause}; remove the file to start with a new key", path.display())]
    Unusable { path: PathBuf, cause: KeyError },
    #[error(transparent)]
    Generate(KeyError),
}

/// The key to bootstrap with: the stored pair's, or the one that an earlier
/// attempt left in `directory`, or a new one, which is left there.
pub fn obtain(store: &PairStore, directory: &Path) -> Result<PrivateKey, BootstrapKeyError> {
    // A broken store is about to be replaced: its key is of no use, nor is its
    // error.
    if let Ok(Some(pair)) = store.current() {
        return Ok(pair.into_key());
    }
    let path = directory.join(FILE_NAME);
    let text = match files::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return generate(directory, &path),
        Err(error) => return Err(error.into()),
    };
    PrivateKey::from_pem(&text).map_err(|cause| BootstrapKeyError::Unusable { path, cause })
}

/// Removes what `obtain` left, once the certificate is stored.
pub fn discard(directory: &Path) -> Result<(), FileError> {
    match Step::Remove(directory.join(FILE_NAME)).run() {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn generate(directory: &Path, path: &Path) -> Result<PrivateKey, BootstrapKeyError> {
    let key = PrivateKey::generate().map_err(BootstrapKeyError::Generate)?;
    let pem = key.to_pem().map_err(BootstrapKeyError::Generate)?;
    files::run_all(&plan(directory, path, pem)?)?;
    Ok(key)
}

fn plan(directory: &Path, path: &Path, pem: String) -> Result<Vec<Step>, FileError> {
    let temporary = files::beside(path);
    let mut steps = vec![Step::MakeDirectory(directory.to_owned())];
    if Entry::at(&temporary)? != Entry::Nothing {
        steps.push(Step::Remove(temporary.clone()));
    }
    steps.extend([
        Step::Write {
            path: temporary.clone(),
            content: pem.into_bytes(),
            mode: 0o600,
        },
        Step::Rename {
            from: temporary,
            to: path.to_owned(),
        },
        Step::SyncDirectory(directory.to_owned()),
    ]);
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use jiff::tz::TimeZone;

    use super::*;
    use crate::store::Location;
    use crate::testdata::{at, pair};

    fn store(directory: &Path) -> PairStore {
        let location = Location {
            directory: directory.to_owned(),
            prefix: "kubelet-client".to_owned(),
            fallback: None,
            zone: TimeZone::UTC,
        };
        PairStore::open(location).unwrap()
    }

    #[test]
    fn a_key_is_reused_until_its_certificate_is_stored() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("pki");
        let store = store(&directory);
        let first = obtain(&store, &directory).unwrap();
        let path = directory.join("kubelet-client.key.tmp");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = obtain(&store, &directory).unwrap();
        assert!(again.matches(&first.public_der()));

        discard(&directory).unwrap();
        discard(&directory).unwrap();
        assert!(!path.exists());
        let stored = pair("n1", at(0), 9);
        store.update(&stored, at(0)).unwrap();
        let of_pair = obtain(&store, &directory).unwrap();
        assert!(
            of_pair.matches(&stored.key().public_der()),
            "even of an expired pair"
        );
        assert!(!path.exists());
    }

    #[test]
    fn a_broken_key_file_is_an_error_that_names_it() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("kubelet-client.key.tmp");
        fs::write(&path, "").unwrap();
        let error = obtain(&store(root.path()), root.path())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("kubelet-client.key.tmp") && error.contains("remove the file"),
            "{error}"
        );
    }
}
