//! From what the sources want and what the runtime has to what each worker is told.
//! Pure: whoever carries it out starts workers and passes slots on.

mod census;
mod resizes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use types::desired::{Desired, DesiredPod, Source, StaticsAtWork, has_ended, is_running};
use types::eviction::Evictions;
use types::{PodName, PodRef, PodUid};

use crate::admission::{Admitted, Rejection};
use crate::slot::{self, Slot};
use crate::spec::pod_ref;

pub use resizes::{Permit, Verdict, Wish};

pub(crate) use census::Census;
use census::{Config, Lifecycle};

use resizes::Allocations;

/// All pods that a node has to do with.
#[derive(Debug, Default)]
pub struct Fold {
    pods: BTreeMap<PodUid, Entry>,
    allocations: Allocations,
    /// How many pods have come so far.
    come: u64,
}

#[derive(Debug)]
struct Entry {
    slot: Slot,
    /// As the sources have it: it may want other resources than its slot has.
    wanted: Arc<Pod>,
    /// Its slot has what it was allowed: it was let in, by this agent or an earlier one.
    allocated: bool,
    state: State,
    /// It has ended, as its worker or the API says: whatever is still done about it, it takes
    /// nothing of the node any more. A scheduler that reads it there gives its place away at
    /// once.
    over: bool,
    /// Pods that make room for it, and have not ended yet.
    behind: BTreeSet<PodUid>,
    /// Who came earlier has less.
    number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Another static pod of its name is not gone yet, or those who make room for it.
    Waiting,
    Working,
    /// Its worker has nothing more to do.
    Finished,
}

/// What to do about a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    Start(PodUid),
    /// Its slot is another.
    Changed(PodUid),
    /// The same, as it makes room for a critical pod.
    Preempt(PodUid),
    /// The same, as it takes more of the node than it may.
    Evict(PodUid),
    /// The pod is none of the node's any more.
    Forget(PodUid),
    /// It was judged whether it may have other resources.
    Resize(PodUid, Verdict),
}

/// Whether a pod is let in beside others.
pub type Admit<'a> = &'a dyn Fn(&Pod, &[&Pod]) -> Result<Admitted, Rejection>;

impl Fold {
    pub fn slot(&self, uid: &PodUid) -> Option<&Slot> {
        self.pods.get(uid).map(|entry| &entry.slot)
    }

    /// What the sources want now.
    pub fn desired(&mut self, desired: &Desired, admit: Admit<'_>) -> Vec<Order> {
        let mut orders = self.remove_vanished(desired);
        let mut new = Vec::new();
        for (uid, pod) in &desired.pods {
            match self.pods.get_mut(uid) {
                Some(entry) => {
                    orders.extend(entry.update(uid, pod, &mut self.allocations));
                }
                None => new.push((uid, pod)),
            }
        }
        // The oldest first: they were here first.
        let made = |pod: &DesiredPod| pod.pod.metadata.creation_timestamp.clone();
        new.sort_by_key(|(_, pod)| made(pod));
        for (uid, pod) in new {
            orders.extend(self.add(uid, pod, desired, admit));
        }
        if desired.ready {
            self.allocations.forget_unclaimed();
        }
        orders
    }

    /// Pods that have to go from the node. Those that go already for a reason of the node's
    /// are not told again.
    pub fn evicted(&mut self, evictions: &Evictions) -> Vec<Order> {
        let mut orders = Vec::new();
        for (uid, eviction) in evictions {
            let entry = self.pods.get_mut(uid);
            let works = |entry: &&mut Entry| entry.state == State::Working && entry.counts();
            if let Some(entry) = entry.filter(works) {
                entry.slot.evict(eviction.clone());
                orders.push(Order::Evict(uid.clone()));
            }
        }
        orders
    }

