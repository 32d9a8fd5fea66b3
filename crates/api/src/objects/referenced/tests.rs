use std::time::UNIX_EPOCH;

use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use testkit::clock::TokioClock;
use tokio::sync::mpsc;

use super::*;

type Body = BoxBody<Bytes, std::io::Error>;

/// A server with one configMap: what a list shows, and what watches are told.
#[derive(Clone)]
struct Server {
    listed: Arc<Mutex<Option<&'static str>>>,
    watches: Arc<Mutex<Vec<mpsc::Sender<String>>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

const OBJECT: &str = r#"{"metadata": {"name": "c", "resourceVersion": "1"}, "data": {"k": "one"}}"#;
const CHANGED: &str =
    r#"{"metadata": {"name": "c", "resourceVersion": "2"}, "data": {"k": "two"}}"#;
const SETTLED: &str = r#"{"metadata": {"name": "c", "resourceVersion": "3"}, "immutable": true, "data": {"k": "three"}}"#;

impl Server {
    fn new(listed: Option<&'static str>) -> Self {
        Self {
            listed: Arc::new(Mutex::new(listed)),
            watches: Arc::default(),
            asked: Arc::default(),
        }
    }

    fn answer(&self, request: &Request<kube::client::Body>) -> Response<Body> {
        let asked = request.uri().to_string();
        let is_watch = asked.contains("watch=true");
        self.asked.lock().unwrap().push(asked);
        if is_watch {
            let (tell, told) = mpsc::channel::<String>(8);
            self.watches.lock().unwrap().push(tell);
            let frames = stream::unfold(told, async |mut told| {
                let line = told.recv().await?;
                let frame = http_body::Frame::data(Bytes::from(line));
                Some((Ok::<_, std::io::Error>(frame), told))
            });
            // The compiler does not see that the stream may be shared.
            return Response::new(BodyExt::boxed(SyncStream(Mutex::new(StreamBody::new(
                Box::pin(frames),
            )))));
        }
        let items = self.listed.lock().unwrap().unwrap_or_default();
        let list = format!(
            r#"{{"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {{"resourceVersion": "1"}}, "items": [{items}]}}"#
        );
        Response::new(
            Full::new(Bytes::from(list))
                .map_err(|never| match never {})
                .boxed(),
        )
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let answer = server.answer(&request);
            async { Ok::<_, std::io::Error>(answer) }
        });
        Client::new(service, "default")
    }

    /// Tells all who watch.
    async fn tell(&self, kind: &str, object: &str) {
        let watches = self.watches.lock().unwrap().clone();
        for watch in watches {
            let event = format!("{{\"type\": \"{kind}\", \"object\": {object}}}\n");
            watch.send(event).await.unwrap();
        }
    }

    fn watches(&self) -> usize {
        let watches = self.watches.lock().unwrap();
        watches.iter().filter(|watch| !watch.is_closed()).count()
    }
}

/// A body is shared only as a type.
struct SyncStream<S>(Mutex<S>);

impl<S: http_body::Body + Unpin> http_body::Body for SyncStream<S> {
    type Data = S::Data;
    type Error = S::Error;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<S::Data>, S::Error>>> {
        let inner = self.get_mut().0.get_mut().unwrap();
        std::pin::Pin::new(inner).poll_frame(context)
    }
}

struct Scene {
    server: Server,
    config_maps: Referenced<ConfigMap>,
    tasks: TaskTracker,
}

fn scene(listed: Option<&'static str>) -> Scene {
    let server = Server::new(listed);
    let clock: SharedClock = Arc::new(TokioClock::starting_at(UNIX_EPOCH));
    let tasks = TaskTracker::new();
    let shutdown = CancellationToken::new();
    let config_maps = Referenced::new(server.client(), clock, tasks.clone(), shutdown);
    Scene {
        server,
        config_maps,
        tasks,
    }
}

fn value(object: Option<Arc<ConfigMap>>) -> Option<String> {
    object.map(|object| object.data.as_ref().unwrap()["k"].clone())
}

