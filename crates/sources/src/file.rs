//! Pods from a directory of manifests, or from one. Looked at from time to time, and
//! at once when the machine gives a hint.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use seams::host::{FileEntry, Hint, HostError, Listing};
use seams::{Host, SharedClock, SharedHost};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::decode::{DecodeError, MAX_SIZE};
use crate::delivery::{Delivery, Source};
use crate::manifest::{self, Rules};

/// The first pause while nothing is at the path; it is doubled up to the period.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// After a hint: whoever writes one file often writes it in steps, or several.
const SETTLE: Duration = Duration::from_millis(100);

/// The source. Runs as one task.
#[derive(Debug)]
pub struct FileSource {
    /// A directory or a file.
    pub path: PathBuf,
    pub rules: Rules,
    /// From one look to the next.
    pub period: Duration,
    pub host: SharedHost,
    pub clock: SharedClock,
    /// `None` until the first look has succeeded.
    pub delivered: watch::Sender<Option<Delivery>>,
}

/// The path as it was given. A slash behind the name of a file is none of its name.
pub fn place(given: &str) -> PathBuf {
    let bare = given.trim_end_matches('/');
    PathBuf::from(if bare.is_empty() { given } else { bare })
}

/// What was found at the path.
#[derive(Debug)]
enum Reading {
    Nothing,
    /// Neither a directory nor a file.
    Unfit,
    /// By path, sorted: the contents, or why there are none.
    Files(Vec<(String, Result<Vec<u8>, String>)>),
}

/// Why a look is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// It is time.
    Due,
    /// Something may have changed; it may still be changing.
    Hinted,
}

impl FileSource {
    /// Looks until told to stop.
    pub async fn run(self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.look_on()).await;
    }

    async fn look_on(&self) {
        let period = self.period.max(FIRST_RETRY);
        let mut manifests = Shelf::new(self.rules.clone());
        let mut retry = FIRST_RETRY;
        let mut look = Look::Due;
        let mut due = self.clock.uptime();
        loop {
            let (hint, reading) = self.read().await;
            if look == Look::Due {
                let pause = match &reading {
                    Ok(Reading::Nothing) => retry,
                    _ => period,
                };
                retry = match &reading {
                    Ok(Reading::Nothing) => (retry * 2).min(period),
                    _ => FIRST_RETRY,
                };
                due = self.clock.uptime() + pause;
            }
            if let Some(pods) = manifests.take(&self.path, reading, look) {
                debug!(path = %self.path.display(), pods = pods.len(), "static pods have changed");
                let delivery = Delivery::of(Source::File, pods);
                self.delivered.send_replace(Some(delivery));
            }
            // Hints do not put off the look that is due.
            look = tokio::select! {
                () = self.clock.sleep(due.saturating_sub(self.clock.uptime())) => Look::Due,
                () = hint => {
                    self.clock.sleep(SETTLE).await;
                    Look::Hinted
                }
            };
        }
    }

    /// Where a hung disk keeps nobody else waiting.
    async fn read(&self) -> (Hint, Result<Reading, HostError>) {
        let (host, path) = (Arc::clone(&self.host), self.path.clone());
        let work = move || {
            // Watched before it is read, so that nothing falls in between.
            let hint = host.hint(&path);
            (hint, read(&*host, &path))
        };
        tokio::task::spawn_blocking(work)
            .await
            .unwrap_or_else(|lost| {
                let cause = std::io::Error::other(lost);
                (
                    Box::pin(std::future::pending()),
                    Err(HostError::at(&self.path, cause)),
                )
            })
    }
}

fn read(host: &dyn Host, path: &Path) -> Result<Reading, HostError> {
    let entries = match host.list(path)? {
        None => return Ok(Reading::Nothing),
        Some(Listing::Other) => return Ok(Reading::Unfit),
        Some(Listing::File(file)) => {
            let content = read_file(host, path, &file);
            let place = path.display().to_string();
            let file = content.transpose().map(|content| (place, content));
            return Ok(Reading::Files(file.into_iter().collect()));
        }
        Some(Listing::Directory(entries)) => entries,
    };
    let mut files = Vec::new();
    for entry in entries {
        if entry.name.starts_with('.') || !entry.regular {
            continue;
        }
        let path = path.join(&entry.name);
        if let Some(content) = read_file(host, &path, &entry).transpose() {
            files.push((path.display().to_string(), content));
        }
    }
    files.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(Reading::Files(files))
}

/// `None` if it has gone since it was listed.
fn read_file(host: &dyn Host, path: &Path, entry: &FileEntry) -> Result<Option<Vec<u8>>, String> {
    if entry.size > MAX_SIZE as u64 {
        return Err(DecodeError::TooLarge.to_string());
    }
    host.read(path).map_err(|error| error.cause.to_string())
}

