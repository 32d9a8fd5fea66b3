//! The docker configuration of the machine, which all its pods may pull with.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use seams::{SharedClock, SharedHost};

use super::{DockerConfig, DockerConfigError, Keyring, Source};

/// Files are looked at anew when the last look is older than this.
const KEPT_FOR: Duration = Duration::from_secs(5 * 60);

/// Where the files may lie. What is not known is not looked into.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// `--root-dir`.
    pub root: PathBuf,
    /// The working directory of the process.
    pub working: Option<PathBuf>,
    /// The home of its user.
    pub home: Option<PathBuf>,
}

impl Places {
    /// In the order in which they are looked at: the first that can be read counts,
    /// and the others do not.
    fn files(&self) -> impl Iterator<Item = (PathBuf, Form)> {
        let root = PathBuf::from("/");
        let home_docker = self.home.as_ref().map(|home| home.join(".docker"));
        let shared = || [Some(self.root.clone()), self.working.clone()].into_iter();
        let json = shared().chain([home_docker, Some(root.join(".docker"))]);
        let old = shared().chain([self.home.clone(), Some(root)]);
        let json = json
            .flatten()
            .map(|it| (it.join("config.json"), Form::Json));
        let old = old.flatten().map(|it| (it.join(".dockercfg"), Form::Old));
        json.chain(old).collect::<Vec<_>>().into_iter()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Json,
    Old,
}

impl Form {
    fn read(self, content: &[u8]) -> Result<DockerConfig, DockerConfigError> {
        match self {
            Self::Json => DockerConfig::from_json(content),
            Self::Old => DockerConfig::from_dockercfg(content),
        }
    }
}

/// What the machine has, as last looked at.
#[derive(Debug)]
pub struct NodeFiles {
    host: SharedHost,
    clock: SharedClock,
    places: Places,
    // Held while small files are read; nothing waits on it meanwhile but others
    // who would read the same.
    last: Mutex<Option<Look>>,
}

#[derive(Debug)]
struct Look {
    until: Duration,
    keyring: Arc<Keyring>,
}

impl NodeFiles {
    pub fn new(host: SharedHost, clock: SharedClock, places: Places) -> Self {
        Self {
            host,
            clock,
            places,
            last: Mutex::new(None),
        }
    }

    pub fn keyring(&self) -> Arc<Keyring> {
        let now = self.clock.uptime();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(look) = last.as_ref().filter(|look| now < look.until) {
            return Arc::clone(&look.keyring);
        }
        let keyring = Arc::new(self.look());
        *last = Some(Look {
            until: now + KEPT_FOR,
            keyring: Arc::clone(&keyring),
        });
        keyring
    }

    fn look(&self) -> Keyring {
        let mut keyring = Keyring::default();
        for (path, form) in self.places.files() {
            let file = path.display();
            let content = match self.host.read(&path) {
                Ok(Some(content)) => content,
                Ok(None) => continue,
                Err(error) => {
                    tracing::warn!(%error, "docker configuration passed over");
                    continue;
                }
            };
            match form.read(&content) {
                Ok(config) => {
                    tracing::debug!(%file, "docker configuration read");
                    keyring.add(config, &Source::Node);
                    break;
                }
                Err(error) => tracing::warn!(%file, %error, "docker configuration passed over"),
            }
        }
        keyring
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use testkit::clock::TokioClock;

    use super::*;
    use crate::testing::FilesOnly;

    fn places() -> Places {
        Places {
            root: "/var/lib/kubelet".into(),
            working: Some("/work".into()),
            home: Some("/root".into()),
        }
    }

    #[test]
    fn files_are_looked_at_in_the_order_that_is_documented() {
        let paths: Vec<String> = places()
            .files()
            .map(|(path, _)| path.display().to_string())
            .collect();
        let expected = [
            "/var/lib/kubelet/config.json",
            "/work/config.json",
            "/root/.docker/config.json",
            "/.docker/config.json",
            "/var/lib/kubelet/.dockercfg",
            "/work/.dockercfg",
            "/root/.dockercfg",
            "/.dockercfg",
        ];
        assert_eq!(paths, expected);
    }

    fn users(files: &NodeFiles) -> Vec<String> {
        let keyring = files.keyring();
        let found = keyring.lookup("r.io/app").into_iter();
        found.map(|it| it.login.to_cri().username).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_that_can_be_read_counts_and_is_kept_for_five_minutes() {
        let host = Arc::new(FilesOnly::default());
        host.put("/var/lib/kubelet/config.json", "kind: KubeletConfiguration");
        host.put(
            "/root/.docker/config.json",
            r#"{"auths": {"r.io": {"username": "a"}}}"#,
        );
        host.put(
            "/.docker/config.json",
            r#"{"auths": {"r.io": {"username": "b"}}}"#,
        );
        host.put("/.dockercfg", r#"{"r.io": {"username": "c"}}"#);
        let clock = Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH));
        let files = NodeFiles::new(host.clone(), clock, places());
        assert_eq!(users(&files), ["a"]);

        host.remove("/root/.docker/config.json");
        tokio::time::advance(KEPT_FOR.checked_sub(Duration::from_secs(1)).unwrap()).await;
        assert_eq!(users(&files), ["a"]);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(users(&files), ["b"]);

        host.remove("/.docker/config.json");
        tokio::time::advance(KEPT_FOR).await;
        assert_eq!(users(&files), ["c"]);
    }
}
