//! Which pods may have other resources than they were let in with, in which order they are
//! asked, and when again. Pure.

use std::cmp::Reverse;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use resources::QosClass;
use types::PodUid;
use types::desired::{Desired, DesiredPod};

use super::{Entry, Fold, Order};
use crate::admission::{Admitted, Rejection};
use crate::allocation::checkpoint::Entries;
use crate::allocation::conditions::{self, DEFERRED, INFEASIBLE, PENDING, Said, condition};
use crate::allocation::{Scope, apply, asks_otherwise, increases, of_pod};
use crate::slot::Slot;

/// Whether a pod that has some resources may have others, beside other pods. A rejection
/// whose reason is `Infeasible` is final.
pub type Permit<'a> = &'a dyn Fn(&Wish<'_>, &[&Pod]) -> Result<Admitted, Rejection>;

/// A pod that is to be resized.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// With what it was allowed.
    pub allowed: &'a Pod,
    /// With what it wants.
    pub wanted: &'a Pod,
}

/// What was decided, where people are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its worker carries it out.
    Started,
    /// There is no room now, for a reason of admission's.
    Deferred(String),
    /// It cannot be done on this node.
    Infeasible,
}

/// What is allowed to pods, beside what their slots have.
#[derive(Debug, Default)]
pub(super) struct Allocations {
    scope: Scope,
    /// What an earlier agent has allowed to pods that have not been heard of yet.
    restored: Entries,
    /// Who waits, in the order of asking.
    queue: Vec<PodUid>,
    /// Something was allowed that is not written down yet.
    pub(super) changed: bool,
    /// It may be otherwise now for who waits.
    pub(super) retry: bool,
}

impl Allocations {
    /// What an earlier agent has allowed to a pod counts, whatever it wants now. Whether
    /// there was one.
    pub(super) fn restore(&mut self, uid: &PodUid, slot: &mut Slot) -> bool {
        let Some(allowed) = self.restored.remove(uid) else {
            return false;
        };
        if let Some(pod) = apply(&slot.pod, &allowed, self.scope) {
            slot.resize.pending = conditions::told(&slot.pod, PENDING);
            slot.pod = pod;
            self.wait(uid);
        }
        true
    }

    /// All pods that there are have been heard of.
    pub(super) fn forget_unclaimed(&mut self) {
        self.restored.clear();
    }

    fn wait(&mut self, uid: &PodUid) {
        if !self.queue.contains(uid) {
            self.queue.push(uid.clone());
        }
        self.retry = true;
    }
}

impl Fold {
    /// Goes on with what an earlier agent has allowed.
    pub fn restored(scope: Scope, restored: Entries) -> Self {
        Self {
            allocations: Allocations {
                scope,
                restored,
                ..Allocations::default()
            },
            ..Self::default()
        }
    }

    /// What pods are allowed, if that is not written down yet.
    pub fn take_allocations(&mut self) -> Option<Entries> {
        if !std::mem::take(&mut self.allocations.changed) {
            return None;
        }
        let scope = self.allocations.scope;
        let mut entries = self.allocations.restored.clone();
        let allocated = self.pods.iter().filter(|(_, entry)| entry.allocated);
        entries.extend(allocated.map(|(uid, entry)| (uid.clone(), of_pod(&entry.slot.pod, scope))));
        Some(entries)
    }

    /// What was taken to be written down was not.
    pub fn allocations_unwritten(&mut self) {
        self.allocations.changed = true;
    }

    /// Whether anybody waits for other resources.
    pub fn has_waiting(&self) -> bool {
        !self.allocations.queue.is_empty()
    }

    /// Whether they should be asked about again, since something has changed.
    pub fn take_retry(&mut self) -> bool {
        std::mem::take(&mut self.allocations.retry) && self.has_waiting()
    }

    /// What a pod's sources want.
    pub fn wanted(&self, uid: &PodUid) -> Option<&Arc<Pod>> {
        self.pods.get(uid).map(|entry| &entry.wanted)
    }

    /// Asks for all who wait, one after the other. Those who are granted what they want
    /// and those who never will be wait no longer.
    pub fn retry(&mut self, desired: &Desired, permit: Permit<'_>, now: Timestamp) -> Vec<Order> {
        let mut orders = Vec::new();
        let queue = self.in_order(desired);
        let mut waiting = Vec::new();
        for uid in queue {
            orders.extend(self.judge(&uid, desired, permit, now));
            let entry = self.pods.get(&uid);
            let pending = entry.and_then(|entry| entry.slot.resize.pending.as_ref());
            if pending.is_some_and(|pending| pending.reason.as_deref() == Some(DEFERRED)) {
                waiting.push(uid);
            }
        }
        self.allocations.queue = waiting;
        orders
    }

