//! All workers of a node: takes what the sources want and what the runtime has,
//! folds them, and keeps one worker for each pod. One task.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use resources::garbage::Wanted;
use resources::{Asked, Overhead, QosClass, requests};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};
use types::desired::{Desired, StaticsAtWork};
use types::eviction::{Eviction, Evictions};
use types::served::Pulse;
use types::{PodUid, Quantity};

use crate::admission::{self, Admitted, Rejection};
use crate::allocation::actuated::StateFile;
use crate::allocation::checkpoint::Entries;
use crate::allocation::conditions::{DEFERRED, INFEASIBLE};
use crate::allocation::message::message;
use crate::fold::{Census, Fold, Order, Verdict, Wish};
use crate::foundations::{Foundations, NodeView};
use crate::metrics::static_word;
use crate::orphans::{self, Known};
use crate::slot::{Slot, object_of};
use crate::spec::pod_ref;
use crate::task::{Finished, Worker};

/// How long a pod that makes room is waited for at least; else half as long again as it is
/// given to end.
const LEAST_PATIENCE: Duration = Duration::from_secs(10);

/// How often those who wait for other resources are asked about again, if nothing happens;
/// and as long as not all sources were heard.
const RETRY: Duration = Duration::from_secs(180);
const FIRST_RETRY: Duration = Duration::from_secs(30);

/// Before what pods are allowed is written down again, after a disk did not take it.
const REWRITE: Duration = Duration::from_secs(10);

/// A disk that does not answer for so long does not keep pods from starting.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often what nobody has a worker for is looked for on the machine.
const ORPHANS: Duration = Duration::from_secs(30);

/// The workers of a node.
#[derive(Debug)]
pub struct Crew {
    pub on: Arc<Foundations>,
    pub desired: watch::Receiver<Desired>,
    /// Pods that the node has to end.
    pub evictions: watch::Receiver<Arc<Evictions>>,
    /// What others need to know of the pods.
    pub wanted: watch::Sender<Arc<Wanted>>,
    pub statics: watch::Sender<StaticsAtWork>,
    /// What an earlier agent has allowed to pods, and where it is written down.
    pub allocated: Entries,
    pub allocations: StateFile,
    /// Tells that it is not stuck.
    pub pulse: Pulse,
}

/// What it remembers.
struct State {
    fold: Fold,
    slots: BTreeMap<PodUid, watch::Sender<Slot>>,
    workers: JoinSet<Finished>,
    /// How many workers there have been.
    started: u64,
    /// What the API has of each, as it was last passed on.
    seen: BTreeMap<PodUid, Arc<Pod>>,
    /// What the pods ask for together, as their groups were last told.
    shared: Option<(i64, Asked)>,
    /// Pods that make room, and until when they are waited for, by the clock's uptime.
    leaving: BTreeMap<PodUid, Duration>,
    /// When those who wait for other resources are asked about again, likewise.
    retry_at: Duration,
    /// When what pods are allowed is to be written again, likewise, if it could not be.
    rewrite_at: Option<Duration>,
    /// Why they are asked about now, in upstream's word.
    trigger: &'static str,
    /// As the pods were last counted.
    census: Census,
    /// All sources had been heard when what they want was last folded.
    ready: bool,
}

