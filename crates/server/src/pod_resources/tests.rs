use std::os::unix::fs::PermissionsExt as _;
use std::time::SystemTime;

use http::uri::PathAndQuery;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use serde_json::json;
use testkit::clock::TokioClock;
use tokio::io::AsyncReadExt as _;
use tonic::client::Grpc;
use tonic::{Code, Status};
use tonic_prost::ProstCodec;
use tower::service_fn;

use super::messages::{v1, v1alpha1};
use super::*;

fn pod(name: &str) -> Arc<Pod> {
    let pod = json!({
        "metadata": { "name": name, "namespace": "shop" },
        "spec": {
            "initContainers": [
                { "name": "first" },
                { "name": "sidecar", "restartPolicy": "Always" },
            ],
            "containers": [{ "name": "main" }],
        },
    });
    Arc::new(serde_json::from_value(pod).unwrap())
}

struct Asking {
    path: PathBuf,
    figures: Board,
    ending: CancellationToken,
    running: JoinSet<()>,
    _directory: tempfile::TempDir,
}

impl Asking {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pod-resources/kubelet.sock");
        let figures = Board::default();
        let served = PodResources {
            path: path.clone(),
            pods: Arc::new(|| {
                let given = |name, active| GivenPod {
                    pod: pod(name),
                    active,
                };
                vec![given("web", true), given("done", false)]
            }),
            clock: Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH)),
            figures: figures.clone(),
        };
        let ending = CancellationToken::new();
        let mut running = JoinSet::new();
        running.spawn(served.run(ending.clone()));
        Self {
            path,
            figures,
            ending,
            running,
            _directory: directory,
        }
    }

    async fn stream(&self) -> UnixStream {
        loop {
            match UnixStream::connect(&self.path).await {
                Ok(stream) => return stream,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    }

    async fn ask<Q, A>(&self, path: &'static str, question: Q) -> Result<A, Status>
    where
        Q: Message + Default + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let io = TokioIo::new(self.stream().await);
        let connection = hyper::client::conn::http2::handshake(TokioExecutor::new(), io);
        let (sender, connection) = connection.await.unwrap();
        let mut driving = JoinSet::new();
        driving.spawn(async move {
            let _ = connection.await;
        });
        let service = service_fn(move |request: Request<tonic::body::Body>| {
            let mut sender = sender.clone();
            async move { sender.send_request(request).await }
        });
        let mut grpc = Grpc::with_origin(service, "http://localhost".parse().unwrap());
        grpc.ready()
            .await
            .map_err(|_| Status::unknown("not ready"))?;
        let codec = ProstCodec::<Q, A>::default();
        let path = PathAndQuery::from_static(path);
        let answer = grpc.unary(tonic::Request::new(question), path, codec).await;
        answer.map(tonic::Response::into_inner)
    }
}

const LIST: &str = "/v1.PodResourcesLister/List";

#[tokio::test]
async fn programs_of_the_machine_learn_of_pods_and_their_lasting_containers() {
    let asking = Asking::start();
    let all: v1::ListPodResourcesResponse = asking
        .ask(LIST, v1::ListPodResourcesRequest {})
        .await
        .unwrap();
    let names = |pod: &v1::PodResources| -> Vec<String> {
        let containers = pod.containers.iter();
        containers.map(|one| one.name.clone()).collect()
    };
    assert_eq!(all.pod_resources.len(), 1);
    assert_eq!(all.pod_resources[0].name, "web");
    assert_eq!(names(&all.pod_resources[0]), ["sidecar", "main"]);
    let get = |name: &str| {
        let question = v1::GetPodResourcesRequest {
            pod_name: name.to_owned(),
            pod_namespace: "shop".to_owned(),
        };
        asking.ask("/v1.PodResourcesLister/Get", question)
    };
    let one: v1::GetPodResourcesResponse = get("web").await.unwrap();
    assert_eq!(one.pod_resources.unwrap().name, "web");
    for name in ["other", "done"] {
        let missing: Result<v1::GetPodResourcesResponse, _> = get(name).await;
        let missing = missing.unwrap_err();
        assert_eq!(missing.code(), Code::Unknown);
        let words = format!("pod {name} in namespace shop not found");
        assert_eq!(missing.message(), words);
    }
    let nothing: v1::AllocatableResourcesResponse = asking
        .ask(
            "/v1.PodResourcesLister/GetAllocatableResources",
            v1::AllocatableResourcesRequest {},
        )
        .await
        .unwrap();
    assert_eq!(nothing, v1::AllocatableResourcesResponse::default());
    let alpha: v1alpha1::ListPodResourcesResponse = asking
        .ask(
            "/v1alpha1.PodResourcesLister/List",
            v1alpha1::ListPodResourcesRequest {},
        )
        .await
        .unwrap();
    assert_eq!(alpha.pod_resources.len(), 2);
    assert_eq!(alpha.pod_resources[0].containers.len(), 1);
    let text = asking.figures.page().finish();
    for line in [
        "kubelet_pod_resources_endpoint_requests_total{server_api_version=\"v1\"} 5",
        "kubelet_pod_resources_endpoint_requests_total{server_api_version=\"v1alpha1\"} 1",
        "kubelet_pod_resources_endpoint_errors_get{server_api_version=\"v1\"} 2",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_asks_too_often_is_refused_until_a_moment_has_passed() {
    let asking = Asking::start();
    let ask =
        || asking.ask::<_, v1::ListPodResourcesResponse>(LIST, v1::ListPodResourcesRequest {});
    let mut refused = 0;
    for _ in 0..15 {
        if let Err(status) = ask().await {
            assert_eq!(status.code(), Code::ResourceExhausted);
            assert_eq!(status.message(), "rejected by rate limit");
            refused += 1;
        }
    }
    assert_eq!(refused, 5);
    tokio::time::advance(Duration::from_millis(10)).await;
    ask().await.unwrap();
}

#[tokio::test]
async fn a_crowd_that_asks_nothing_keeps_nobody_out() {
    let asking = Asking::start();
    let mut crowd = Vec::new();
    for _ in 0..CONNECTIONS {
        crowd.push(asking.stream().await);
    }
    let ask = asking.ask::<_, v1::ListPodResourcesResponse>(LIST, v1::ListPodResourcesRequest {});
    let answer = tokio::time::timeout(Duration::from_secs(20), ask).await;
    answer.expect("it waits").unwrap();
    // Who came first has made room; what it hears before that is of no matter.
    let mut heard = Vec::new();
    crowd[0].read_to_end(&mut heard).await.unwrap();
}

#[tokio::test]
async fn the_socket_is_the_owners_alone_and_takes_the_place_of_an_old_one() {
    let asking = Asking::start();
    drop(asking.stream().await);
    let mode = fs::metadata(&asking.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, SOCKET_MODE);
    let directory = fs::metadata(asking.path.parent().unwrap()).unwrap();
    assert_eq!(directory.permissions().mode() & 0o777, DIRECTORY_MODE);
    let other = listen(&asking.path).unwrap();
    drop(UnixStream::connect(&asking.path).await.unwrap());
    other.accept().await.unwrap();
    let Asking {
        ending,
        mut running,
        ..
    } = asking;
    ending.cancel();
    running.join_next().await.unwrap().unwrap();
}