/// Lets others run, without time passing for them to wait for.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_is_followed_by_one_watch_of_its_own_while_somebody_refers_to_it() {
    let scene = scene(Some(OBJECT));
    let mut one = scene.config_maps.register("ns", "c");
    let mut two = scene.config_maps.register("ns", "c");
    assert_eq!(value(one.get().await.unwrap()).as_deref(), Some("one"));
    assert_eq!(value(two.get().await.unwrap()).as_deref(), Some("one"));
    settle().await;
    assert_eq!(scene.server.watches(), 1);
    let asked = scene.server.asked.lock().unwrap().clone();
    assert!(
        asked
            .iter()
            .all(|asked| asked.starts_with("/api/v1/namespaces/ns/configmaps?")),
        "{asked:?}"
    );
    assert!(
        asked
            .iter()
            .all(|asked| asked.contains("fieldSelector=metadata.name%3Dc")),
        "{asked:?}"
    );
    scene.server.tell("MODIFIED", CHANGED).await;
    one.changed().await;
    assert_eq!(value(one.get().await.unwrap()).as_deref(), Some("two"));
    drop(one);
    settle().await;
    assert_eq!(scene.server.watches(), 1, "the other still refers to it");
    drop(two.clone());
    assert_eq!(scene.config_maps.count(), 1, "clones are one reference");
    drop(two);
    scene.tasks.close();
    scene.tasks.wait().await;
    assert_eq!((scene.config_maps.count(), scene.server.watches()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn that_there_is_none_is_an_answer_and_one_that_comes_later_is_seen() {
    let scene = scene(None);
    let mut reference = scene.config_maps.register("ns", "c");
    assert_eq!(value(reference.get().await.unwrap()), None);
    settle().await;
    scene.server.tell("ADDED", OBJECT).await;
    reference.changed().await;
    assert_eq!(
        value(reference.get().await.unwrap()).as_deref(),
        Some("one")
    );
    scene.server.tell("DELETED", OBJECT).await;
    reference.changed().await;
    assert_eq!(value(reference.get().await.unwrap()), None);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_is_not_waited_for_long() {
    let nobody = crate::objects::nodes::nobody();
    let clock: SharedClock = Arc::new(TokioClock::starting_at(UNIX_EPOCH));
    let stop = CancellationToken::new();
    let secrets: Referenced<Secret> =
        Referenced::new(nobody, clock.clone(), TaskTracker::new(), stop);
    let mut reference = secrets.register("ns", "s");
    let error = reference.get().await.unwrap_err();
    let wanted = "failed to sync secret cache: timed out waiting for the condition";
    assert_eq!(error.to_string(), wanted);
    assert_eq!(clock.uptime(), FIRST_ANSWER);
}

#[tokio::test(start_paused = true)]
async fn what_is_immutable_is_not_watched_any_more_and_stays_known() {
    let scene = scene(Some(OBJECT));
    let mut reference = scene.config_maps.register("ns", "c");
    reference.get().await.unwrap();
    settle().await;
    scene.server.tell("MODIFIED", SETTLED).await;
    reference.changed().await;
    settle().await;
    assert_eq!(scene.server.watches(), 0);
    assert_eq!(
        value(reference.get().await.unwrap()).as_deref(),
        Some("three")
    );
    let mut late = scene.config_maps.register("ns", "c");
    assert_eq!(value(late.get().await.unwrap()).as_deref(), Some("three"));
}

#[tokio::test(start_paused = true)]
async fn a_look_anew_that_finds_nothing_new_wakes_nobody() {
    let scene = scene(Some(OBJECT));
    let mut reference = scene.config_maps.register("ns", "c");
    reference.get().await.unwrap();
    let clock = TokioClock::starting_at(UNIX_EPOCH);
    let quiet = timeout(&clock, Duration::from_secs(1200), reference.changed()).await;
    assert!(quiet.is_err());
    let looks = scene.server.asked.lock().unwrap().len();
    assert!(looks >= 6, "asked {looks} times");
}

#[tokio::test(start_paused = true)]
async fn the_shutdown_ends_all_watches() {
    let scene = scene(Some(OBJECT));
    let mut reference = scene.config_maps.register("ns", "c");
    reference.get().await.unwrap();
    let Way::Watch { shutdown, .. } = &scene.config_maps.shared.way else {
        panic!("nobody watches");
    };
    shutdown.cancel();
    scene.tasks.close();
    scene.tasks.wait().await;
    assert_eq!(scene.server.watches(), 0);
}
