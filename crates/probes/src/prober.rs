//! The one task that keeps the time of all probes of a node.
//!
//! A probe that is not due costs nothing but its place in a list. So many are asked at
//! once in each way at most; whoever has to wait for that, or for an agent that is slow,
//! is late, which is counted and is no fault of who is asked.

mod chart;
mod lane;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::events::{Recorder, Severity, about_pod};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, Probe as ApiProbe};
use seams::Sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info};
use types::PodUid;
use types::figures::Boards;

use crate::check::{Outcome, Subject};
use crate::desk::{Desk, News, Probes};
use crate::metrics::Metrics;
use crate::view::{Purpose, container};
use chart::{Beginning, Chart, Job, Number, Probe};
use lane::{Ended, Lanes, Way, Which};

pub use crate::check::Means;

/// A probe that begins so much after its time is late.
const LATE: Duration = Duration::from_secs(1);

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
    /// Of the probe that came last.
    number: Number,
    lanes: Lanes,
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
            number: 0,
            lanes: Lanes::default(),
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
            if self.lanes.next_round().is_some_and(|round| round <= now) {
                self.begin_due(now);
            }
            let round = self.lanes.next_round();
            if alarm.as_ref().map(|(at, _)| *at) != round {
                alarm = round.map(|at| (at, clock.sleep(at.saturating_sub(now))));
            }
            tokio::select! {
                () = desk.rings() => {}
                ended = self.lanes.ended() => {
                    self.end(ended);
                    // Those who were asked together answer together.
                    while let Some(ended) = self.lanes.ended_by_now() {
                        self.end(ended);
                    }
                }
                () = ringing(alarm.as_mut()) => alarm = None,
            }
        }
    }

    fn end(&mut self, (which, examined): Ended) {
        match examined {
            Ok(examined) => self.conclude(&which, &examined),
            // It was asked on behalf of somebody who is gone.
            Err(cause) if cause.is_cancelled() => {}
            Err(cause) => {
                error!(pod = %which.0, %cause, "a probe has died; this is a fault of ours, please report it");
                self.resume(&which);
            }
        }
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
        if answers.is_some() {
            // Whoever had the place before is gone.
            self.forget(uid);
        }
        let now = self.means.clock.uptime();
        let beginning = Beginning {
            now,
            age: now.saturating_sub(self.began_uptime),
            clock: &*self.means.clock,
            number: &mut self.number,
        };
        if let Some(answers) = answers {
            let chart = Chart::new(view, answers, beginning);
            self.charts.insert(uid.clone(), chart);
        } else if let Some(chart) = self.charts.get_mut(uid) {
            for probe in chart.follow(view, beginning) {
                self.let_go(uid, &probe);
            }
        }
        let wall = self.wall();
        let Some(chart) = self.charts.get_mut(uid) else {
            return;
        };
        chart.look(self.began);
        for place in 0..chart.probes.len() {
            let number = chart.probes[place].number;
            let due = chart.arm(number, again, now, wall);
            self.lanes.set_due(uid, chart.probe(number), due);
        }
        chart.publish();
    }

    fn forget(&mut self, uid: &PodUid) {
        let Some(chart) = self.charts.remove(uid) else {
            return;
        };
        for probe in &chart.probes {
            self.let_go(uid, probe);
        }
    }

    /// There is no such probe any more.
    fn let_go(&mut self, uid: &PodUid, probe: &Probe) {
        self.lanes.let_go(uid, probe);
        self.metrics.forget(&probe.key);
    }

    fn begin_due(&mut self, now: Duration) {
        let mut late = Vec::new();
        for way in Way::ALL {
            while let Some((due, uid, number)) = self.lanes.of(way).take_due(now) {
                let late_by = now.saturating_sub(due);
                late.extend(self.begin(uid, number, now).then_some(late_by));
            }
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
    fn begin(&mut self, uid: PodUid, number: Number, now: Duration) -> bool {
        let wall = self.wall();
        let Some(chart) = self.charts.get_mut(&uid) else {
            return false;
        };
        let Some(probe) = chart.probe(number) else {
            return false;
        };
        probe.due = None;
        let way = probe.way;
        let Some(job) = chart.begin(number, now, wall) else {
            // The wall clock was set back: its delay is not over yet.
            let due = chart.arm(number, false, now, wall);
            self.lanes.set_due(&uid, chart.probe(number), due);
            return false;
        };
        let means = Arc::clone(&self.means);
        self.lanes.of(way).ask((uid, number), examine(means, job));
        true
    }

    /// What came of a question counts, and people are told.
    fn conclude(&mut self, which: &Which, examined: &Examined) {
        let (uid, number) = which;
        if !self.is_asked(which) {
            return;
        }
        let Examined { job, outcome, took } = examined;
        self.tell(job, outcome);
        if let Outcome::Late(by) = outcome {
            self.metrics.late(1);
            info!(pod = %uid, container = job.container, probe = %job.purpose, ?by, "a probe is not counted: the agent was too slow to hear the answer in time");
        }
        let well = match outcome {
            Outcome::Success | Outcome::Warning(_) => Some(true),
            Outcome::Failure(_) => Some(false),
            Outcome::Errored { .. } | Outcome::Late(_) => None,
        };
        if let Some(chart) = self.charts.get_mut(uid)
            && let Some(well) = well
        {
            if let Some(probe) = chart.probe(*number) {
                self.metrics.count(&probe.key, well, *took);
            }
            if chart.conclude(*number, &job.id, well) {
                chart.publish();
            }
        }
        self.resume(which);
    }

    /// Whether there is such a probe still: an answer may come as its pod is edited or goes.
    fn is_asked(&mut self, (uid, number): &Which) -> bool {
        let chart = self.charts.get_mut(uid);
        chart.is_some_and(|chart| chart.probe(*number).is_some())
    }

    /// It waits for its next time.
    fn resume(&mut self, (uid, number): &Which) {
        let (now, wall) = (self.means.clock.uptime(), self.wall());
        let Some(chart) = self.charts.get_mut(uid) else {
            return;
        };
        let due = chart.resume(*number, now, wall);
        self.lanes.set_due(uid, chart.probe(*number), due);
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

fn probe_of<'a>(
    pod: &'a Pod,
    name: &str,
    purpose: Purpose,
) -> Option<(&'a Container, &'a ApiProbe)> {
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
