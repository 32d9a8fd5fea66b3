//! Trees of files that are replaced as a whole.
//!
//! In a directory, `..data` links to a directory whose name tells when it was
//! made; the names that users see link to what is below `..data`. A new tree is
//! written beside the old one, and becomes the one to be seen when `..data` is
//! renamed over. What to do is planned from what is there, so that a crash at
//! any point leaves the old tree or the new, and the rest to the next time.
//!
//! Nothing is synced: after a loss of power, the files are compared with what
//! they should be before a container sees them again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use jiff::Timestamp;
use seams::host::HostError;
use seams::storage::{GroupShare, Tree, TreeFile};

use crate::{ownership, trees};

/// The link to what is to be seen.
const DATA: &str = "..data";
/// The same, before it takes its place.
const NEW_DATA: &str = "..data_tmp";
/// What the name of a tree is made of, digits for its zeros, before what tells it from
/// others of the same second.
const MOMENT: &str = "..0000_00_00_00_00_00";

const DIRECTORY_MODE: u32 = 0o755;

/// Makes a tree what is to be seen in a directory. Whether anything changed.
pub(crate) fn publish(directory: &Path, tree: &Tree, now: SystemTime) -> Result<bool, HostError> {
    let files = tree.checked()?;
    let at = |cause| HostError::at(directory, cause);
    let present = Present::look(directory, &files).map_err(at)?;
    let fresh = present.fresh_name(now, || fastrand::u32(..));
    let steps = plan(&present, &files, tree.group, &fresh);
    let mut shown = false;
    for step in &steps {
        if let Err(cause) = step.take(directory) {
            if !shown {
                give_up(directory, &fresh);
            }
            let path = directory.join(step.path().unwrap_or_default());
            let what = format!("{} {}", step.verb(), path.display());
            return Err(HostError::new(what, cause));
        }
        shown |= *step == Step::Swap;
    }
    Ok(!steps.is_empty())
}

/// Half a tree helps nobody, and takes the room of the next: a memory file system that
/// is full would stay so. What cannot be removed is left to the next time.
fn give_up(directory: &Path, fresh: &str) {
    for name in [NEW_DATA, fresh] {
        let _ = trees::remove(&directory.join(name));
    }
}

/// What is in the directory.
#[derive(Debug, Default, PartialEq, Eq)]
struct Present {
    /// Where `..data` leads.
    current: Option<String>,
    /// What it leads to is what is wanted.
    up_to_date: bool,
    /// What a crash left behind.
    leftovers: Vec<String>,
    /// The names that users see and that are ours.
    links: BTreeSet<String>,
    /// All other names: where others are to be mounted.
    others: BTreeSet<String>,
}

impl Present {
    fn look(directory: &Path, files: &BTreeMap<String, &TreeFile>) -> io::Result<Self> {
        let current = match fs::read_link(directory.join(DATA)) {
            Ok(target) => target.into_os_string().into_string().ok(),
            Err(cause) if cause.kind() == ErrorKind::NotFound => None,
            Err(cause) => return Err(cause),
        };
        let mut present = Self {
            current,
            ..Self::default()
        };
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            if name == DATA || present.current.as_ref() == Some(&name) {
                continue;
            }
            if name == NEW_DATA || is_tree(&name) {
                present.leftovers.push(name);
            } else if fs::read_link(entry.path()).is_ok_and(|target| target.starts_with(DATA)) {
                present.links.insert(name);
            } else {
                present.others.insert(name);
            }
        }
        present.leftovers.sort();
        if let Some(current) = &present.current {
            present.up_to_date = holds(&directory.join(current), files)?;
        }
        Ok(present)
    }

    /// `..2026_01_02_03_04_05.123456789`, and no name that is taken.
    fn fresh_name(&self, now: SystemTime, mut random: impl FnMut() -> u32) -> String {
        let now = Timestamp::try_from(now).unwrap_or_default();
        let moment = now.strftime("..%Y_%m_%d_%H_%M_%S").to_string();
        loop {
            let name = format!("{moment}.{}", random());
            if self.current.as_ref() != Some(&name) && !self.leftovers.contains(&name) {
                return name;
            }
        }
    }
}

/// Whether a tree of ours has such a name. Others that begin with dots are somebody else's
/// mount points.
fn is_tree(name: &str) -> bool {
    let Some((moment, random)) = name.split_at_checked(MOMENT.len()) else {
        return false;
    };
    let alike = |(letter, like): (u8, u8)| match like {
        b'0' => letter.is_ascii_digit(),
        like => letter == like,
    };
    let random = random.strip_prefix('.').unwrap_or_default();
    moment.bytes().zip(MOMENT.bytes()).all(alike)
        && !random.is_empty()
        && random.bytes().all(|letter| letter.is_ascii_digit())
}

