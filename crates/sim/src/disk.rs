//! The disk of a machine in memory: which directories and files there are, and
//! what is mounted. Of what is published for pods only a digest is kept: nobody
//! reads it, and there may be a hundred thousand of them.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use seams::Storage;
use seams::host::HostError;
use seams::storage::{
    Bind, Entry, FileSystem, GroupShare, MountPoint, PathKind, Shared, SubPathError, Tree, Usage,
    Work, WorkDone, checked_sub_path,
};

use crate::machine::Machine;

/// What is on the disk, by path.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    held: BTreeMap<PathBuf, Held>,
}

#[derive(Debug)]
enum Held {
    File(Box<[u8]>),
    /// To a path.
    Link(Box<Path>),
    Directory(Directory),
}

#[derive(Clone, Copy, Debug, Default)]
struct Directory {
    mounted: Option<Mounted>,
    /// The digest of what is published in it.
    published: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mounted {
    Tmpfs,
    /// The digest of what part of which volume it is. On a machine in memory it
    /// may as well be a directory.
    SubPath(u64),
    /// The digest of the directory that it is.
    Directory(u64),
}

impl Disk {
    pub(crate) fn read(&self, path: &Path) -> Option<Vec<u8>> {
        match self.held.get(path)? {
            Held::File(content) => Some(content.to_vec()),
            Held::Link(_) | Held::Directory(_) => None,
        }
    }

