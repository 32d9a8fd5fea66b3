use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use linux::LinuxHost;
use resources::PodUsers;
use resources::users::{IdRange, UsersConfig};
use testkit::clock::TokioClock;
use types::PodUid;

const IDS: u32 = 65_536;

/// The ids of a node whose files are below `root`: as it is found by an agent that has
/// just begun.
fn users(root: &Path) -> PodUsers {
    let host = Arc::new(LinuxHost::new(root.to_owned()));
    let config = UsersConfig {
        pods: PathBuf::from("/var/lib/kubelet/pods"),
        ids_per_pod: IDS,
        most_pods: 110,
    };
    let clock = Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH));
    PodUsers::new(config, host.clone(), host, clock)
}

fn file(root: &Path, uid: &str) -> PathBuf {
    root.join("var/lib/kubelet/pods").join(uid).join("userns")
}

fn leave(root: &Path, uid: &str, content: &str) {
    let path = file(root, uid);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn mapping(first: u32) -> String {
    let one = format!("{{\"hostId\":{first},\"containerId\":0,\"length\":{IDS}}}");
    format!("{{\"uidMappings\":[{one}],\"gidMappings\":[{one}]}}")
}

async fn give(users: &PodUsers, uid: &str) -> Result<IdRange, String> {
    let given = users.give(&PodUid::new(uid)).await;
    given.map_err(|error| error.to_string())
}

#[tokio::test]
async fn what_a_pod_was_given_is_its_own_for_the_next_agent_too() {
    let root = tempfile::tempdir().unwrap();
    let before = users(root.path());
    let (one, two) = (
        give(&before, "p-1").await.unwrap(),
        give(&before, "p-2").await.unwrap(),
    );
    assert_ne!(one, two);
    assert_eq!(give(&before, "p-1").await.unwrap(), one);
    let path = file(root.path(), "p-1");
    assert_eq!(fs::read_to_string(&path).unwrap(), mapping(one.first));
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );

    let after = users(root.path());
    let other = give(&after, "p-3").await.unwrap();
    assert!(![one, two].contains(&other), "nobody's yet");
    assert_eq!(give(&after, "p-1").await.unwrap(), one);
    assert_eq!(give(&after, "p-2").await.unwrap(), two);
}

#[tokio::test]
async fn what_is_given_back_is_nobodys_on_the_disk_and_in_memory() {
    let root = tempfile::tempdir().unwrap();
    let users = users(root.path());
    let uid = PodUid::new("p-1");
    users.give(&uid).await.unwrap();
    users.release(&uid).await.unwrap();
    users.release(&uid).await.unwrap();
    assert!(!file(root.path(), "p-1").exists());
    // Whoever left this has had them all the time.
    leave(root.path(), "p-1", &mapping(5 * IDS));
    let again = give(&users, "p-1").await.unwrap();
    assert_eq!(again.first, 5 * IDS);
    leave(root.path(), "p-2", &mapping(5 * IDS));
    let taken = give(&users, "p-2").await.unwrap_err();
    assert_eq!(
        taken,
        "user namespace: range picked for pod \"p-2\" already taken"
    );
}

#[tokio::test]
async fn a_record_that_cannot_be_read_keeps_others_from_taking_what_it_may_mean() {
    let root = tempfile::tempdir().unwrap();
    leave(root.path(), "old", "{");
    let users = users(root.path());
    let error = give(&users, "new").await.unwrap_err();
    let start = "record pod mappings for existing pod \"old\": user namespace: invalid user namespace mappings file: ";
    assert!(error.starts_with(start), "{error}");
    // It is looked at again: somebody may have mended it.
    leave(root.path(), "old", &mapping(3 * IDS));
    assert_ne!(give(&users, "new").await.unwrap().first, 3 * IDS);
    assert_eq!(give(&users, "old").await.unwrap().first, 3 * IDS);
}

#[tokio::test]
async fn a_pod_whose_record_cannot_be_written_has_nothing() {
    let root = tempfile::tempdir().unwrap();
    let pods = root.path().join("var/lib/kubelet/pods");
    fs::create_dir_all(&pods).unwrap();
    // A file stands where the directory of the pod would be.
    fs::write(pods.join("p-1"), "").unwrap();
    let users = users(root.path());
    assert!(give(&users, "p-1").await.is_err());
    fs::remove_file(pods.join("p-1")).unwrap();
    give(&users, "p-1").await.unwrap();
}
