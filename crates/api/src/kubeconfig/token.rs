//! A bearer token in a file, which someone else renews.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};

use crate::{Secret, files};

/// How long a token is used before the file is read again: upstream takes it to be good for a
/// minute, and begins to renew it ten seconds before the end.
const FRESH: SignedDuration = SignedDuration::from_secs(50);

/// Reads the file when the last reading is old.
#[derive(Debug)]
pub struct TokenFileReader {
    path: PathBuf,
    fallback: Option<Secret<String>>,
    // Held while a small local file is read, so that many requests cause one reading.
    last: Mutex<Option<Reading>>,
}

#[derive(Debug)]
struct Reading {
    token: Secret<String>,
    at: Timestamp,
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("token file {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("token file {path} is empty")]
    Empty { path: PathBuf },
}

impl TokenFileReader {
    /// `fallback` is used as long as the file has never been read.
    pub fn new(path: PathBuf, fallback: Option<Secret<String>>) -> Self {
        Self {
            path,
            fallback,
            last: Mutex::new(None),
        }
    }

    /// The token to send at `now`. One that was read once is kept when the file goes away.
    pub fn token(&self, now: Timestamp) -> Result<Secret<String>, TokenError> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reading) = &*last {
            let age = now.duration_since(reading.at);
            // A clock that was set back must not keep an old token alive.
            if !age.is_negative() && age < FRESH {
                return Ok(reading.token.clone());
            }
        }
        match read(&self.path) {
            Ok(token) => {
                *last = Some(Reading {
                    token: token.clone(),
                    at: now,
                });
                Ok(token)
            }
            Err(error) => {
                let known = last
                    .as_ref()
                    .map(|reading| &reading.token)
                    .or(self.fallback.as_ref());
                known.cloned().ok_or(error)
            }
        }
    }
}

pub(super) fn read(path: &Path) -> Result<Secret<String>, TokenError> {
    let unreadable = |source| TokenError::Read {
        path: path.to_owned(),
        source,
    };
    let text = files::read(path).map_err(unreadable)?;
    let text = String::from_utf8(text).map_err(|cause| unreadable(io::Error::other(cause)))?;
    let token = text.trim();
    if token.is_empty() {
        return Err(TokenError::Empty {
            path: path.to_owned(),
        });
    }
    Ok(Secret::new(token.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_token_file_is_read_again_after_fifty_seconds() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let reader = TokenFileReader::new(path.clone(), None);
        let at = |second: i64| Timestamp::from_second(1_000 + second).unwrap();
        let token = |second| reader.token(at(second)).map(|token| token.expose().clone());

        assert!(matches!(token(0), Err(TokenError::Read { .. })));
        fs::write(&path, " \n").unwrap();
        assert!(matches!(token(0), Err(TokenError::Empty { .. })));
        fs::write(&path, "one\n").unwrap();
        assert_eq!(token(0).unwrap(), "one");
        fs::write(&path, "two\n").unwrap();
        assert_eq!(token(49).unwrap(), "one");
        assert_eq!(token(50).unwrap(), "two");
        fs::write(&path, "three").unwrap();
        assert_eq!(token(10).unwrap(), "three", "the clock was set back");
        fs::remove_file(&path).unwrap();
        assert_eq!(token(200).unwrap(), "three", "a token outlives its file");
    }

    #[test]
    fn the_token_beside_a_token_file_is_for_when_the_file_is_missing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let reader = TokenFileReader::new(path.clone(), Some(Secret::new("given".to_owned())));
        assert_eq!(
            reader.token(Timestamp::UNIX_EPOCH).unwrap().expose(),
            "given"
        );
        fs::write(&path, "read").unwrap();
        assert_eq!(
            reader.token(Timestamp::UNIX_EPOCH).unwrap().expose(),
            "read"
        );
    }
}