    /// Who asks for no more than it has comes first, then by priority, class, and age.
    /// Who is wanted no more is left out, though it may not have ended yet.
    fn in_order(&mut self, desired: &Desired) -> Vec<PodUid> {
        let mut queue = std::mem::take(&mut self.allocations.queue);
        queue.retain(|uid| self.pods.contains_key(uid) && desired.pods.contains_key(uid));
        queue.sort_by_cached_key(|uid| self.pods.get(uid).map(Entry::rank));
        queue
    }

    fn judge(
        &mut self,
        uid: &PodUid,
        desired: &Desired,
        permit: Permit<'_>,
        now: Timestamp,
    ) -> Vec<Order> {
        let Some(entry) = self.pods.get(uid) else {
            return Vec::new();
        };
        let scope = self.allocations.scope;
        let (wanted, allowed) = (Arc::clone(&entry.wanted), Arc::clone(&entry.slot.pod));
        let differs = apply(&wanted, &of_pod(&allowed, scope), scope).is_some();
        if !entry.allocated || !differs {
            return Vec::from_iter(self.withdraw(uid));
        }
        let others = self.pods.iter().filter(|(other, entry)| {
            *other != uid && entry.counts() && desired.pods.contains_key(*other)
        });
        let others: Vec<&Pod> = others.map(|(_, entry)| &*entry.slot.pod).collect();
        let wish = Wish {
            allowed: &allowed,
            wanted: &wanted,
        };
        match permit(&wish, &others) {
            Ok(Admitted { victims, .. }) => self.grant(uid, &victims),
            Err(rejection) => Vec::from_iter(self.refuse(uid, &rejection, now)),
        }
    }

    /// It has what it wants.
    fn withdraw(&mut self, uid: &PodUid) -> Option<Order> {
        let entry = self.pods.get_mut(uid)?;
        let pending = entry.slot.resize.pending.take();
        pending.map(|_| Order::Changed(uid.clone()))
    }

    fn grant(&mut self, uid: &PodUid, victims: &[PodUid]) -> Vec<Order> {
        let mut orders = Vec::new();
        for victim in victims {
            orders.extend(self.preempt(victim));
        }
        if let Some(entry) = self.pods.get_mut(uid) {
            entry.slot.pod = Arc::clone(&entry.wanted);
            entry.slot.resize.pending = None;
            entry.slot.resize.granted = Some(entry.wanted.metadata.generation.unwrap_or_default());
            self.allocations.changed = true;
            orders.push(Order::Resize(uid.clone(), Verdict::Started));
        }
        orders
    }

    /// People are told once of each wish, and of each reason.
    fn refuse(&mut self, uid: &PodUid, rejection: &Rejection, now: Timestamp) -> Option<Order> {
        let entry = self.pods.get_mut(uid)?;
        let (reason, verdict) = if rejection.reason == INFEASIBLE {
            (INFEASIBLE, Verdict::Infeasible)
        } else {
            (DEFERRED, Verdict::Deferred(rejection.reason.clone()))
        };
        let said = Said {
            kind: PENDING,
            reason,
            message: &rejection.message,
            generation: entry.wanted.metadata.generation,
        };
        let before = entry.slot.resize.pending.take();
        let pending = condition(said, before.as_ref(), now);
        let news = before.is_none_or(|before| {
            before.reason != pending.reason
                || before.observed_generation != pending.observed_generation
        });
        entry.slot.resize.pending = Some(pending);
        Some(if news {
            Order::Resize(uid.clone(), verdict)
        } else {
            Order::Changed(uid.clone())
        })
    }
}

impl Entry {
    /// After an update: a pod keeps what it was allowed, and may wait for what it wants.
    pub(super) fn keep_allowed(
        &mut self,
        before: &Slot,
        uid: &PodUid,
        pod: &DesiredPod,
        allocations: &mut Allocations,
    ) {
        let was = std::mem::replace(&mut self.wanted, Arc::clone(&pod.pod));
        if Arc::ptr_eq(&was, &self.wanted) {
            self.slot.pod = Arc::clone(&before.pod);
            return;
        }
        if !self.allocated {
            return;
        }
        let scope = allocations.scope;
        let allowed = apply(&self.wanted, &of_pod(&before.pod, scope), scope);
        let differs = allowed.is_some();
        if let Some(allowed) = allowed {
            self.slot.pod = allowed;
        }
        if asks_otherwise(&was, &self.wanted, scope) {
            if differs {
                allocations.wait(uid);
            } else {
                self.slot.resize.pending = None;
            }
        }
    }

    fn rank(&self) -> (bool, Reverse<i32>, bool, bool, Option<Timestamp>) {
        let spec = self.wanted.spec.as_ref();
        let priority = spec.and_then(|spec| spec.priority).unwrap_or_default();
        let since = self.slot.resize.pending.as_ref();
        let since = since.and_then(|pending| pending.last_transition_time.as_ref());
        (
            increases(&self.slot.pod, &self.wanted),
            Reverse(priority),
            QosClass::of(&self.wanted) != QosClass::Guaranteed,
            since.is_none(),
            since.map(|since| since.0),
        )
    }
}