/// Whether these files, and no others, are below a directory.
fn holds(directory: &Path, files: &BTreeMap<String, &TreeFile>) -> io::Result<bool> {
    let mut found = BTreeSet::new();
    let mut unread = vec![String::new()];
    while let Some(below) = unread.pop() {
        let entries = match fs::read_dir(directory.join(&below)) {
            Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(false),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = match below.as_str() {
                "" => name,
                below => format!("{below}/{name}"),
            };
            if entry.file_type()?.is_dir() {
                unread.push(path);
            } else {
                found.insert(path);
            }
        }
    }
    if !found.iter().eq(files.keys()) {
        return Ok(false);
    }
    for (path, file) in files {
        if fs::read(directory.join(path))? != file.content {
            return Ok(false);
        }
    }
    Ok(true)
}

/// One change to the directory; paths are below it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step<'a> {
    /// A link, or a directory with all that is in it.
    Remove(String),
    MakeDirectory(String),
    Write(String, &'a TreeFile),
    /// Everything, to a group.
    Share(u32),
    /// Prepares the link to the directory of this name.
    Prepare(String),
    /// The prepared link takes its place: from here on the new is seen.
    Swap,
    /// A name that users see, and whose it is.
    Show(String, Option<u32>),
}

/// What makes the directory so that the files are seen in it.
fn plan<'a>(
    present: &Present,
    files: &BTreeMap<String, &'a TreeFile>,
    group: Option<u32>,
    fresh: &str,
) -> Vec<Step<'a>> {
    let mut steps: Vec<_> = present
        .leftovers
        .iter()
        .cloned()
        .map(Step::Remove)
        .collect();
    let replace = !present.up_to_date;
    if replace {
        steps.push(Step::MakeDirectory(fresh.to_owned()));
        let directories = files.keys().flat_map(|path| parents(path));
        let directories: BTreeSet<&str> = directories.collect();
        let made = directories
            .into_iter()
            .map(|path| format!("{fresh}/{path}"));
        steps.extend(made.map(Step::MakeDirectory));
        let written = files
            .iter()
            .map(|(path, file)| (format!("{fresh}/{path}"), *file));
        steps.extend(written.map(|(path, file)| Step::Write(path, file)));
        steps.extend(group.map(Step::Share));
        steps.push(Step::Prepare(fresh.to_owned()));
        steps.push(Step::Swap);
    }
    let mut shown = BTreeMap::new();
    for (path, file) in files {
        let name = path.split('/').next().unwrap_or_default();
        shown.entry(name.to_owned()).or_insert(file.owner);
    }
    for (name, owner) in &shown {
        if !present.links.contains(name) && !present.others.contains(name) {
            steps.push(Step::Show(name.clone(), *owner));
        }
    }
    let stale = present
        .links
        .iter()
        .filter(|name| !shown.contains_key(*name));
    steps.extend(stale.cloned().map(Step::Remove));
    if replace {
        steps.extend(present.current.clone().map(Step::Remove));
    }
    steps
}

/// The directories above a file, the uppermost first.
fn parents(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(end, _)| &path[..end])
}

impl Step<'_> {
    /// What it is about, if it is not the whole.
    fn path(&self) -> Option<&str> {
        match self {
            Self::Remove(path)
            | Self::MakeDirectory(path)
            | Self::Write(path, _)
            | Self::Show(path, _) => Some(path),
            Self::Share(_) => None,
            Self::Prepare(_) => Some(NEW_DATA),
            Self::Swap => Some(DATA),
        }
    }

    /// What Go calls it.
    fn verb(&self) -> &'static str {
        match self {
            Self::Remove(_) => "remove",
            Self::MakeDirectory(_) => "mkdir",
            Self::Write(..) => "write",
            Self::Share(_) => "chown",
            Self::Prepare(_) | Self::Show(..) => "symlink",
            Self::Swap => "rename",
        }
    }

    fn take(&self, directory: &Path) -> io::Result<()> {
        match self {
            Self::Remove(name) => trees::remove(&directory.join(name)),
            Self::MakeDirectory(path) => {
                let path = directory.join(path);
                fs::create_dir(&path)?;
                fs::set_permissions(&path, fs::Permissions::from_mode(DIRECTORY_MODE))
            }
            Self::Write(path, file) => write(&directory.join(path), file),
            Self::Share(group) => {
                let share = GroupShare {
                    group: *group,
                    read_only: true,
                    unless_root_matches: false,
                };
                // A file that stays as it was is seen all the same, as upstream has it.
                ownership::share(directory, share, &AtomicU64::default()).map(drop)
            }
            Self::Prepare(name) => symlink(name, directory.join(NEW_DATA)),
            Self::Swap => fs::rename(directory.join(NEW_DATA), directory.join(DATA)),
            Self::Show(name, owner) => {
                let shown = directory.join(name);
                symlink(Path::new(DATA).join(name), &shown)?;
                owner.map_or(Ok(()), |owner| lchown(&shown, Some(owner), None))
            }
        }
    }
}

fn write(path: &Path, file: &TreeFile) -> io::Result<()> {
    crate::files::write_new(path, &file.content, file.mode)?;
    match file.owner {
        Some(owner) => lchown(path, Some(owner), None),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
