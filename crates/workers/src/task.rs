//! One pod's worker: looks, reports, plans, acts, and looks again, from the pod's
//! beginning to its end. There is never more than one for a uid.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pleg::Observed;
use status::{Ended, Input, Known, NodeFacts, Report, Waiting};
use tokio::sync::watch;
use tracing::{debug, warn};
use types::desired::is_terminal;
use types::observed::{ContainerState, ObservedPod};
use types::{GoDuration, PodRef, PodUid};
use volumes::Mounted;

use crate::act::Outcome;
use crate::admission::Rejection;
use crate::foundations::Foundations;
use crate::objects::PodObjects;
use crate::patience::Mounting;
use crate::plan::{BackingOff, Given, Memory, Plan, Rest, left_without_next, plan};
use crate::probing::{Probing, keep_telling};
use crate::resizing::Resizing;
use crate::slot::{Slot, Want};
use crate::spec::{spec_of, uses_other_volumes};
use crate::startup::Startup;
use crate::termination;
use crate::turns::Rank;
use crate::unseen::Unseen;

/// Before something is done again that nothing has come of.
const FRUITLESS: Duration = Duration::from_secs(1);

/// Before a runtime is asked again that does not tell of what was just made.
const BEHIND: Duration = Duration::from_millis(250);

/// How long the end of a container is shown before what it waits for.
const ENDED_FIRST: Duration = Duration::from_secs(1);

/// A pod that is on its way.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) on: Arc<Foundations>,
    pub(crate) pod: PodRef,
    pub(crate) slot: watch::Receiver<Slot>,
    /// What was wanted of it when something was last planned.
    want: Option<Want>,
    order: u64,
    observed: watch::Receiver<Observed>,
    pub(crate) memory: Memory,
    pub(crate) known: Known,
    /// What was last said of it.
    pub(crate) previous: Option<PodStatus>,
    /// What the API had of it when it was told to end: by that upstream judges how far
    /// the pod had come.
    api_at_end: Option<PodStatus>,
    pub(crate) objects: PodObjects,
    pub(crate) mounted: Option<Mounted>,
    pub(crate) mounting: Mounting,
    /// What its volumes say of the pod itself.
    pub(crate) said_of_itself: Vec<String>,
    pub(crate) clean_failures: u32,
    pub(crate) told_of_kill: BTreeSet<String>,
    /// It was said that the node ends it.
    evicted: bool,
    /// Containers, by id, whose hook before the end was begun when they were to end in
    /// another time.
    pub(crate) hooked: BTreeSet<String>,
    /// Until then, since 1970, the end of a container that is replaced says nothing of the
    /// pod.
    pub(crate) gap_until: Duration,
    /// Its volumes were not come to when it was last prepared: what they are made of may
    /// have changed, and that is no reason to try again at once.
    pub(crate) volumes_unread: bool,
    /// Containers that wait after a crash, and for how long: told of once for each crash.
    pub(crate) told_of_wait: BTreeSet<(String, Duration)>,
    /// What was last done, and on which observation.
    last_act: Option<(Plan, Arc<ObservedPod>)>,
    pub(crate) unseen: Unseen,
    /// It was said that another sandbox takes the place of the one that there is.
    pub(crate) told_of_change: bool,
    pub(crate) resizing: Resizing,
    pub(crate) probing: Probing,
    /// The pod as it was when it was last looked at.
    known_pod: Arc<Pod>,
    pub(crate) startup: Startup,
    /// When it was heard of, and since when it is at work, by the clock's uptime.
    heard: Duration,
    busy: Option<(Duration, &'static str)>,
}

/// A worker that has nothing more to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    pub(crate) uid: PodUid,
    /// Nothing of the pod is left.
    pub(crate) removed: bool,
}

/// What wakes a worker that rests.
#[derive(Debug)]
enum Woken {
    /// Something is wanted that was not.
    Slot,
    /// The runtime has something else of it.
    Observation,
    Time,
    /// What its volumes are made of changed, or has to be made anew.
    Volumes,
    /// What its containers refer to changed.
    Objects,
    /// The network came.
    Node,
    /// Probes have found something.
    Probes,
    /// Nobody wants anything any more: the agent ends.
    Never,
}

