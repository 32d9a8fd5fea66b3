//! Whose a volume's files are: the pod's group (`fsGroup`) gets them all, unless the
//! volume's directory shows that it has them already and that is enough for the pod.
//!
//! A volume of the pod's own is empty at first, and given away in no time. One that was
//! there before may have millions of files: whoever waits is told then.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use seams::host::HostError;
use seams::storage::GroupShare;
use seams::{SharedClock, Storage};
use tracing::warn;
use types::PodUid;

/// The reason of the events about volumes that take long to be given away.
pub const IN_PROGRESS: &str = "VolumePermissionChangeInProgress";

/// People are told for the first time after that.
const FIRST_NOTICE: Duration = Duration::from_secs(30);
/// And again each time that this has passed.
const NEXT_NOTICE: Duration = Duration::from_secs(60);

/// When the files of a volume that was there before are given to the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangePolicy {
    Always,
    /// Unless the volume's directory has the group and its bits.
    OnRootMismatch,
}

impl ChangePolicy {
    /// What the pod says of volumes that it shares with others, before it or after.
    pub fn of(pod: &Pod) -> Self {
        let spec = pod.spec.as_ref();
        let security = spec.and_then(|spec| spec.security_context.as_ref());
        let policy = security.and_then(|security| security.fs_group_change_policy.as_deref());
        match policy {
            Some("OnRootMismatch") => Self::OnRootMismatch,
            _ => Self::Always,
        }
    }
}

/// The group that gets a volume, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ownership {
    pub group: u32,
    /// The group may read, but not write.
    pub read_only: bool,
    pub policy: ChangePolicy,
    /// The volume was there before its pod: if it takes long, the pod's events say so.
    pub told: bool,
}

/// How far the work on a pod's volumes is: which of them is being given away, and how
/// many of its files were. Whoever does the work writes, whoever waits reads.
#[derive(Debug, Default)]
pub struct Progress {
    files: AtomicU64,
    /// Held for one access.
    at: Mutex<Option<At>>,
}

#[derive(Clone, Debug)]
struct At {
    directory: PathBuf,
    told: bool,
}

impl Progress {
    fn set(&self, at: Option<At>) {
        self.files.store(0, Ordering::Relaxed);
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }

    fn at(&self) -> Option<At> {
        let at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        at.clone()
    }
}

impl Ownership {
    /// Gives the directory and all that is in it to the group. Files that stay as they
    /// were are told to the log, and are no reason for the pod not to run.
    pub fn apply(
        self,
        storage: &dyn Storage,
        directory: &Path,
        progress: &Progress,
    ) -> Result<(), HostError> {
        let share = GroupShare {
            group: self.group,
            read_only: self.read_only,
            unless_root_matches: self.policy == ChangePolicy::OnRootMismatch,
        };
        let at = At {
            directory: directory.to_owned(),
            told: self.told,
        };
        progress.set(Some(at));
        let shared = storage.share(directory, share, &progress.files);
        progress.set(None);
        let shared = shared?;
        if let Some(why) = shared.why {
            let (path, refused) = (directory.display(), shared.refused);
            warn!(%path, refused, err = %why, "files of a volume could not be given to the pod's group");
        }
        Ok(())
    }
}

/// Waits for work on the volumes of a pod. If giving one away is slow, `tell` gets what
/// the pod's events say of it; of a volume that is the pod's own, the log does.
pub async fn told_if_slow<T>(
    clock: &SharedClock,
    uid: &PodUid,
    progress: &Progress,
    work: impl Future<Output = T>,
    tell: &(dyn Fn(String) + Sync),
) -> T {
    tokio::select! {
        biased;
        outcome = work => outcome,
        never = notices(clock, uid, progress, tell) => match never {},
    }
}

