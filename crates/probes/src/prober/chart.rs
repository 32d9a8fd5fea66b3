//! One pod with its probes: how it stands, what was found, and when it is asked next.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Probe as ApiProbe};
use seams::Clock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use types::{PodName, PodRef, PodUid};

use super::lane::Way;
use super::probe_of;
use crate::course::{Course, Rules, Standing, Verdict};
use crate::desk::{Finding, Findings};
use crate::metrics::Key;
use crate::rhythm::Rhythm;
use crate::view::{End, Purpose, Seen, View, period, probed, rules};

/// Of one probe, as long as the agent runs: what is said of one that is no more says nothing
/// of those that came after it.
pub(super) type Number = u64;

#[derive(Debug)]
pub(super) struct Chart {
    pub(super) view: View,
    pub(super) probes: Vec<Probe>,
    /// No command runs in it any more.
    cut: CancellationToken,
    answers: watch::Sender<Findings>,
}

/// One probe of a container.
#[derive(Debug)]
pub(super) struct Probe {
    pub(super) number: Number,
    pub(super) way: Way,
    pub(super) key: Key,
    rules: Rules,
    course: Course,
    rhythm: Rhythm,
    /// Its place in the list of those that wait.
    pub(super) due: Option<Duration>,
    /// It is being asked, since when.
    asked: Option<Duration>,
    /// When it was asked before that.
    last: Option<Duration>,
    /// It is to be asked once more as soon as that is over.
    again: bool,
}

/// A question to be asked.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) pod: Arc<Pod>,
    pub(super) container: String,
    pub(super) purpose: Purpose,
    pub(super) id: Arc<str>,
    pub(super) ip: String,
    pub(super) cut: CancellationToken,
}

/// What probes that are heard of now begin with.
#[derive(Debug)]
pub(super) struct Beginning<'a> {
    pub(super) now: Duration,
    /// The agent's.
    pub(super) age: Duration,
    pub(super) clock: &'a dyn Clock,
    /// The last that was given to anyone.
    pub(super) number: &'a mut Number,
}

impl Beginning<'_> {
    fn probe(&mut self, key: Key, rules: Rules, spec: &ApiProbe) -> Probe {
        *self.number += 1;
        Probe {
            number: *self.number,
            way: Way::of(spec),
            key,
            rules,
            course: Course::default(),
            rhythm: Rhythm::new(period(spec), self.now, self.age, self.clock.random()),
            due: None,
            asked: None,
            last: None,
            again: false,
        }
    }
}

impl Chart {
    pub(super) fn new(
        view: View,
        answers: watch::Sender<Findings>,
        mut beginning: Beginning<'_>,
    ) -> Self {
        let probes = specs(&view.pod);
        let probes = probes.map(|(key, rules, spec)| beginning.probe(key, rules, spec));
        Self {
            probes: probes.collect(),
            view,
            cut: CancellationToken::new(),
            answers,
        }
    }

    /// The pod as it stands now. Where it was edited, a probe that is as it was goes on;
    /// the ones that there are no more are what is returned.
    pub(super) fn follow(&mut self, view: View, mut beginning: Beginning<'_>) -> Vec<Probe> {
        let before = std::mem::replace(&mut self.view, view).pod;
        let pod = &self.view.pod;
        if Arc::ptr_eq(&before, pod) || before.spec == pod.spec {
            return Vec::new();
        }
        let mut known = std::mem::take(&mut self.probes);
        for (key, rules, spec) in specs(pod) {
            let is_same = |probe: &Probe| {
                let old = probe_of(&before, &key.container, key.purpose);
                probe.key == key && probe.rules == rules && old.is_some_and(|(_, old)| old == spec)
            };
            let same = known.iter().position(is_same);
            self.probes.push(match same {
                Some(place) => known.swap_remove(place),
                None => beginning.probe(key, rules, spec),
            });
        }
        known
    }

    /// `None`: it is no more.
    pub(super) fn probe(&mut self, number: Number) -> Option<&mut Probe> {
        let mut probes = self.probes.iter_mut();
        probes.find(|probe| probe.number == number)
    }

    /// The same, and how the pod stands.
    fn seen_probe(&mut self, number: Number) -> Option<(&mut Probe, &View)> {
        let mut probes = self.probes.iter_mut();
        let probe = probes.find(|probe| probe.number == number)?;
        Some((probe, &self.view))
    }

    /// What is new about the containers.
    pub(super) fn look(&mut self, agent_began: Timestamp) {
        if self.view.end == End::Told {
            self.cut.cancel();
        }
        for probe in &mut self.probes {
            if let Some(seen) = self.view.container(&probe.key.container) {
                probe.course.see(&probe.rules, seen, agent_began);
            }
        }
    }

    /// When a probe is to be asked next, if nothing else happens; `again`: who is not
    /// ready is asked at once. Not while it is being asked: then see [`Self::resume`].
    pub(super) fn arm(
        &mut self,
        number: Number,
        again: bool,
        now: Duration,
        wall: Timestamp,
    ) -> Option<Duration> {
        let (probe, view) = self.seen_probe(number)?;
        let at_once = again && probe.is_wanted_at_once(view);
        if probe.asked.is_some() {
            probe.again |= at_once;
            return None;
        }
        if at_once && probe.rhythm.has_begun(now) {
            probe.rhythm.restart(now);
            return probe.next(view, now, now, wall);
        }
        // Whose time has come and who still waits for a turn keeps it; but one beat is one
        // question.
        let mut from = probe.due.map_or(now, |due| due.min(now));
        if let Some(last) = probe.last.filter(|last| *last == from) {
            from = probe.rhythm.after(last);
        }
        probe.next(view, from, now, wall)
    }