impl Worker {
    /// `order` is the number of pods that the node heard of before.
    pub(crate) fn new(
        on: Arc<Foundations>,
        pod: PodRef,
        slot: watch::Receiver<Slot>,
        order: u64,
    ) -> Self {
        let observed = on.observations.follow(&pod.uid);
        let heard = on.clock.uptime();
        let probing = Probing::new(on.probes.place(&pod.uid));
        let known_pod = Arc::clone(&slot.borrow().pod);
        Self {
            on,
            pod,
            slot,
            want: None,
            order,
            observed,
            memory: Memory::default(),
            known: Known::default(),
            previous: None,
            api_at_end: None,
            objects: PodObjects::default(),
            mounted: None,
            mounting: Mounting::default(),
            said_of_itself: Vec::new(),
            clean_failures: 0,
            told_of_kill: BTreeSet::new(),
            evicted: false,
            hooked: BTreeSet::new(),
            gap_until: Duration::ZERO,
            volumes_unread: false,
            told_of_wait: BTreeSet::new(),
            last_act: None,
            unseen: Unseen::default(),
            told_of_change: false,
            resizing: Resizing::default(),
            probing,
            known_pod,
            startup: Startup::default(),
            heard,
            busy: Some((heard, "create")),
        }
    }

    /// Runs the pod to its end. May be dropped: whoever comes next finds what is
    /// there.
    /// What is kept for each pod while it rests is as small as can be: the worker lies
    /// outside (a future has its arguments twice), and so does all that is done rarely.
    pub(crate) async fn run(mut self: Box<Self>) -> Finished {
        // Nothing is planned on an observation from before the last act.
        let mut fresh = None;
        let waited = self.on.clock.uptime().saturating_sub(self.heard);
        self.on.metrics.work_began.took(waited);
        loop {
            let observed = match fresh.take() {
                Some(observed) => observed,
                None => self.look().await,
            };
            let slot = self.slot.borrow_and_update().clone();
            // Before anything else: whoever hears of a change here hears of it once.
            self.forget_failures(&slot);
            let observed = self.newest(observed);
            if self.unseen.is_behind(&observed, self.on.clock.uptime()) {
                self.on.clock.sleep(BEHIND).await;
                continue;
            }
            self.read_last_words(&observed).await;
            Box::pin(self.ask_for_handler(&slot)).await;
            self.judge(&slot, &observed);
            if self.is_said_otherwise(&slot) {
                Box::pin(self.refresh_volumes(&slot, &observed)).await;
            }
            let given = Given {
                slot: &slot,
                observed: &observed,
                memory: &self.memory,
                restarting_all: self.is_restarting_all(),
                now: self.on.now(),
                longest_backoff: self.on.settings.backoff.most,
            };
            let mut next = plan(&given);
            debug!(pod = %self.pod, ?next, "planned");
            let left = left_without_next(&given);
            self.forget_replaced(&mut next, &left);
            match next {
                Plan::Finish => {
                    self.count_work("terminated");
                    return Finished {
                        uid: self.pod.uid.clone(),
                        removed: self.memory.removed,
                    };
                }
                Plan::Rest(mut rest) => {
                    // How it ended is told first, and that it waits a moment later.
                    if self.wait_after_crash(&slot, &rest.backing_off) {
                        rest.wake(self.on.now() + ENDED_FIRST);
                    }
                    self.count_work("");
                    fresh = self.rest(&slot, &observed, rest).await;
                }
                act if self.is_fruitless(&act, &observed) => {
                    // A runtime that lags, or does not do what it says.
                    tokio::select! {
                        () = self.on.clock.sleep(self.on.spread(FRUITLESS)) => {}
                        () = self.cut(&slot) => {}
                    }
                }
                act => {
                    if let Plan::Start(_, rest) = &act {
                        self.wait_after_crash(&slot, &rest.backing_off);
                    }
                    Box::pin(self.step(&slot, &observed, act)).await;
                }
            }
        }
    }