/// What is known of the manifests.
struct Shelf {
    rules: Rules,
    /// By path.
    files: BTreeMap<String, Kept>,
    /// What was last said of the path itself.
    complaint: Option<String>,
    /// Files whose pods others name, too.
    hidden: BTreeSet<String>,
    delivered: Option<Vec<Arc<Pod>>>,
}

/// One manifest.
#[derive(Default)]
struct Kept {
    /// Of the content that the rest was made of.
    digest: Option<[u8; 32]>,
    pod: Option<Arc<Pod>>,
    complaint: Option<String>,
}

impl fmt::Debug for Shelf {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Shelf").finish_non_exhaustive()
    }
}

impl Shelf {
    fn new(rules: Rules) -> Self {
        Self {
            rules,
            files: BTreeMap::new(),
            complaint: None,
            hidden: BTreeSet::new(),
            delivered: None,
        }
    }

    /// All pods, if they are others than before.
    fn take(
        &mut self,
        path: &Path,
        reading: Result<Reading, HostError>,
        look: Look,
    ) -> Option<Vec<Arc<Pod>>> {
        let files = match reading {
            Ok(Reading::Files(files)) => {
                self.complain(path, None);
                files
            }
            Ok(Reading::Nothing) => {
                let words = "nothing is there: create it, or unset staticPodPath";
                self.complain(path, Some(words.to_owned()));
                Vec::new()
            }
            // What cannot be looked at has not gone.
            Ok(Reading::Unfit) => {
                let words = "it is neither a directory nor a file: change staticPodPath";
                self.complain(path, Some(words.to_owned()));
                return None;
            }
            Err(error) => {
                self.complain(path, Some(error.cause.to_string()));
                return None;
            }
        };
        let mut before = std::mem::take(&mut self.files);
        for (path, content) in files {
            let mut kept = before.remove(&path).unwrap_or_default();
            kept.take(&path, content, look, &self.rules);
            self.files.insert(path, kept);
        }
        let pods = self.pods();
        let same = self.delivered.as_ref().is_some_and(|before| {
            before.len() == pods.len()
                && before
                    .iter()
                    .zip(&pods)
                    .all(|(one, other)| Arc::ptr_eq(one, other))
        });
        (!same).then(|| {
            self.delivered = Some(pods.clone());
            pods
        })
    }

    /// Of files that name one pod the last counts.
    fn pods(&mut self) -> Vec<Arc<Pod>> {
        let mut names = BTreeMap::new();
        let mut hidden = BTreeSet::new();
        let mut pods = Vec::new();
        for (path, kept) in self.files.iter().rev() {
            let Some(pod) = &kept.pod else { continue };
            let metadata = &pod.metadata;
            let name = (metadata.namespace.as_deref(), metadata.name.as_deref());
            match names.entry(name) {
                Entry::Vacant(entry) => {
                    entry.insert(path);
                    pods.push(Arc::clone(pod));
                }
                Entry::Occupied(entry) => {
                    if !self.hidden.contains(path) {
                        warn!(
                            manifest = path,
                            other = entry.get(),
                            pod = name.1,
                            "another manifest names the same pod and counts: remove one of them, or begin its name with a dot"
                        );
                    }
                    hidden.insert(path.clone());
                }
            }
        }
        self.hidden = hidden;
        pods.reverse();
        pods
    }

    /// Says what is wrong with the path, once.
    fn complain(&mut self, path: &Path, complaint: Option<String>) {
        if self.complaint != complaint {
            let path = path.display();
            if let Some(err) = &complaint {
                warn!(%path, err, "no static pods can be read, will try again");
            } else {
                info!(%path, "static pods can be read again");
            }
            self.complaint = complaint;
        }
    }
}

