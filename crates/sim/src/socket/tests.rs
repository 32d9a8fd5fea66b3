use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::{StreamExt as _, stream};
use http::Response;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::TokioExecutor;
use prost::Message;
use prost_reflect::DescriptorPool;
use seams::cri::{
    ContainerEventResponse, ContainerStatusRequest, ContainerStatusResponse, DESCRIPTORS,
    GetEventsRequest, PullImageRequest, VersionRequest, VersionResponse, image_service,
    runtime_service,
};
use seams::runtime::{Answer, Code, ContainerEvents};
use seams::{Runtime, RuntimeError};
use tempfile::TempDir;
use testkit::clock::TokioClock;

use super::*;

/// A runtime that has a few calls.
#[derive(Debug)]
struct Told;

impl Runtime for Told {
    fn version(&self, request: VersionRequest) -> Answer<'_, VersionResponse> {
        let answer = VersionResponse {
            version: request.version,
            runtime_name: "told".to_owned(),
            ..VersionResponse::default()
        };
        Box::pin(std::future::ready(Ok(answer)))
    }

    fn container_status(
        &self,
        request: ContainerStatusRequest,
    ) -> Answer<'_, ContainerStatusResponse> {
        let words = format!("no container {}", request.container_id);
        let error = RuntimeError::new("ContainerStatus", Code::NotFound, words);
        Box::pin(std::future::ready(Err(error)))
    }

    /// Two, and then nothing for ever.
    fn get_container_events(&self, _: GetEventsRequest) -> Answer<'_, ContainerEvents> {
        let event = |id: &str| ContainerEventResponse {
            container_id: id.to_owned(),
            ..ContainerEventResponse::default()
        };
        let first = stream::iter([Ok(event("one")), Ok(event("two"))]);
        let events: ContainerEvents = Box::pin(first.chain(stream::pending()));
        Box::pin(std::future::ready(Ok(events)))
    }
}

struct Served {
    directory: TempDir,
    shutdown: CancellationToken,
    tasks: JoinSet<()>,
}

impl Served {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let shutdown = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let socket = Socket::bind(&directory.path().join("sim")).await.unwrap();
        tasks.spawn(socket.serve(Arc::new(Told), None, clock(), shutdown.clone()));
        Self {
            directory,
            shutdown,
            tasks,
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("sim")
    }

    /// Ends it, and fails if that takes longer than it may.
    async fn end(mut self) {
        self.shutdown.cancel();
        let ended = timeout(&*clock(), Duration::from_secs(1), self.tasks.join_next()).await;
        ended.expect("it does not end").unwrap().unwrap();
        assert!(!self.path().exists(), "the socket's file is still there");
    }

    async fn call(&self, path: &str, request: &impl Message) -> Answered {
        let mut connection = Connection::open(&self.path()).await;
        connection.ask(path, request).await
    }
}

/// One client's.
struct Connection {
    link: SendRequest<Full<Bytes>>,
    _task: JoinSet<hyper::Result<()>>,
}

impl Connection {
    async fn open(path: &Path) -> Self {
        let stream = TokioIo::new(UnixStream::connect(path).await.unwrap());
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream);
        let (link, connection) = handshake.await.unwrap();
        let mut task = JoinSet::new();
        task.spawn(connection);
        Self { link, _task: task }
    }

    async fn send(
        &mut self,
        path: &str,
        request: &impl Message,
    ) -> hyper::Result<Response<Incoming>> {
        let request = Request::post(format!("http://localhost{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Full::new(framed(&request.encode_to_vec())))
            .unwrap();
        self.link.send_request(request).await
    }

    async fn ask(&mut self, path: &str, request: &impl Message) -> Answered {
        let (head, body) = self.send(path, request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap();
        let trailers = body.trailers().cloned().unwrap_or(head.headers);
        let text = |name| {
            let value = trailers.get(name).map(|value| value.to_str().unwrap());
            value.unwrap_or_default().replace("%20", " ")
        };
        let bytes = body.to_bytes();
        Answered {
            message: bytes.slice(bytes.len().min(5)..),
            code: text("grpc-status").parse().unwrap(),
            words: text("grpc-message"),
        }
    }
}

/// What came back: the first message, and the code and words at the end.
struct Answered {
    message: Bytes,
    code: i32,
    words: String,
}

/// Not compressed, and its length before it.
fn framed(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).unwrap());
    frame.put_slice(message);
    frame.freeze()
}

fn clock() -> SharedClock {
    Arc::new(TokioClock::starting_at(std::time::SystemTime::UNIX_EPOCH))
}

#[tokio::test]
async fn a_call_reaches_the_runtime_and_its_answer_comes_back() {
    let served = Served::start().await;
    let request = VersionRequest {
        version: "0.1.0".to_owned(),
    };
    let answered = served.call(runtime_service::VERSION, &request).await;
    assert_eq!(answered.code, 0, "{}", answered.words);
    let version = VersionResponse::decode(answered.message).unwrap();
    assert_eq!(version.version, "0.1.0");
    assert_eq!(version.runtime_name, "told");
    served.end().await;
}