    /// A probe whose time has come is asked, unless that is not so any more.
    pub(super) fn begin(&mut self, number: Number, now: Duration, wall: Timestamp) -> Option<Job> {
        let cut = self.cut.clone();
        let (probe, view) = self.seen_probe(number)?;
        let seen = probe.seen(view)?;
        if probe.course.standing(&probe.rules, seen, wall) != Standing::Due {
            return None;
        }
        probe.asked = Some(now);
        Some(Job {
            pod: Arc::clone(&view.pod),
            container: probe.key.container.clone(),
            purpose: probe.key.purpose,
            id: Arc::clone(&seen.id),
            ip: view.ip.clone(),
            cut,
        })
    }

    /// An answer of the container with this id; another may have taken its place. Whether
    /// it is news.
    pub(super) fn conclude(&mut self, number: Number, id: &Arc<str>, well: bool) -> bool {
        let Some((probe, view)) = self.seen_probe(number) else {
            return false;
        };
        if probe.course.id() != Some(id) || probe.is_stopped(view) {
            return false;
        }
        let before = probe.course.result();
        probe.course.hear(&probe.rules, well);
        probe.course.result() != before
    }

    /// When a probe that was asked is asked next. A beat that it has missed meanwhile
    /// counts now, as a ticker has it.
    pub(super) fn resume(
        &mut self,
        number: Number,
        now: Duration,
        wall: Timestamp,
    ) -> Option<Duration> {
        let (probe, view) = self.seen_probe(number)?;
        let asked = probe.asked.take().unwrap_or(now);
        probe.last = Some(asked);
        if std::mem::take(&mut probe.again) && probe.is_wanted_at_once(view) {
            probe.rhythm.restart(now);
            return probe.next(view, now, now, wall);
        }
        let from = probe.rhythm.after(asked);
        let due = probe.next(view, from, now, wall);
        // That it took long is not the agent's doing.
        due.map(|due| due.max(now))
    }

    /// Tells those who run the pod, if there is anything new.
    pub(super) fn publish(&self) {
        let mut findings: Findings = Vec::new();
        for probe in &self.probes {
            let Some(id) = probe.course.id() else {
                continue;
            };
            if findings.iter().all(|finding| finding.id != *id) {
                findings.push(Finding {
                    id: Arc::clone(id),
                    startup: None,
                    readiness: None,
                    liveness: None,
                });
            }
            let mut all = findings.iter_mut();
            let Some(finding) = all.find(|finding| finding.id == *id) else {
                continue;
            };
            let result = match probe.key.purpose {
                Purpose::Startup => &mut finding.startup,
                Purpose::Readiness => &mut finding.readiness,
                Purpose::Liveness => &mut finding.liveness,
            };
            *result = probe.course.result();
        }
        self.answers.send_if_modified(|before| {
            let news = *before != findings;
            if news {
                *before = findings;
            }
            news
        });
    }
}

impl Probe {
    /// The container, if it is to be asked anything at all.
    fn seen<'a>(&self, view: &'a View) -> Option<&'a Seen> {
        let seen = view.container(&self.key.container);
        seen.filter(|_| !self.is_stopped(view))
    }

    /// Nobody asks whether what is to end lives; but sidecars go on a while.
    fn is_stopped(&self, view: &View) -> bool {
        let goes_on = self.rules.sidecar || self.key.purpose == Purpose::Readiness;
        view.over || (view.end != End::No && !goes_on)
    }

    /// One that is not ready though it runs.
    fn is_wanted_at_once(&self, view: &View) -> bool {
        let started = |seen: &Seen| seen.running_since.is_some() && seen.started;
        self.key.purpose == Purpose::Readiness
            && self.course.result() != Some(Verdict::Success)
            && self.seen(view).is_some_and(started)
    }

    /// The first beat from `from` on at which the container may be asked.
    fn next(
        &self,
        view: &View,
        from: Duration,
        now: Duration,
        wall: Timestamp,
    ) -> Option<Duration> {
        let seen = self.seen(view)?;
        let from = match self.course.standing(&self.rules, seen, wall) {
            Standing::Idle => return None,
            Standing::Due => from,
            Standing::NotBefore(time) => {
                let wait = Duration::try_from(time.duration_since(wall)).unwrap_or_default();
                from.max(now + wait)
            }
        };
        Some(self.rhythm.from(from))
    }
}

/// All that is asked of a pod.
fn specs(pod: &Pod) -> impl Iterator<Item = (Key, Rules, &ApiProbe)> {
    let own = pod_ref(pod);
    let containers = pod.spec.iter().flat_map(probed);
    containers.flat_map(move |(sidecar, container)| {
        let own = own.clone();
        Purpose::ALL.into_iter().filter_map(move |purpose| {
            let spec = purpose.of(container)?;
            let key = Key {
                pod: own.clone(),
                container: container.name.clone(),
                purpose,
            };
            Some((key, rules(purpose, sidecar, spec), spec))
        })
    })
}

fn pod_ref(pod: &Pod) -> PodRef {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let metadata = &pod.metadata;
    PodRef {
        name: PodName {
            namespace: text(&metadata.namespace),
            name: text(&metadata.name),
        },
        uid: PodUid::new(metadata.uid.as_deref().unwrap_or_default()),
    }
}
