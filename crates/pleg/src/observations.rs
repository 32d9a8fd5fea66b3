//! What others see: each pod as it was last observed, and the way to ask for a
//! fresh look.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use types::observed::ObservedPod;
use types::{PodRef, PodUid};

use crate::health::Health;

/// How many requests for a look may wait to be taken up; each is taken up at once.
const REQUESTS: usize = 64;

/// What is known of one pod. `None`: nobody has looked for it yet. A pod of which
/// the runtime holds nothing is there, with nothing in it.
pub type Observed = Option<Arc<ObservedPod>>;

/// The reader's side.
#[derive(Clone, Debug)]
pub struct Observations {
    shelf: Arc<Shelf>,
    known: watch::Receiver<Option<Arc<BTreeSet<PodRef>>>>,
    health: watch::Receiver<Health>,
    requests: mpsc::Sender<Request>,
}

/// The observation has ended, with the agent: there will be no look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("pods are no longer observed: the agent is ending")]
pub struct Ended;

impl Observations {
    /// A pod from now on, whether it is there already or not. Its memory is freed
    /// when nothing is left of the pod and nobody follows it.
    pub fn follow(&self, uid: &PodUid) -> watch::Receiver<Observed> {
        self.shelf.follow(uid)
    }

    /// A pod as it was last observed, whoever asked for that.
    pub fn last(&self, uid: &PodUid) -> Observed {
        self.shelf.last(uid)
    }

    /// Looks at a pod, and answers with an observation in which everything is that
    /// was done before this call. Waits for as long as the runtime fails.
    pub async fn look(&self, uid: &PodUid) -> Result<Arc<ObservedPod>, Ended> {
        let (reply, answer) = oneshot::channel();
        let request = Request {
            uid: uid.clone(),
            reply,
        };
        self.requests.send(request).await.map_err(|_| Ended)?;
        answer.await.map_err(|_| Ended)
    }

    /// Every pod of which the runtime holds anything. `None` before the first list.
    pub fn known(&self) -> watch::Receiver<Option<Arc<BTreeSet<PodRef>>>> {
        self.known.clone()
    }

    /// Changes are announced for stuck pods and the first relist only: the time of
    /// the last one is to be read when it is needed.
    pub fn health(&self) -> watch::Receiver<Health> {
        self.health.clone()
    }
}

/// Somebody needs to know.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) uid: PodUid,
    pub(crate) reply: oneshot::Sender<Arc<ObservedPod>>,
}

/// The writer's side.
#[derive(Debug)]
pub(crate) struct Publisher {
    shelf: Arc<Shelf>,
    known: watch::Sender<Option<Arc<BTreeSet<PodRef>>>>,
    health: watch::Sender<Health>,
}

/// Both sides, and where requests come in.
pub(crate) fn channel() -> (Publisher, Observations, mpsc::Receiver<Request>) {
    let shelf = Arc::<Shelf>::default();
    let (known, known_seen) = watch::channel(None);
    let (health, health_seen) = watch::channel(Health::default());
    let (requests, requested) = mpsc::channel(REQUESTS);
    let observations = Observations {
        shelf: shelf.clone(),
        known: known_seen,
        health: health_seen,
        requests,
    };
    let publisher = Publisher {
        shelf,
        known,
        health,
    };
    (publisher, observations, requested)
}

impl Publisher {
    pub(crate) fn shelf(&self) -> Arc<Shelf> {
        Arc::clone(&self.shelf)
    }

    pub(crate) fn last(&self, uid: &PodUid) -> Observed {
        self.shelf.last(uid)
    }

    pub(crate) fn publish(&self, observed: &Arc<ObservedPod>) {
        self.shelf.put(observed);
    }

    pub(crate) fn know(&self, pods: BTreeSet<PodRef>) {
        self.known.send_if_modified(|known| {
            let news = known.as_deref() != Some(&pods);
            if news {
                *known = Some(Arc::new(pods));
            }
            news
        });
    }

    pub(crate) fn relisted(&self, at: Duration) {
        self.health.send_if_modified(|health| {
            let first = health.last_relist.is_none();
            health.last_relist = Some(at);
            first
        });
    }

    pub(crate) fn stuck(&self, stuck: Vec<crate::health::Stuck>) {
        self.health.send_if_modified(|health| {
            let news = health.stuck != stuck;
            health.stuck = stuck;
            news
        });
    }

    pub(crate) fn sweep(&self) {
        self.shelf.sweep();
    }
}

/// A place for each pod.
///
/// A mutex: a pod is looked up at its beginning and when it changed, and nobody
/// waits for anything while holding it.
#[derive(Debug, Default)]
pub(crate) struct Shelf(Mutex<BTreeMap<PodUid, watch::Sender<Observed>>>);

impl Shelf {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PodUid, watch::Sender<Observed>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn follow(&self, uid: &PodUid) -> watch::Receiver<Observed> {
        let mut places = self.lock();
        let place = places
            .entry(uid.clone())
            .or_insert_with(|| watch::channel(None).0);
        place.subscribe()
    }

    fn last(&self, uid: &PodUid) -> Observed {
        self.lock()
            .get(uid)
            .and_then(|place| place.borrow().clone())
    }

    fn put(&self, observed: &Arc<ObservedPod>) {
        let mut places = self.lock();
        let uid = &observed.pod.uid;
        match places.get(uid) {
            // Who follows is woken by news, not by another look at the same.
            Some(place) => {
                place.send_if_modified(|last| {
                    let news = last.as_ref().is_none_or(|last| differ(last, observed));
                    *last = Some(observed.clone());
                    news
                });
            }
            // Nobody asked, and there is nothing to tell.
            None if observed.is_gone() => {}
            None => {
                let place = watch::channel(Some(observed.clone())).0;
                places.insert(uid.clone(), place);
            }
        }
    }

    /// Every pod that was looked at.
    pub(crate) fn each(&self, mut visit: impl FnMut(&ObservedPod)) {
        for place in self.lock().values() {
            if let Some(pod) = place.borrow().as_deref() {
                visit(pod);
            }
        }
    }

    fn sweep(&self) {
        self.lock().retain(|_, place| {
            let followed = place.receiver_count() > 0;
            followed || place.borrow().as_ref().is_some_and(|pod| !pod.is_gone())
        });
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.lock().len()
    }
}

/// But for when it was looked at.
fn differ(last: &ObservedPod, observed: &ObservedPod) -> bool {
    last.sandboxes != observed.sandboxes || last.containers != observed.containers
}

#[cfg(test)]
impl Observations {
    /// How many pods have a place.
    pub(crate) fn places(&self) -> usize {
        self.shelf.len()
    }
}