#[tokio::test]
async fn a_refusal_has_the_runtimes_code_and_words() {
    let served = Served::start().await;
    let request = ContainerStatusRequest {
        container_id: "x".to_owned(),
        ..ContainerStatusRequest::default()
    };
    let answered = served
        .call(runtime_service::CONTAINER_STATUS, &request)
        .await;
    assert_eq!((answered.code, &*answered.words), (5, "no container x"));
    served.end().await;
}

#[tokio::test]
async fn every_call_of_the_interface_has_a_way_but_lists_in_parts() {
    let served = Served::start().await;
    let descriptors = DescriptorPool::decode(DESCRIPTORS).unwrap();
    let mut ways = 0;
    for service in descriptors.services() {
        for method in service.methods() {
            let answered_by_a_stream = method.is_server_streaming();
            if answered_by_a_stream && method.name() == "GetContainerEvents" {
                continue;
            }
            let path = format!("/{}/{}", service.full_name(), method.name());
            let answered = served.call(&path, &()).await;
            let known = !answered.words.contains("does not know");
            assert_eq!(known, !answered_by_a_stream, "{path}: {}", answered.words);
            ways += usize::from(known);
        }
    }
    assert_eq!(ways, 34);
    let answered = served.call("/runtime.v1.RuntimeService/Nothing", &()).await;
    assert_eq!(answered.code, Code::Unimplemented.number());
    served.end().await;
}

#[tokio::test]
async fn events_come_as_they_happen_and_end_cleanly_with_the_runtime() {
    let served = Served::start().await;
    let mut connection = Connection::open(&served.path()).await;
    let path = runtime_service::GET_CONTAINER_EVENTS;
    let events = connection.send(path, &GetEventsRequest {}).await.unwrap();
    let mut events = events.into_body();
    let mut told = Vec::new();
    while !String::from_utf8_lossy(&told).contains("two") {
        let frame = events.frame().await.expect("no more events").unwrap();
        told.extend_from_slice(&frame.into_data().unwrap());
    }
    assert!(String::from_utf8_lossy(&told).contains("one"));

    served.end().await;
    let last = events.frame().await.expect("no end").unwrap();
    assert_eq!(last.trailers_ref().unwrap()["grpc-status"], "0");
}

#[tokio::test]
async fn a_request_beyond_the_bound_is_refused() {
    let served = Served::start().await;
    let request = VersionRequest {
        version: "x".repeat(bridge::LARGEST_REQUEST),
    };
    let answered = served.call(runtime_service::VERSION, &request).await;
    assert_eq!(answered.code, Code::OutOfRange.number());
    served.end().await;
}

#[tokio::test]
async fn a_call_that_never_ends_does_not_keep_the_runtime_from_ending() {
    #[derive(Debug)]
    struct Stuck(Arc<Semaphore>);
    impl Runtime for Stuck {
        fn pull_image(&self, _: PullImageRequest) -> Answer<'_, seams::cri::PullImageResponse> {
            self.0.add_permits(1);
            Box::pin(std::future::pending())
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let (begun, shutdown) = (Arc::new(Semaphore::new(0)), CancellationToken::new());
    let socket = Socket::bind(&directory.path().join("sim")).await.unwrap();
    let runtime = Arc::new(Stuck(Arc::clone(&begun)));
    let mut served = Served {
        directory,
        shutdown: shutdown.clone(),
        tasks: JoinSet::new(),
    };
    served
        .tasks
        .spawn(socket.serve(runtime, None, clock(), shutdown));
    let mut connection = Connection::open(&served.path()).await;
    let mut asking = JoinSet::new();
    asking.spawn(async move {
        let request = PullImageRequest::default();
        let cut = connection.send(image_service::PULL_IMAGE, &request).await;
        assert!(cut.is_err());
    });
    let _begun = begun.acquire().await.unwrap();
    served.end().await;
    asking.join_next().await.unwrap().unwrap();
}

#[tokio::test]
async fn a_socket_is_for_its_owner_and_group_only() {
    let served = Served::start().await;
    let mode = fs::metadata(served.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    served.end().await;
}

#[tokio::test]
async fn a_dead_ones_socket_is_replaced_and_a_live_ones_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sim");
    // Its file stays when it is closed, as after a crash.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let first = Socket::bind(&path).await.unwrap();
    let error = Socket::bind(&path).await.unwrap_err();
    assert!(matches!(error, BindError::Taken(_)), "{error}");
    assert!(path.exists());
    drop(first);
    assert!(!path.exists());
}

#[tokio::test]
async fn a_file_that_is_no_socket_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("precious");
    fs::write(&path, "data").unwrap();
    let error = Socket::bind(&path).await.unwrap_err();
    assert!(error.to_string().contains("is no socket"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "data");

    let error = Socket::bind(&directory.path().join("a/b")).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("mkdir -p"), "{error}");
}

#[tokio::test]
async fn a_socket_that_another_has_put_in_its_place_is_not_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sim");
    let first = Socket::bind(&path).await.unwrap();
    // Both are there at once, so that they cannot have the same number.
    let beside = directory.path().join("other");
    let _other = std::os::unix::net::UnixListener::bind(&beside).unwrap();
    fs::rename(&beside, &path).unwrap();
    drop(first);
    assert!(path.exists());
}
