//! A runtime that does as it is told, on a socket of its own.

mod pods;

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use cri::{Client, Config};
use futures_util::FutureExt as _;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use seams::SharedClock;
use seams::cri::{
    FilesystemIdentifier, FilesystemUsage, Image, ImageFsInfoRequest, ImageFsInfoResponse,
    ImageStatusRequest, ImageStatusResponse, LinuxRuntimeConfiguration, ListImagesRequest,
    ListImagesResponse, RuntimeCondition, RuntimeConfigRequest, RuntimeConfigResponse,
    RuntimeStatus, StatusRequest, StatusResponse, UpdateRuntimeConfigRequest,
    UpdateRuntimeConfigResponse, VersionRequest, VersionResponse, image_service, runtime_service,
};
use seams::runtime::Answer;
use tempfile::TempDir;
use testkit::clock::TokioClock;
use tokio::net::UnixListener;
use tokio::task::JoinSet;
use tonic::body::Body;
use tonic::server::{Grpc, UnaryService};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

/// What the server does with every call.
#[derive(Clone, Debug)]
pub(crate) enum Manner {
    Answers,
    Refuses(Code, &'static str),
    /// Takes calls and never answers.
    Hangs,
    /// Hangs at calls of these paths.
    HangsAt(&'static [&'static str]),
    /// Refuses calls of these paths so.
    RefusesAt(&'static [&'static str], Code),
    /// Refuses this many, then answers.
    Stumbles(Arc<AtomicUsize>),
    /// Answers `RuntimeConfig` with this driver.
    Driver(Option<i32>),
    /// Answers `Version` with this.
    Introduces(VersionResponse),
    /// Answers `ListImages` with one name of this length.
    Talks(usize),
    /// Answers with messages that lack what they must have.
    Forgets,
    /// Tells the events of two containers, and then ends or says no more.
    Tells {
        ends: bool,
    },
}

/// What the server has seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) connections: AtomicUsize,
    pub(crate) under_way: AtomicUsize,
    pub(crate) most_under_way: AtomicUsize,
    /// The path, authority and time limit of each call.
    pub(crate) calls: Mutex<Vec<(String, String, String)>>,
    pub(crate) pod_cidr: Mutex<String>,
    pub(crate) checkpoint_timeout: Mutex<i64>,
}

impl Seen {
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        let calls = self.calls.lock().unwrap();
        calls.iter().map(|(path, ..)| path.clone()).collect()
    }

    pub(crate) fn under_way(&self) -> usize {
        self.under_way.load(Ordering::SeqCst)
    }
}

pub(crate) struct Server {
    pub(crate) seen: Arc<Seen>,
    socket: PathBuf,
    tasks: JoinSet<()>,
}

impl Server {
    pub(crate) fn start(socket: &Path, manner: Manner) -> Self {
        let listener = UnixListener::bind(socket).unwrap();
        let seen = Arc::new(Seen::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, manner, Arc::clone(&seen)));
        Self {
            seen,
            socket: socket.to_owned(),
            tasks,
        }
    }

    /// Dies with all its connections. The socket stays, as after a kill.
    pub(crate) async fn kill(mut self) {
        self.tasks.shutdown().await;
    }

    pub(crate) async fn stop(self) {
        let socket = self.socket.clone();
        self.kill().await;
        std::fs::remove_file(socket).unwrap();
    }
}

async fn serve(listener: UnixListener, manner: Manner, seen: Arc<Seen>) {
    // Dropped, and with it every connection, when this task is.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        seen.connections.fetch_add(1, Ordering::SeqCst);
        let (manner, seen) = (manner.clone(), Arc::clone(&seen));
        let service = service_fn(move |request| {
            let (manner, seen) = (manner.clone(), Arc::clone(&seen));
            async move { Ok::<_, Infallible>(answer(manner, seen, request).await) }
        });
        let connection = http2::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(stream), service);
        connections.spawn(async move {
            let _ = connection.await;
        });
    }
}

/// Counts a call for as long as it lives.
struct UnderWay(Arc<Seen>);

