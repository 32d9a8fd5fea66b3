//! A program of the machine that asks what pods were given, over the socket for it, as
//! monitoring agents of devices do: with gRPC, and messages of the published interface.

use anyhow::{Context, Result};
use http::Request;
use http::uri::{PathAndQuery, Uri};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use testkit::lab::Node;
use tokio::net::UnixStream;
use tokio::task::JoinSet;
use tonic::Code;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic_prost::ProstCodec;
use tower::service_fn;

const SOCKET: &str = "/var/lib/kubelet/pod-resources/kubelet.sock";

#[derive(Clone, PartialEq, Message)]
struct Nothing {}

#[derive(Clone, PartialEq, Message)]
struct Pods {
    #[prost(message, repeated, tag = "1")]
    pod_resources: Vec<Pod>,
}

#[derive(Clone, PartialEq, Message)]
struct OnePod {
    #[prost(message, optional, tag = "1")]
    pod_resources: Option<Pod>,
}

#[derive(Clone, PartialEq, Message)]
struct Named {
    #[prost(string, tag = "1")]
    pod_name: String,
    #[prost(string, tag = "2")]
    pod_namespace: String,
}

#[derive(Clone, PartialEq, Message)]
struct Pod {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    namespace: String,
    #[prost(message, repeated, tag = "3")]
    containers: Vec<Container>,
}

#[derive(Clone, PartialEq, Message)]
struct Container {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    devices: Vec<Devices>,
    #[prost(int64, repeated, tag = "3")]
    cpu_ids: Vec<i64>,
    #[prost(message, repeated, tag = "4")]
    memory: Vec<Memory>,
    /// What is in them nobody here has: that there are none is seen by their number.
    #[prost(bytes = "vec", repeated, tag = "5")]
    dynamic_resources: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct Devices {
    #[prost(string, tag = "1")]
    resource_name: String,
    #[prost(string, repeated, tag = "2")]
    device_ids: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Memory {
    #[prost(string, tag = "1")]
    memory_type: String,
    #[prost(uint64, tag = "2")]
    size: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Allocatable {
    #[prost(message, repeated, tag = "1")]
    devices: Vec<Devices>,
    #[prost(int64, repeated, tag = "2")]
    cpu_ids: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    memory: Vec<Memory>,
}

/// What a node tells: of all pods in either version, of itself, of each of these pods, and to a
/// question that there is not.
pub(crate) fn told(node: &Node, namespace: &str, pods: &[&str]) -> Result<Vec<String>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let asker = Asker::connect(node).await?;
        let mut told = Vec::new();
        for version in ["v1", "v1alpha1"] {
            let path = format!("/{version}.PodResourcesLister/List");
            let all = asker.ask::<_, Pods>(&path, Nothing {}).await;
            let all = all.map(|mut all| {
                let pods = &mut all.pod_resources;
                pods.sort_by(|one, other| one.name.cmp(&other.name));
                all
            });
            told.push(format!("{path}: {all:?}"));
        }
        let path = "/v1.PodResourcesLister/GetAllocatableResources";
        let all = asker.ask::<_, Allocatable>(path, Nothing {}).await;
        told.push(format!("{path}: {all:?}"));
        for pod in pods {
            let path = "/v1.PodResourcesLister/Get";
            let named = Named {
                pod_name: (*pod).to_owned(),
                pod_namespace: namespace.to_owned(),
            };
            let one = asker.ask::<_, OnePod>(path, named).await;
            told.push(format!("{path} {pod}: {one:?}"));
        }
        let path = "/v1.PodResourcesLister/Nope";
        let refused = asker.ask::<_, Nothing>(path, Nothing {}).await;
        // Go's libraries have words for it of their own.
        let refused = refused.map_err(|(code, _)| code);
        told.push(format!("{path}: {refused:?}"));
        Ok(told)
    })
}

/// One connection.
struct Asker {
    sender: SendRequest<Body>,
    _driving: JoinSet<()>,
}

impl Asker {
    async fn connect(node: &Node) -> Result<Self> {
        let stream = UnixStream::connect(node.machine().root(SOCKET)).await;
        let stream = stream.with_context(|| format!("{SOCKET} of {}", node.name()))?;
        let (sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        let mut driving = JoinSet::new();
        driving.spawn(async move {
            let _ = connection.await;
        });
        Ok(Self {
            sender,
            _driving: driving,
        })
    }

    /// The answer, or with which code and words there is none.
    async fn ask<Q, A>(&self, path: &str, question: Q) -> Result<A, (Code, String)>
    where
        Q: Message + Default + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let broken = |error: &dyn std::fmt::Display| (Code::Aborted, error.to_string());
        let service = service_fn(|request: Request<Body>| {
            let mut sender = self.sender.clone();
            async move { sender.send_request(request).await }
        });
        let mut grpc = Grpc::with_origin(service, Uri::from_static("http://localhost"));
        grpc.ready().await.map_err(|error| broken(&error))?;
        let codec = ProstCodec::<Q, A>::default();
        let path = PathAndQuery::try_from(path).map_err(|error| broken(&error))?;
        let answer = grpc.unary(tonic::Request::new(question), path, codec).await;
        let answer = answer.map(tonic::Response::into_inner);
        answer.map_err(|status| (status.code(), status.message().to_owned()))
    }
}