    /// What the runtime has, once the sources have all been heard: the rest is
    /// nobody's.
    pub fn observed(&mut self, known: &BTreeSet<PodRef>, desired: &Desired) -> Vec<Order> {
        if !desired.ready {
            return Vec::new();
        }
        let mut orders = Vec::new();
        for pod in known {
            if self.pods.contains_key(&pod.uid) || desired.pods.contains_key(&pod.uid) {
                continue;
            }
            let slot = Slot::of_nobody(bare(pod));
            let entry = Entry {
                wanted: Arc::clone(&slot.pod),
                slot,
                allocated: false,
                state: State::Working,
                over: false,
                behind: BTreeSet::new(),
                number: self.come,
            };
            self.pods.insert(pod.uid.clone(), entry);
            orders.push(Order::Start(pod.uid.clone()));
        }
        orders
    }

    /// A worker has nothing more to do; whether it has removed what was left.
    pub fn finished(
        &mut self,
        uid: &PodUid,
        removed: bool,
        desired: &Desired,
        admit: Admit<'_>,
    ) -> Vec<Order> {
        let mut orders = self.made_room(uid);
        let Some(entry) = self.pods.get_mut(uid) else {
            return orders;
        };
        entry.over = true;
        let for_good = entry.slot.ending.is_some_and(|ending| ending.for_good);
        if for_good && !removed {
            // It was deleted when its worker had looked for the last time.
            orders.push(Order::Start(uid.clone()));
            return orders;
        }
        entry.state = State::Finished;
        // What it had is free.
        self.allocations.retry = true;
        let name = pod_ref(&entry.slot.pod).name;
        let of_nobody = entry.slot.source.is_none();
        match desired.pods.get(uid) {
            None => {
                self.pods.remove(uid);
                orders.push(Order::Forget(uid.clone()));
            }
            // It was taken away, and is wanted again.
            Some(pod) if of_nobody || (for_good && Slot::new(pod).ending.is_none()) => {
                self.pods.remove(uid);
                orders.extend(self.add(uid, pod, desired, admit));
            }
            // What was said of it while it ended.
            Some(pod) => orders.extend(entry.update(uid, pod, &mut self.allocations)),
        }
        orders.extend(self.next_of(&name));
        orders
    }

    /// A pod has ended, or is not waited for any longer: who was behind it may begin.
    pub fn made_room(&mut self, uid: &PodUid) -> Vec<Order> {
        let mut names = Vec::new();
        let mut orders = Vec::new();
        for (other, entry) in &mut self.pods {
            if !entry.behind.remove(uid) || !entry.behind.is_empty() {
                continue;
            }
            if entry.slot.is_static() {
                names.push(pod_ref(&entry.slot.pod).name);
            } else {
                entry.state = State::Working;
                orders.push(Order::Start(other.clone()));
            }
        }
        orders.extend(names.iter().filter_map(|name| self.next_of(name)));
        orders
    }

    /// Whether anybody waits for a pod to end.
    pub fn is_in_the_way(&self, uid: &PodUid) -> bool {
        let mut entries = self.pods.values();
        entries.any(|entry| entry.behind.contains(uid))
    }

    /// Static pods that have a worker.
    pub fn statics_at_work(&self) -> StaticsAtWork {
        let entries = self.pods.values();
        let at_work =
            entries.filter(|entry| entry.state == State::Working && entry.slot.is_static());
        let pods = at_work
            .map(|entry| (pod_ref(&entry.slot.pod), entry.slot.ending.is_some()))
            .collect();
        StaticsAtWork { pods }
    }

    /// Pods that have, or may have, something on the node; and which of them have
    /// ended.
    pub fn pods(&self) -> impl Iterator<Item = (&PodUid, &Slot, bool)> {
        let entries = self.pods.iter();
        entries.map(|(uid, entry)| (uid, &entry.slot, entry.state == State::Finished))
    }

