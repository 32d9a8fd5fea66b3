//! Where the identities of a running agent stand, left on disk for tools that
//! look at the node while the API server may be out of reach.
//!
//! It holds no secret, and nothing is decided by it: what is in the files of the
//! certificates counts, and this says what the agent is doing about them.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::decide::state::State;
use crate::files::{self, Entry, FileError, Step};

/// The name of the file, in the certificate directory.
pub const FILE_NAME: &str = "ferrolet-identity.json";

/// Raised when what is written cannot be read by earlier tools.
const VERSION: u32 = 1;

/// What a running agent tells of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Published {
    pub node_name: String,
    /// As the agent sees it: in another PID namespace it is another process.
    pub process_id: u32,
    #[serde(with = "seconds")]
    pub written_at: SystemTime,
    /// `None`: this agent does not renew its client certificate.
    pub client: Option<State>,
    /// `None`: the serving certificate does not come from a signer.
    pub serving: Option<State>,
}

/// The file: what is published, and in which form.
#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    #[serde(flatten)]
    published: &'a Published,
}

/// What every version of the file has.
#[derive(Deserialize)]
struct Head {
    version: u32,
}

/// Why the published state cannot be read or written.
#[derive(Debug, Error)]
pub enum PublishedError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{} does not hold an agent's state ({cause}); the agent writes it anew when it starts, so remove it: rm {}", path.display(), path.display())]
    Malformed { path: PathBuf, cause: String },
    #[error("{} is of version {version}, and this program reads version {VERSION}; use the program of the agent that wrote it", path.display())]
    Version { path: PathBuf, version: u32 },
    #[error("the agent's state cannot be written down: {0}")]
    Unwritable(serde_json::Error),
}

