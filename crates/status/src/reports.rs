//! What is to be said of each pod, and what the API has: one place per pod, in
//! which the newest report takes the place of the one before.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use tokio::sync::Notify;
use types::{PodName, PodUid};

use crate::conditions::{READY, RESIZE_IN_PROGRESS, is_true};
use crate::equal::is_equal;
use crate::normal::normalise;
use crate::spec::is_terminal;

const MIRROR: &str = "kubernetes.io/config.mirror";

/// Changes that nobody waits for are sent together: a pod that starts passes
/// through several within this time.
pub(crate) const SETTLED: Duration = Duration::from_millis(500);

/// What the API is to know of one pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub name: PodName,
    /// The uid that the pod has in the API: its mirror's, for a static pod. `None`:
    /// there is no mirror, and nobody to tell.
    pub api_uid: Option<PodUid>,
    pub status: PodStatus,
    /// Containers may still run: its end is not told yet.
    pub may_run: bool,
    /// Nothing of it is left on the node: it may be removed from the API.
    pub gone: bool,
}

/// The side of those who report.
#[derive(Clone, Debug, Default)]
pub struct Reports {
    desk: Arc<Desk>,
}

/// A mutex: entries are exchanged under it, and nobody waits while holding it.
#[derive(Debug, Default)]
struct Desk {
    entries: Mutex<BTreeMap<PodUid, Entry>>,
    news: Notify,
}

#[derive(Debug)]
struct Entry {
    report: Report,
    /// Not sent yet, and since when; by the clock's uptime.
    unsent: Option<Unsent>,
    /// The API's object as last seen, by whichever way.
    api: Option<Arc<Pod>>,
    sending: bool,
    not_before: Duration,
    failures: u32,
}

#[derive(Clone, Copy, Debug)]
struct Unsent {
    since: Duration,
    /// Somebody waits for it: the end of a pod, or its readiness.
    urgent: bool,
    /// It is not kept back for what may come, but is behind what is urgent.
    prompt: bool,
}

impl Unsent {
    fn due(self) -> Duration {
        if self.urgent || self.prompt {
            self.since
        } else {
            self.since + SETTLED
        }
    }
}

/// One report on its way.
#[derive(Clone, Debug)]
pub(crate) struct Letter {
    /// As the node knows the pod.
    pub(crate) uid: PodUid,
    pub(crate) api_uid: PodUid,
    /// When it was to be said; by the clock's uptime.
    pub(crate) since: Duration,
    pub(crate) report: Report,
    pub(crate) api: Option<Arc<Pod>>,
}

/// What became of it.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The API has it, and this is its object now.
    Known(Arc<Pod>),
    /// There is no such pod any more, and nobody to tell.
    Nobody,
    /// It is to be tried again.
    Failed,
}

impl Reports {
    /// The newest report of a pod, which the node knows by this uid; `object` is the
    /// API's, as far as a watch has told of it.
    pub fn report(&self, uid: &PodUid, report: Report, object: Option<&Arc<Pod>>, now: Duration) {
        let mut entries = self.desk.lock();
        let Some(entry) = entries.get_mut(uid) else {
            // The first is waited for: it says that the node has taken the pod up.
            let ended = is_terminal(report.status.phase.as_deref()) || report.gone;
            let unsent = Unsent {
                since: now,
                urgent: ended,
                prompt: true,
            };
            let mut entry = Entry::new(report, unsent);
            // With it, nobody has to be asked.
            entry.api = object.cloned();
            entries.insert(uid.clone(), entry);
            drop(entries);
            self.desk.news.notify_one();
            return;
        };
        let before = &entry.report;
        let same = is_equal(&before.status, &report.status)
            && (before.may_run, before.gone) == (report.may_run, report.gone)
            && before.api_uid == report.api_uid;
        if same {
            return;
        }
        let urgent = is_urgent(before, &report);
        let prompt = begins_resize(before, &report);
        if before.api_uid != report.api_uid {
            entry.api = None;
        }
        entry.report = report;
        entry.tell(now, urgent);
        if prompt {
            entry.hurry();
        }
        drop(entries);
        self.desk.news.notify_one();
    }

    /// The API's object, as a watch has it. What a pod's end waited for is looked at
    /// now, the rest by the next look at everything.
    pub fn seen(&self, uid: &PodUid, pod: &Arc<Pod>, now: Duration) {
        let mut entries = self.desk.lock();
        let Some(entry) = entries.get_mut(uid) else {
            return;
        };
        let ours = entry.report.api_uid.as_ref().map(PodUid::as_str);
        let theirs = pod.metadata.uid.as_deref();
        let is_another = theirs != ours;
        if is_another {
            // Only a static pod's: it has a new mirror. It may be over, with nobody left
            // who would report again.
            let Some(mirror) = theirs.filter(|mirror| *mirror != uid.as_str()) else {
                return;
            };
            entry.report.api_uid = Some(PodUid::new(mirror));
            entry.api = None;
        }
        if !is_newer(pod, entry.api.as_deref()) {
            return;
        }
        entry.api = Some(pod.clone());
        if is_another || is_removable(pod, &entry.report) {
            entry.tell(now, true);
            drop(entries);
            self.desk.news.notify_one();
        }
    }

    /// The pod is none of the node's any more.
    pub fn forget(&self, uid: &PodUid) {
        self.desk.lock().remove(uid);
    }

    /// What was last said of a pod.
    pub fn last(&self, uid: &PodUid) -> Option<PodStatus> {
        let entries = self.desk.lock();
        entries.get(uid).map(|entry| entry.report.status.clone())
    }

    /// How many pods there are reports of.
    pub fn len(&self) -> usize {
        self.desk.lock().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) async fn news(&self) {
        self.desk.news.notified().await;
    }