    /// How many there are, and how far they are.
    pub(crate) fn census(&self, desired: &Desired) -> Census {
        let mut census = Census::default();
        for (uid, entry) in &self.pods {
            let slot = &entry.slot;
            let lifecycle = match entry.state {
                State::Finished => Lifecycle::Terminated,
                _ if slot.ending.is_some() || slot.rejected.is_some() => Lifecycle::Terminating,
                State::Waiting | State::Working => Lifecycle::Sync,
            };
            let config = match slot.source {
                None => Config::RuntimeOnly,
                Some(_) if desired.pods.contains_key(uid) => Config::Desired,
                Some(_) => Config::Orphan,
            };
            let kind = (config, lifecycle, slot.is_static());
            *census.working.entry(kind).or_default() += 1;
            let active = entry.counts() && lifecycle == Lifecycle::Sync;
            census.active[usize::from(slot.is_static())] += usize::from(active);
            let pending = slot.resize.pending.as_ref();
            if let Some(reason) = pending.and_then(|pending| pending.reason.as_deref()) {
                let reason = reason.to_lowercase();
                *census.resizes_pending.entry(reason).or_default() += 1;
            }
        }
        for pod in desired.pods.values() {
            let is_static = pod.source != Source::Api;
            census.desired[usize::from(is_static)] += 1;
            census.mirrors += usize::from(pod.mirror.is_some());
            let spec = pod.pod.spec.as_ref();
            let ephemeral = spec.and_then(|spec| spec.ephemeral_containers.as_ref());
            census.ephemeral += ephemeral.map_or(0, Vec::len);
        }
        census
    }

    fn remove_vanished(&mut self, desired: &Desired) -> Vec<Order> {
        if !desired.ready {
            return Vec::new();
        }
        let mut orders = Vec::new();
        let mut gone = Vec::new();
        self.pods.retain(|uid, entry| {
            if desired.pods.contains_key(uid) || entry.slot.source.is_none() {
                return true;
            }
            if entry.state == State::Working {
                let before = entry.slot.ending;
                entry.slot.remove(desired.departed.get(uid).copied());
                if entry.slot.ending != before {
                    orders.push(Order::Changed(uid.clone()));
                }
                return true;
            }
            // One that ended and was kept has to be removed by its worker.
            let kept = entry.slot.ending.is_none_or(|ending| !ending.for_good);
            if entry.state == State::Finished && kept {
                entry.slot.remove(None);
                entry.state = State::Working;
                orders.push(Order::Start(uid.clone()));
                return true;
            }
            orders.push(Order::Forget(uid.clone()));
            gone.push(uid.clone());
            false
        });
        self.allocations.retry |= !orders.is_empty();
        for uid in gone {
            orders.extend(self.made_room(&uid));
        }
        orders
    }

    fn add(
        &mut self,
        uid: &PodUid,
        pod: &DesiredPod,
        desired: &Desired,
        admit: Admit<'_>,
    ) -> Vec<Order> {
        let mut slot = Slot::new(pod);
        let mut orders = Vec::new();
        let mut behind = BTreeSet::new();
        let mut allocated = self.allocations.restore(uid, &mut slot);
        if slot.ending.is_none() {
            // One that no source has any more makes room, as for the static pod that
            // takes its place and its ports.
            let others = self.pods.iter();
            let others =
                others.filter(|(other, entry)| entry.counts() && desired.pods.contains_key(*other));
            let others: Vec<&Pod> = others.map(|(_, entry)| &*entry.slot.pod).collect();
            match admit(&slot.pod, &others) {
                Ok(Admitted { victims, .. }) => {
                    behind.extend(victims);
                    self.allocations.changed |= !allocated;
                    allocated = true;
                }
                Err(rejection) => {
                    slot.rejected = Some(rejection);
                    allocated = false;
                }
            }
        }
        for victim in &behind {
            orders.extend(self.preempt(victim));
        }
        let name = pod_ref(&slot.pod).name;
        let taken = slot.is_static() && self.pods.values().any(|entry| entry.holds(&name));
        let begins = !taken && behind.is_empty();
        let state = if begins {
            State::Working
        } else {
            State::Waiting
        };
        self.come += 1;
        let entry = Entry {
            slot,
            wanted: Arc::clone(&pod.pod),
            allocated,
            state,
            over: is_over(pod),
            behind,
            number: self.come,
        };
        self.pods.insert(uid.clone(), entry);
        orders.extend(begins.then(|| Order::Start(uid.clone())));
        orders
    }

