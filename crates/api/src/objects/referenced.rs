//! The objects that pods refer to by name: one watch for each, as long as
//! somebody refers to it; or they are asked for when they are needed.

mod asked;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client, Resource};
use seams::{SharedClock, timeout};
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Following, Selection, Told};
use asked::Asked;
pub use asked::Freshness;

/// How long a reader waits for the first answer about an object.
const FIRST_ANSWER: Duration = Duration::from_secs(1);

/// A kind that pods refer to by name.
pub trait Referable:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + fmt::Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// In lower case, as errors have it.
    const NOUN: &'static str;

    /// It never changes again: it need not be watched.
    fn is_immutable(&self) -> bool;
}

impl Referable for ConfigMap {
    const NOUN: &'static str = "configmap";

    fn is_immutable(&self) -> bool {
        self.immutable == Some(true)
    }
}

impl Referable for Secret {
    const NOUN: &'static str = "secret";

    fn is_immutable(&self) -> bool {
        self.immutable == Some(true)
    }
}

/// Whether there is such an object is not known.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Unanswered {
    /// The API server has not said yet.
    #[error("failed to sync {noun} cache: timed out waiting for the condition")]
    NotYet { noun: &'static str },
    /// It was asked, and did not say.
    #[error("{problem}")]
    Refused { problem: String },
}

/// What is known of one object: nothing yet, that it is not there, or itself.
type Known<K> = Option<Option<Arc<K>>>;

/// Namespace and name.
type Key = (String, String);

/// The objects of a kind that somebody refers to. Clones share them.
pub struct Referenced<K> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    client: Client,
    clock: SharedClock,
    way: Way,
    /// Held for one access.
    objects: Mutex<BTreeMap<Key, Followed<K>>>,
}

/// How it is known what an object is.
enum Way {
    /// Watches run on these tasks.
    Watch {
        tasks: TaskTracker,
        shutdown: CancellationToken,
    },
    Ask(Freshness),
}

/// An object that somebody refers to.
struct Followed<K> {
    references: usize,
    source: Source<K>,
    released: CancellationToken,
}

/// Where it is known from.
enum Source<K> {
    Watched(watch::Receiver<Known<K>>),
    Asked(Arc<Asked<K>>),
}

impl<K> Clone for Source<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Watched(known) => Self::Watched(known.clone()),
            Self::Asked(asked) => Self::Asked(Arc::clone(asked)),
        }
    }
}

impl<K> Clone for Referenced<K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<K> fmt::Debug for Referenced<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Referenced").finish_non_exhaustive()
    }
}

impl<K: Referable> Referenced<K> {
    /// The watches run on `tasks` until their objects are released, or all of
    /// them until the shutdown.
    pub fn new(
        client: Client,
        clock: SharedClock,
        tasks: TaskTracker,
        shutdown: CancellationToken,
    ) -> Self {
        Self::by(client, clock, Way::Watch { tasks, shutdown })
    }

    /// Nothing is watched: objects are asked for when they are read.
    pub fn asked(client: Client, clock: SharedClock, freshness: Freshness) -> Self {
        Self::by(client, clock, Way::Ask(freshness))
    }

    fn by(client: Client, clock: SharedClock, way: Way) -> Self {
        Self {
            shared: Arc::new(Shared {
                client,
                clock,
                way,
                objects: Mutex::default(),
            }),
        }
    }

    /// Whoever wants to know of changes has to read again.
    pub fn is_asked(&self) -> bool {
        matches!(self.shared.way, Way::Ask(_))
    }

    /// Refers to an object until what is returned is dropped.
    pub fn register(&self, namespace: &str, name: &str) -> Reference<K> {
        let key = (namespace.to_owned(), name.to_owned());
        let source = self.shared.with(|objects| {
            let followed = objects
                .entry(key.clone())
                .or_insert_with(|| self.follow(&key));
            followed.references += 1;
            if let Source::Asked(asked) = &followed.source {
                asked.forget();
            }
            followed.source.clone()
        });
        Reference {
            held: Arc::new(Held {
                key,
                shared: Arc::clone(&self.shared),
            }),
            source,
        }
    }

    /// How many objects are referred to.
    pub fn count(&self) -> usize {
        self.shared.with(|objects| objects.len())
    }