    /// It rests, or ends. `course` is what it did, if not what it was woken for.
    fn count_work(&mut self, course: &'static str) {
        let Some((since, woken)) = self.busy.take() else {
            return;
        };
        let course = if course.is_empty() { woken } else { course };
        let took = self.on.clock.uptime().saturating_sub(since);
        self.on.metrics.work.took(&[course], took);
    }

    /// That one, or what was published since: nobody is woken by it any more.
    fn newest(&mut self, observed: Arc<ObservedPod>) -> Arc<ObservedPod> {
        let newest = self.observed.borrow_and_update().clone();
        newest
            .filter(|newest| newest.at > observed.at)
            .unwrap_or(observed)
    }

    /// Everything that was done before is in what it answers.
    async fn look(&self) -> Arc<ObservedPod> {
        match self.on.observations.look(&self.pod.uid).await {
            Ok(observed) => observed,
            // The agent is ending, and this worker with it.
            Err(_) => std::future::pending().await,
        }
    }

    /// The same was done on the same just now, and nothing has come of it.
    fn is_fruitless(&mut self, act: &Plan, observed: &ObservedPod) -> bool {
        self.last_act.take().is_some_and(|(last, seen)| {
            let same =
                seen.sandboxes == observed.sandboxes && seen.containers == observed.containers;
            same && last == *act
        })
    }

    async fn step(&mut self, slot: &Slot, observed: &Arc<ObservedPod>, act: Plan) {
        let mut aside = self.aside(slot, observed);
        let outcome = tokio::select! {
            outcome = self.act(slot, observed, act.clone()) => outcome,
            never = keep_telling(aside.as_mut()) => match never {},
        };
        if let Some(said) = aside.and_then(|aside| aside.said) {
            self.previous = Some(said);
        }
        self.probing.look_again = true;
        let starts = matches!(act, Plan::Start(..) | Plan::Sandbox { .. });
        if outcome == Outcome::Done {
            self.last_act = Some((act, Arc::clone(observed)));
        }
        if starts && matches!(outcome, Outcome::Failed(_)) {
            // What was to follow cannot come: who has ended has ended by itself.
            self.memory.replaced.clear();
        }
        self.memory.retry_at = match outcome {
            Outcome::Done | Outcome::Cut => None,
            Outcome::Failed(pause) => Some(self.on.now() + pause),
        };
    }

    /// What failed may work out now, if something else is wanted than when it was tried.
    fn forget_failures(&mut self, slot: &Slot) {
        let want = slot.want();
        let before = self.want.replace(want.clone());
        if before.is_some_and(|before| before != want) {
            self.memory.retry_at = None;
            self.memory.retry_resize_at = None;
            self.memory.retry_container_at.clear();
        }
    }

    /// Waits until there may be something to do. What it was woken by, if that is
    /// enough to go on with.
    async fn rest(
        &mut self,
        slot: &Slot,
        observed: &Arc<ObservedPod>,
        rest: Rest,
    ) -> Option<Arc<ObservedPod>> {
        let woken = self.sleep(slot, rest).await;
        debug!(pod = %self.pod, ?woken, "woken");
        let course = match woken {
            _ if self.slot.borrow().ending.is_some() => "kill",
            Woken::Slot => "update",
            _ => "sync",
        };
        self.busy = Some((self.on.clock.uptime(), course));
        // That the API has heard what it was told is no reason to ask anybody.
        let told = matches!(woken, Woken::Slot) && self.slot.borrow().want() == slot.want();
        self.probing.look_again = !told;
        match woken {
            Woken::Never => std::future::pending().await,
            Woken::Observation => {
                let newest = self.observed.borrow_and_update().clone();
                return newest.filter(|newest| newest.at >= observed.at);
            }
            Woken::Volumes if self.memory.prepared => {
                Box::pin(self.refresh_volumes(slot, observed)).await;
            }
            Woken::Volumes | Woken::Node => self.memory.retry_at = None,
            Woken::Objects => self.memory.retry_container_at.clear(),
            Woken::Slot | Woken::Time | Woken::Probes => {}
        }
        // Nothing was done since: what was seen still holds, unless there is newer.
        Some(self.newest(Arc::clone(observed)))
    }

