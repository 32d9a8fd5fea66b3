//! What is in the files that a container's variables come from.

use k8s_openapi::api::core::v1::Container;
use seams::storage::perform;
use tracing::warn;

use crate::spec::env::files::{EnvFile, EnvFiles, MOST, wanted};
use crate::task::Worker;

impl Worker {
    /// Those of volumes that the pod has; `None` without the gate.
    pub(super) async fn env_files(&self, container: &Container) -> Option<EnvFiles> {
        if !self.on.settings.env_files {
            return None;
        }
        let mut files = EnvFiles::new();
        for (volume, path) in wanted(container) {
            let mut mounted = self.mounted.iter().flat_map(|mounted| &mounted.volumes);
            let Some(found) = mounted.find(|mounted| mounted.name == volume) else {
                continue;
            };
            let (root, inside) = (found.path.clone(), path.clone());
            let file = EnvFile {
                path: root.join(&inside),
                content: None,
            };
            // One byte more tells whether there is more.
            let read = perform(&self.on.storage, move |storage| {
                storage.read_inside(&root, &inside, MOST + 1)
            });
            let content = match read.await.and_then(|read| read) {
                Ok(content) => content.filter(|content| content.len() <= MOST),
                Err(error) => {
                    warn!(pod = %self.pod, container = container.name, %error, "a file with variables cannot be read");
                    None
                }
            };
            files.insert((volume, path), EnvFile { content, ..file });
        }
        Some(files)
    }
}
