//! Objects of the API that nodes follow: the newest version of each, for
//! everybody who needs it.

mod nodes;
mod own_node;
mod pods;
mod referenced;

use std::fmt;
use std::marker::PhantomData;
use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Client, Resource};
use seams::{SharedClock, timeout};
use serde::de::DeserializeOwned;
use tracing::{debug, warn};

pub use nodes::Nodes;
pub use own_node::OwnNode;
pub use pods::PodPhases;
pub use referenced::{Referable, Reference, Referenced, Unanswered};

/// The pauses after failures: doubled from the first to the last. The first is
/// also the least time between two looks, whatever the server does. The last is
/// shorter than upstream's 30 s: a node that the cluster took for dead learns of it
/// here, and must be back within ten seconds of the server's return.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(5);

/// A server that takes longer than this for one object is away.
const ANSWER: Duration = Duration::from_secs(60);

/// How long one watch is asked to last, in seconds; then the object is looked at
/// anew.
const WATCH_SECONDS: u32 = 290;
/// How long it may last by our clock: a watch that says nothing ends here.
const WATCH_LIMIT: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 30);

/// Which objects of a kind are followed.
enum Selection {
    Fields(String),
    Labels(String),
}

/// A kind that can be followed.
trait Followed:
    Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned + Send + 'static
{
}

impl<K> Followed for K where
    K: Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned + Send + 'static
{
}

/// Who is told of the objects.
trait Told<K> {
    /// These are all.
    fn all(&self, objects: Vec<K>);

    fn changed(&self, object: K);

    fn gone(&self, object: K);
}

/// Follows objects of a kind: looks, watches until the watch ends, and looks again.
struct Following<'a, K, T> {
    api: Api<K>,
    clock: &'a SharedClock,
    selection: Selection,
    told: &'a T,
    kind: PhantomData<fn(K)>,
}

impl<'a, K: Followed, T: Told<K>> Following<'a, K, T> {
    /// Follows objects of all namespaces.
    fn new(client: &Client, clock: &'a SharedClock, selection: Selection, told: &'a T) -> Self {
        Self::at(Api::all(client.clone()), clock, selection, told)
    }

    fn at(api: Api<K>, clock: &'a SharedClock, selection: Selection, told: &'a T) -> Self {
        Self {
            api,
            clock,
            selection,
            told,
            kind: PhantomData,
        }
    }

    async fn run(&self) {
        let api = &self.api;
        let mut pause = FIRST_PAUSE;
        let mut last_problem = None;
        loop {
            let problem = match self.look(api).await {
                Ok(version) => self.watch(api, &version).await.err(),
                Err(problem) => Some(problem),
            };
            pause = match &problem {
                Some(_) => (pause * 2).min(LAST_PAUSE),
                None => FIRST_PAUSE,
            };
            if let Some(err) = &problem {
                let (kind, which) = (K::kind(&()), self.selection.words());
                // Once per problem, not once per attempt.
                if last_problem.as_ref() == Some(err) {
                    debug!(%kind, which, err, "objects cannot be followed");
                } else {
                    warn!(%kind, which, err, "objects cannot be followed, will try again");
                }
            }
            last_problem = problem;
            let jitter = 1.0 + 0.1 * self.clock.random();
            self.clock.sleep(pause.mul_f64(jitter)).await;
        }
    }

    /// The objects as they are, and the version to watch from.
    async fn look(&self, api: &Api<K>) -> Result<String, String> {
        let listed = timeout(&**self.clock, ANSWER, api.list(&self.selection.listed())).await;
        let listed = listed.map_err(|_| "the API server does not answer".to_owned())?;
        let listed = listed.map_err(|error| error.to_string())?;
        self.told.all(listed.items.into_iter().map(kept).collect());
        Ok(listed.metadata.resource_version.unwrap_or_default())
    }

    /// Ends in peace when it is time to look again.
    async fn watch(&self, api: &Api<K>, version: &str) -> Result<(), String> {
        let parameters = self.selection.watched().timeout(WATCH_SECONDS);
        let watched = async {
            let events = api.watch(&parameters, version).await?;
            let mut events = pin!(events);
            while let Some(event) = events.try_next().await? {
                match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                        self.told.changed(kept(object));
                    }
                    WatchEvent::Deleted(object) => self.told.gone(object),
                    WatchEvent::Bookmark(_) => {}
                    // Too old to go on from, most likely: the next look tells.
                    WatchEvent::Error(_) => break,
                }
            }
            Ok::<(), kube::Error>(())
        };
        match timeout(&**self.clock, WATCH_LIMIT, watched).await {
            Ok(outcome) => outcome.map_err(|error| error.to_string()),
            Err(_) => Ok(()),
        }
    }
}

impl Selection {
    fn listed(&self) -> ListParams {
        match self {
            Self::Fields(selector) => ListParams::default().fields(selector),
            Self::Labels(selector) => ListParams::default().labels(selector),
        }
    }

    fn watched(&self) -> WatchParams {
        match self {
            Self::Fields(selector) => WatchParams::default().fields(selector),
            Self::Labels(selector) => WatchParams::default().labels(selector),
        }
    }

    fn words(&self) -> &str {
        match self {
            Self::Fields(words) | Self::Labels(words) => words,
        }
    }
}

/// What is kept of an object.
fn kept<K: Followed>(mut object: K) -> K {
    // The largest part of it, and nobody here reads it.
    object.meta_mut().managed_fields = None;
    object
}
