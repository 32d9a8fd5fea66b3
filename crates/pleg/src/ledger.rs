//! What has been listed, what is being looked at, and what is to be done next.
//! No I/O and no clock: each event is told to it with the time, and it answers
//! with jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use seams::RuntimeError;
use tokio::sync::oneshot;
use tracing::{info, warn};
use types::observed::ObservedPod;
use types::{PodName, PodRef, PodUid};

use crate::events::Hint;
use crate::health::Stuck;
use crate::inspect::Call;
use crate::listing::{self, Listed, Listing};
use crate::observations::{Publisher, Request};

/// Without events, a change is seen within this time. Upstream's.
pub(crate) const RELIST: Duration = Duration::from_secs(1);

/// With events, the list is the net below them. They are seldom lost, and ten
/// lists for each of upstream's are most of what an idle node costs.
pub(crate) const RELIST_WITH_EVENTS: Duration = Duration::from_secs(10);

/// A start or an end is several events within milliseconds: one look does.
const SETTLED: Duration = Duration::from_millis(50);

/// After a look that failed.
const RETRY: Duration = RELIST;

/// A call that takes longer is worth naming: it should take milliseconds.
pub(crate) const STUCK_AFTER: Duration = Duration::from_secs(10);

type Reply = oneshot::Sender<Arc<ObservedPod>>;

/// Something to ask of the runtime. Each has a turn: a later one has seen more.
#[derive(Debug)]
pub(crate) enum Job {
    Relist {
        turn: u64,
        at: Duration,
    },
    Look {
        uid: PodUid,
        turn: u64,
        at: Duration,
        /// As a list just had it; `None`: to be listed first.
        listed: Option<Listed>,
        call: Call,
    },
}

/// What became of a job.
#[derive(Debug)]
pub(crate) enum Done {
    Relist {
        turn: u64,
        at: Duration,
        listing: Result<Listing, RuntimeError>,
    },
    Look {
        uid: PodUid,
        turn: u64,
        at: Duration,
        seen: Result<Box<(Listed, ObservedPod)>, RuntimeError>,
    },
}

#[derive(Debug)]
pub(crate) struct Ledger {
    publisher: Publisher,
    new_call: Call,
    turns: u64,
    /// The list that each pod's observation stands on.
    recorded: Listing,
    /// Pods that something is going on with.
    busy: BTreeMap<PodUid, Busy>,
    /// Everything that the runtime holds, looked at or not.
    known: BTreeMap<PodUid, PodRef>,
    relist: Relist,
    streaming: bool,
}

#[derive(Debug)]
struct Relist {
    due: Duration,
    /// Its turn, while one is on its way.
    running: Option<u64>,
    /// Pods that were looked at after that one began: they know better.
    overtaken: BTreeSet<PodUid>,
    succeeded: bool,
    /// Said once, not once per second.
    problem: Option<String>,
}

#[derive(Debug, Default)]
struct Busy {
    look: Option<Look>,
    /// They need one that begins after they asked.
    waiting: Vec<Reply>,
    /// A hint, or a look that failed.
    due: Option<Duration>,
    /// After a failure there is a pause, whoever asks.
    not_before: Duration,
    /// A call that was not answered in its time, until one is.
    hung: Option<(&'static str, Duration)>,
}

#[derive(Debug)]
struct Look {
    turn: u64,
    call: Call,
    replies: Vec<Reply>,
}

impl Ledger {
    pub(crate) fn new(publisher: Publisher, new_call: Call, now: Duration) -> Self {
        Self {
            publisher,
            new_call,
            turns: 0,
            recorded: Listing::new(),
            busy: BTreeMap::new(),
            known: BTreeMap::new(),
            relist: Relist {
                due: now,
                running: None,
                overtaken: BTreeSet::new(),
                succeeded: false,
                problem: None,
            },
            streaming: false,
        }
    }

    /// When there will be something to do, if nothing happens.
    pub(crate) fn wake(&self, now: Duration) -> Option<Duration> {
        let relist = Some(self.relist.due).filter(|_| self.relist.running.is_none());
        let looks = self.busy.values().filter_map(Busy::next);
        // A look that hangs is to be named in time, list or no list.
        let calls = self.busy.values().filter_map(|busy| busy.look.as_ref());
        let hanging = calls
            .filter_map(|look| look.call.current())
            .map(|(_, since)| since + STUCK_AFTER)
            .filter(|stuck| *stuck > now);
        relist.into_iter().chain(looks).chain(hanging).min()
    }

    /// What is due.
    pub(crate) fn jobs(&mut self, now: Duration) -> Vec<Job> {
        let mut jobs = Vec::new();
        if self.relist.running.is_none() && self.relist.due <= now {
            let turn = self.turn();
            self.relist.running = Some(turn);
            self.relist.overtaken.clear();
            // Whoever asks for another meanwhile brings it forward.
            self.relist.due = Duration::MAX;
            jobs.push(Job::Relist { turn, at: now });
        }
        let ready: Vec<PodUid> = self
            .busy
            .iter()
            .filter(|(_, busy)| busy.is_ready(now))
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in ready {
            let turn = self.turn();
            jobs.push(self.begin(&uid, turn, now, None));
        }
        self.publisher.stuck(self.stuck(now));
        jobs
    }