    pub(crate) fn write(&mut self, path: &Path, content: &[u8]) {
        self.held
            .insert(path.to_owned(), Held::File(content.into()));
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = (&Path, &[u8])> {
        self.held.iter().filter_map(|(path, held)| match held {
            Held::File(content) => Some((path.as_path(), &**content)),
            Held::Link(_) | Held::Directory(_) => None,
        })
    }

    fn directory(&mut self, path: &Path) -> Result<&mut Directory, HostError> {
        match self.held.get_mut(path) {
            Some(Held::Directory(directory)) => Ok(directory),
            Some(_) => Err(at(path, io::ErrorKind::NotADirectory)),
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
        let mount = |(path, held): (&PathBuf, &Held)| match held {
            Held::Directory(found) => found.mounted.map(|mounted| mount_point(path, mounted)),
            Held::File(_) | Held::Link(_) => None,
        };
        let mut mounts: Vec<_> = self.below(path).filter_map(mount).collect();
        mounts.reverse();
        mounts
    }

    /// What a file holds; an error if it is none.
    fn content(&self, path: &Path) -> Result<Option<&[u8]>, HostError> {
        match self.held.get(path) {
            Some(Held::File(content)) => Ok(Some(content)),
            Some(_) => Err(at(path, io::ErrorKind::InvalidInput)),
            None => Ok(None),
        }
    }

    /// A file or a link takes the place of another.
    fn replace(&mut self, path: &Path, held: Held) -> Result<(), HostError> {
        if let Some(Held::Directory(_)) = self.held.get(path) {
            return Err(at(path, io::ErrorKind::IsADirectory));
        }
        self.held.insert(path.to_owned(), held);
        Ok(())
    }

    fn dangling_links(&self, directory: &Path) -> Vec<PathBuf> {
        let leads_nowhere = |held: &Held| match held {
            Held::Link(target) => self.below(target).next().is_none(),
            Held::File(_) | Held::Directory(_) => false,
        };
        let inside = self
            .below(directory)
            .filter(|(path, held)| path.parent() == Some(directory) && leads_nowhere(held));
        inside.map(|(path, _)| path.clone()).collect()
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

fn mount_point(path: &Path, mounted: Mounted) -> MountPoint {
    let file_system = match mounted {
        Mounted::Tmpfs => "tmpfs",
        Mounted::SubPath(_) | Mounted::Directory(_) => "ext4",
    };
    MountPoint {
        path: path.to_owned(),
        file_system: file_system.to_owned(),
    }
}

fn digest(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
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

    /// Each pod has some, and there may be a hundred thousand: nothing is kept of them.
    fn make_room(&self, path: &Path, _: u32) -> Result<(), HostError> {
        self.on_disk(|disk| match disk.held.get(path) {
            None | Some(Held::Directory(_)) => Ok(()),
            Some(_) => Err(at(path, io::ErrorKind::NotADirectory)),
        })
    }

    fn make_file(&self, path: &Path, _: u32) -> Result<(), HostError> {
        self.on_disk(|disk| {
            let empty = Held::File(Box::default());
            disk.held.entry(path.to_owned()).or_insert(empty);
        });
        Ok(())
    }

    fn write_file(&self, path: &Path, content: &[u8], _: u32) -> Result<bool, HostError> {
        self.on_disk(|disk| {
            let is_so = |held: &Held| matches!(held, Held::File(found) if **found == *content);
            if disk.held.get(path).is_some_and(is_so) {
                return Ok(false);
            }
            disk.replace(path, Held::File(content.into()))?;
            Ok(true)
        })
    }

    fn read_end(&self, path: &Path, most: usize) -> Result<Option<Vec<u8>>, HostError> {
        self.on_disk(|disk| {
            let content = disk.content(path)?;
            Ok(content.map(|content| content[content.len().saturating_sub(most)..].to_vec()))
        })
    }

    fn read_inside(
        &self,
        volume: &Path,
        path: &str,
        most: usize,
    ) -> Result<Option<Vec<u8>>, HostError> {
        let path = volume.join(checked_sub_path(path)?);
        self.on_disk(|disk| {
            let content = disk.content(&path)?;
            Ok(content.map(|content| content[..content.len().min(most)].to_vec()))
        })
    }

    fn remove_file(&self, path: &Path) -> Result<(), HostError> {
        self.on_disk(|disk| {
            if let Some(Held::Directory(_)) = disk.held.get(path) {
                return Err(at(path, io::ErrorKind::IsADirectory));
            }
            disk.held.remove(path);
            Ok(())
        })
    }

    /// What simulated containers print is on no disk, and nobody misses it: a file that
    /// is not here is an empty one.
    fn size(&self, path: &Path) -> Result<Option<u64>, HostError> {
        self.on_disk(|disk| {
            let content = disk.content(path)?;
            Ok(Some(content.map_or(0, |content| content.len() as u64)))
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<bool, HostError> {
        self.on_disk(|disk| {
            disk.content(from)?
                .ok_or_else(|| at(from, io::ErrorKind::NotFound))?;
            if disk.below(to).next().is_some() {
                return Ok(false);
            }
            let moved = disk.held.remove(from);
            disk.held.extend(moved.map(|held| (to.to_owned(), held)));
            Ok(true)
        })
    }

    /// Nobody reads it: it stays as it is.
    fn compress(&self, file: &Path, _: &Path, into: &Path) -> Result<(), HostError> {
        self.rename(file, into).map(drop)
    }

    fn link(&self, target: &Path, at: &Path) -> Result<(), HostError> {
        self.on_disk(|disk| disk.replace(at, Held::Link(target.into())))
    }

    fn dangling_links(&self, directory: &Path) -> Result<Vec<PathBuf>, HostError> {
        Ok(self.on_disk(|disk| disk.dangling_links(directory)))
    }

    fn publish(&self, directory: &Path, tree: &Tree, _: SystemTime) -> Result<bool, HostError> {
        tree.checked()?;
        let digest = Some(digest(tree));
        self.on_disk(|disk| {
            let directory = disk.directory(directory)?;
            let changed = directory.published != digest;
            directory.published = digest;
            Ok(changed)
        })
    }

    fn share(&self, directory: &Path, _: GroupShare, _: &AtomicU64) -> Result<Shared, HostError> {
        self.on_disk(|disk| disk.directory(directory).map(|_| Shared::default()))
    }

    fn mount_tmpfs(&self, path: &Path, _: Option<u64>) -> Result<bool, HostError> {
        self.on_disk(|disk| {
            let directory = disk.directory(path)?;
            let before = directory.mounted.replace(Mounted::Tmpfs);
            Ok(before != Some(Mounted::Tmpfs))
        })
    }

    /// Memory is memory.
    fn mount_huge_pages(&self, path: &Path, _: u64) -> Result<bool, HostError> {
        self.mount_tmpfs(path, None)
    }

    /// Any volume has any part.
    fn bind_sub_path(
        &self,
        volume: &Path,
        sub_path: &str,
        at: &Path,
    ) -> Result<bool, SubPathError> {
        let part = checked_sub_path(sub_path).map_err(SubPathError::Make)?;
        let mounted = Mounted::SubPath(digest(volume.join(part)));
        self.make_directory(at, 0o750, 0o750)
            .map_err(SubPathError::Bind)?;
        self.on_disk(|disk| {
            let directory = disk.directory(at)?;
            Ok(directory.mounted.replace(mounted) != Some(mounted))
        })
        .map_err(SubPathError::Bind)
    }

    /// What was in it is gone with it.
    fn unmount(&self, path: &Path) -> Result<(), HostError> {
        self.on_disk(|disk| {
            let directory = disk.directory(path);
            if directory.is_ok_and(|directory| directory.mounted.is_some()) {
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

    /// As it has whatever a pod hopes to find.
    fn exists(&self, _: &Path) -> Result<bool, HostError> {
        Ok(true)
    }

    fn bind(&self, bind: &Bind) -> Result<bool, HostError> {
        self.make_directory(&bind.at, 0o750, 0o750)?;
        let mounted = Mounted::Directory(digest(&bind.directory));
        self.on_disk(|disk| {
            let directory = disk.directory(&bind.at)?;
            let is_new = directory.mounted.is_none();
            directory.mounted.get_or_insert(mounted);
            Ok(is_new)
        })
    }

    fn also_mounted(&self, directory: &Path, below: &Path) -> Result<Vec<PathBuf>, HostError> {
        let wanted = Mounted::Directory(digest(directory));
        Ok(self.on_disk(|disk| {
            let places = disk.below(below).filter(
                |(_, held)| matches!(held, Held::Directory(found) if found.mounted == Some(wanted)),
            );
            places.map(|(path, _)| path.clone()).collect()
        }))
    }

    fn group(&self, _: &Path) -> Result<u32, HostError> {
        Ok(0)
    }

    fn remove_directory(&self, path: &Path) -> Result<(), HostError> {
        self.on_disk(|disk| {
            let mounted = match disk.held.get(path) {
                Some(Held::Directory(directory)) => directory.mounted.is_some(),
                Some(_) => return Err(at(path, io::ErrorKind::NotADirectory)),
                None => false,
            };
            if mounted {
                return Err(at(path, io::ErrorKind::ResourceBusy));
            }
            if disk.below(path).any(|(found, _)| found != path) {
                return Err(at(path, io::ErrorKind::DirectoryNotEmpty));
            }
            disk.held.remove(path);
            Ok(())
        })
    }

    /// Files that are published are not kept, and take up nothing.
    fn usage(&self, directory: &Path) -> Result<Usage, HostError> {
        Ok(self.on_disk(|disk| {
            let held = disk.below(directory);
            let sizes = held.map(|(_, held)| match held {
                Held::File(content) => content.len() as u64,
                Held::Link(_) | Held::Directory(_) => 0,
            });
            sizes.fold(Usage::default(), |usage, bytes| Usage {
                bytes: usage.bytes + bytes,
                inodes: usage.inodes + 1,
            })
        }))
    }

    fn file_system(&self, path: &Path) -> Result<FileSystem, HostError> {
        let disk = seams::Host::disk(self, path)?;
        Ok(FileSystem {
            capacity: disk.capacity,
            available: disk.available,
            used: disk.capacity.saturating_sub(disk.available),
            inodes: disk.inodes,
            inodes_free: disk.inodes_free,
            device: 0,
        })
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
        let tmpfs = mount_point(volume, Mounted::Tmpfs);
        assert_eq!(machine.mounts_below(pod).unwrap(), [tmpfs]);
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
    fn a_part_of_a_volume_is_mounted_once_and_has_to_be_unmounted() {
        let machine = machine();
        let (pod, volume) = (Path::new("/pods/1"), Path::new("/pods/1/volumes/e"));
        let at = Path::new("/pods/1/volume-subpaths/e/main/0");
        let bind = |part: &str| machine.bind_sub_path(volume, part, at);
        assert!(matches!(bind("a/../.."), Err(SubPathError::Make(_))));
        assert!(machine.mounts_below(pod).unwrap().is_empty());
        let changed = ["a", "./a", "b", "b"].map(|part| bind(part).unwrap());
        assert_eq!(changed, [true, false, true, false]);
        let mounts = machine.mounts_below(pod).unwrap();
        let paths: Vec<_> = mounts.iter().map(|mount| mount.path.as_path()).collect();
        assert_eq!(paths, [at]);
        assert!(machine.remove_tree(pod).is_err());
        machine.unmount(at).unwrap();
        machine.remove_tree(pod).unwrap();
        machine.make_file(at, 0o644).unwrap();
        assert!(matches!(bind("a"), Err(SubPathError::Bind(_))));
    }

    #[test]
    fn a_file_is_written_once_and_read_from_either_end() {
        let machine = machine();
        let path = Path::new("/pods/1/etc-hosts");
        assert_eq!(machine.read_end(path, 2).unwrap(), None);
        let write = |content: &[u8]| machine.write_file(path, content, 0o644).unwrap();
        let changed = [&b"12345"[..], b"12345", b"123456"].map(write);
        assert_eq!(changed, [true, false, true]);
        assert_eq!(machine.read_end(path, 2).unwrap().unwrap(), b"56");
        assert_eq!(machine.read_end(path, 9).unwrap().unwrap(), b"123456");
        for _ in 0..2 {
            machine.remove_file(path).unwrap();
            assert_eq!(machine.read_end(path, 2).unwrap(), None);
        }
        machine.make_directory(path, 0o750, 0o750).unwrap();
        assert!(machine.read_end(path, 2).is_err());
        assert!(machine.write_file(path, b"", 0o644).is_err());
        assert!(machine.remove_file(path).is_err());
    }

    #[test]
    fn a_log_is_renamed_unless_the_name_is_taken_and_one_that_is_not_here_is_empty() {
        let machine = machine();
        let path = |name: &str| PathBuf::from(format!("/var/log/pods/{name}"));
        assert_eq!(machine.size(&path("0.log")).unwrap(), Some(0));
        assert!(machine.rename(&path("0.log"), &path("0.log.1")).is_err());
        machine.write_file(&path("0.log"), b"text", 0o640).unwrap();
        machine.write_file(&path("0.log.1"), b"", 0o640).unwrap();
        assert!(!machine.rename(&path("0.log"), &path("0.log.1")).unwrap());
        assert!(machine.rename(&path("0.log"), &path("0.log.2")).unwrap());
        let (rotated, packed) = (path("0.log.2"), path("0.log.2.gz"));
        machine
            .compress(&rotated, &path("0.log.2.tmp"), &packed)
            .unwrap();
        assert_eq!(machine.size(&packed).unwrap(), Some(4));
        assert_eq!(machine.read_end(&rotated, 9).unwrap(), None);
    }

    #[test]
    fn links_are_not_read_and_those_that_lead_nowhere_are_found() {
        let machine = machine();
        let directory = Path::new("/var/log/containers");
        let log = |number: u8| PathBuf::from(format!("/var/log/pods/{number}.log"));
        let at = directory.join("a.log");
        machine.link(&log(0), &at).unwrap();
        machine
            .write_file(&directory.join("file"), b"", 0o644)
            .unwrap();
        let dangling = machine.dangling_links(directory).unwrap();
        assert_eq!(dangling, std::slice::from_ref(&at));
        machine.write_file(&log(1), b"text", 0o644).unwrap();
        machine.link(&log(1), &at).unwrap();
        assert!(machine.dangling_links(directory).unwrap().is_empty());
        assert!(
            machine
                .dangling_links(Path::new("/var/log"))
                .unwrap()
                .is_empty()
        );
        assert!(machine.read_end(&at, 9).is_err(), "links are not followed");
        machine.remove_file(&at).unwrap();
        assert_eq!(machine.read_end(&log(1), 9).unwrap().unwrap(), b"text");
    }

    #[test]
    fn nothing_is_kept_of_directories_that_only_hold_others() {
        let machine = machine();
        let volumes = Path::new("/pods/1/volumes");
        machine.make_room(volumes, 0o750).unwrap();
        assert_eq!(machine.entries(Path::new("/pods")).unwrap(), None);
        let config = volumes.join("config");
        machine.make_directory(&config, 0o777, 0o750).unwrap();
        machine.make_room(volumes, 0o750).unwrap();
        machine.remove_directory(&config).unwrap();
        machine.write_file(volumes, b"", 0o644).unwrap();
        assert!(
            machine.make_room(volumes, 0o750).is_err(),
            "a file is there"
        );
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
