//! Pods and a machine for tests.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use k8s_openapi::api::core::v1::Pod;
use seams::Host;
use seams::host::{
    Answer, DefaultRoute, DiskFigures, FileEntry, Hint, HostError, Interface, Listing, MachineFacts,
};
use tokio::sync::watch;

/// A pod from its metadata and spec, in YAML.
pub(crate) fn pod(text: &str) -> Pod {
    let text = format!("apiVersion: v1\nkind: Pod\n{text}\n");
    crate::decode::pod(text.as_bytes()).unwrap().content
}

/// A machine that has files only. A path that ends in `.dir` is no regular file.
#[derive(Debug, Default)]
pub(crate) struct TestHost {
    files: Mutex<BTreeMap<PathBuf, Vec<u8>>>,
    written: watch::Sender<()>,
    /// It gives no hints, as a network's file system gives none.
    mute: bool,
}

impl TestHost {
    pub(crate) fn mute() -> Self {
        Self {
            mute: true,
            ..Self::default()
        }
    }

    pub(crate) fn remove(&self, path: &Path) {
        self.files.lock().unwrap().remove(path);
        self.written.send_replace(());
    }
}

fn nothing<T>() -> Result<T, HostError> {
    Err(HostError::new(
        "the machine",
        io::Error::other("it has files only"),
    ))
}

fn entry(path: &Path, content: &[u8]) -> FileEntry {
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    FileEntry {
        regular: path.extension().is_none_or(|kind| kind != "dir"),
        name,
        size: content.len() as u64,
    }
}

impl Host for TestHost {
    fn machine(&self) -> Result<MachineFacts, HostError> {
        nothing()
    }

    fn disk(&self, _: &Path) -> Result<DiskFigures, HostError> {
        nothing()
    }

    fn interfaces(&self) -> Result<Vec<Interface>, HostError> {
        nothing()
    }

    fn default_routes(&self) -> Result<Option<Vec<DefaultRoute>>, HostError> {
        nothing()
    }

    fn resolve<'a>(&'a self, _: &'a str) -> Answer<'a, Vec<IpAddr>> {
        Box::pin(async { nothing() })
    }

    fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, HostError> {
        Ok(self.files.lock().unwrap().get(path).cloned())
    }

    fn list(&self, path: &Path) -> Result<Option<Listing>, HostError> {
        let files = self.files.lock().unwrap();
        if let Some(content) = files.get(path) {
            let file = entry(path, content);
            let listing = if file.regular {
                Listing::File(file)
            } else {
                Listing::Other
            };
            return Ok(Some(listing));
        }
        let inside = files.iter().filter(|(file, _)| file.parent() == Some(path));
        let inside: Vec<_> = inside.map(|(file, content)| entry(file, content)).collect();
        Ok((!inside.is_empty()).then_some(Listing::Directory(inside)))
    }

    fn hint(&self, _: &Path) -> Hint {
        if self.mute {
            return Box::pin(std::future::pending());
        }
        let mut written = self.written.subscribe();
        Box::pin(async move {
            if written.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }

    fn write(&self, path: &Path, content: &[u8], _: u32) -> Result<(), HostError> {
        let mut files = self.files.lock().unwrap();
        files.insert(path.to_owned(), content.to_owned());
        self.written.send_replace(());
        Ok(())
    }
}