impl Kept {
    fn take(&mut self, path: &str, content: Result<Vec<u8>, String>, look: Look, rules: &Rules) {
        let digest = content
            .as_ref()
            .ok()
            .map(|content| Sha256::digest(content).into());
        let unchanged = digest.is_some() && digest == self.digest;
        if unchanged && self.complaint.is_none() {
            return;
        }
        let outcome = match content {
            Ok(_) if unchanged => Err(self.complaint.clone().unwrap_or_default()),
            Ok(content) => manifest::file(&content, path, rules).map_err(|error| error.to_string()),
            Err(error) => Err(error),
        };
        self.digest = digest;
        match outcome {
            Ok(decoded) => {
                for notice in decoded.notices {
                    warn!(
                        manifest = path,
                        notice, "a manifest is not read as it may be meant"
                    );
                }
                self.pod = Some(decoded.content);
                self.complaint = None;
            }
            Err(err) => {
                if self.complaint.as_ref() != Some(&err) {
                    warn!(
                        manifest = path,
                        err, "a manifest cannot be used, the others are"
                    );
                }
                // One that is being written may be whole in a moment: its pod is not
                // stopped for that.
                if look == Look::Due {
                    self.pod = None;
                }
                self.complaint = Some(err);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use testkit::clock::TokioClock;

    use super::*;
    use crate::testing::TestHost;

    const DIRECTORY: &str = "/etc/kubernetes/manifests";
    const PERIOD: Duration = Duration::from_secs(20);

    fn manifest(name: &str, image: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: a, image: '{image}'}}]}}\n"
        )
    }

    fn write(host: &dyn Host, name: &str, content: &str) {
        let path = Path::new(DIRECTORY).join(name);
        host.write(&path, content.as_bytes(), 0o600).unwrap();
    }

    type Delivered = watch::Receiver<Option<Delivery>>;

    fn source(path: &Path, host: SharedHost, clock: SharedClock) -> (FileSource, Delivered) {
        let (delivered, seen) = watch::channel(None);
        let source = FileSource {
            path: path.to_owned(),
            rules: Rules {
                node: "n".to_owned(),
                forbid_references: true,
            },
            period: PERIOD,
            host,
            clock,
            delivered,
        };
        (source, seen)
    }

    /// Name and image of each pod.
    fn names(delivery: Option<&Delivery>) -> Option<String> {
        let pods = &delivery?.pods;
        let words = pods.iter().map(|pod| {
            let image = pod.spec.as_ref().unwrap().containers[0].image.clone();
            format!("{}={}", pod.metadata.name.as_ref().unwrap(), image.unwrap())
        });
        Some(words.collect::<Vec<_>>().join(" "))
    }

    async fn until(seen: &mut Delivered, expected: &str) {
        let wait = seen.wait_for(|delivery| names(delivery.as_ref()).as_deref() == Some(expected));
        let found = tokio::time::timeout(Duration::from_secs(100), wait).await;
        assert!(found.is_ok(), "waited for {expected:?}");
    }

    fn shelf() -> Shelf {
        Shelf::new(Rules {
            node: "n".to_owned(),
            forbid_references: true,
        })
    }

    /// Pods after a look at these files, or `same`.
    fn after(shelf: &mut Shelf, look: Look, files: &[(&str, &str)]) -> String {
        let files = files
            .iter()
            .map(|(path, content)| ((*path).to_owned(), Ok(content.as_bytes().to_vec())));
        let reading = Ok(Reading::Files(files.collect()));
        let Some(pods) = shelf.take(Path::new(DIRECTORY), reading, look) else {
            return "same".to_owned();
        };
        names(Some(&Delivery::of(Source::File, pods))).unwrap()
    }

    #[test]
    fn a_bad_manifest_harms_no_other_and_one_that_gets_bad_is_dropped_when_a_look_is_due() {
        let mut shelf = shelf();
        let (a, b) = (manifest("a", "1"), manifest("b", "1"));
        let mut look = |look, files: &[(&str, &str)]| after(&mut shelf, look, files);
        assert_eq!(
            look(Look::Due, &[("a", &a), ("b", "bad: ["), ("c", "")]),
            "a-n=1"
        );
        assert_eq!(look(Look::Due, &[("a", &a), ("b", "bad: [")]), "same");
        assert_eq!(look(Look::Hinted, &[("a", &a), ("b", &b)]), "a-n=1 b-n=1");
        assert_eq!(look(Look::Hinted, &[("a", "half"), ("b", &b)]), "same");
        assert_eq!(look(Look::Hinted, &[("a", &a), ("b", &b)]), "a-n=1 b-n=1");
        assert_eq!(look(Look::Hinted, &[("a", "half"), ("b", &b)]), "same");
        assert_eq!(look(Look::Due, &[("a", "half"), ("b", &b)]), "b-n=1");
        assert_eq!(look(Look::Due, &[("a", &a), ("b", &b)]), "a-n=1 b-n=1");
        assert_eq!(look(Look::Hinted, &[]), "");
        assert_eq!(look(Look::Due, &[]), "same");
    }

    #[test]
    fn of_files_that_name_one_pod_the_last_counts() {
        let mut shelf = shelf();
        let [one, two, three] = ["1", "2", "3"].map(|image| manifest("a", image));
        let b = manifest("b", "1");
        let mut look = |files: &[(&str, &str)]| after(&mut shelf, Look::Hinted, files);
        assert_eq!(look(&[("a", &two), ("b", &b)]), "a-n=2 b-n=1");
        assert_eq!(
            look(&[("a", &two), ("b", &b), ("c", &three)]),
            "b-n=1 a-n=3"
        );
        let all = [("0", &*one), ("a", &two), ("b", &b), ("c", &three)];
        assert_eq!(look(&all), "same");
        assert_eq!(look(&all[..3]), "a-n=2 b-n=1");
    }

    #[test]
    fn what_cannot_be_looked_at_has_not_gone_and_what_is_not_there_has() {
        let mut shelf = shelf();
        let path = Path::new(DIRECTORY);
        let broken = || Err(HostError::at(path, std::io::Error::other("broken")));
        assert!(shelf.take(path, broken(), Look::Due).is_none());
        assert_eq!(
            after(&mut shelf, Look::Due, &[("a", &manifest("a", "1"))]),
            "a-n=1"
        );
        assert!(shelf.take(path, broken(), Look::Due).is_none());
        assert!(shelf.take(path, Ok(Reading::Unfit), Look::Due).is_none());
        let gone = shelf.take(path, Ok(Reading::Nothing), Look::Due);
        assert_eq!(gone.map(|pods| pods.len()), Some(0));
    }

    #[tokio::test(start_paused = true)]
    async fn an_absent_path_delivers_nothing_at_once_and_is_tried_again() {
        let clock: SharedClock = Arc::new(TokioClock::starting_at(UNIX_EPOCH));
        let machine = Arc::new(TestHost::default());
        let (source, mut seen) = source(Path::new(DIRECTORY), machine.clone(), clock.clone());
        let shutdown = CancellationToken::new();
        let story = async {
            until(&mut seen, "").await;
            assert!(clock.uptime() < FIRST_RETRY);
            write(&*machine, "b.yaml", &manifest("b", "1"));
            write(&*machine, ".hidden.yaml", &manifest("hidden", "1"));
            until(&mut seen, "b-n=1").await;
            write(&*machine, "a.json", "{}");
            write(&*machine, "c.yaml", &manifest("c", "1"));
            until(&mut seen, "b-n=1 c-n=1").await;
            write(&*machine, "b.yaml", &manifest("b", "2"));
            write(&*machine, "d.dir", &manifest("d", "1"));
            until(&mut seen, "b-n=2 c-n=1").await;
            machine.remove(&Path::new(DIRECTORY).join("b.yaml"));
            until(&mut seen, "c-n=1").await;
            assert!(clock.uptime() < PERIOD, "hints were not needed");
            shutdown.cancel();
        };
        tokio::join!(source.run(shutdown.clone()), story);
    }

    #[tokio::test(start_paused = true)]
    async fn without_hints_files_are_looked_at_again_when_their_period_is_over() {
        let clock: SharedClock = Arc::new(TokioClock::starting_at(UNIX_EPOCH));
        let machine = Arc::new(TestHost::mute());
        write(&*machine, "a.yaml", &manifest("a", "1"));
        let (source, mut seen) = source(Path::new(DIRECTORY), machine.clone(), clock.clone());
        let shutdown = CancellationToken::new();
        let story = async {
            until(&mut seen, "a-n=1").await;
            for round in 1..=3_u32 {
                let (image, due) = (round + 1, PERIOD * round);
                write(&*machine, "a.yaml", &manifest("a", &image.to_string()));
                until(&mut seen, &format!("a-n={image}")).await;
                let late = clock.uptime().checked_sub(due);
                let late = late.unwrap_or_else(|| panic!("before {due:?}"));
                assert!(late < Duration::from_secs(1), "{late:?} after {due:?}");
            }
            shutdown.cancel();
        };
        tokio::join!(source.run(shutdown.clone()), story);
    }

    #[test]
    fn the_path_may_be_a_file_and_a_large_one_is_not_read() {
        let host = TestHost::default();
        let path = place("/pod.yaml//");
        assert_eq!(place("/"), Path::new("/"));
        let path = path.as_path();
        assert_eq!(path.as_os_str(), "/pod.yaml");
        let found = |content: &[u8]| {
            host.write(path, content, 0o600).unwrap();
            let Ok(Reading::Files(files)) = read(&host, path) else {
                panic!("it is a file");
            };
            files
        };
        let expected = [("/pod.yaml".to_owned(), Ok(b"content".to_vec()))];
        assert_eq!(found(b"content"), expected);
        let large = found(&vec![b' '; MAX_SIZE + 1]);
        let complaint = large[0].1.as_ref().unwrap_err();
        assert!(complaint.contains("larger than 10 MiB"), "{complaint}");
        let unfit = Path::new("/unfit.dir");
        host.write(unfit, b"", 0o600).unwrap();
        assert!(matches!(read(&host, unfit), Ok(Reading::Unfit)));
    }
}