impl Crew {
    /// Works until told to stop. Pods are left as they are.
    pub async fn run(mut self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.work()).await;
    }

    async fn work(&mut self) {
        let on = Arc::clone(&self.on);
        let mut node = on.node.clone();
        // Nobody can be let in to a node that nothing is known of; and what is told of
        // containers begins with the runtime's name: they would seem to be others.
        let is_known = |view: &Arc<NodeView>| view.node.is_some() && !view.runtime_name.is_empty();
        if node.wait_for(is_known).await.is_err() {
            return;
        }
        on.check_resolv_conf();
        let mut known = on.observations.known();
        let mut state = State {
            fold: Fold::restored(
                on.settings.resize.scope,
                std::mem::take(&mut self.allocated),
            ),
            slots: BTreeMap::new(),
            workers: JoinSet::new(),
            started: 0,
            seen: BTreeMap::new(),
            shared: None,
            leaving: BTreeMap::new(),
            retry_at: on.clock.uptime() + FIRST_RETRY,
            rewrite_at: None,
            trigger: "",
            census: Census::default(),
            ready: false,
        };
        self.count(&mut state);
        for word in ["", "true"] {
            on.metrics.restarted.add(&[word], 0);
        }
        known.mark_changed();
        self.desired.mark_changed();
        let mut look_for_orphans = on.clock.sleep(Duration::ZERO);
        // A disk that takes its time must not keep the node from its pods.
        let mut removing: Option<Pin<Box<dyn Future<Output = ()> + Send>>> = None;
        loop {
            // At least as often as orphans are looked for.
            self.pulse.beat(on.clock.uptime());
            let patience = state.leaving.values().min().copied();
            let patience = patience.map(|until| until.saturating_sub(on.clock.uptime()));
            let retry = state.retry_at.saturating_sub(on.clock.uptime());
            let rewrite = state.rewrite_at.unwrap_or_default();
            let rewrite = rewrite.saturating_sub(on.clock.uptime());
            tokio::select! {
                changed = self.desired.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let desired = self.desired.borrow_and_update().clone();
                    let desired = on.settings.own_policies.apply(desired);
                    let fresh = self.read_anew(&state.fold, &desired).await;
                    let admit = |pod: &Pod, others: &[&Pod]| self.admit(pod, others, fresh.as_ref());
                    state.trigger = self.count_wishes(&state.fold, &desired);
                    let mut orders = state.fold.desired(&desired, &admit);
                    state.ready = desired.ready;
                    self.pass_on(&mut state, &desired);
                    // What nobody wants is known only now that all sources were heard.
                    let pods = known.borrow().clone().unwrap_or_default();
                    orders.extend(state.fold.observed(&pods, &desired));
                    orders.extend(self.resizes(&mut state, &desired));
                    self.write_allocations(&mut state).await;
                    self.carry_out(&mut state, orders);
                }
                Ok(()) = known.changed() => {
                    let pods = known.borrow_and_update().clone().unwrap_or_default();
                    let desired = self.desired.borrow().clone();
                    let orders = state.fold.observed(&pods, &desired);
                    self.carry_out(&mut state, orders);
                }
                Ok(()) = self.evictions.changed() => {
                    let evictions = Arc::clone(&self.evictions.borrow_and_update());
                    let orders = state.fold.evicted(&evictions);
                    self.carry_out(&mut state, orders);
                }
                Some(done) = state.workers.join_next() => match done {
                    Ok(Finished { uid, removed }) => {
                        state.slots.remove(&uid);
                        let desired = self.desired.borrow().clone();
                        let desired = on.settings.own_policies.apply(desired);
                        let admit = |pod: &Pod, others: &[&Pod]| self.admit(pod, others, None);
                        let is_nobodys = state.fold.slot(&uid).is_none_or(|slot| slot.source.is_none());
                        let is_static = state.fold.slot(&uid).is_some_and(Slot::is_static);
                        state.trigger = "pod_terminated";
                        let mut orders = state.fold.finished(&uid, removed, &desired, &admit);
                        let begins = orders.contains(&Order::Start(uid.clone()));
                        if removed && begins && !is_nobodys {
                            on.metrics.restarted.inc(&[static_word(is_static)]);
                        }
                        orders.extend(self.resizes(&mut state, &desired));
                        self.write_allocations(&mut state).await;
                        self.carry_out(&mut state, orders);
                        // It may be kept, and ask for nothing any more.
                        self.share(&mut state);
                    }
                    Err(cause) => error!(%cause, "a pod's worker has died; this is a fault of ours, please report it"),
                },
                () = on.clock.sleep(patience.unwrap_or_default()), if patience.is_some() => {
                    self.wait_no_longer(&mut state);
                }
                () = on.clock.sleep(retry), if state.fold.has_waiting() => {
                    let desired = self.desired.borrow().clone();
                    let desired = on.settings.own_policies.apply(desired);
                    state.trigger = "periodic_retry";
                    let orders = self.retry(&mut state, &desired);
                    self.write_allocations(&mut state).await;
                    self.carry_out(&mut state, orders);
                }
                () = on.clock.sleep(rewrite), if state.rewrite_at.is_some() => {
                    self.write_allocations(&mut state).await;
                }
                () = done(&mut removing) => removing = None,
                () = &mut look_for_orphans => {
                    // By what was folded, not by what is wanted: else none would be there.
                    let ready = state.ready && known.borrow().is_some();
                    // Until the sources were heard, the pods that run are not known.
                    if state.ready {
                        // Others may have changed the groups, or kept us from it.
                        state.shared = None;
                        self.share(&mut state);
                    }
                    if ready && removing.is_none() {
                        // It is asked who is there from now on, whatever orders there were.
                        self.publish(&state);
                        let known = Known {
                            wanted: self.wanted.subscribe(),
                            observed: known.clone(),
                        };
                        removing = Some(Box::pin(orphans::remove(Arc::clone(&on), known)));
                    }
                    let pause = if ready { ORPHANS } else { Duration::from_secs(1) };
                    look_for_orphans = on.clock.sleep(on.spread(pause));
                }
            }
        }
    }

    /// The node as the API server has it now, if a new pod does not want it as it was last
    /// heard of: its labels may be others since.
    async fn read_anew(&self, fold: &Fold, desired: &Desired) -> Option<Node> {
        let view = Arc::clone(&self.on.node.borrow());
        let (node, objects) = (view.node.as_ref()?, self.on.objects.as_ref()?);
        let settings = &self.on.settings.admission;
        let mut new = desired
            .pods
            .iter()
            .filter(|(uid, _)| fold.slot(uid).is_none());
        let is_unfit = new.any(|(_, pod)| {
            let starts = Slot::new(pod).ending.is_none();
            starts && !admission::fits_labels(&pod.pod, node, settings)
        });
        if !is_unfit {
            return None;
        }
        objects.own_node.read().await
    }

    /// `fresh` is the node, where it was just read.
    fn admit(
        &self,
        pod: &Pod,
        others: &[&Pod],
        fresh: Option<&Node>,
    ) -> Result<Admitted, Rejection> {
        let view = Arc::clone(&self.on.node.borrow());
        let node = fresh.or(view.node.as_deref());
        let admitted = admission::admit(pod, node, others, &self.rules(node));
        admitted.inspect_err(|rejection| {
            info!(pod = %pod_ref(pod), reason = rejection.reason, "a pod was rejected: {}", rejection.message);
            let telling = &self.on.telling;
            telling.warning(pod, &rejection.reason, rejection.message.clone());
            self.on.metrics.reject(&rejection.reason);
        }).inspect(|admitted| self.count_preempted(admitted))
    }

    fn count_preempted(&self, admitted: &Admitted) {
        let scarce = admitted.scarce.as_deref().unwrap_or_default();
        for _ in &admitted.victims {
            self.on.metrics.preempted.inc(&[scarce]);
        }
    }

    /// What pods ask for otherwise than before; and what that is to those who wait, in
    /// upstream's word.
    fn count_wishes(&self, fold: &Fold, desired: &Desired) -> &'static str {
        let mut is_new = false;
        for (uid, pod) in &desired.pods {
            match fold.wanted(uid) {
                Some(before) if Arc::ptr_eq(before, &pod.pod) => {}
                Some(before) => self.on.metrics.count_wishes(before, &pod.pod),
                None => is_new = true,
            }
        }
        let gone = fold.pods().any(|(uid, ..)| !desired.pods.contains_key(uid));
        match (gone, is_new) {
            (true, _) => "pods_removed",
            (false, true) => "pods_added",
            (false, false) => "pod_updated",
        }
    }

    /// How many pods there are.
    fn count(&self, state: &mut State) {
        let census = state.fold.census(&self.desired.borrow());
        if census != state.census || self.on.metrics.working.is_empty() {
            census.tell(&self.on.metrics, &state.census);
            state.census = census;
        }
    }

    /// What is allowed on the node as it is.
    fn rules(&self, node: Option<&Node>) -> admission::Settings {
        let status = node.and_then(|node| node.status.as_ref());
        let features = status.and_then(|status| status.features.as_ref());
        admission::Settings {
            supplemental_groups_policy: features
                .is_some_and(|features| features.supplemental_groups_policy == Some(true)),
            ..self.on.settings.admission.clone()
        }
    }

    /// If something has changed for who waits for other resources.
    fn resizes(&self, state: &mut State, desired: &Desired) -> Vec<Order> {
        if !state.fold.take_retry() {
            return Vec::new();
        }
        self.retry(state, desired)
    }

    fn retry(&self, state: &mut State, desired: &Desired) -> Vec<Order> {
        let on = &self.on;
        let pause = if desired.ready { RETRY } else { FIRST_RETRY };
        state.retry_at = on.clock.uptime() + pause;
        if !desired.ready {
            return Vec::new();
        }
        let now = Timestamp::try_from(on.clock.now()).unwrap_or_default();
        let permit = |wish: &Wish<'_>, others: &[&Pod]| self.permit(wish, others);
        state.fold.retry(desired, &permit, now)
    }

    fn permit(&self, wish: &Wish<'_>, others: &[&Pod]) -> Result<Admitted, Rejection> {
        let Foundations {
            settings,
            enforcement,
            node,
            ..
        } = &*self.on;
        let view = Arc::clone(&node.borrow());
        let node = view.node.as_deref();
        let how = (&self.rules(node), settings.resize, enforcement);
        let permitted = admission::permit(wish, node, others, how).inspect_err(|rejection| {
            info!(pod = %pod_ref(wish.wanted), reason = rejection.reason, "a pod is not resized: {}", rejection.message);
        });
        permitted.inspect(|admitted| self.count_preempted(admitted))
    }

    /// What was allowed is on the disk before anything is done about it.
    async fn write_allocations(&self, state: &mut State) {
        let Some(entries) = state.fold.take_allocations() else {
            return;
        };
        let writing = self.allocations.write(&entries);
        state.rewrite_at = None;
        match seams::timeout(&*self.on.clock, PATIENCE, writing).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => warn!(%error, "what pods are allowed is not written down"),
            Err(_) => warn!("what pods are allowed is not written down: the disk does not answer"),
        }
        // An agent that comes after this one would judge by what was allowed before.
        state.fold.allocations_unwritten();
        state.rewrite_at = Some(self.on.clock.uptime() + REWRITE);
    }

    fn tell_of_resize(&self, state: &State, uid: &PodUid, verdict: Verdict) {
        let (Some(slot), Some(pod)) = (state.fold.slot(uid), state.fold.wanted(uid)) else {
            return;
        };
        let generation = pod.metadata.generation;
        let pending = slot.resize.pending.as_ref();
        let why = pending.and_then(|pending| pending.message.as_deref());
        let why = why.unwrap_or_default();
        let telling = &self.on.telling;
        match verdict {
            Verdict::Started => {
                let told = state.slots.get(uid);
                let waited = told.is_some_and(|told| {
                    let before = told.borrow().resize.pending.clone();
                    before.is_some_and(|pending| pending.reason.as_deref() == Some(DEFERRED))
                });
                if waited {
                    let late = &self.on.metrics.resizes_accepted_late;
                    late.inc(&[state.trigger]);
                }
                let text = message(pod, generation, "", "started");
                telling.normal(pod, "ResizeStarted", text);
            }
            Verdict::Deferred(reason) => {
                let text = message(pod, generation, why, &reason);
                telling.warning(pod, "ResizeDeferred", text);
            }
            Verdict::Infeasible => {
                let text = message(pod, generation, why, INFEASIBLE);
                telling.warning(pod, "ResizeInfeasible", text);
                self.on.metrics.infeasible(why);
            }
        }
    }

    /// Tells the status what the API says of the pods.
    fn pass_on(&self, state: &mut State, desired: &Desired) {
        let now = self.on.clock.uptime();
        let State { seen, .. } = state;
        seen.retain(|uid, _| desired.pods.contains_key(uid));
        for (uid, pod) in &desired.pods {
            let object = object_of(pod.source, &pod.pod, pod.mirror.as_ref());
            let Some(object) = object else {
                seen.remove(uid);
                continue;
            };
            if seen.get(uid).is_some_and(|last| Arc::ptr_eq(last, object)) {
                continue;
            }
            self.on.reports.seen(uid, object, now);
            seen.insert(uid.clone(), Arc::clone(object));
        }
    }

    fn carry_out(&self, state: &mut State, orders: Vec<Order>) {
        if orders.is_empty() {
            // A pod may have ended, and be kept: others hear that it is not at work any more.
            self.publish(state);
            self.count(state);
            return;
        }
        // Known before anything is made for it.
        self.publish(state);
        for order in orders {
            match order {
                Order::Start(uid) => self.start(state, &uid),
                Order::Changed(uid) => pass_slot(state, &uid),
                Order::Preempt(uid) => {
                    self.tell_of_eviction(state, &uid);
                    self.wait_for_room(state, &uid);
                    pass_slot(state, &uid);
                }
                Order::Evict(uid) => {
                    self.tell_of_eviction(state, &uid);
                    pass_slot(state, &uid);
                }
                Order::Forget(uid) => {
                    debug!(%uid, "a pod is gone");
                    self.on.reports.forget(&uid);
                    self.on.actuated.remove(&uid);
                }
                Order::Resize(uid, verdict) => {
                    self.tell_of_resize(state, &uid, verdict);
                    pass_slot(state, &uid);
                }
            }
        }
        self.publish(state);
        self.share(state);
        self.count(state);
    }

    fn tell_of_eviction(&self, state: &State, uid: &PodUid) {
        let slot = state.fold.slot(uid);
        let Some((slot, eviction)) = slot.and_then(|slot| Some((slot, slot.evicted.as_ref()?)))
        else {
            return;
        };
        let Eviction {
            reason, message, ..
        } = eviction;
        info!(pod = %pod_ref(&slot.pod), reason, "the node ends a pod: {message}");
        self.on.telling.warning(&slot.pod, reason, message.clone());
    }

    /// A critical pod comes in its place.
    fn wait_for_room(&self, state: &mut State, uid: &PodUid) {
        let Some(slot) = state.fold.slot(uid) else {
            return;
        };
        let grace = slot.own_grace();
        let patience = (grace + grace / 2).max(LEAST_PATIENCE);
        let until = self.on.clock.uptime() + patience;
        state.leaving.insert(uid.clone(), until);
    }

    /// Whoever has not made room by now does not keep a critical pod from starting.
    fn wait_no_longer(&self, state: &mut State) {
        let now = self.on.clock.uptime();
        let late = state.leaving.extract_if(.., |_, until| *until <= now);
        let late: Vec<PodUid> = late.map(|(uid, _)| uid).collect();
        let mut orders = Vec::new();
        for uid in late {
            let slot = state.fold.slot(&uid);
            if let Some(slot) = slot.filter(|_| state.fold.is_in_the_way(&uid)) {
                let message =
                    "Container runtime did not kill the pod within specified grace period.";
                let telling = &self.on.telling;
                telling.warning(&slot.pod, "ExceededGracePeriod", message);
                orders.extend(state.fold.made_room(&uid));
            }
        }
        self.carry_out(state, orders);
    }

    fn start(&self, state: &mut State, uid: &PodUid) {
        let Some(slot) = state.fold.slot(uid) else {
            return;
        };
        let pod = pod_ref(&slot.pod);
        match slot.source {
            None => self.on.metrics.orphans.inc(),
            Some(_) if slot.ending.is_none() && slot.rejected.is_none() => {
                let containers = slot
                    .pod
                    .spec
                    .as_ref()
                    .map_or(0, |spec| spec.containers.len());
                let count = u32::try_from(containers).unwrap_or(u32::MAX);
                self.on.metrics.containers_per_pod.observe(count.into());
            }
            Some(_) => {}
        }
        let (sender, slot) = watch::channel(slot.clone());
        state.slots.insert(uid.clone(), sender);
        state.started += 1;
        let worker = Worker::new(Arc::clone(&self.on), pod, slot, state.started);
        state.workers.spawn(Box::new(worker).run());
    }

    fn publish(&self, state: &State) {
        let mut wanted = Wanted {
            ready: state.ready,
            ..Wanted::default()
        };
        for (uid, slot, finished) in state.fold.pods() {
            let for_good = slot.ending.is_some_and(|ending| ending.for_good);
            wanted.existing.insert(uid.clone());
            if (for_good || slot.evicted.is_some()) && finished {
                wanted.removable.insert(uid.clone());
            }
            if slot.ending.is_some() && !finished {
                wanted.busy.insert(uid.clone());
            }
        }
        self.wanted.send_if_modified(|before| {
            let news = **before != wanted;
            if news {
                *before = Arc::new(wanted);
            }
            news
        });
        let statics = state.fold.statics_at_work();
        self.statics.send_if_modified(|before| {
            let news = *before != statics;
            *before = statics;
            news
        });
    }

    /// What the groups of the classes have follows what their pods ask for.
    fn share(&self, state: &mut State) {
        let Some(cgroups) = &self.on.cgroups else {
            return;
        };
        let (mut milli_cpu, mut memory) = (0_i64, Asked::default());
        let pods = state.fold.pods();
        let active = pods.filter(|(_, slot, finished)| !finished && slot.source.is_some());
        for (_, slot, _) in active {
            let Some(spec) = &slot.pod.spec else { continue };
            let asked = requests::pod_requests(spec, Overhead::Included);
            let bytes = asked.get("memory").map_or(0, Quantity::value);
            match QosClass::of(&slot.pod) {
                QosClass::Guaranteed => {
                    memory.guaranteed = memory.guaranteed.saturating_add(bytes);
                }
                QosClass::Burstable => {
                    memory.burstable = memory.burstable.saturating_add(bytes);
                    let cpu = asked.get("cpu").map_or(0, Quantity::milli_value);
                    milli_cpu = milli_cpu.saturating_add(cpu);
                }
                QosClass::BestEffort => {}
            }
        }
        if state.shared == Some((milli_cpu, memory)) {
            return;
        }
        match cgroups.share(milli_cpu, memory) {
            Ok(()) => state.shared = Some((milli_cpu, memory)),
            Err(error) => {
                warn!(%error, "the shares of the classes of pods are not as they should be, will try again");
            }
        }
    }
}

/// Ends with what is under way; never, if nothing is.
async fn done(under_way: &mut Option<Pin<Box<dyn Future<Output = ()> + Send>>>) {
    match under_way {
        Some(work) => work.await,
        None => std::future::pending().await,
    }
}

/// Tells a worker what is wanted now.
fn pass_slot(state: &State, uid: &PodUid) {
    let slot = state.fold.slot(uid);
    if let (Some(slot), Some(sender)) = (slot, state.slots.get(uid)) {
        sender.send_replace(slot.clone());
    }
}
