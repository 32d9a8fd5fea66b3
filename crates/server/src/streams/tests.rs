//! The endpoints as a client and a runtime see them, over connections in memory.

mod answers;
mod proxied;
mod runtime;
mod translated;
mod tunnelled;

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use k8s_openapi::api::core::v1::{Container, EphemeralContainer, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use prometheus::proto::MetricFamily;
use testkit::clock::TokioClock;
use tokio::io::duplex;
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;
use types::PodUid;
use types::desired::{DesiredPod, Source};
use types::served::{Fixed, FixedPod};

use super::*;
use runtime::{FakeNet, FakeRuntime};

/// What is in a pipe of the tests at once: far less than what goes through.
const PIPE: usize = 4096;

/// A node with one pod, `web` in `shop`, that has a container `app` which runs, one with
/// a terminal, and one that does not run.
struct Node {
    streams: Arc<Streams>,
    runtime: Arc<FakeRuntime>,
    net: Arc<FakeNet>,
    clock: Arc<TokioClock>,
    registry: Registry,
    tasks: JoinSet<()>,
}

impl Node {
    fn new() -> Self {
        Self::with(FakeRuntime::default())
    }

    fn with(runtime: FakeRuntime) -> Self {
        let clock = Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH));
        let (runtime, net) = (Arc::new(runtime), Arc::new(FakeNet::default()));
        let registry = Registry::new();
        let parts = StreamParts {
            pods: book(),
            runtime: runtime.clone(),
            net: net.clone(),
            clock: clock.clone(),
            websockets: true,
            checkpoints: "/var/lib/kubelet/checkpoints".into(),
        };
        Self {
            streams: Arc::new(Streams::new(parts, &registry).unwrap()),
            runtime,
            net,
            clock,
            registry,
            tasks: JoinSet::new(),
        }
    }

    /// Asks over a connection of its own.
    async fn ask(&mut self, request: Request<Empty<Bytes>>) -> Response<Incoming> {
        let (ours, theirs) = duplex(PIPE);
        let streams = Arc::clone(&self.streams);
        self.tasks.spawn(serve(streams, theirs));
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(ours));
        let (mut sender, connection) = handshake.await.unwrap();
        self.tasks.spawn(async move {
            let _ = connection.with_upgrades().await;
        });
        sender.send_request(request).await.unwrap()
    }

    /// The same, for an answer that is a few words.
    async fn told(&mut self, request: Request<Empty<Bytes>>) -> (u16, String) {
        let answer = self.ask(request).await;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    /// The same, for one that changes the protocol.
    async fn upgraded(
        &mut self,
        request: Request<Empty<Bytes>>,
    ) -> (Response<()>, TokioIo<Upgraded>) {
        let mut answer = self.ask(request).await;
        assert_eq!(answer.status(), 101);
        let upgraded = hyper::upgrade::on(&mut answer).await.unwrap();
        (answer.map(drop), TokioIo::new(upgraded))
    }

    fn counted(&self, subresource: &str) -> f64 {
        let families = self.registry.gather();
        let metrics = families.iter().flat_map(MetricFamily::get_metric);
        let mut metrics = metrics.filter(|one| one.get_label()[0].value() == subresource);
        metrics
            .next()
            .map_or(0.0, |one| one.get_counter().get_value())
    }
}

async fn serve(streams: Arc<Streams>, connection: tokio::io::DuplexStream) {
    let tasks = TaskTracker::new();
    let line = Line::of_test("192.0.2.7:1234".parse().unwrap(), &tasks);
    let service = service_fn(async |mut request: Request<Incoming>| {
        let path = request.uri().path().to_owned();
        let mut words = path.split('/').skip(1).map(str::to_owned);
        let endpoint = words.next().unwrap();
        request.extensions_mut().insert(PathWords(words.collect()));
        request.extensions_mut().insert(line.clone());
        let answer = match endpoint.as_str() {
            "exec" => streams.exec(request).await,
            "attach" => streams.attach(request).await,
            "portForward" => streams.port_forward(request).await,
            "run" => streams.run(request).await,
            _ => streams.checkpoint(request).await,
        };
        Ok::<_, std::convert::Infallible>(answer)
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(connection), service);
    connection.with_upgrades().await.unwrap();
    tasks.close();
    tasks.wait().await;
}

fn book() -> PodBook {
    let container = |name: &str, tty: bool| Container {
        name: name.to_owned(),
        tty: Some(tty),
        ..Container::default()
    };
    let pod = Pod {
        metadata: ObjectMeta {
            name: Some("web".to_owned()),
            namespace: Some("shop".to_owned()),
            uid: Some("u-1".to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            containers: vec![container("app", false), container("shell", true)],
            init_containers: Some(vec![container("before", false)]),
            ephemeral_containers: Some(vec![EphemeralContainer {
                name: "debug".to_owned(),
                ..EphemeralContainer::default()
            }]),
            ..PodSpec::default()
        }),
        ..Pod::default()
    };
    PodBook::new(Fixed(vec![FixedPod {
        uid: PodUid::new("u-1"),
        pod: DesiredPod {
            pod: Arc::new(pod),
            source: Source::Api,
            mirror: None,
        },
        status: None,
        observed: None,
    }]))
}

fn plain(path: &str) -> Request<Empty<Bytes>> {
    let request = Request::post(path).header("Host", "node");
    request.body(Empty::new()).unwrap()
}

fn spdy(path: &str) -> Request<Empty<Bytes>> {
    let request = Request::post(path)
        .header("Host", "node")
        .header("Connection", "Upgrade")
        .header("Upgrade", "SPDY/3.1")
        .header("X-Stream-Protocol-Version", "v4.channel.k8s.io");
    request.body(Empty::new()).unwrap()
}

fn websocket(path: &str, protocol: &str) -> Request<Empty<Bytes>> {
    let request = Request::get(path)
        .header("Host", "node")
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
        .header("Sec-WebSocket-Protocol", protocol);
    request.body(Empty::new()).unwrap()
}