    async fn sleep(&mut self, slot: &Slot, mut rest: Rest) -> Woken {
        let on = Arc::clone(&self.on);
        let now = on.now();
        rest.wake(now + on.spread(on.settings.resync));
        if let Some(deadline) = self.deadline(slot).filter(|_| !self.is_ending(slot)) {
            rest.wake(deadline);
        }
        let pause = rest.until.unwrap_or_default().saturating_sub(now);
        let refresh_at = self.mounted.as_ref().and_then(|mounted| mounted.refresh_at);
        let refresh = refresh_at.map(|at| {
            let left = at.duration_since(on.clock.now());
            on.clock.sleep(left.unwrap_or_default())
        });
        let refresh = async {
            match refresh {
                Some(sleep) => sleep.await,
                None => std::future::pending().await,
            }
        };
        let active = !self.is_ending(slot);
        let mut node = on.node.clone();
        let without_network = node.borrow().network_problem.is_some();
        let blocked = active && !self.memory.prepared && without_network;
        let uid = self.pod.uid.clone();
        tokio::select! {
            changed = self.slot.changed() => match changed {
                Ok(()) => Woken::Slot,
                Err(_) => Woken::Never,
            },
            Ok(()) = self.observed.changed() => Woken::Observation,
            () = on.clock.sleep(pause) => Woken::Time,
            () = on.volumes.changed(&uid), if active && !self.volumes_unread => Woken::Volumes,
            // What is not prepared is about to be, as a whole.
            () = refresh, if active && self.memory.prepared => Woken::Volumes,
            () = self.objects.changed(), if active => Woken::Objects,
            () = self.probing.place.changed() => Woken::Probes,
            Ok(_) = node.wait_for(|view| view.network_problem.is_none()), if blocked => Woken::Node,
        }
    }

    pub(crate) fn is_ending(&self, slot: &Slot) -> bool {
        slot.ending.is_some() || slot.rejected.is_some() || self.memory.over
    }

    /// What the runtime can do for the pod, by its class.
    async fn ask_for_handler(&mut self, slot: &Slot) {
        if self.is_ending(slot) {
            return;
        }
        // Who finds no class is told so when the sandbox is made.
        let handler = self.runtime_handler(slot).await.ok();
        let view = self.on.node.borrow();
        let able = handler.is_some_and(|handler| view.recursive_read_only.contains(&handler));
        drop(view);
        self.known.recursive_read_only = able;
    }

    /// What is known of the pod now, and whether it is over.
    fn judge(&mut self, slot: &Slot, observed: &ObservedPod) {
        if let Some(object) = slot.object() {
            let now = Timestamp::try_from(self.on.clock.now()).unwrap_or_default();
            self.startup.seen(object, now, &self.on.metrics);
        }
        self.known.is_static = slot.is_static();
        self.known.stop_signals = self.on.settings.stop_signals;
        let before = std::mem::replace(&mut self.known_pod, Arc::clone(&slot.pod));
        if !Arc::ptr_eq(&before, &slot.pod)
            && uses_other_volumes(&spec_of(&before), &spec_of(&slot.pod))
        {
            self.memory.prepared = false;
        }
        if let Some(deadline) = self.deadline(slot)
            && deadline <= self.on.now()
            && !self.is_ending(slot)
        {
            let message = "Pod was active on the node longer than the specified deadline";
            let reason = "DeadlineExceeded";
            self.on.telling.normal(&slot.pod, reason, message);
            self.known.ended = Some(Ended {
                reason: reason.to_owned(),
                message: message.to_owned(),
            });
            self.memory.over = true;
            // What failed before is no reason to end it later.
            self.memory.retry_at = None;
        }
        self.note_eviction(slot, observed);
        self.known.terminal = self.is_ending(slot) && !observed.is_running();
        self.note_resize(slot, observed);
        self.hear_probes();
        let in_gap = self.on.now() < self.gap_until || self.seems_over(slot, observed);
        let in_gap = in_gap && !self.memory.replaced.is_empty();
        if !in_gap || self.is_ending(slot) {
            self.report(slot, observed);
        }
        self.tell_probes(slot, observed);
        let phase = self
            .previous
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        if is_terminal(phase) && !self.memory.over {
            self.memory.over = true;
            self.known.terminal = !observed.is_running();
        }
    }

