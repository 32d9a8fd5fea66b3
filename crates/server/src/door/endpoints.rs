//! Who answers what: the one place where an endpoint is hung in.

use http::{Request, Response};
use hyper::body::Incoming;
use types::figures::Page;

use crate::body::{Body, whole};
use crate::door::routes::Endpoint;
use crate::figures::Figures;
use crate::logs::{ContainerLogs, NodeLogs};
use crate::packed::packed;
use crate::small::configz::Configz;
use crate::small::debug::Debugging;
use crate::small::health::Health;
use crate::small::pods::PodLists;
use crate::small::zpages::ZPages;
use crate::stats::Stats;
use crate::streams::Streams;

/// Everything that answers. Each has what it needs; none knows of the others.
#[derive(Debug)]
pub struct Endpoints {
    pub health: Health,
    pub pods: PodLists,
    pub configz: Configz,
    pub zpages: ZPages,
    pub debugging: Debugging,
    pub container_logs: ContainerLogs,
    pub node_logs: NodeLogs,
    pub streams: Streams,
    pub stats: Stats,
    pub figures: Figures,
}

/// The words of a request's path that its row leaves open, decoded; for example namespace,
/// pod and container. Among the extensions of every request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathWords(pub Vec<String>);

impl Endpoints {
    pub(crate) async fn answer(
        &self,
        endpoint: Endpoint,
        request: Request<Incoming>,
    ) -> Response<Body> {
        self.pods.forget_gone();
        match endpoint {
            Endpoint::Health => whole(self.health.all(query(&request))),
            Endpoint::HealthOf(check) => whole(self.health.one(check)),
            Endpoint::Pods => self.pods.all(),
            Endpoint::RunningPods => self.pods.running(),
            Endpoint::Configz => whole(self.configz.answer()),
            Endpoint::Flagz => whole(self.zpages.flagz(request.headers(), query(&request))),
            Endpoint::Statusz => whole(self.zpages.statusz(request.headers(), query(&request))),
            Endpoint::Profiles => {
                let (words, query) = (words(&request), query(&request));
                whole(self.debugging.profile(&words.0, query).await)
            }
            Endpoint::Verbosity => whole(self.debugging.verbosity(request).await),
            Endpoint::Logs => self.node_logs.answer(&request.into_parts().0).await,
            Endpoint::ContainerLogs => self.container_logs.answer_to(&request),
            Endpoint::Exec => self.streams.exec(request).await,
            Endpoint::Attach => self.streams.attach(request).await,
            Endpoint::PortForward => self.streams.port_forward(request).await,
            Endpoint::Run => self.streams.run(request).await,
            Endpoint::Checkpoint => self.streams.checkpoint(request).await,
            Endpoint::Summary => self.stats.summary(query(&request)).await,
            Endpoint::MetricsResource => packed(self.stats.resource().await, request.headers()),
            Endpoint::MetricsCadvisor => packed(self.stats.cadvisor().await, request.headers()),
            Endpoint::Metrics => {
                let disks = |page: &mut Page| self.stats.show_disks(page);
                whole(self.figures.node(request.headers(), disks))
            }
            Endpoint::MetricsProbes => whole(self.figures.probes(request.headers())),
            Endpoint::MetricsSlis => whole(self.figures.slis(request.method(), request.headers())),
        }
    }
}

fn words(request: &Request<Incoming>) -> PathWords {
    let words = request.extensions().get::<PathWords>();
    words.cloned().unwrap_or_default()
}

fn query(request: &Request<Incoming>) -> &str {
    request.uri().query().unwrap_or_default()
}