async fn notices(
    clock: &SharedClock,
    uid: &PodUid,
    progress: &Progress,
    tell: &(dyn Fn(String) + Sync),
) -> Infallible {
    let mut told_of = None;
    clock.sleep(FIRST_NOTICE).await;
    loop {
        let at = progress.at();
        if let Some(at) = &at {
            let again = told_of.as_ref() == Some(&at.directory);
            let message = notice(&at.directory, uid, progress, again);
            if at.told {
                tell(message);
            } else {
                warn!(pod = %uid, "{message}");
            }
        }
        told_of = at.map(|at| at.directory);
        let pause = told_of.as_ref().map_or(FIRST_NOTICE, |_| NEXT_NOTICE);
        clock.sleep(pause).await;
    }
}

fn notice(directory: &Path, uid: &PodUid, progress: &Progress, again: bool) -> String {
    let name = shown(directory, uid);
    if again {
        let count = progress.files.load(Ordering::Relaxed);
        return format!("Setting volume ownership for {name}, processed {count} files.");
    }
    format!(
        "Setting volume ownership for {name} is taking longer than expected, consider using OnRootMismatch - https://kubernetes.io/docs/tasks/configure-pod-container/security-context/#configure-volume-permission-and-ownership-change-policy-for-pods"
    )
}

/// The part of a path that users know: from the pod's directory on.
fn shown(directory: &Path, uid: &PodUid) -> String {
    let directory = directory.display().to_string();
    match directory.find(uid.as_str()) {
        Some(at) => directory[at..].to_owned(),
        None => directory,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::UNIX_EPOCH;

    use serde_json::json;
    use testkit::clock::TokioClock;

    use super::*;
    use crate::testing::from_json;

    #[test]
    fn files_are_given_away_each_time_unless_the_pod_says_otherwise() {
        let cases = [
            (json!({}), ChangePolicy::Always),
            (json!({"fsGroup": 7}), ChangePolicy::Always),
            (
                json!({"fsGroupChangePolicy": "Always"}),
                ChangePolicy::Always,
            ),
            (
                json!({"fsGroupChangePolicy": "OnRootMismatch"}),
                ChangePolicy::OnRootMismatch,
            ),
        ];
        for (security, wanted) in cases {
            let pod = json!({"spec": {"containers": [], "securityContext": security}});
            assert_eq!(ChangePolicy::of(&from_json(pod)), wanted);
        }
        assert_eq!(ChangePolicy::of(&Pod::default()), ChangePolicy::Always);
    }

    /// What is told of work that takes so many seconds, with five files done at once.
    async fn notices(seconds: u64, told: Option<bool>) -> Vec<String> {
        let clock: SharedClock = Arc::new(TokioClock::starting_at(UNIX_EPOCH));
        let said = Mutex::new(Vec::new());
        let uid = PodUid::new("1-2");
        let directory = "/var/lib/kubelet/pods/1-2/volumes/kubernetes.io~local-volume/pv";
        let progress = Progress::default();
        progress.set(told.map(|told| At {
            directory: directory.into(),
            told,
        }));
        progress.files.store(5, Ordering::Relaxed);
        let work = async {
            clock.sleep(Duration::from_secs(seconds)).await;
            7
        };
        let tell = |message: String| said.lock().unwrap().push(message);
        let outcome = told_if_slow(&clock, &uid, &progress, work, &tell).await;
        assert_eq!(outcome, 7);
        said.into_inner().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_long_is_told_and_told_again_of_the_progress() {
        let name = "1-2/volumes/kubernetes.io~local-volume/pv";
        assert!(notices(29, Some(true)).await.is_empty());
        assert!(
            notices(300, None).await.is_empty(),
            "slow for other reasons"
        );
        assert!(notices(300, Some(false)).await.is_empty(), "the log has it");
        let said = notices(155, Some(true)).await;
        assert_eq!(said.len(), 3, "{said:?}");
        let first = format!(
            "Setting volume ownership for {name} is taking longer than expected, consider using OnRootMismatch - https://"
        );
        assert!(said[0].starts_with(&first), "{}", said[0]);
        let progress = format!("Setting volume ownership for {name}, processed 5 files.");
        assert_eq!(said[1..], [progress.clone(), progress]);
    }

    #[test]
    fn a_path_without_the_pods_uid_is_shown_whole() {
        let uid = PodUid::new("1-2");
        assert_eq!(shown(Path::new("/mnt/pv"), &uid), "/mnt/pv");
    }
}
