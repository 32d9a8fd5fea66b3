//! The disk of a machine in memory: which directories and files there are, and
//! what is mounted. Of what is published for pods only a digest is kept: nobody
//! reads it, and there may be a hundred thousand of them.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use seams::Storage;
use seams::host::HostError;
use seams::storage::{Entry, GroupShare, MountPoint, PathKind, Tree, Work, WorkDone};

use crate::machine::Machine;

/// What is on the disk, by path.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    held: BTreeMap<PathBuf, Held>,
}

#[derive(Debug)]
enum Held {
    File(Box<[u8]>),
    Directory(Directory),
}

#[derive(Clone, Copy, Debug, Default)]
struct Directory {
    tmpfs: bool,
    /// The digest of what is published in it.
    published: Option<u64>,
}

impl Disk {
    pub(crate) fn read(&self, path: &Path) -> Option<Vec<u8>> {
        match self.held.get(path)? {
            Held::File(content) => Some(content.to_vec()),
            Held::Directory(_) => None,
        }
    }

    pub(crate) fn write(&mut self, path: &Path, content: &[u8]) {
        self.held
            .insert(path.to_owned(), Held::File(content.into()));
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = (&Path, &[u8])> {
        self.held.iter().filter_map(|(path, held)| match held {
            Held::File(content) => Some((path.as_path(), &**content)),
            Held::Directory(_) => None,
        })
    }

    fn directory(&mut self, path: &Path) -> Result<&mut Directory, HostError> {
        match self.held.get_mut(path) {
            Some(Held::Directory(directory)) => Ok(directory),
            Some(Held::File(_)) => Err(at(path, io::ErrorKind::NotADirectory)),
            None => Err(at(path, io::ErrorKind::NotFound)),
        }
    }

    /// A path and all that is below it.
    fn below<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = (&'a PathBuf, &'a Held)> {
        let from = self
            .held
            .range::<Path, _>((Bound::Included(path), Bound::Unbounded));
        from.take_while(move |(found, _)| found.starts_with(path))
    }

    fn mounts(&self, path: &Path) -> Vec<MountPoint> {
        let is_mounted = |held: &Held| matches!(held, Held::Directory(found) if found.tmpfs);
        let mounted = self.below(path).filter(|(_, held)| is_mounted(held));
        let mut mounts: Vec<_> = mounted.map(|(path, _)| mount_point(path)).collect();
        mounts.reverse();
        mounts
    }

    fn entries(&self, path: &Path) -> Option<Vec<Entry>> {
        let mut entries = BTreeMap::new();
        let mut exists = false;
        for (found, held) in self.below(path) {
            let mut names = found.strip_prefix(path).into_iter().flatten();
            exists |= matches!(held, Held::Directory(_)) || names.clone().next().is_some();
            if let Some(name) = names.next() {
                // Parents are there by what is below them.
                let is_directory = names.next().is_some() || matches!(held, Held::Directory(_));
                let name = name.to_string_lossy().into_owned();
                entries.entry(name).or_insert(is_directory);
            }
        }
        let entries = entries.into_iter();
        let entries = entries.map(|(name, is_directory)| Entry { name, is_directory });
        exists.then(|| entries.collect())
    }
}

fn mount_point(path: &Path) -> MountPoint {
    MountPoint {
        path: path.to_owned(),
        file_system: "tmpfs".to_owned(),
    }
}

fn at(path: &Path, kind: io::ErrorKind) -> HostError {
    HostError::at(path, io::Error::from(kind))
}

impl Storage for Machine {
    fn make_directory(&self, path: &Path, _: u32, _: u32) -> Result<bool, HostError> {
        self.on_disk(|disk| {
            let is_new = !disk.held.contains_key(path);
            if is_new {
                let empty = Held::Directory(Directory::default());
                disk.held.insert(path.to_owned(), empty);
            }
            disk.directory(path).map(|_| is_new)
        })
    }

    fn make_file(&self, path: &Path, _: u32) -> Result<(), HostError> {
        self.on_disk(|disk| {
            let empty = Held::File(Box::default());
            disk.held.entry(path.to_owned()).or_insert(empty);
        });
        Ok(())
    }

    fn publish(&self, directory: &Path, tree: &Tree, _: SystemTime) -> Result<bool, HostError> {
        tree.checked()?;
        let mut hasher = DefaultHasher::new();
        tree.hash(&mut hasher);
        let digest = Some(hasher.finish());
        self.on_disk(|disk| {
            let directory = disk.directory(directory)?;
            let changed = directory.published != digest;
            directory.published = digest;
            Ok(changed)
        })
    }

    fn share(&self, directory: &Path, _: GroupShare) -> Result<(), HostError> {
        self.on_disk(|disk| disk.directory(directory).map(drop))
    }

