//! Which uids static pods have kept, on disk: an agent that is started again while the
//! API server is away still knows its own pods.

use std::collections::BTreeMap;
use std::path::PathBuf;

use seams::SharedHost;
use tracing::warn;
use types::PodUid;

/// In the root directory. Nobody else reads it; lost, the mirrors say it again.
pub const ADOPTED: &str = "ferrolet-adopted-pods.json";

const MODE: u32 = 0o600;

/// From a static pod's own uid, which follows from its manifest, to the one it runs under.
pub(super) type Uids = BTreeMap<PodUid, PodUid>;

/// The file.
#[derive(Debug)]
pub struct AdoptedFile {
    pub host: SharedHost,
    pub path: PathBuf,
}

impl AdoptedFile {
    /// What cannot be read is not remembered: the mirrors are asked.
    pub(super) fn read(&self) -> Uids {
        let content = match self.host.read(&self.path) {
            Ok(Some(content)) => content,
            Ok(None) => return Uids::new(),
            Err(error) => {
                warn!(%error, "cannot read which static pods were adopted; their mirrors are asked");
                return Uids::new();
            }
        };
        match serde_json::from_slice::<BTreeMap<String, String>>(&content) {
            Ok(uids) => uids
                .iter()
                .map(|(own, kept)| (PodUid::new(own), PodUid::new(kept)))
                .collect(),
            Err(error) => {
                let path = self.path.display();
                warn!(%path, %error, "this file is broken and not used; the mirrors are asked");
                Uids::new()
            }
        }
    }

    pub(super) fn write(&self, uids: &Uids) {
        let uids: BTreeMap<&str, &str> = uids
            .iter()
            .map(|(own, kept)| (own.as_str(), kept.as_str()))
            .collect();
        // Texts always are JSON.
        let content = serde_json::to_vec(&uids).unwrap_or_default();
        if let Err(error) = self.host.write(&self.path, &content, MODE) {
            warn!(%error, "cannot write down which static pods were adopted: started again while the API server is away, they would begin anew");
        }
    }
}