    fn follow(&self, (namespace, name): &Key) -> Followed<K> {
        let shared = &self.shared;
        let api: Api<K> = Api::namespaced(shared.client.clone(), namespace);
        let clock = Arc::clone(&shared.clock);
        let (tasks, shutdown) = match &shared.way {
            Way::Watch { tasks, shutdown } => (tasks, shutdown),
            Way::Ask(freshness) => {
                let asked = Asked::new(api, name, clock, freshness.clone());
                return Followed {
                    references: 0,
                    source: Source::Asked(Arc::new(asked)),
                    released: CancellationToken::new(),
                };
            }
        };
        let (tell, known) = watch::channel(None);
        let released = shutdown.child_token();
        let own = Selection::Fields(format!("metadata.name={name}"));
        let stop = released.clone();
        tasks.spawn(async move {
            let told = Telling {
                tell,
                settled: CancellationToken::new(),
            };
            let following = Following::at(api, &clock, own, &told);
            let followed = told.settled.run_until_cancelled(following.run());
            stop.run_until_cancelled(followed).await;
            // Who still reads what is settled must not think that it is gone.
            stop.cancelled().await;
        });
        Followed {
            references: 0,
            source: Source::Watched(known),
            released,
        }
    }
}

impl<K> Shared<K> {
    fn with<T>(&self, access: impl FnOnce(&mut BTreeMap<Key, Followed<K>>) -> T) -> T {
        access(&mut self.objects.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A pod's reference to an object. Clones are one reference.
pub struct Reference<K> {
    held: Arc<Held<K>>,
    source: Source<K>,
}

struct Held<K> {
    key: Key,
    shared: Arc<Shared<K>>,
}

impl<K> Clone for Reference<K> {
    fn clone(&self) -> Self {
        Self {
            held: Arc::clone(&self.held),
            source: self.source.clone(),
        }
    }
}

impl<K> fmt::Debug for Reference<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (namespace, name) = &self.held.key;
        write!(formatter, "Reference({namespace}/{name})")
    }
}

impl<K: Referable> Reference<K> {
    /// The object as it is now; `None` if there is none of this name.
    pub async fn get(&mut self) -> Result<Option<Arc<K>>, Unanswered> {
        let clock = Arc::clone(&self.held.shared.clock);
        let known = match &mut self.source {
            Source::Watched(known) => known,
            Source::Asked(asked) => return asked.get().await,
        };
        let answered = known.wait_for(Option::is_some);
        let answer = timeout(&*clock, FIRST_ANSWER, answered).await;
        let answer = answer.ok().and_then(Result::ok);
        let answer = answer.and_then(|known| known.clone());
        answer.ok_or(Unanswered::NotYet { noun: K::NOUN })
    }

    /// Ends when there is something that [`Self::get`] has not told; never, when
    /// nothing more can come, or nobody watches.
    pub async fn changed(&mut self) {
        if let Source::Watched(known) = &mut self.source
            && known.changed().await.is_ok()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}

impl<K> Drop for Held<K> {
    fn drop(&mut self) {
        self.shared.with(|objects| {
            let Some(followed) = objects.get_mut(&self.key) else {
                return;
            };
            followed.references -= 1;
            if followed.references == 0 {
                followed.released.cancel();
                objects.remove(&self.key);
            }
        });
    }
}

/// Tells those who refer to an object.
struct Telling<K> {
    tell: watch::Sender<Known<K>>,
    /// Nothing more will come.
    settled: CancellationToken,
}

impl<K: Referable> Telling<K> {
    fn tell(&self, object: Option<K>) {
        let settled = object.as_ref().is_some_and(K::is_immutable);
        let version = |object: &K| object.meta().resource_version.clone();
        self.tell.send_if_modified(|known| {
            let before = known.as_ref().map(|known| known.as_deref().map(version));
            let now = Some(object.as_ref().map(version));
            // A look anew mostly finds what was known.
            if before == now && now != Some(Some(None)) {
                return false;
            }
            *known = Some(object.map(Arc::new));
            true
        });
        if settled {
            self.settled.cancel();
        }
    }
}

impl<K: Referable> Told<K> for Telling<K> {
    fn all(&self, mut objects: Vec<K>) {
        self.tell(objects.pop());
    }

    fn changed(&self, object: K) {
        self.tell(Some(object));
    }

    fn gone(&self, _: K) {
        self.tell(None);
    }
}

#[cfg(test)]
mod tests;