    fn mount_tmpfs(&self, path: &Path, _: Option<u64>) -> Result<bool, HostError> {
        self.on_disk(|disk| {
            let directory = disk.directory(path)?;
            let is_new = !directory.tmpfs;
            directory.tmpfs = true;
            Ok(is_new)
        })
    }

    /// What was in it is gone with it.
    fn unmount(&self, path: &Path) -> Result<(), HostError> {
        self.on_disk(|disk| {
            let is_mounted = disk.directory(path).is_ok_and(|directory| directory.tmpfs);
            if is_mounted {
                disk.held.retain(|found, _| !found.starts_with(path));
                let empty = Held::Directory(Directory::default());
                disk.held.insert(path.to_owned(), empty);
            }
        });
        Ok(())
    }

    fn mounts_below(&self, path: &Path) -> Result<Vec<MountPoint>, HostError> {
        Ok(self.on_disk(|disk| disk.mounts(path)))
    }

    fn remove_tree(&self, path: &Path) -> Result<(), HostError> {
        self.on_disk(|disk| {
            if let Some(mount) = disk.mounts(path).first() {
                return Err(at(&mount.path, io::ErrorKind::ResourceBusy));
            }
            disk.held.retain(|found, _| !found.starts_with(path));
            Ok(())
        })
    }

    fn entries(&self, path: &Path) -> Result<Option<Vec<Entry>>, HostError> {
        Ok(self.on_disk(|disk| disk.entries(path)))
    }

    /// A simulated machine has whatever a pod hopes to find on it.
    fn has(&self, _: &Path, _: PathKind, _: bool) -> Result<bool, HostError> {
        Ok(true)
    }

    /// It takes no time at all.
    fn run(&self, work: Work) -> WorkDone<'_> {
        Box::pin(async move { work() })
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;
    use std::time::UNIX_EPOCH;

    use seams::storage::TreeFile;

    use super::*;

    fn machine() -> Machine {
        let address = IpAddr::from(Ipv4Addr::new(198, 18, 0, 1));
        Machine::new("node-1", Arc::default(), address)
    }

    fn tree(content: &str) -> Tree {
        let file = TreeFile {
            content: content.into(),
            mode: 0o644,
            owner: None,
        };
        Tree {
            files: [("key".to_owned(), file)].into(),
            group: None,
        }
    }

    #[test]
    fn it_tells_whether_what_is_published_changed() {
        let machine = machine();
        let path = Path::new("/pods/1/volumes/c");
        let publish = |content| machine.publish(path, &tree(content), UNIX_EPOCH);
        assert!(publish("one").is_err(), "there is no such directory");
        machine.make_directory(path, 0o777, 0o750).unwrap();
        assert_eq!(publish("one").ok(), Some(true));
        machine.make_directory(path, 0o777, 0o750).unwrap();
        assert_eq!(publish("one").ok(), Some(false));
        assert_eq!(publish("two").ok(), Some(true));
    }

    #[test]
    fn what_is_mounted_has_to_be_unmounted_before_it_is_removed() {
        let machine = machine();
        let (pod, volume) = (Path::new("/pods/1"), Path::new("/pods/1/volumes/s"));
        machine.make_directory(volume, 0o777, 0o750).unwrap();
        machine
            .make_directory(Path::new("/pods/10"), 0o750, 0o750)
            .unwrap();
        machine.mount_tmpfs(volume, None).unwrap();
        machine.publish(volume, &tree("one"), UNIX_EPOCH).unwrap();
        assert_eq!(machine.mounts_below(pod).unwrap(), [mount_point(volume)]);
        let error = machine.remove_tree(pod).unwrap_err();
        assert!(error.what.ends_with("/volumes/s"), "{error}");
        machine.unmount(volume).unwrap();
        machine.unmount(volume).unwrap();
        assert!(machine.publish(volume, &tree("one"), UNIX_EPOCH).unwrap());
        machine.remove_tree(pod).unwrap();
        assert_eq!(Storage::entries(&machine, pod).unwrap(), None);
        let left = Storage::entries(&machine, Path::new("/pods"))
            .unwrap()
            .unwrap();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn parents_are_listed_by_what_is_below_them() {
        let machine = machine();
        machine
            .make_directory(Path::new("/pods/1/a/b"), 0o777, 0o750)
            .unwrap();
        machine
            .make_file(Path::new("/pods/1/ready"), 0o644)
            .unwrap();
        let entries = machine.entries(Path::new("/pods/1")).unwrap().unwrap();
        let found: Vec<_> = entries
            .iter()
            .map(|entry| (entry.name.as_str(), entry.is_directory))
            .collect();
        assert_eq!(found, [("a", true), ("ready", false)]);
    }
}
