//! The one task that keeps the time of all probes of a node.
//!
//! A probe that is not due costs nothing but its place in a list. So many are asked at
//! once at most; whoever has to wait for that, or for an agent that is slow, is late,
//! which is counted and is no fault of who is asked.

mod chart;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::events::{Recorder, Severity, about_pod};
use futures_util::FutureExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, Probe};
use seams::Sleep;
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;
use tokio_util::task::JoinMap;
use tracing::{debug, error, info};
use types::PodUid;
use types::figures::Boards;

use crate::check::{Outcome, Subject};
use crate::desk::{Desk, News, Probes};
use crate::metrics::Metrics;
use crate::view::{Purpose, container};
use chart::{Chart, Job};

pub use crate::check::Means;

/// So many are asked at once: more than a node usually has to ask in the same moment,
/// and few enough to be held in memory.
const AT_ONCE: usize = 256;

/// Questions whose times are so near to each other are asked together: each time that the
/// agent is woken costs more than a question.
const TOGETHER: Duration = Duration::from_millis(20);

/// A probe that begins so much after its time is late.
const LATE: Duration = Duration::from_secs(1);

/// One probe: its pod, and its number there.
type Which = (PodUid, usize);

/// The probes of a node. Runs as one task.
#[derive(Debug)]
pub struct Prober {
    desk: Arc<Desk>,
    means: Arc<Means>,
    /// `None`: there is nobody to tell.
    recorder: Option<Recorder>,
    metrics: Metrics,
    /// When this agent began, by the wall clock and by the clock's uptime.
    began: Timestamp,
    began_uptime: Duration,
    charts: BTreeMap<PodUid, Chart>,
    /// Probes that wait for their time.
    due: BTreeSet<(Duration, PodUid, usize)>,
    under_way: JoinMap<Which, Examined>,
}

/// What came of a question.
#[derive(Debug)]
struct Examined {
    job: Job,
    outcome: Outcome,
    took: Duration,
}

impl Prober {
    /// With the side of those who run pods.
    pub fn new(means: Means, recorder: Option<Recorder>, figures: &Boards) -> (Self, Probes) {
        let asked = Probes::default();
        let clock = &means.clock;
        let prober = Self {
            desk: asked.desk(),
            recorder,
            metrics: Metrics::new(figures),
            began: Timestamp::try_from(clock.now()).unwrap_or_default(),
            began_uptime: clock.uptime(),
            means: Arc::new(means),
            charts: BTreeMap::new(),
            due: BTreeSet::new(),
            under_way: JoinMap::new(),
        };
        (prober, asked)
    }

