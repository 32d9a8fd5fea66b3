//! Objects of the API that nodes follow: the newest version of each, for
//! everybody who needs it.

mod node_pods;
mod nodes;
mod own_node;
mod pods;
mod referenced;
mod runtime_classes;
mod services;
mod trust_bundles;

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

pub use node_pods::{PodSet, Pods, PodsByNode};
pub use nodes::Nodes;
pub use own_node::{NodeReader, OwnNode};
pub use pods::PodPhases;
pub use referenced::{Freshness, Referable, Reference, Referenced, Unanswered};
pub use runtime_classes::{RuntimeClassError, RuntimeClasses};
pub use services::{Services, ServicesSeen};
pub use trust_bundles::{BundleSet, BundlesSeen, TrustBundles, TrustBundlesError};

/// The pauses after failures: doubled from the first to the last. The first is
/// also the least time between two looks, whatever the server does. The last is
/// shorter than upstream's 30 s: a node that the cluster took for dead learns of it
/// here, and must be back within ten seconds of the server's return.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(5);

/// A server that takes longer than this for one object is away.
const ANSWER: Duration = Duration::from_secs(60);

/// How long one watch is asked to last, in seconds; then the next goes on from its
/// last version.
const WATCH_SECONDS: u32 = 290;
/// How long it may last by our clock: a watch that says nothing ends here.
const WATCH_LIMIT: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 30);

/// After so many watches that went on from each other, about an hour, all is looked
/// at anew: nothing is believed for ever.
const WATCHES_PER_LOOK: u32 = 12;

/// The pauses of one who asks for what belongs to a pod sooner than the API server
/// has learned that the pod is on this node.
pub const NOT_YET_OURS: [Duration; 5] = [
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
    Duration::from_millis(800),
];

/// Whether the API server refused something for want of a pod of this node that needs
/// it: the words are those of its authorizer for nodes.
pub fn is_not_yet_ours(problem: &str) -> bool {
    problem.contains("no relationship found between node")
}

/// The server no longer knows what followed a version.
const GONE: u16 = 410;

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

/// How a watch ended.
enum Ended {
    /// The next can go on from the last version.
    InPeace,
    /// The server cannot go on from the version that it was given.
    Stale,
}

/// From where objects are followed.
#[derive(Default)]
struct Position {
    /// `None` when all has to be looked at anew.
    version: Option<String>,
    /// Since all was looked at.
    watches: u32,
    /// The last watch did not end in peace.
    broke: bool,
}

/// Follows objects of a kind: looks, watches until the watch ends, and goes on from
/// there; looks again when that is not possible.
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
        let mut position = Position::default();
        let mut last_problem = None;
        let mut quick = NOT_YET_OURS.into_iter();
        loop {
            let problem = self.step(api, &mut position).await.err();
            if let Some(soon) = problem
                .as_deref()
                .filter(|err| is_not_yet_ours(err))
                .and(quick.next())
            {
                self.clock.sleep(soon).await;
                continue;
            }
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

    /// One watch, after a look if there is nothing to go on from.
    async fn step(&self, api: &Api<K>, position: &mut Position) -> Result<(), String> {
        let mut version = if let Some(version) = position.version.take() {
            version
        } else {
            position.watches = 0;
            self.look(api).await?
        };
        let outcome = self.watch(api, &mut version).await;
        position.watches += 1;
        let goes_on = match &outcome {
            Ok(Ended::InPeace) => position.watches < WATCHES_PER_LOOK,
            Ok(Ended::Stale) => false,
            // A connection that broke says nothing of the version; a second one may.
            Err(_) => !position.broke,
        };
        position.broke = outcome.is_err();
        position.version = goes_on.then_some(version);
        outcome.map(drop)
    }

    /// The objects as they are, and the version to watch from.
    async fn look(&self, api: &Api<K>) -> Result<String, String> {
        let listed = timeout(&**self.clock, ANSWER, api.list(&self.selection.listed())).await;
        let listed = listed.map_err(|_| "the API server does not answer".to_owned())?;
        let listed = listed.map_err(|error| error.to_string())?;
        self.told.all(listed.items.into_iter().map(kept).collect());
        Ok(listed.metadata.resource_version.unwrap_or_default())
    }

    /// Moves the version along with what it is told.
    async fn watch(&self, api: &Api<K>, version: &mut String) -> Result<Ended, String> {
        let parameters = self.selection.watched().timeout(WATCH_SECONDS);
        let watched = async {
            let events = api.watch(&parameters, &version.clone()).await?;
            let mut events = pin!(events);
            while let Some(event) = events.try_next().await? {
                match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                        advance(version, object.meta().resource_version.as_deref());
                        self.told.changed(kept(object));
                    }
                    WatchEvent::Deleted(object) => {
                        advance(version, object.meta().resource_version.as_deref());
                        self.told.gone(object);
                    }
                    WatchEvent::Bookmark(bookmark) => {
                        advance(version, Some(&bookmark.metadata.resource_version));
                    }
                    // Too old to go on from, most likely: the next look tells.
                    WatchEvent::Error(_) => return Ok(false),
                }
            }
            Ok::<bool, kube::Error>(true)
        };
        match timeout(&**self.clock, WATCH_LIMIT, watched).await {
            Ok(Ok(true)) => Ok(Ended::InPeace),
            Ok(Err(kube::Error::Api(status))) if status.code == GONE => Ok(Ended::Stale),
            Ok(Err(error)) => Err(error.to_string()),
            // Either the server cannot go on, or it did not even say that it ends:
            // then it is not believed.
            Ok(Ok(false)) | Err(_) => Ok(Ended::Stale),
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

/// Without a version of its own, what was told last is where we are.
fn advance(version: &mut String, told: Option<&str>) {
    if let Some(told) = told.filter(|told| !told.is_empty()) {
        told.clone_into(version);
    }
}

/// What is kept of an object.
fn kept<K: Followed>(mut object: K) -> K {
    // The largest part of it, and nobody here reads it.
    object.meta_mut().managed_fields = None;
    object
}