    /// The most pressing report that is due.
    pub(crate) fn next(&self, now: Duration) -> Option<Letter> {
        let mut entries = self.desk.lock();
        let due = entries.iter_mut().filter_map(|(uid, entry)| {
            let unsent = entry.unsent.filter(|_| entry.may_be_sent(now))?;
            (unsent.due() <= now).then_some((uid, entry, unsent))
        });
        let (uid, entry, unsent) =
            due.min_by_key(|(_, _, unsent)| (!unsent.urgent, unsent.since))?;
        let api_uid = entry.report.api_uid.clone()?;
        entry.sending = true;
        entry.unsent = None;
        Some(Letter {
            uid: uid.clone(),
            api_uid,
            since: unsent.since,
            report: entry.report.clone(),
            api: entry.api.clone(),
        })
    }

    /// When the next one will be due, if nothing happens.
    pub(crate) fn due(&self) -> Option<Duration> {
        let entries = self.desk.lock();
        let waiting = entries.values().filter(|entry| !entry.sending);
        let waiting = waiting.filter(|entry| entry.report.api_uid.is_some());
        waiting
            .filter_map(|entry| Some(entry.unsent?.due().max(entry.not_before)))
            .min()
    }

    pub(crate) fn settle(&self, uid: &PodUid, outcome: Outcome, now: Duration) {
        let mut entries = self.desk.lock();
        let Some(entry) = entries.get_mut(uid) else {
            return;
        };
        entry.sending = false;
        match outcome {
            Outcome::Known(pod) => {
                entry.failures = 0;
                // A mirror may have been replaced while the old one was told.
                let ours = entry.report.api_uid.as_ref().map(PodUid::as_str);
                if pod.metadata.uid.as_deref() == ours && is_newer(&pod, entry.api.as_deref()) {
                    entry.api = Some(pod);
                }
            }
            // Its mirror is made anew, and will be told.
            Outcome::Nobody if entry.report.api_uid.as_ref() != Some(uid) => entry.api = None,
            // What came in meanwhile is about another life of it.
            Outcome::Nobody if entry.unsent.is_none() => drop(entries.remove(uid)),
            Outcome::Nobody => entry.api = None,
            Outcome::Failed => {
                entry.api = None;
                entry.failures += 1;
                entry.not_before = now + pause(entry.failures);
                entry.tell(now, true);
            }
        }
    }

    /// Marks what the API does not have as it was reported: somebody else changed it.
    pub(crate) fn reconcile(&self, now: Duration) {
        for entry in self.desk.lock().values_mut() {
            let Some(pod) = entry.api.clone().filter(|_| !entry.sending) else {
                continue;
            };
            if is_removable(&pod, &entry.report) || differs(&pod, &entry.report) {
                entry.tell(now, true);
            }
        }
    }
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PodUid, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn new(report: Report, unsent: Unsent) -> Self {
        Self {
            report,
            unsent: Some(unsent),
            api: None,
            sending: false,
            not_before: Duration::ZERO,
            failures: 0,
        }
    }

    fn tell(&mut self, now: Duration, urgent: bool) {
        let unsent = self.unsent.get_or_insert(Unsent {
            since: now,
            urgent,
            prompt: false,
        });
        unsent.urgent |= urgent;
    }

    /// What is to be told is not kept back.
    fn hurry(&mut self) {
        if let Some(unsent) = &mut self.unsent {
            unsent.prompt = true;
        }
    }

    fn may_be_sent(&self, now: Duration) -> bool {
        !self.sending && self.not_before <= now && self.report.api_uid.is_some()
    }
}

/// The API has another status than the one that would be sent.
fn differs(pod: &Pod, report: &Report) -> bool {
    let mut said = pod.status.clone().unwrap_or_default();
    normalise(pod, &mut said);
    let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH);
    let wanted = crate::merge::merge(&said, &report.status, report.may_run, &now);
    !is_equal(&said, &wanted)
}

/// The pod has ended, and its end is what it is waited for with.
pub(crate) fn is_removable(pod: &Pod, report: &Report) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    let annotations = pod.metadata.annotations.as_ref();
    let is_mirror = annotations.is_some_and(|annotations| annotations.contains_key(MIRROR));
    let deleted = pod.metadata.deletion_timestamp.is_some();
    report.gone && deleted && !is_mirror && is_terminal(phase)
}

fn is_urgent(before: &Report, report: &Report) -> bool {
    let ready = |report: &Report| {
        let conditions = report.status.conditions.as_deref().unwrap_or_default();
        is_true(conditions, READY)
    };
    let ended = |report: &Report| is_terminal(report.status.phase.as_deref());
    ready(before) != ready(report)
        || ended(before) != ended(report)
        || (before.may_run, before.gone) != (report.may_run, report.gone)
}

/// A resize has begun. It may be over in a moment: who waits to send that would never have
/// told of it.
fn begins_resize(before: &Report, report: &Report) -> bool {
    let resizes = |report: &Report| {
        let conditions = report.status.conditions.as_deref().unwrap_or_default();
        is_true(conditions, RESIZE_IN_PROGRESS)
    };
    !resizes(before) && resizes(report)
}

/// Versions of one object grow. What cannot be compared is taken as newer.
fn is_newer(pod: &Pod, than: Option<&Pod>) -> bool {
    let version = |pod: &Pod| pod.metadata.resource_version.as_ref()?.parse::<u64>().ok();
    match (version(pod), than.and_then(version)) {
        (Some(version), Some(than)) => version >= than,
        _ => true,
    }
}

/// One second, doubled up to ten.
fn pause(failures: u32) -> Duration {
    let seconds = 1_u64 << failures.saturating_sub(1).min(4);
    Duration::from_secs(seconds.min(10))
}