    /// Asks until told to stop.
    pub async fn run(mut self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.work()).await;
    }

    async fn work(&mut self) {
        let clock = Arc::clone(&self.means.clock);
        let desk = Arc::clone(&self.desk);
        // When it rings, and what waits for that.
        let mut alarm: Option<(Duration, Sleep)> = None;
        loop {
            for (uid, news) in desk.take() {
                self.hear(&uid, news);
            }
            let now = clock.uptime();
            if self.next_round().is_some_and(|round| round <= now) {
                self.begin_due(now);
            }
            let round = self.next_round();
            if alarm.as_ref().map(|(at, _)| *at) != round {
                alarm = round.map(|at| (at, clock.sleep(at.saturating_sub(now))));
            }
            tokio::select! {
                () = desk.rings() => {}
                Some(ended) = self.under_way.join_next() => {
                    self.end(ended);
                    // Those who were asked together answer together.
                    while let Some(Some(ended)) = self.under_way.join_next().now_or_never() {
                        self.end(ended);
                    }
                }
                () = ringing(alarm.as_mut()) => alarm = None,
            }
        }
    }

    fn end(&mut self, (which, examined): (Which, Result<Examined, JoinError>)) {
        match examined {
            Ok(examined) => self.conclude(&which, &examined),
            Err(cause) => {
                error!(pod = %which.0, %cause, "a probe has died; this is a fault of ours, please report it");
                self.resume(&which);
            }
        }
    }

    /// When the next probes are asked; `None`: not before something else happens.
    fn next_round(&self) -> Option<Duration> {
        let (due, ..) = self.due.first().filter(|_| self.has_room())?;
        let rounds = due.as_nanos().div_ceil(TOGETHER.as_nanos());
        let rounds = u32::try_from(rounds).unwrap_or(u32::MAX);
        Some(TOGETHER.saturating_mul(rounds).max(*due))
    }

    fn has_room(&self) -> bool {
        self.under_way.len() < AT_ONCE
    }

    fn wall(&self) -> Timestamp {
        Timestamp::try_from(self.means.clock.now()).unwrap_or_default()
    }

    fn hear(&mut self, uid: &PodUid, news: News) {
        let (view, again, answers) = match news {
            News::Gone => return self.forget(uid),
            News::View {
                view,
                again,
                answers,
            } => (view, again, answers),
        };
        let now = self.means.clock.uptime();
        if let Some(answers) = answers {
            // Whoever had the place before is gone.
            self.forget(uid);
            let age = now.saturating_sub(self.began_uptime);
            let clock = &self.means.clock;
            let chart = Chart::new(view, answers, now, age, || clock.random());
            self.charts.insert(uid.clone(), chart);
        } else if let Some(chart) = self.charts.get_mut(uid) {
            chart.view = view;
        }
        let wall = self.wall();
        let Some(chart) = self.charts.get_mut(uid) else {
            return;
        };
        chart.look(self.began);
        for number in 0..chart.probes.len() {
            let due = chart.arm(number, again, now, wall);
            let slot = &mut chart.probes[number].due;
            set_due(&mut self.due, uid, number, slot, due);
        }
        chart.publish();
    }

    fn forget(&mut self, uid: &PodUid) {
        let Some(chart) = self.charts.remove(uid) else {
            return;
        };
        for (number, probe) in chart.probes.iter().enumerate() {
            if let Some(due) = probe.due {
                self.due.remove(&(due, uid.clone(), number));
            }
            self.metrics.forget(&probe.key);
        }
    }

    fn begin_due(&mut self, now: Duration) {
        let mut late = Vec::new();
        while self.has_room() {
            if self.due.first().is_none_or(|(due, ..)| *due > now) {
                break;
            }
            let Some((due, uid, number)) = self.due.pop_first() else {
                break;
            };
            let late_by = now.saturating_sub(due);
            late.extend(self.begin(uid, number, now).then_some(late_by));
        }
        late.retain(|late| *late > LATE);
        if let Some(most) = late.iter().max() {
            self.metrics.late(late.len());
            info!(
                probes = late.len(),
                ?most,
                "probes begin late: the agent is slow, or has more to ask than it can at once"
            );
        }
    }

    /// Asks one whose time has come. Whether it did.
    fn begin(&mut self, uid: PodUid, number: usize, now: Duration) -> bool {
        let wall = self.wall();
        let Some(chart) = self.charts.get_mut(&uid) else {
            return false;
        };
        chart.probes[number].due = None;
        let Some(job) = chart.begin(number, now, wall) else {
            // The wall clock was set back: its delay is not over yet.
            let due = chart.arm(number, false, now, wall);
            let slot = &mut chart.probes[number].due;
            set_due(&mut self.due, &uid, number, slot, due);
            return false;
        };
        let means = Arc::clone(&self.means);
        self.under_way.spawn((uid, number), examine(means, job));
        true
    }

    /// What came of a question counts, and people are told.
    fn conclude(&mut self, which: &Which, examined: &Examined) {
        let Examined { job, outcome, took } = examined;
        self.tell(job, outcome);
        if let Outcome::Late(by) = outcome {
            self.metrics.late(1);
            info!(pod = %which.0, container = job.container, probe = %job.purpose, ?by, "a probe is not counted: the agent was too slow to hear the answer in time");
        }
        let well = match outcome {
            Outcome::Success | Outcome::Warning(_) => Some(true),
            Outcome::Failure(_) => Some(false),
            Outcome::Errored { .. } | Outcome::Late(_) => None,
        };
        if let Some(chart) = self.charts.get_mut(&which.0)
            && let Some(well) = well
        {
            self.metrics.count(&chart.probes[which.1].key, well, *took);
            if chart.conclude(which.1, &job.id, well) {
                chart.publish();
            }
        }
        self.resume(which);
    }

    /// It waits for its next time.
    fn resume(&mut self, (uid, number): &Which) {
        let (now, wall) = (self.means.clock.uptime(), self.wall());
        let Some(chart) = self.charts.get_mut(uid) else {
            return;
        };
        let due = chart.resume(*number, now, wall);
        let slot = &mut chart.probes[*number].due;
        set_due(&mut self.due, uid, *number, slot, due);
    }

    fn tell(&self, job: &Job, outcome: &Outcome) {
        let Some((reason, message)) = words(job.purpose, outcome) else {
            return;
        };
        debug!(container = job.container, id = %job.id, reason, message, "a probe did not go well");
        if let Some(recorder) = &self.recorder {
            let about = about_pod(&job.pod, field_path(&job.pod, &job.container));
            recorder.record(about, Severity::Warning, reason, message);
        }
    }
}