impl UnderWay {
    fn begin(seen: Arc<Seen>) -> Self {
        let now = seen.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        seen.most_under_way.fetch_max(now, Ordering::SeqCst);
        Self(seen)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn answer(manner: Manner, seen: Arc<Seen>, request: Request<Incoming>) -> Response<Body> {
    let _under_way = UnderWay::begin(Arc::clone(&seen));
    let path = request.uri().path().to_owned();
    let authority = request.uri().authority().map(ToString::to_string);
    let limit = request.headers().get("grpc-timeout");
    let limit = limit.and_then(|value| value.to_str().ok()).unwrap_or("");
    seen.calls.lock().unwrap().push((
        path.clone(),
        authority.unwrap_or_default(),
        limit.to_owned(),
    ));
    match &manner {
        Manner::Refuses(code, words) => return Status::new(*code, *words).into_http(),
        Manner::Hangs => std::future::pending().await,
        Manner::HangsAt(paths) if paths.contains(&path.as_str()) => std::future::pending().await,
        Manner::RefusesAt(paths, code) if paths.contains(&path.as_str()) => {
            return Status::new(*code, path).into_http();
        }
        Manner::Stumbles(left) => {
            let left = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
            if left.is_ok() {
                return Status::unavailable("still starting").into_http();
            }
        }
        _ => {}
    }
    route(manner, seen, &path, request).await
}

async fn route(
    manner: Manner,
    seen: Arc<Seen>,
    path: &str,
    request: Request<Incoming>,
) -> Response<Body> {
    match path {
        runtime_service::VERSION => unary(request, |asked| version(&manner, asked)).await,
        runtime_service::STATUS => unary(request, status).await,
        runtime_service::RUNTIME_CONFIG => {
            unary(request, |_: RuntimeConfigRequest| driver(&manner)).await
        }
        runtime_service::UPDATE_RUNTIME_CONFIG => {
            unary(request, |asked| update(&seen, asked)).await
        }
        image_service::LIST_IMAGES => unary(request, |asked| images(&manner, asked)).await,
        image_service::IMAGE_STATUS => unary(request, |asked| image(&manner, asked)).await,
        image_service::IMAGE_FS_INFO => unary(request, |_: ImageFsInfoRequest| disk()).await,
        _ => pods::route(manner, seen, path, request).await,
    }
}

/// Runs one call through tonic's server.
async fn unary<Q, A, F>(request: Request<Incoming>, answer: F) -> Response<Body>
where
    Q: prost::Message + Default + 'static,
    A: prost::Message + Default + 'static,
    F: FnOnce(Q) -> A,
{
    struct Call<F>(Option<F>);
    impl<Q, A, F: FnOnce(Q) -> A> UnaryService<Q> for Call<F> {
        type Response = A;
        type Future = std::future::Ready<Result<tonic::Response<A>, Status>>;
        fn call(&mut self, request: tonic::Request<Q>) -> Self::Future {
            let answer = self.0.take().expect("a call is made once");
            std::future::ready(Ok(tonic::Response::new(answer(request.into_inner()))))
        }
    }
    let mut grpc = Grpc::new(ProstCodec::<A, Q>::default());
    grpc.unary(Call(Some(answer)), request).await
}

fn version(manner: &Manner, asked: VersionRequest) -> VersionResponse {
    match manner {
        Manner::Introduces(version) => version.clone(),
        _ => VersionResponse {
            version: asked.version,
            runtime_name: "lab".to_owned(),
            runtime_version: "v1.2.3".to_owned(),
            runtime_api_version: "v1".to_owned(),
        },
    }
}

fn status(asked: StatusRequest) -> StatusResponse {
    StatusResponse {
        status: Some(RuntimeStatus {
            conditions: vec![RuntimeCondition {
                r#type: "RuntimeReady".to_owned(),
                status: true,
                ..RuntimeCondition::default()
            }],
        }),
        info: asked
            .verbose
            .then(|| ("config".to_owned(), "{}".to_owned()))
            .into_iter()
            .collect(),
        ..StatusResponse::default()
    }
}

fn driver(manner: &Manner) -> RuntimeConfigResponse {
    let driver = match manner {
        Manner::Driver(driver) => *driver,
        _ => Some(1),
    };
    RuntimeConfigResponse {
        linux: driver.map(|cgroup_driver| LinuxRuntimeConfiguration { cgroup_driver }),
    }
}

fn update(seen: &Seen, asked: UpdateRuntimeConfigRequest) -> UpdateRuntimeConfigResponse {
    let network = asked.runtime_config.unwrap().network_config.unwrap();
    *seen.pod_cidr.lock().unwrap() = network.pod_cidr;
    UpdateRuntimeConfigResponse {}
}

fn images(manner: &Manner, asked: ListImagesRequest) -> ListImagesResponse {
    let wanted = asked.filter.and_then(|filter| filter.image);
    let name = match manner {
        Manner::Talks(length) => "x".repeat(*length),
        _ => wanted.map_or_else(|| "all".to_owned(), |spec| spec.image),
    };
    ListImagesResponse {
        images: vec![Image {
            id: name,
            size: 1,
            ..Image::default()
        }],
    }
}

fn image(manner: &Manner, asked: ImageStatusRequest) -> ImageStatusResponse {
    let spec = asked.image.unwrap();
    ImageStatusResponse {
        image: (spec.image != "absent").then(|| Image {
            id: spec.image.clone(),
            size: u64::from(!matches!(manner, Manner::Forgets)),
            spec: Some(spec),
            ..Image::default()
        }),
        ..ImageStatusResponse::default()
    }
}

fn disk() -> ImageFsInfoResponse {
    ImageFsInfoResponse {
        image_filesystems: vec![FilesystemUsage {
            fs_id: Some(FilesystemIdentifier {
                mountpoint: "/var/lib/lab".to_owned(),
            }),
            ..FilesystemUsage::default()
        }],
        container_filesystems: Vec::new(),
    }
}

/// A directory with sockets, and clients of them.
pub(crate) struct Place {
    directory: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn socket(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn config(&self) -> Config {
        Config {
            runtime_endpoint: format!("unix://{}", self.socket("runtime").display()),
            ..Config::default()
        }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.config(), clock()).unwrap()
    }
}

pub(crate) fn clock() -> SharedClock {
    Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH))
}

/// An answer of which only counts whether it is one: so a table can hold several.
pub(crate) fn bare<'a, T: Send + 'a>(answer: Answer<'a, T>) -> Answer<'a, ()> {
    answer.map(|answer| answer.map(drop)).boxed()
}

/// Lets the other tasks run until `fits`; what never does fails here, not by a
/// hang of the test.
pub(crate) async fn eventually(what: &str, fits: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if fits() {
            return;
        }
        tokio::time::timeout(Duration::from_millis(1), std::future::pending::<()>())
            .await
            .unwrap_err();
    }
    panic!("never came: {what}");
}