    /// As upstream: once it is said, and while anything runs. How the containers end may
    /// then say something else of the pod, and that counts.
    fn note_eviction(&mut self, slot: &Slot, observed: &ObservedPod) {
        let Some(eviction) = &slot.evicted else {
            return;
        };
        let ended = self.known.ended.as_ref();
        if ended.is_some_and(|ended| ended.reason != eviction.reason) {
            return;
        }
        let is_news = !std::mem::replace(&mut self.evicted, true);
        self.known.ended = (is_news || observed.is_running()).then(|| Ended {
            reason: eviction.reason.to_owned(),
            message: eviction.message.clone(),
        });
        let disruption = eviction.disruption.as_ref();
        self.known.disruption = disruption.map(|message| PodCondition {
            type_: "DisruptionTarget".to_owned(),
            status: "True".to_owned(),
            reason: Some("TerminationByKubelet".to_owned()),
            message: Some(message.clone()),
            observed_generation: slot.pod.metadata.generation,
            ..PodCondition::default()
        });
    }

    /// By what was just said of it.
    fn is_restarting_all(&self) -> bool {
        let said = self.previous.as_ref();
        said.is_some_and(status::restarts_everything)
    }

    /// When its time is up; since 1970.
    pub(crate) fn deadline(&self, slot: &Slot) -> Option<Duration> {
        let limit = spec_of(&slot.pod).active_deadline_seconds?;
        let limit = Duration::from_secs(u64::try_from(limit).unwrap_or_default());
        let started = self.previous.as_ref()?.start_time.as_ref()?.0;
        let started = Duration::try_from(started.duration_since(Timestamp::UNIX_EPOCH)).ok()?;
        Some(started + limit)
    }

    /// Whether there is something to tell.
    fn wait_after_crash(&mut self, slot: &Slot, waiting: &[BackingOff]) -> bool {
        let mut news = false;
        for one in waiting {
            let name = one.container.as_str();
            let wait =
                GoDuration::from_nanos(i64::try_from(one.wait.as_nanos()).unwrap_or_default());
            let message = format!(
                "back-off {wait} restarting failed container={name} pod={}",
                self.pod
            );
            let shown = Waiting {
                reason: "CrashLoopBackOff".to_owned(),
                message,
            };
            let before = self.known.waiting.insert(name.to_owned(), shown.clone());
            news |= before != Some(shown);
            if self.told_of_wait.insert((name.to_owned(), one.wait)) {
                let message = format!(
                    "Back-off restarting failed container {name} in pod {}",
                    self.pod
                );
                let severity = api::events::Severity::Warning;
                let about = (one.kind, name);
                let telling = &self.on.telling;
                telling.container(&slot.pod, about, severity, "BackOff", message);
            }
        }
        news
    }

    /// What containers that ended have left, each read once.
    async fn read_last_words(&mut self, observed: &ObservedPod) {
        let words = &mut self.known.termination_messages;
        words.retain(|id, _| observed.containers.iter().any(|one| one.id == *id));
        for container in &observed.containers {
            let exited = container.state == ContainerState::Exited;
            if !exited || self.known.termination_messages.contains_key(&container.id) {
                continue;
            }
            let one = container.clone();
            let read = seams::storage::perform(&self.on.storage, move |storage| {
                let log = Some(Path::new(&one.log_path)).filter(|_| !one.log_path.is_empty());
                termination::message(storage, &one, log)
            });
            let message = read.await.ok().flatten().unwrap_or_default();
            let words = &mut self.known.termination_messages;
            words.insert(container.id.clone(), message);
        }
    }

