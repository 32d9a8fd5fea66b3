//! What was carried out, of all pods: in memory, and in a file as soon as it is true.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use seams::host::HostError;
use seams::storage::perform;
use seams::{Host, SharedStorage};
use std::collections::BTreeMap;
use thiserror::Error;
use types::{PodResources, PodUid};

use super::checkpoint::{self, Broken, Entries, MODE};

/// Of the root directory, where nothing has made it yet.
const DIRECTORY_MODE: u32 = 0o755;

/// Why a node does not begin. The words are upstream's: what is written there may be true
/// of pods that run, and only people can tell what has become of it.
#[derive(Debug, Error)]
pub enum RestoreError {
    #[error(
        "could not restore state from checkpoint: {cause}, please drain this node and delete pod resource information checkpoint file {path:?} before restarting Kubelet"
    )]
    Broken { path: PathBuf, cause: Broken },
    #[error("could not restore state from checkpoint: {0}")]
    Unreadable(#[from] HostError),
}

/// What could not be written down.
#[derive(Debug, Error)]
pub enum RecordError {
    #[error("failed to create checkpoint: {0}")]
    Encode(#[from] serde_json::Error),
    #[error("could not write checkpoint: {0}")]
    Write(#[from] HostError),
}

/// One of the two files.
#[derive(Clone, Debug)]
pub struct StateFile {
    storage: SharedStorage,
    path: PathBuf,
}

impl StateFile {
    pub fn new(storage: SharedStorage, path: PathBuf) -> Self {
        Self { storage, path }
    }

    /// Replaces what is there, as a whole.
    pub async fn write(&self, entries: &Entries) -> Result<(), RecordError> {
        let content = checkpoint::encode(entries)?;
        let path = self.path.clone();
        let written = perform(&self.storage, move |storage| {
            match storage.write_file(&path, &content, MODE) {
                Err(error) if error.cause.kind() == ErrorKind::NotFound => {}
                written => return written,
            }
            // The very first file of a node.
            if let Some(directory) = path.parent() {
                storage.make_directory(directory, DIRECTORY_MODE, DIRECTORY_MODE)?;
            }
            storage.write_file(&path, &content, MODE)
        });
        written.await??;
        Ok(())
    }
}

/// What an earlier agent wrote down; nothing if there was none.
pub fn restore(host: &dyn Host, path: &Path) -> Result<Entries, RestoreError> {
    let Some(content) = host.read(path)? else {
        return Ok(Entries::new());
    };
    checkpoint::decode(&content).map_err(|cause| RestoreError::Broken {
        path: path.to_owned(),
        cause,
    })
}

/// What the containers of all pods have, as far as this node has told the runtime.
#[derive(Debug)]
pub struct Actuated {
    file: StateFile,
    /// Held for one access.
    records: Mutex<Records>,
    /// Who writes: those who come meanwhile find their own words written by the next. It
    /// is held while the disk works, and guards nothing but the file.
    writing: tokio::sync::Mutex<u64>,
}

#[derive(Debug, Default)]
struct Records {
    pods: BTreeMap<PodUid, Arc<PodResources>>,
    /// How often they have changed.
    version: u64,
}

impl Actuated {
    pub fn new(entries: Entries, file: StateFile) -> Self {
        let pods = entries.into_iter();
        let pods = pods.map(|(uid, resources)| (uid, Arc::new(resources)));
        Self {
            file,
            records: Mutex::new(Records {
                pods: pods.collect(),
                version: 0,
            }),
            writing: tokio::sync::Mutex::new(0),
        }
    }

    pub fn get(&self, uid: &PodUid) -> Option<Arc<PodResources>> {
        self.records().pods.get(uid).cloned()
    }

    /// Changes what is known of a pod; it is on the disk when this ends.
    pub async fn change(
        &self,
        uid: &PodUid,
        change: impl FnOnce(&mut PodResources) + Send,
    ) -> Result<(), RecordError> {
        let version = {
            let mut records = self.records();
            let before = records.pods.get(uid);
            let mut resources = before.map(|before| (**before).clone()).unwrap_or_default();
            change(&mut resources);
            // What was known before may not have reached the disk yet.
            if before.is_none_or(|before| **before != resources) {
                records.pods.insert(uid.clone(), Arc::new(resources));
                records.version += 1;
            }
            records.version
        };
        let mut written = self.writing.lock().await;
        if *written >= version {
            return Ok(());
        }
        let (entries, newest) = {
            let records = self.records();
            let pods = records.pods.iter();
            let entries = pods.map(|(uid, resources)| (uid.clone(), (**resources).clone()));
            (entries.collect::<Entries>(), records.version)
        };
        self.file.write(&entries).await?;
        *written = newest;
        Ok(())
    }

    /// The pod is gone. What stands in the file of it goes with the next word, as upstream
    /// has it: it harms nobody.
    pub fn remove(&self, uid: &PodUid) {
        self.records().pods.remove(uid);
    }

    /// All others are gone.
    pub fn retain(&self, is_known: impl Fn(&PodUid) -> bool) {
        self.records().pods.retain(|uid, _| is_known(uid));
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use testkit::host::LinuxHost;

    use super::*;

    #[tokio::test]
    async fn what_could_not_be_written_is_not_taken_to_be_written_the_next_time() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("state");
        let host = LinuxHost::new(PathBuf::from("/"));
        let file = StateFile::new(Arc::new(host.clone()), path.clone());
        let actuated = Actuated::new(Entries::new(), file);
        let uid = PodUid::new("u-1");
        let more = |resources: &mut PodResources| {
            resources.containers.entry("c".to_owned()).or_default();
        };
        // A directory with something in it is not replaced.
        fs::create_dir_all(path.join("in-the-way")).unwrap();
        for _ in 0..2 {
            actuated.change(&uid, more).await.unwrap_err();
        }
        fs::remove_dir_all(&path).unwrap();
        actuated.change(&uid, more).await.unwrap();
        assert!(restore(&host, &path).unwrap().contains_key(&uid));
        // And what is there is not written again.
        fs::remove_file(&path).unwrap();
        actuated.change(&uid, more).await.unwrap();
        assert!(!path.exists());
    }
}
