//! A node whose parts all run, and what it stands on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use seams::Clock;
use serde_json::Value;
use testkit::clock::TokioClock;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::capacity::Devices;
use crate::conditions::Pressure;
use crate::config::Config;
use crate::observe::Reports;
use crate::parts::{Clients, Inputs, NodeParts, Outputs};
use crate::readiness::Ailments;
use crate::runtime::RuntimeFacts;
use crate::testapi::{NODE, TestApi};
use crate::testdata::{self, TestHost};

pub(super) const HOUR: Duration = Duration::from_secs(3600);

pub(super) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) struct Bench {
    pub(super) api: TestApi,
    pub(super) clock: Arc<TokioClock>,
    pub(super) host: Arc<TestHost>,
    pub(super) runtime: watch::Sender<RuntimeFacts>,
    pub(super) pressure: watch::Sender<Pressure>,
    pub(super) volumes: watch::Sender<Option<Vec<String>>>,
    pub(super) reconnects: Arc<AtomicUsize>,
    pub(super) shutdown: CancellationToken,
    pub(super) running: JoinSet<()>,
}

impl Bench {
    /// A machine whose runtime answers forever, and no node yet.
    pub(super) fn new() -> Self {
        let clock = Arc::new(TokioClock::starting_at(UNIX_EPOCH + seconds(1_800_000_000)));
        // As if probed all the time: good until far in the future.
        let runtime = testdata::runtime(HOUR * 1000);
        Self {
            api: TestApi::new(clock.clone()),
            clock,
            host: Arc::new(TestHost::new()),
            runtime: watch::channel(runtime).0,
            pressure: watch::channel(Pressure::default()).0,
            volumes: watch::channel(None).0,
            reconnects: Arc::default(),
            shutdown: CancellationToken::new(),
            running: JoinSet::new(),
        }
    }

    pub(super) fn start(&mut self) -> Outputs {
        self.start_with(testdata::config())
    }

    pub(super) fn start_with(&mut self, config: Config) -> Outputs {
        let reconnects = self.reconnects.clone();
        let clients = Clients {
            requests: self.api.client("requests"),
            heartbeats: self.api.client("heartbeats"),
            events: self.api.client("events"),
            reconnect: Arc::new(move || {
                reconnects.fetch_add(1, Ordering::Relaxed);
            }),
        };
        let inputs = Inputs {
            host: self.host.clone(),
            clock: self.clock.clone(),
            reports: Reports {
                runtime: self.runtime.subscribe(),
                pressure: self.pressure.subscribe(),
                ailments: watch::channel(Ailments::default()).1,
                devices: watch::channel(Devices::default()).1,
                volumes_in_use: self.volumes.subscribe(),
            },
            own_node: self.api.own_node(),
            metrics: crate::Metrics::default(),
        };
        let (parts, outputs) = NodeParts::build(config, clients, inputs).unwrap();
        let ending = || self.shutdown.clone();
        self.running.spawn(parts.register.run(ending()));
        self.running.spawn(parts.status.run(ending()));
        self.running.spawn(parts.lease.run(ending()));
        self.running.spawn(parts.csi_node.run(ending()));
        self.running.spawn(parts.recording.run(ending()));
        outputs
    }

    pub(super) async fn pass(&self, time: Duration) {
        self.clock.sleep(time).await;
    }

    /// Waits until `holds`; a test that waits for what never comes fails.
    pub(super) async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let begun = self.clock.uptime();
        while !holds(self) {
            let waited = self.clock.uptime().saturating_sub(begun);
            assert!(waited < HOUR, "waited an hour for: {what}");
            self.pass(Duration::from_millis(10)).await;
        }
    }

    pub(super) fn node(&self) -> Option<Value> {
        self.api.object(NODE)
    }

    pub(super) fn condition(&self, kind: &str) -> Value {
        let node = self.node().unwrap_or_default();
        let conditions = node["status"]["conditions"].as_array().cloned();
        let mut conditions = conditions.unwrap_or_default().into_iter();
        conditions
            .find(|condition| condition["type"] == kind)
            .unwrap_or_default()
    }

    pub(super) fn is_ready(&self) -> bool {
        self.condition("Ready")["status"] == "True"
    }

    /// A node that is up and has been for a while.
    pub(super) async fn settled() -> Self {
        let mut bench = Self::new();
        bench.start();
        bench.until("the node is ready", Self::is_ready).await;
        bench.pass(seconds(60)).await;
        bench
    }

    pub(super) fn reconnects(&self) -> usize {
        self.reconnects.load(Ordering::Relaxed)
    }
}