impl PublishedError {
    /// There is no such file: no agent of ours has run here.
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::File(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

impl Published {
    /// Where an agent with this certificate directory publishes.
    pub fn path(certificate_directory: &Path) -> PathBuf {
        certificate_directory.join(FILE_NAME)
    }

    /// Replaces the file as a whole: a reader finds the old state or the new one.
    pub fn write(&self, path: &Path) -> Result<(), PublishedError> {
        let document = Document {
            version: VERSION,
            published: self,
        };
        let text = serde_json::to_string_pretty(&document).map_err(PublishedError::Unwritable)?;
        Ok(files::run_all(&plan(path, text + "\n")?)?)
    }

    pub fn read(path: &Path) -> Result<Self, PublishedError> {
        let text = files::read(path)?;
        let malformed = |cause: serde_json::Error| PublishedError::Malformed {
            path: path.to_owned(),
            cause: cause.to_string(),
        };
        let Head { version } = serde_json::from_slice(&text).map_err(malformed)?;
        if version != VERSION {
            return Err(PublishedError::Version {
                path: path.to_owned(),
                version,
            });
        }
        serde_json::from_slice(&text).map_err(malformed)
    }
}

fn plan(path: &Path, text: String) -> Result<Vec<Step>, FileError> {
    let directory = path.parent().unwrap_or(path).to_owned();
    let temporary = files::beside(path);
    let mut steps = vec![Step::MakeDirectory(directory.clone())];
    if Entry::at(&temporary)? != Entry::Nothing {
        steps.push(Step::Remove(temporary.clone()));
    }
    steps.extend([
        Step::Write {
            path: temporary.clone(),
            content: text.into_bytes(),
            mode: 0o644,
        },
        Step::Rename {
            from: temporary,
            to: path.to_owned(),
        },
        Step::SyncDirectory(directory),
    ]);
    Ok(steps)
}

/// Times as RFC 3339 in UTC, to the second.
pub(crate) mod seconds {
    pub(crate) mod optional {
        use std::time::SystemTime;

        use serde::{Deserialize, Deserializer, Serialize, Serializer};

        #[derive(Serialize, Deserialize)]
        struct Moment(#[serde(with = "super")] SystemTime);

        #[expect(clippy::ref_option, reason = "the form that serde calls")]
        pub(crate) fn serialize<S: Serializer>(
            time: &Option<SystemTime>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            time.map(Moment).serialize(serializer)
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<SystemTime>, D::Error> {
            let moment = Option::<Moment>::deserialize(deserializer)?;
            Ok(moment.map(|Moment(time)| time))
        }
    }

    use std::time::SystemTime;

    use jiff::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer, de, ser};

    pub(crate) fn serialize<S: Serializer>(
        time: &SystemTime,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let time = Timestamp::try_from(*time).map_err(ser::Error::custom)?;
        let whole = Timestamp::from_second(time.as_second()).map_err(ser::Error::custom)?;
        serializer.collect_str(&whole)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<SystemTime, D::Error> {
        let text = String::deserialize(deserializer)?;
        let time: Timestamp = text.parse().map_err(de::Error::custom)?;
        Ok(time.into())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use super::*;
    use crate::decide::state::{self, Wait};
    use crate::testdata::at;

    const NOW: u64 = 1_800_000_000;

    fn wait() -> Wait {
        Wait {
            csr: "csr-x7k2p".to_owned(),
            since: at(NOW - 30),
            approved: false,
        }
    }

    fn published(client: State) -> Published {
        Published {
            node_name: "n1".to_owned(),
            process_id: 4711,
            written_at: at(NOW),
            client: Some(client),
            serving: None,
        }
    }

    #[test]
    fn every_state_can_be_read_again() {
        let root = tempfile::tempdir().unwrap();
        let path = Published::path(&root.path().join("pki"));
        let requesting = || state::Step::Requesting {
            last_failure: Some("denied".to_owned()),
        };
        let (until, rotate_at) = (at(NOW + 100), Some(at(NOW + 70)));
        for state in [
            State::NoCredentials,
            State::Requesting { last_failure: None },
            State::from(requesting()),
            State::WaitingForApproval(wait()),
            State::Issued {
                until,
                rotate_at,
                unsaved: Some("no space".to_owned()),
            },
            State::Rotating {
                until,
                step: requesting(),
            },
            State::Rotating {
                until,
                step: state::Step::Waiting(wait()),
            },
            State::Expired {
                since: at(NOW),
                step: None,
            },
            State::Expired {
                since: at(NOW),
                step: Some(requesting()),
            },
        ] {
            let written = published(state);
            written.write(&path).unwrap();
            assert_eq!(Published::read(&path).unwrap(), written);
        }
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
        let names = fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(names, 1, "nothing is left lying about");
    }

    #[test]
    fn the_form_on_disk_is_this_one() {
        let root = tempfile::tempdir().unwrap();
        let path = Published::path(root.path());
        let mut written = published(State::Rotating {
            until: at(NOW + 100),
            step: state::Step::Waiting(wait()),
        });
        written.written_at += Duration::from_millis(700);
        written.write(&path).unwrap();
        let expected = r#"{
  "version": 1,
  "nodeName": "n1",
  "processId": 4711,
  "writtenAt": "2027-01-15T08:00:00Z",
  "client": {
    "state": "Rotating",
    "until": "2027-01-15T08:01:40Z",
    "step": {
      "step": "Waiting",
      "csr": "csr-x7k2p",
      "since": "2027-01-15T07:59:30Z",
      "approved": false
    }
  },
  "serving": null
}
"#;
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    }

    #[test]
    fn what_cannot_be_read_is_named_with_a_way_out() {
        let root = tempfile::tempdir().unwrap();
        let path = Published::path(root.path());
        assert!(Published::read(&path).unwrap_err().is_absence());
        for (text, expected) in [
            ("", "rm "),
            ("{\"version\": 1}", "missing field"),
            ("{\"version\": 2, \"nodeName\": 7}", "is of version 2"),
        ] {
            fs::write(&path, text).unwrap();
            let error = Published::read(&path).unwrap_err();
            let said = error.to_string();
            assert!(!error.is_absence() && said.contains(expected), "{said}");
            assert!(said.contains("ferrolet-identity.json"), "{said}");
        }
    }

    #[test]
    fn a_write_cut_short_is_no_obstacle_to_the_next() {
        let root = tempfile::tempdir().unwrap();
        let path = Published::path(root.path());
        let count = plan(&path, String::new()).unwrap().len();
        for killed_after in 0..=count {
            let steps = plan(&path, "{}".to_owned()).unwrap();
            let taken = killed_after.min(steps.len());
            files::run_all(&steps[..taken]).unwrap();
            let written = published(State::NoCredentials);
            written.write(&path).unwrap();
            assert_eq!(Published::read(&path).unwrap(), written, "{killed_after}");
        }
    }
}