    /// A pod has to make room.
    fn preempt(&mut self, uid: &PodUid) -> Option<Order> {
        let entry = self.pods.get_mut(uid)?;
        entry.slot.evict(slot::preempted());
        Some(Order::Preempt(uid.clone()))
    }

    /// The next static pod of a name, if nobody holds it any more: the one that has waited
    /// longest.
    fn next_of(&mut self, name: &PodName) -> Option<Order> {
        if self.pods.values().any(|entry| entry.holds(name)) {
            return None;
        }
        let waiting = self.pods.iter_mut().filter(|(_, entry)| {
            let waits = entry.state == State::Waiting && entry.behind.is_empty();
            waits && pod_ref(&entry.slot.pod).name == *name
        });
        let (uid, entry) = waiting.min_by_key(|(_, entry)| entry.number)?;
        entry.state = State::Working;
        Some(Order::Start(uid.clone()))
    }
}

impl Entry {
    fn update(
        &mut self,
        uid: &PodUid,
        pod: &DesiredPod,
        allocations: &mut Allocations,
    ) -> Option<Order> {
        // One that is being removed as nobody's and is wanted again begins anew.
        self.slot.source?;
        // Sources hand on what they know as it is: most pods are not even looked at.
        let mirrors = (self.slot.mirror.as_ref(), pod.mirror.as_ref());
        if Arc::ptr_eq(&self.wanted, &pod.pod) && are_same(mirrors) {
            return None;
        }
        let before = self.slot.clone();
        self.slot.update(pod);
        self.over |= is_over(pod);
        self.keep_allowed(&before, uid, pod, allocations);
        match self.state {
            State::Waiting => None,
            State::Working => (self.slot != before).then(|| Order::Changed(uid.clone())),
            State::Finished => {
                let gone = |slot: &Slot| slot.ending.is_some_and(|ending| ending.for_good);
                if gone(&before) || !gone(&self.slot) {
                    return None;
                }
                self.state = State::Working;
                Some(Order::Start(uid.clone()))
            }
        }
    }

    /// It is, or will be, in the runtime under its name.
    fn holds(&self, name: &PodName) -> bool {
        self.state == State::Working
            && self.slot.is_static()
            && pod_ref(&self.slot.pod).name == *name
    }

    /// It takes something of the node, and will go on to.
    fn counts(&self) -> bool {
        let Slot {
            source,
            rejected,
            evicted,
            ..
        } = &self.slot;
        let stays = rejected.is_none() && evicted.is_none();
        !self.over && source.is_some() && stays
    }
}

/// What a manifest says of that does not count: nobody has run it yet. Nor does the word of
/// somebody else about one whose containers run: they have what they have until they end.
fn is_over(pod: &DesiredPod) -> bool {
    pod.source == Source::Api && has_ended(&pod.pod) && !is_running(&pod.pod)
}

/// One and the same, not only alike.
fn are_same(pods: (Option<&Arc<Pod>>, Option<&Arc<Pod>>)) -> bool {
    match pods {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (one, other) => one.is_none() && other.is_none(),
    }
}

/// All that is known of a pod that nobody wants.
fn bare(pod: &PodRef) -> Pod {
    Pod {
        metadata: ObjectMeta {
            name: Some(pod.name.name.clone()),
            namespace: Some(pod.name.namespace.clone()),
            uid: Some(pod.uid.to_string()),
            ..ObjectMeta::default()
        },
        ..Pod::default()
    }
}

#[cfg(test)]
mod tests;
