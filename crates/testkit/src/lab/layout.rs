//! Where a lab keeps its things: every name and directory follows from one
//! instance id, so that several labs live side by side.

use std::env;
use std::fmt::{self, Display};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

/// Names a lab: chosen with `FERROLET_LAB`, else derived from the checkout's
/// path, so that two checkouts never share one by accident.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceId(String);

impl InstanceId {
    pub fn new(id: &str) -> Result<Self> {
        const LONGEST: usize = 20;
        let fits = (1..=LONGEST).contains(&id.len())
            && id
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        if !fits {
            bail!("lab id {id:?}: use 1 to {LONGEST} of the characters a-z and 0-9");
        }
        Ok(Self(id.to_owned()))
    }

    pub fn from_env() -> Result<Self> {
        match env::var("FERROLET_LAB") {
            Ok(id) => Self::new(&id).context("in the environment variable FERROLET_LAB"),
            Err(_) => Ok(Self::of_checkout(&workspace())),
        }
    }

    fn of_checkout(path: &Path) -> Self {
        Self(short_hash([path.as_os_str().as_encoded_bytes()], 8))
    }
}

impl InstanceId {
    /// The id of a second lab beside this one.
    pub fn beside(&self, suffix: &str) -> Result<Self> {
        Self::new(&format!("{}{suffix}", self.0))
    }
}

impl Display for InstanceId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The directories of one lab.
#[derive(Clone, Debug)]
pub struct Layout {
    pub id: InstanceId,
    /// Everything that `down` removes.
    pub dir: PathBuf,
    /// What every lab of this user shares and `down` keeps: built programs and
    /// images.
    pub cache: PathBuf,
}

impl Layout {
    pub fn new(id: InstanceId) -> Result<Self> {
        // Not below a temporary directory: the runtimes put overlay file
        // systems here, and those want a real disk below them.
        let labs = env::var_os("FERROLET_LAB_DIR")
            .map_or_else(|| PathBuf::from("/var/lib/ferrolet-lab"), PathBuf::from);
        Ok(Self {
            dir: absolute(&labs)?.join(id.to_string()),
            cache: cache_dir()?,
            id,
        })
    }

    /// Path of the lab's cgroup below the root of each hierarchy. Labs of one
    /// id in two places are two labs.
    pub fn cgroup(&self) -> String {
        let place = short_hash([self.dir.as_os_str().as_encoded_bytes()], 4);
        format!("ferrolet-lab/{}-{place}", self.id)
    }

    pub fn machine_dir(&self, machine: &str) -> PathBuf {
        self.machines_dir().join(machine)
    }

    pub fn machines_dir(&self) -> PathBuf {
        self.dir.join("machines")
    }

    pub fn lock_file(&self) -> PathBuf {
        // Beside the directory: `down` removes the directory under the lock.
        self.dir.with_extension("lock")
    }
}

/// The root of the checkout that this crate was built from.
pub fn workspace() -> PathBuf {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_dir
        .ancestors()
        .nth(2)
        .unwrap_or(crate_dir)
        .to_path_buf()
}

/// Hexadecimal digits of a hash over `parts`, each bounded by its length.
pub(super) fn short_hash<Part: AsRef<[u8]>>(
    parts: impl IntoIterator<Item = Part>,
    digits: usize,
) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        let part = part.as_ref();
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    let mut text = hex(&hash.finalize());
    text.truncate(digits);
    text
}

pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A path means the same wherever it is used, whatever its user's directory.
fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("cannot use {}", path.display()))
}

fn cache_dir() -> Result<PathBuf> {
    if let Some(dir) = env::var_os("FERROLET_LAB_CACHE") {
        return absolute(Path::new(&dir));
    }
    let user_cache = match env::var_os("XDG_CACHE_HOME") {
        Some(dir) if Path::new(&dir).is_absolute() => PathBuf::from(dir),
        _ => env::home_dir()
            .context("no home directory: set HOME or FERROLET_LAB_CACHE")?
            .join(".cache"),
    };
    Ok(user_cache.join("ferrolet/lab"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_short_and_plain() {
        for good in ["a", "lab7", "0123456789abcdefghij"] {
            assert!(InstanceId::new(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "Lab",
            "a-b",
            "../x",
            "0123456789abcdefghijk",
            "a b",
            "ä",
        ] {
            assert!(InstanceId::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn checkouts_have_ids_of_their_own() {
        let one = InstanceId::of_checkout(Path::new("/a/ferrolet"));
        let other = InstanceId::of_checkout(Path::new("/b/ferrolet"));
        assert_ne!(one, other);
        assert_eq!(InstanceId::new(&one.0).unwrap(), one);
    }

    #[test]
    fn the_hash_tells_parts_apart() {
        assert_ne!(short_hash(["ab", "c"], 16), short_hash(["a", "bc"], 16));
        assert_eq!(short_hash(["ab"], 16).len(), 16);
    }
}
