//! The pairs on disk, in upstream's layout: one file per pair with its time in
//! the name, and a symlink to the one in use.
//!
//! `PREFIX-2026-11-15-06-07-35.pem` holds a chain and its key;
//! `PREFIX-current.pem` points at the one in use; `PREFIX-updated.pem` is the next
//! link, for as long as it takes to rename it. Upstream removes the old link
//! before that rename; we rename over it, so that readers never find nothing.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use thiserror::Error;

use crate::files::{self, Entry, FileError, Step};
use crate::keys::KeyError;
use crate::pair::{Pair, PairError};

/// How many expired pairs are kept for whoever must find out what happened.
const EXPIRED_KEPT: usize = 3;

/// How many pairs are kept that were replaced before their end. A clock that is
/// far ahead can make hundreds of them in a day.
const REPLACED_KEPT: usize = 10;

/// Why the store could not be opened, read or changed.
#[derive(Debug, Error)]
pub enum StoreError {
    #[error("the certificate directory {} is not an absolute path; give it as one with --cert-dir", .0.display())]
    Relative(PathBuf),
    #[error("{} must be a symlink and is {found}; move it away: mv {} {}.old", path.display(), path.display(), path.display())]
    NotALink { path: PathBuf, found: String },
    #[error(transparent)]
    File(#[from] FileError),
    #[error("the pair in {} cannot be used: {cause}", path.display())]
    Unusable { path: PathBuf, cause: PairError },
    #[error("the certificate in {} and the key in {} cannot be used: {cause}", certificate.display(), key.display())]
    UnusableFiles {
        certificate: PathBuf,
        key: PathBuf,
        cause: PairError,
    },
    #[error("the new key cannot be written: {0}")]
    Key(#[from] KeyError),
    #[error("the clock shows a time that has no date; set it")]
    Clock,
}

/// Where a store is, and how it names its files.
#[derive(Clone, Debug)]
pub struct Location {
    /// The certificate directory, absolute.
    pub directory: PathBuf,
    /// What file names begin with; see `Purpose::store_prefix`.
    pub prefix: String,
    /// A certificate file and a key file to use while the store is empty.
    pub fallback: Option<(PathBuf, PathBuf)>,
    /// The zone of the times in file names: the machine's, in upstream's layout.
    pub zone: TimeZone,
}

/// The pairs of one purpose on disk.
#[derive(Debug)]
pub struct PairStore {
    location: Location,
}

impl PairStore {
    /// Opens the store, and finishes a swap that a crash interrupted.
    pub fn open(location: Location) -> Result<Self, StoreError> {
        let store = Self::view(location)?;
        files::run_all(&store.plan_recovery()?)?;
        Ok(store)
    }

    /// The store as it is, for one who only looks: nothing is repaired.
    pub fn view(location: Location) -> Result<Self, StoreError> {
        if location.directory.is_relative() {
            return Err(StoreError::Relative(location.directory));
        }
        Ok(Self { location })
    }

    /// The path that a kubeconfig refers to; a symlink once there is a pair.
    pub fn current_path(&self) -> PathBuf {
        self.path("current")
    }

    /// The pair in use, expired or not: the store's, or the fallback files', or
    /// `PREFIX.crt` with `PREFIX.key`. `None` if there is none of them.
    pub fn current(&self) -> Result<Option<Pair>, StoreError> {
        let current = self.current_path();
        if files::exists(&current)? {
            let text = files::read(&current)?;
            let pair = Pair::from_pem(&text, &text);
            return pair.map(Some).map_err(|cause| StoreError::Unusable {
                path: current,
                cause,
            });
        }
        let Location {
            directory,
            prefix,
            fallback,
            ..
        } = &self.location;
        let legacy = (
            directory.join(format!("{prefix}.crt")),
            directory.join(format!("{prefix}.key")),
        );
        for (certificate, key) in fallback.iter().chain([&legacy]) {
            if files::exists(certificate)? && files::exists(key)? {
                return read_files(certificate, key).map(Some);
            }
        }
        Ok(None)
    }

    /// Stores a pair and makes it the one in use; returns its file. If anything
    /// fails, the pair before it stays in use.
    pub fn update(&self, pair: &Pair, now: SystemTime) -> Result<PathBuf, StoreError> {
        let path = self.path(&self.stamp(now)?);
        let content = pair.to_combined_pem()?;
        files::run_all(&self.plan_update(&path, content)?)?;
        Ok(path)
    }

    /// Removes expired pairs but for the newest three, and replaced ones but for
    /// the newest ten, and returns what it removed. The pair in use stays, and so does what cannot be read.
    pub fn prune(&self, now: SystemTime) -> Result<Vec<PathBuf>, StoreError> {
        let in_use =
            [self.path("current"), self.path("updated")].map(|link| fs::canonicalize(link).ok());
        let (mut expired, mut replaced) = (Vec::new(), Vec::new());
        for path in self.list(|name| self.is_pair_name(name))? {
            let used = in_use.contains(&fs::canonicalize(&path).ok());
            if used || Entry::at(&path)? != Entry::File {
                continue;
            }
            let leaf = files::read(&path).ok().and_then(|text| {
                let leaves = crate::certificate::read_leaves(&text).ok()?;
                leaves.into_iter().next()
            });
            match leaf {
                Some(leaf) if leaf.is_expired(now) => expired.push((leaf.not_after, path)),
                Some(leaf) => replaced.push((leaf.not_after, path)),
                None => {}
            }
        }
        expired.sort_unstable();
        expired.truncate(expired.len().saturating_sub(EXPIRED_KEPT));
        replaced.sort_unstable();
        replaced.truncate(replaced.len().saturating_sub(REPLACED_KEPT));
        let removed = expired.into_iter().chain(replaced);
        let removed: Vec<_> = removed.map(|(_, path)| path).collect();
        for path in &removed {
            Step::Remove(path.clone()).run()?;
        }
        Ok(removed)
    }

    /// If the link in use is gone and the next one is there, a swap was
    /// interrupted: finish it.
    fn plan_recovery(&self) -> Result<Vec<Step>, StoreError> {
        let (current, updated) = (self.path("current"), self.path("updated"));
        if files::exists(&current)? {
            return Ok(Vec::new());
        }
        if expect_link(&updated)? == Entry::Nothing {
            return Ok(Vec::new());
        }
        Ok(vec![
            Step::Rename {
                from: updated,
                to: current,
            },
            Step::SyncDirectory(self.location.directory.clone()),
        ])
    }

    fn plan_update(&self, path: &Path, content: String) -> Result<Vec<Step>, StoreError> {
        let (current, updated) = (self.path("current"), self.path("updated"));
        let directory = &self.location.directory;
        expect_link(&current)?;
        let interrupted = expect_link(&updated)? == Entry::Link;

        let mut steps = vec![Step::MakeDirectory(directory.clone())];
        let recovery = self.plan_recovery()?;
        if recovery.is_empty() && interrupted {
            steps.push(Step::Remove(updated.clone()));
        }
        steps.extend(recovery);
        // Left by writes that a crash cut short; they may hold keys.
        let leftovers = self.list(|name| {
            name.strip_suffix(".tmp")
                .is_some_and(|name| self.is_pair_name(name))
        })?;
        steps.extend(leftovers.into_iter().map(Step::Remove));

        let temporary = files::beside(path);
        steps.extend([
            Step::Write {
                path: temporary.clone(),
                content: content.into_bytes(),
                mode: 0o600,
            },
            Step::Rename {
                from: temporary,
                to: path.to_owned(),
            },
            // The file must be sure to be there before a link says so.
            Step::SyncDirectory(directory.clone()),
            Step::Link {
                target: path.to_owned(),
                path: updated.clone(),
            },
            Step::Rename {
                from: updated,
                to: current,
            },
            Step::SyncDirectory(directory.clone()),
        ]);
        Ok(steps)
    }

    fn path(&self, qualifier: &str) -> PathBuf {
        let Location {
            directory, prefix, ..
        } = &self.location;
        directory.join(format!("{prefix}-{qualifier}.pem"))
    }

    fn stamp(&self, now: SystemTime) -> Result<String, StoreError> {
        let timestamp = Timestamp::try_from(now).map_err(|_| StoreError::Clock)?;
        let local = timestamp.to_zoned(self.location.zone.clone());
        Ok(local.strftime("%Y-%m-%d-%H-%M-%S").to_string())
    }

    fn is_pair_name(&self, name: &str) -> bool {
        let stamp = name
            .strip_prefix(self.location.prefix.as_str())
            .and_then(|rest| rest.strip_prefix('-'))
            .and_then(|rest| rest.strip_suffix(".pem"));
        stamp.is_some_and(|stamp| {
            let shape = "0000-00-00-00-00-00";
            let fits = |(byte, expected): (u8, u8)| match expected {
                b'0' => byte.is_ascii_digit(),
                _ => byte == expected,
            };
            stamp.len() == shape.len() && stamp.bytes().zip(shape.bytes()).all(fits)
        })
    }

    fn list(&self, wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>, StoreError> {
        let directory = &self.location.directory;
        let failed = |cause| files::look_at(directory, cause);
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(cause) => return Err(failed(cause).into()),
        };
        let mut paths = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            if entry.file_name().to_str().is_some_and(&wanted) {
                paths.push(entry.path());
            }
        }
        Ok(paths)
    }
}

pub(crate) fn read_files(certificate: &Path, key: &Path) -> Result<Pair, StoreError> {
    let pair = Pair::from_pem(&files::read(certificate)?, &files::read(key)?);
    pair.map_err(|cause| StoreError::UnusableFiles {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
        cause,
    })
}

/// What we are about to replace must be a link of ours, or nothing: a file there
/// was put by somebody who does not expect it to go.
fn expect_link(path: &Path) -> Result<Entry, StoreError> {
    match Entry::at(path)? {
        entry @ (Entry::Nothing | Entry::Link) => Ok(entry),
        found => Err(StoreError::NotALink {
            path: path.to_owned(),
            found: found.to_string(),
        }),
    }
}

#[cfg(test)]
mod tests;