async fn ringing(alarm: Option<&mut (Duration, Sleep)>) {
    match alarm {
        Some((_, sleep)) => sleep.await,
        None => std::future::pending().await,
    }
}

/// What people are told of an answer, and under which name.
fn words(purpose: Purpose, outcome: &Outcome) -> Option<(&'static str, String)> {
    match outcome {
        Outcome::Success | Outcome::Late(_) => None,
        Outcome::Warning(text) => {
            Some(("ProbeWarning", format!("{purpose} probe warning: {text}")))
        }
        Outcome::Failure(text) => Some(("Unhealthy", format!("{purpose} probe failed: {text}"))),
        Outcome::Errored { state, cause } => {
            let text = format!("{purpose} probe errored and resulted in {state} state: {cause}");
            Some(("Unhealthy", text))
        }
    }
}

/// Moves a probe in the list of those that wait.
fn set_due(
    list: &mut BTreeSet<(Duration, PodUid, usize)>,
    uid: &PodUid,
    number: usize,
    before: &mut Option<Duration>,
    due: Option<Duration>,
) {
    if *before == due {
        return;
    }
    if let Some(before) = *before {
        list.remove(&(before, uid.clone(), number));
    }
    if let Some(due) = due {
        list.insert((due, uid.clone(), number));
    }
    *before = due;
}

async fn examine(means: Arc<Means>, job: Job) -> Examined {
    let began = means.clock.uptime();
    let outcome = match probe_of(&job.pod, &job.container, job.purpose) {
        Some((container, probe)) => {
            let subject = Subject {
                pod: &job.pod,
                container,
                id: &job.id,
                ip: &job.ip,
                cut: &job.cut,
            };
            means.check(probe, subject).await
        }
        // It was there when the job was made of it.
        None => Outcome::Success,
    };
    let took = means.clock.uptime().saturating_sub(began);
    Examined { job, outcome, took }
}

fn probe_of<'a>(pod: &'a Pod, name: &str, purpose: Purpose) -> Option<(&'a Container, &'a Probe)> {
    let (_, container) = container(pod, name)?;
    Some((container, purpose.of(container)?))
}

/// Which part of its pod a container is.
fn field_path(pod: &Pod, name: &str) -> Option<String> {
    let (sidecar, _) = container(pod, name)?;
    let list = if sidecar {
        "initContainers"
    } else {
        "containers"
    };
    Some(format!("spec.{list}{{{name}}}"))
}
