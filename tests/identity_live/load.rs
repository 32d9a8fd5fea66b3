//! A steady load: so many requests a second, whatever becomes of those before.

use std::future::Future;
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::figures::Tally;

/// How long a request may take before the load counts it as failed: a hang
/// must not look like silence.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs until it is stopped.
pub(crate) struct Load {
    pub(crate) tally: Tally,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Load {
    pub(crate) fn new() -> Self {
        Self {
            tally: Tally::default(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// Sends what `request` makes once in every `period`. Inside a runtime.
    pub(crate) fn send_every<R, T>(
        &self,
        period: Duration,
        request: impl Fn() -> R + Send + 'static,
    ) where
        R: Future<Output = kube::Result<T>> + Send + 'static,
        T: Send + 'static,
    {
        let (tally, tasks) = (self.tally.clone(), self.tasks.clone());
        let sending = async move {
            let mut ticks = interval(period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            loop {
                ticks.tick().await;
                tasks.spawn(counted(request(), tally.clone()));
            }
        };
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            stop.run_until_cancelled_owned(sending).await;
        });
    }

    /// Sends no more, and waits for what is under way.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

async fn counted<T>(request: impl Future<Output = kube::Result<T>>, tally: Tally) {
    let start = Instant::now();
    match tokio::time::timeout(PATIENCE, request).await {
        Ok(Ok(_)) => tally.answered(start.elapsed()),
        Ok(Err(error)) => tally.failed(causes(&error)),
        Err(_) => tally.failed(format!("no answer within {PATIENCE:?}")),
    }
}

/// The error and what lies below it, in one line.
pub(crate) fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

/// Reads the node's own object.
pub(crate) fn read_node(
    client: Client,
    name: &str,
) -> impl Fn() -> BoxedRequest<Node> + Send + 'static {
    let name = name.to_owned();
    move || {
        let (api, name): (Api<Node>, _) = (Api::all(client.clone()), name.clone());
        Box::pin(async move { api.get(&name).await })
    }
}

/// Renews the node's lease, as a kubelet does.
pub(crate) fn renew_lease(
    client: Client,
    name: &str,
) -> impl Fn() -> BoxedRequest<Lease> + Send + 'static {
    let name = name.to_owned();
    move || {
        let (api, name) = (leases(client.clone()), name.clone());
        Box::pin(async move {
            let renewed = json!({ "spec": { "renewTime": now() } });
            let patch = Patch::Merge(&renewed);
            api.patch(&name, &PatchParams::default(), &patch).await
        })
    }
}

pub(crate) type BoxedRequest<T> = std::pin::Pin<Box<dyn Future<Output = kube::Result<T>> + Send>>;

/// Makes the lease that is renewed.
pub(crate) async fn create_lease(client: Client, name: &str) -> kube::Result<()> {
    let mut lease = Lease::default();
    lease.metadata.name = Some(name.to_owned());
    let made = leases(client).create(&PostParams::default(), &lease).await;
    match made {
        // Left by a run that did not come to its end.
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
        made => made.map(drop),
    }
}

fn leases(client: Client) -> Api<Lease> {
    Api::namespaced(client, "kube-node-lease")
}

fn now() -> String {
    let now = jiff::Timestamp::now();
    now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