    pub(crate) fn request(&mut self, request: Request) {
        let busy = self.busy.entry(request.uid).or_default();
        busy.waiting.push(request.reply);
    }

    pub(crate) fn hint(&mut self, hint: Hint, now: Duration) {
        match hint {
            Hint::Pod(uid) => self.look_soon(uid, now),
            Hint::Part(id) => {
                let mut recorded = self.recorded.iter();
                let owner = recorded.find(|(_, listed)| listed.has(&id));
                match owner.map(|(uid, _)| uid.clone()) {
                    Some(uid) => self.look_soon(uid, now),
                    None => self.relist.due = self.relist.due.min(now + SETTLED),
                }
            }
            Hint::Streaming(streaming) => {
                self.streaming = streaming;
                // What happened before, or since it broke, was not told.
                self.relist.due = self.relist.due.min(now);
            }
        }
    }

    /// Further jobs follow from a list.
    pub(crate) fn done(&mut self, done: Done, now: Duration) -> Vec<Job> {
        match done {
            Done::Relist { turn, at, listing } => match listing {
                Ok(listing) => self.relisted(turn, at, &listing, now),
                Err(error) => {
                    self.relist_failed(&error, now);
                    Vec::new()
                }
            },
            Done::Look {
                uid,
                turn,
                at,
                seen,
            } => {
                match seen {
                    Ok(seen) => self.looked(&uid, turn, at, *seen),
                    Err(error) => self.look_failed(&uid, &error, now),
                }
                self.rest(&uid);
                Vec::new()
            }
        }
    }

    fn relisted(&mut self, turn: u64, at: Duration, listing: &Listing, now: Duration) -> Vec<Job> {
        self.relist.running = None;
        let interval = if self.streaming {
            RELIST_WITH_EVENTS
        } else {
            RELIST
        };
        self.relist.due = self.relist.due.min(at + interval).max(now);
        if self.relist.problem.take().is_some() {
            info!("the runtime lists its pods again");
        }
        let overtaken = std::mem::take(&mut self.relist.overtaken);
        self.know(listing, &overtaken);
        let mut jobs = Vec::new();
        for uid in listing::changed(&self.recorded, listing) {
            if overtaken.contains(&uid) {
                continue;
            }
            let busy = self.busy.get_mut(&uid);
            if let Some(busy) = busy.filter(|busy| busy.look.is_some()) {
                // It may have missed what this list has.
                if busy.look.as_ref().is_some_and(|look| look.turn < turn) {
                    busy.due.get_or_insert(now);
                }
                continue;
            }
            match listing.get(&uid) {
                Some(listed) => jobs.push(self.begin(&uid, turn, at, Some(listed.clone()))),
                None => drop(self.gone(&uid, at)),
            }
        }
        self.relist.succeeded = true;
        self.publish_known();
        self.publisher.relisted(at);
        self.publisher.sweep();
        jobs
    }

    fn relist_failed(&mut self, error: &RuntimeError, now: Duration) {
        self.relist.running = None;
        self.relist.due = now + RELIST;
        let problem = error.to_string();
        if self.relist.problem.as_ref() != Some(&problem) {
            warn!(err = problem, "the runtime cannot list its pods");
            self.relist.problem = Some(problem);
        }
    }

    fn looked(
        &mut self,
        uid: &PodUid,
        turn: u64,
        at: Duration,
        (listed, mut observed): (Listed, ObservedPod),
    ) {
        if self.relist.running.is_some_and(|relist| relist < turn) {
            self.relist.overtaken.insert(uid.clone());
        }
        let replies = self.answered(uid);
        if listed.is_empty() {
            let gone = self.gone(uid, at);
            reply(replies, &gone);
            self.publish_known();
            return;
        }
        if let Some(last) = self.publisher.last(uid) {
            keep_ips(&last, &mut observed);
        }
        let observed = Arc::new(observed);
        self.publisher.publish(&observed);
        self.known.insert(uid.clone(), listed.pod.clone());
        self.recorded.insert(uid.clone(), listed);
        self.publish_known();
        reply(replies, &observed);
    }

    fn look_failed(&mut self, uid: &PodUid, error: &RuntimeError, now: Duration) {
        let Some(busy) = self.busy.get_mut(uid) else {
            return;
        };
        let Some(look) = busy.look.take() else {
            return;
        };
        busy.waiting.extend(look.replies);
        busy.due = Some(now);
        busy.not_before = now + RETRY;
        // An answer, even one that is no use, is not a call that hangs.
        busy.hung = match look.call.current() {
            Some((call, since)) if error.is_timeout() => {
                Some((call, busy.hung.map_or(since, |(_, since)| since)))
            }
            _ => None,
        };
        let pod = self.pod(uid);
        warn!(pod = %pod, err = %error, "the pod cannot be looked at; it is tried again");
    }

