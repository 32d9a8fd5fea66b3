//! The runtime classes of the cluster, by which pods say how they are to be run. Few pods
//! do: they are followed from the first time that somebody asks for one.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use k8s_openapi::api::node::v1::RuntimeClass;
use kube::Client;
use seams::{SharedClock, timeout};
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Following, Selection, Told};

/// How long the first who asks waits for the API server.
const FIRST_ANSWER: Duration = Duration::from_secs(1);

/// The runtime's handler of each class, by name; `None` until they were heard of.
type Handlers = Option<Arc<BTreeMap<String, String>>>;

/// The runtime classes. Clones share them.
#[derive(Clone)]
pub struct RuntimeClasses {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    clock: SharedClock,
    tasks: TaskTracker,
    shutdown: CancellationToken,
    /// Empty until somebody asks.
    handlers: OnceLock<watch::Receiver<Handlers>>,
}

/// Why the handler of a class is not known, in upstream's words.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RuntimeClassError {
    #[error("runtimeclass.node.k8s.io {0:?} not found")]
    NotFound(String),
    #[error(
        "failed to lookup RuntimeClass {0}: the API server has not told yet which there are, will be asked again"
    )]
    Unanswered(String),
}

impl fmt::Debug for RuntimeClasses {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RuntimeClasses")
            .finish_non_exhaustive()
    }
}

impl RuntimeClasses {
    /// The watch, once it is needed, runs on `tasks` until the shutdown.
    pub fn new(
        client: Client,
        clock: SharedClock,
        tasks: TaskTracker,
        shutdown: CancellationToken,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                client,
                clock,
                tasks,
                shutdown,
                handlers: OnceLock::new(),
            }),
        }
    }

    /// What the runtime is to be told for pods of a class.
    pub async fn handler(&self, class: &str) -> Result<String, RuntimeClassError> {
        let shared = &self.shared;
        let mut handlers = shared.handlers.get_or_init(|| self.follow()).clone();
        let heard = handlers.wait_for(Option::is_some);
        let heard = timeout(&*shared.clock, FIRST_ANSWER, heard).await;
        let heard = heard.ok().and_then(Result::ok);
        let heard = heard.and_then(|handlers| handlers.clone());
        let heard = heard.ok_or_else(|| RuntimeClassError::Unanswered(class.to_owned()))?;
        let handler = heard.get(class).cloned();
        handler.ok_or_else(|| RuntimeClassError::NotFound(class.to_owned()))
    }

    fn follow(&self) -> watch::Receiver<Handlers> {
        let (tell, handlers) = watch::channel(None);
        let Shared {
            client,
            clock,
            tasks,
            shutdown,
            ..
        } = &*self.shared;
        let (client, clock, shutdown) = (client.clone(), clock.clone(), shutdown.clone());
        tasks.spawn(async move {
            let all = Selection::Fields(String::new());
            let following = Following::new(&client, &clock, all, &tell);
            shutdown.run_until_cancelled(following.run()).await;
        });
        handlers
    }
}

impl Told<RuntimeClass> for watch::Sender<Handlers> {
    fn all(&self, classes: Vec<RuntimeClass>) {
        let handlers = classes.into_iter().map(entry).collect();
        self.send_replace(Some(Arc::new(handlers)));
    }

    fn changed(&self, class: RuntimeClass) {
        let (name, handler) = entry(class);
        self.send_modify(|handlers| {
            Arc::make_mut(handlers.get_or_insert_default()).insert(name, handler);
        });
    }

    fn gone(&self, class: RuntimeClass) {
        let (name, _) = entry(class);
        self.send_modify(|handlers| {
            Arc::make_mut(handlers.get_or_insert_default()).remove(&name);
        });
    }
}

fn entry(class: RuntimeClass) -> (String, String) {
    (class.metadata.name.unwrap_or_default(), class.handler)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::UNIX_EPOCH;

    use http::{Request, Response};
    use kube::client::Body;
    use testkit::clock::TokioClock;

    use super::*;

    const LIST: &str = r#"{"kind": "RuntimeClassList", "apiVersion": "node.k8s.io/v1",
        "metadata": {"resourceVersion": "1"},
        "items": [{"metadata": {"name": "safe"}, "handler": "kata"}]}"#;

    /// A server that lists, and never ends a watch; or one that never answers.
    fn classes(answers: bool, asked: &Arc<Mutex<usize>>) -> RuntimeClasses {
        let asked = Arc::clone(asked);
        let service = tower::service_fn(move |request: Request<Body>| {
            *asked.lock().unwrap() += 1;
            let watches = request
                .uri()
                .query()
                .is_some_and(|query| query.contains("watch"));
            async move {
                if watches || !answers {
                    std::future::pending::<()>().await;
                }
                let body = Body::from(LIST.as_bytes().to_vec());
                Ok::<_, std::io::Error>(Response::new(body))
            }
        });
        RuntimeClasses::new(
            Client::new(service, "default"),
            Arc::new(TokioClock::starting_at(UNIX_EPOCH)),
            TaskTracker::new(),
            CancellationToken::new(),
        )
    }

    #[tokio::test(start_paused = true)]
    async fn classes_are_asked_for_when_the_first_pod_has_one() {
        let asked = Arc::default();
        let classes = classes(true, &asked);
        tokio::task::yield_now().await;
        assert_eq!(*asked.lock().unwrap(), 0);
        assert_eq!(classes.handler("safe").await, Ok("kata".to_owned()));
        let missing = classes.handler("fast").await.unwrap_err();
        let wanted = "runtimeclass.node.k8s.io \"fast\" not found";
        assert_eq!(missing.to_string(), wanted);
        tokio::task::yield_now().await;
        assert_eq!(*asked.lock().unwrap(), 2, "a list and a watch");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_answer_is_not_waited_for_long() {
        let classes = classes(false, &Arc::default());
        let unknown = RuntimeClassError::Unanswered("safe".to_owned());
        assert_eq!(classes.handler("safe").await, Err(unknown));
    }

    #[test]
    fn classes_come_and_change_and_go() {
        let class = |name: &str, handler: &str| RuntimeClass {
            metadata: kube::api::ObjectMeta {
                name: Some(name.to_owned()),
                ..Default::default()
            },
            handler: handler.to_owned(),
            ..RuntimeClass::default()
        };
        let (tell, seen) = watch::channel::<Handlers>(None);
        tell.all(vec![class("a", "1"), class("b", "2")]);
        tell.changed(class("b", "3"));
        tell.changed(class("c", "4"));
        tell.gone(class("a", "1"));
        let known = seen.borrow().clone().unwrap();
        let known: Vec<_> = known
            .iter()
            .map(|(name, handler)| (&**name, &**handler))
            .collect();
        assert_eq!(known, [("b", "3"), ("c", "4")]);
    }
}