    fn report(&mut self, slot: &Slot, observed: &ObservedPod) {
        if slot.source.is_none() {
            return;
        }
        let node = self.on.node_facts();
        let stands_for_it = slot.object();
        let empty = PodStatus::default();
        let api = stands_for_it.and_then(|pod| pod.status.as_ref());
        let api = api.unwrap_or(&empty);
        let at_end = match slot.ending {
            None => api,
            Some(_) => self.api_at_end.get_or_insert_with(|| api.clone()),
        };
        let input = Input {
            pod: &slot.pod,
            api: if self.memory.cleaned { at_end } else { api },
            previous: self.previous.as_ref(),
            observed,
            known: &self.known,
            node: &node,
            now: Timestamp::try_from(self.on.clock.now()).unwrap_or_default(),
        };
        let status = if let Some(rejection) = &slot.rejected {
            rejected(slot, rejection, self.previous.as_ref(), input.now)
        } else if self.memory.cleaned {
            status::terminate(&input)
        } else {
            match status::status(&input) {
                Ok(status) => status,
                Err(error) => {
                    warn!(pod = %self.pod, %error, "the pod's status is not told");
                    return;
                }
            }
        };
        self.count_report(&status);
        let gone = self.memory.cleaned;
        self.on
            .send_report(&self.pod, slot, observed, &status, gone);
        self.previous = Some(status);
    }

    fn count_report(&mut self, status: &PodStatus) {
        let before = self.previous.as_ref();
        self.startup.told(status);
        self.on.metrics.count_ends(before, status);
        let phase = |status: &PodStatus| status.phase.clone().unwrap_or_default();
        if before.is_some_and(|before| phase(before) == "Pending") && phase(status) == "Running" {
            let took = self.on.clock.uptime().saturating_sub(self.heard);
            self.on.metrics.started.took(took);
        }
    }

    /// Whose turn it is.
    pub(crate) fn rank(&self, slot: &Slot) -> Rank {
        let made = slot.pod.metadata.creation_timestamp.as_ref();
        Rank {
            afterwards: false,
            ordinary: !resources::qos::is_critical(&slot.pod),
            made: made.map_or(0, |made| made.0.as_second()),
            order: self.order,
        }
    }
}

impl Foundations {
    pub(crate) fn node_facts(&self) -> NodeFacts {
        let view = self.node.borrow();
        NodeFacts {
            runtime_name: view.runtime_name.clone(),
            host_ips: view.host_ips.clone(),
            prefers_ipv6: view.host_ips.first().is_some_and(IpAddr::is_ipv6),
            agent_started: self.settings.started,
        }
    }

    /// What the API is to know of a pod. `gone`: nothing of it is left.
    pub(crate) fn send_report(
        &self,
        pod: &PodRef,
        slot: &Slot,
        observed: &ObservedPod,
        status: &PodStatus,
        gone: bool,
    ) {
        let object = slot.object();
        let report = Report {
            name: pod.name.clone(),
            api_uid: object
                .and_then(|pod| pod.metadata.uid.as_deref())
                .map(PodUid::new),
            status: status.clone(),
            may_run: observed.is_running(),
            gone,
        };
        let now = self.clock.uptime();
        self.reports.report(&pod.uid, report, object, now);
    }
}

fn rejected(
    slot: &Slot,
    rejection: &Rejection,
    previous: Option<&PodStatus>,
    now: Timestamp,
) -> PodStatus {
    let class = resources::QosClass::of(&slot.pod).as_str().to_owned();
    let before = previous.or(slot.pod.status.as_ref());
    PodStatus {
        phase: Some("Failed".to_owned()),
        reason: Some(rejection.reason.clone()),
        message: Some(rejection.status_message()),
        qos_class: Some(class),
        observed_generation: slot.pod.metadata.generation,
        start_time: before
            .and_then(|status| status.start_time.clone())
            .or(Some(Time(now))),
        ..PodStatus::default()
    }
}