    /// Publishes that nothing is left of it.
    fn gone(&mut self, uid: &PodUid, at: Duration) -> Arc<ObservedPod> {
        let observed = Arc::new(ObservedPod {
            pod: self.pod(uid),
            at,
            ..ObservedPod::default()
        });
        self.recorded.remove(uid);
        self.known.remove(uid);
        self.publisher.publish(&observed);
        observed
    }

    fn begin(&mut self, uid: &PodUid, turn: u64, at: Duration, listed: Option<Listed>) -> Job {
        let call = self.new_call.fresh();
        let busy = self.busy.entry(uid.clone()).or_default();
        // Whatever was hinted at before this moment is seen by a list of its own,
        // but not by one that has come in already.
        let replies = if listed.is_none() {
            busy.due = None;
            std::mem::take(&mut busy.waiting)
        } else {
            Vec::new()
        };
        busy.look = Some(Look {
            turn,
            call: call.clone(),
            replies,
        });
        Job::Look {
            uid: uid.clone(),
            turn,
            at,
            listed,
            call,
        }
    }

    fn answered(&mut self, uid: &PodUid) -> Vec<Reply> {
        let Some(busy) = self.busy.get_mut(uid) else {
            return Vec::new();
        };
        busy.hung = None;
        busy.look
            .take()
            .map(|look| look.replies)
            .unwrap_or_default()
    }

    /// Forgets a pod that nothing is going on with.
    fn rest(&mut self, uid: &PodUid) {
        if self.busy.get(uid).is_some_and(Busy::is_idle) {
            self.busy.remove(uid);
        }
    }

    fn look_soon(&mut self, uid: PodUid, now: Duration) {
        let busy = self.busy.entry(uid).or_default();
        busy.due.get_or_insert(now + SETTLED);
    }

    fn know(&mut self, listing: &Listing, overtaken: &BTreeSet<PodUid>) {
        self.known
            .retain(|uid, _| overtaken.contains(uid) || listing.contains_key(uid));
        for (uid, listed) in listing {
            if !overtaken.contains(uid) {
                self.known.insert(uid.clone(), listed.pod.clone());
            }
        }
    }

    /// Before the first list, what is known is not all there is.
    fn publish_known(&self) {
        if self.relist.succeeded {
            self.publisher.know(self.known.values().cloned().collect());
        }
    }

    fn stuck(&self, now: Duration) -> Vec<Stuck> {
        let stuck = self.busy.iter().filter_map(|(uid, busy)| {
            let current = busy.look.as_ref().and_then(|look| look.call.current());
            let hanging = current.filter(|(_, since)| now >= *since + STUCK_AFTER);
            let (call, since) = match (busy.hung, hanging) {
                (Some((call, since)), current) => (current.map_or(call, |(call, _)| call), since),
                (None, Some(hanging)) => hanging,
                (None, None) => return None,
            };
            Some(Stuck {
                pod: self.pod(uid),
                call,
                since,
            })
        });
        let mut stuck: Vec<Stuck> = stuck.collect();
        stuck.sort_by(|one, other| one.pod.cmp(&other.pod));
        stuck
    }

    /// By the name that the runtime has for it, or last had.
    fn pod(&self, uid: &PodUid) -> PodRef {
        if let Some(pod) = self.known.get(uid) {
            return pod.clone();
        }
        let last = self.publisher.last(uid);
        last.map_or_else(
            || PodRef {
                name: PodName::default(),
                uid: uid.clone(),
            },
            |last| last.pod.clone(),
        )
    }

    fn turn(&mut self) -> u64 {
        self.turns += 1;
        self.turns
    }
}

impl Busy {
    /// When it is to be looked at; `None`: it is being looked at, or need not be.
    fn next(&self) -> Option<Duration> {
        let asked = Some(Duration::ZERO).filter(|_| !self.waiting.is_empty());
        let wanted = asked.or(self.due).filter(|_| self.look.is_none());
        wanted.map(|wanted| wanted.max(self.not_before))
    }

    fn is_ready(&self, now: Duration) -> bool {
        self.next().is_some_and(|next| next <= now)
    }

    fn is_idle(&self) -> bool {
        self.look.is_none() && self.waiting.is_empty() && self.due.is_none()
    }
}

/// A network that has been taken down still was the pod's: the API shows the
/// address of a pod that has ended.
fn keep_ips(last: &ObservedPod, observed: &mut ObservedPod) {
    for sandbox in &mut observed.sandboxes {
        if sandbox.ready || !sandbox.ips.is_empty() {
            continue;
        }
        let before = last.sandboxes.iter().find(|before| before.id == sandbox.id);
        if let Some(before) = before {
            sandbox.ips.clone_from(&before.ips);
        }
    }
}

fn reply(replies: Vec<Reply>, observed: &Arc<ObservedPod>) {
    for reply in replies {
        // Who has gone needs no answer.
        let _ = reply.send(observed.clone());
    }
}
