//! What is answered to each question.

use std::future::{Ready, ready};
use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use prost::Message;
use tonic::Status;
use tonic::body::Body;
use tonic::server::{Grpc, UnaryService};
use tonic_prost::ProstCodec;

use super::messages::{v1, v1alpha1};
use super::metrics::Metrics;
use super::rate::Rate;
use super::{GivenPod, GivenPods};

/// A question is a name or two.
const LARGEST_REQUEST: usize = 64 * 1024;

const V1: &str = "v1";
const ALPHA: &str = "v1alpha1";

pub(super) struct Answers {
    pub(super) pods: GivenPods,
    pub(super) metrics: Arc<Metrics>,
    pub(super) rate: Rate,
}

impl Answers {
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        match request.uri().path() {
            "/v1.PodResourcesLister/List" => {
                self.unary(request, |_: v1::ListPodResourcesRequest| Ok(self.list()))
                    .await
            }
            "/v1.PodResourcesLister/Get" => {
                self.unary(request, |asked: v1::GetPodResourcesRequest| {
                    self.get(&asked)
                })
                .await
            }
            "/v1.PodResourcesLister/GetAllocatableResources" => {
                self.unary(request, |_: v1::AllocatableResourcesRequest| {
                    Ok(self.allocatable())
                })
                .await
            }
            "/v1alpha1.PodResourcesLister/List" => {
                self.unary(request, |_: v1alpha1::ListPodResourcesRequest| {
                    Ok(self.list_alpha())
                })
                .await
            }
            _ => Status::unimplemented("").into_http(),
        }
    }

    async fn unary<Q, A>(
        &self,
        request: Request<Incoming>,
        answer: impl Fn(Q) -> Result<A, Status>,
    ) -> Response<Body>
    where
        Q: Message + Default + 'static,
        A: Message + Default + 'static,
    {
        let limited = |asked: Q| {
            if !self.rate.take() {
                return Err(Status::resource_exhausted("rejected by rate limit"));
            }
            answer(asked)
        };
        let codec = ProstCodec::<A, Q>::default();
        let mut grpc = Grpc::new(codec).max_decoding_message_size(LARGEST_REQUEST);
        grpc.unary(Now(limited), request).await
    }

    fn list(&self) -> v1::ListPodResourcesResponse {
        self.metrics.requests.inc(&[V1]);
        self.metrics.list.inc(&[V1]);
        let pods = (self.pods)().into_iter().filter(|pod| pod.active);
        v1::ListPodResourcesResponse {
            pod_resources: pods.map(|pod| given(&pod.pod)).collect(),
        }
    }

    fn get(
        &self,
        asked: &v1::GetPodResourcesRequest,
    ) -> Result<v1::GetPodResourcesResponse, Status> {
        self.metrics.requests.inc(&[V1]);
        self.metrics.get.inc(&[V1]);
        let (name, namespace) = (&asked.pod_name, &asked.pod_namespace);
        // One that has ended has nothing any more: upstream does not find it.
        let is_it = |pod: &GivenPod| {
            let metadata = &pod.pod.metadata;
            let named = metadata.name.as_ref() == Some(name);
            pod.active && named && metadata.namespace.as_ref() == Some(namespace)
        };
        let Some(pod) = (self.pods)().into_iter().find(is_it) else {
            self.metrics.get_errors.inc(&[V1]);
            let message = format!("pod {name} in namespace {namespace} not found");
            return Err(Status::unknown(message));
        };
        Ok(v1::GetPodResourcesResponse {
            pod_resources: Some(given(&pod.pod)),
        })
    }

    /// Nothing can be had for oneself.
    fn allocatable(&self) -> v1::AllocatableResourcesResponse {
        self.metrics.requests.inc(&[V1]);
        self.metrics.get_allocatable.inc(&[V1]);
        v1::AllocatableResourcesResponse::default()
    }

    /// Those that have ended, too, and no init containers: upstream's.
    fn list_alpha(&self) -> v1alpha1::ListPodResourcesResponse {
        self.metrics.requests.inc(&[ALPHA]);
        let pods = (self.pods)().into_iter().map(|given| {
            let (name, namespace) = names(&given.pod);
            let spec = given.pod.spec.as_ref();
            let containers = spec.map_or(&[][..], |spec| &spec.containers);
            let containers = containers.iter();
            v1alpha1::PodResources {
                name,
                namespace,
                containers: containers
                    .map(|container| v1alpha1::ContainerResources {
                        name: container.name.clone(),
                        devices: Vec::new(),
                    })
                    .collect(),
            }
        });
        v1alpha1::ListPodResourcesResponse {
            pod_resources: pods.collect(),
        }
    }
}

/// A call that is answered at once.
struct Now<F>(F);

impl<Q, A, F: FnMut(Q) -> Result<A, Status>> UnaryService<Q> for Now<F> {
    type Response = A;
    type Future = Ready<Result<tonic::Response<A>, Status>>;

    fn call(&mut self, request: tonic::Request<Q>) -> Self::Future {
        ready((self.0)(request.into_inner()).map(tonic::Response::new))
    }
}

fn given(pod: &Pod) -> v1::PodResources {
    let (name, namespace) = names(pod);
    let spec = pod.spec.iter();
    v1::PodResources {
        name,
        namespace,
        containers: spec
            .flat_map(lasting)
            .map(|container| v1::ContainerResources {
                name: container.name.clone(),
                ..v1::ContainerResources::default()
            })
            .collect(),
    }
}

/// Sidecars and containers: those that hold what they were given.
fn lasting(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    let init = spec.init_containers.iter().flatten();
    let sidecars = init.filter(|one| one.restart_policy.as_deref() == Some("Always"));
    sidecars.chain(&spec.containers)
}

fn names(pod: &Pod) -> (String, String) {
    let metadata = &pod.metadata;
    let name = metadata.name.clone().unwrap_or_default();
    (name, metadata.namespace.clone().unwrap_or_default())
}
