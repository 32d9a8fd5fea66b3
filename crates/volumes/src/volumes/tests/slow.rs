//! A volume of so many files that whoever waits for it is told.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::SystemTime;

use seams::storage::{
    Bind, Entry, FileSystem, GroupShare, MountPoint, PathKind, Shared, SubPathError, Tree, Usage,
    Work, WorkDone,
};
use tokio::sync::Notify;

use super::claims::{LOCAL, assert_kept, bound, precious, with_group};
use super::*;
use crate::ownership::IN_PROGRESS;

/// This machine, whose files are given to a group no sooner than the test says.
#[derive(Debug)]
struct Slow {
    machine: LinuxHost,
    begun: Notify,
    /// Held by the one that waits.
    end: Mutex<Receiver<()>>,
}

/// The rest is the machine's.
macro_rules! of_the_machine {
    ($(fn $verb:ident(&self $(, $given:ident: $kind:ty)*) -> $found:ty;)*) => {
        $(fn $verb(&self $(, $given: $kind)*) -> $found {
            self.machine.$verb($($given),*)
        })*
    };
}

impl Storage for Slow {
    fn share(
        &self,
        directory: &Path,
        share: GroupShare,
        done: &AtomicU64,
    ) -> Result<Shared, HostError> {
        done.store(5, Ordering::Relaxed);
        self.begun.notify_one();
        self.end.lock().unwrap().recv().unwrap();
        self.machine.share(directory, share, done)
    }

    of_the_machine! {
        fn make_directory(&self, path: &Path, mode: u32, parents: u32) -> Result<bool, HostError>;
        fn make_file(&self, path: &Path, mode: u32) -> Result<(), HostError>;
        fn write_file(&self, path: &Path, content: &[u8], mode: u32) -> Result<bool, HostError>;
        fn read_end(&self, path: &Path, most: usize) -> Result<Option<Vec<u8>>, HostError>;
        fn read_inside(&self, volume: &Path, path: &str, most: usize) -> Result<Option<Vec<u8>>, HostError>;
        fn remove_file(&self, path: &Path) -> Result<(), HostError>;
        fn size(&self, path: &Path) -> Result<Option<u64>, HostError>;
        fn rename(&self, from: &Path, to: &Path) -> Result<bool, HostError>;
        fn compress(&self, file: &Path, beside: &Path, into: &Path) -> Result<(), HostError>;
        fn link(&self, target: &Path, at: &Path) -> Result<(), HostError>;
        fn dangling_links(&self, directory: &Path) -> Result<Vec<PathBuf>, HostError>;
        fn publish(&self, directory: &Path, tree: &Tree, now: SystemTime) -> Result<bool, HostError>;
        fn mount_tmpfs(&self, path: &Path, size: Option<u64>) -> Result<bool, HostError>;
        fn bind_sub_path(&self, volume: &Path, part: &str, at: &Path) -> Result<bool, SubPathError>;
        fn unmount(&self, path: &Path) -> Result<(), HostError>;
        fn mounts_below(&self, path: &Path) -> Result<Vec<MountPoint>, HostError>;
        fn remove_tree(&self, path: &Path) -> Result<(), HostError>;
        fn entries(&self, path: &Path) -> Result<Option<Vec<Entry>>, HostError>;
        fn has(&self, path: &Path, kind: PathKind, make: bool) -> Result<bool, HostError>;
        fn exists(&self, path: &Path) -> Result<bool, HostError>;
        fn bind(&self, bind: &Bind) -> Result<bool, HostError>;
        fn also_mounted(&self, directory: &Path, below: &Path) -> Result<Vec<PathBuf>, HostError>;
        fn group(&self, path: &Path) -> Result<u32, HostError>;
        fn remove_directory(&self, path: &Path) -> Result<(), HostError>;
        fn usage(&self, directory: &Path) -> Result<Usage, HostError>;
        fn file_system(&self, path: &Path) -> Result<FileSystem, HostError>;
        fn run(&self, work: Work) -> WorkDone<'_>;
    }
}

#[test]
fn a_volume_that_takes_long_to_be_given_to_its_group_is_told_of_while_it_does() {
    on_disks(async |scene| {
        let precious = precious();
        bound(&scene, &json!({"local": {"path": precious.path()}}));
        let (end, ended) = channel();
        let slow = Arc::new(Slow {
            machine: LinuxHost::new(PathBuf::from("/")),
            begun: Notify::new(),
            end: Mutex::new(ended),
        });
        let volumes = scene.volumes_of(slow.clone(), scene.objects());
        let said = Mutex::new(Vec::new());
        let tell = |message: String| said.lock().unwrap().push(message);
        let pod = with_group(4242, UID);
        let mut mounting = pin!(volumes.mount_and_tell(&pod, &tell));
        tokio::select! {
            biased;
            _ = &mut mounting => panic!("nothing was given away"),
            () = slow.begun.notified() => {}
        }
        let begins = format!("Setting volume ownership for {UID}/volumes/{LOCAL}");
        let slowly =
            format!("{begins} is taking longer than expected, consider using OnRootMismatch");
        let goes_on = format!("{begins}, processed 5 files.");
        // Time passes only as it is told to while there is work on a disk.
        for (seconds, told) in [
            (29, None),
            (2, Some(slowly)),
            (58, None),
            (2, Some(goes_on)),
        ] {
            tokio::time::advance(Duration::from_secs(seconds)).await;
            let mut context = Context::from_waker(Waker::noop());
            assert!(mounting.as_mut().poll(&mut context).is_pending());
            let said = std::mem::take(&mut *said.lock().unwrap());
            assert_eq!(said.len(), usize::from(told.is_some()), "{said:?}");
            for (said, told) in said.iter().zip(told) {
                assert!(said.starts_with(&told), "{said}");
            }
        }
        end.send(()).unwrap();
        mounting.await.unwrap();
        assert!(said.lock().unwrap().is_empty(), "it is over");
        // The reason of these events, which people look for.
        assert_eq!(IN_PROGRESS, "VolumePermissionChangeInProgress");
        volumes.unmount(&uid()).await.unwrap();
        scene.assert_nothing_is_left();
        assert_kept(&precious);
    });
}
