//! Figures about certificates, under upstream's names.

use std::time::SystemTime;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Gauge, GaugeVec, Histogram, HistogramOpts, IntCounter, Opts, Registry};
use seams::SharedClock;
use tokio::sync::watch;

use crate::certificate::Leaf;
use crate::decide::state::State;
use crate::request::Purpose;

/// Ages, from a minute to four years.
const ROTATION_BUCKETS: [f64; 10] = [
    60.0,
    3_600.0,
    14_400.0,
    86_400.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
    124_416_000.0,
];

const STATES: [&str; 6] = [
    "NoCredentials",
    "Requesting",
    "WaitingForApproval",
    "Issued",
    "Rotating",
    "Expired",
];

/// What one keeper counts.
#[derive(Clone, Debug)]
pub struct KeeperMetrics {
    failures: IntCounter,
    /// Upstream measures this for serving certificates only.
    rotation_age: Option<Histogram>,
}

impl KeeperMetrics {
    pub fn new(purpose: Purpose) -> prometheus::Result<Self> {
        let (name, help) = match purpose {
            Purpose::Client => (
                "kubelet_certificate_manager_client_expiration_renew_errors",
                "[ALPHA] Attempts to renew the client certificate that came to nothing",
            ),
            Purpose::Serving => (
                "kubelet_server_expiration_renew_errors",
                "[ALPHA] Attempts to renew the serving certificate that came to nothing",
            ),
        };
        let rotation_age = match purpose {
            Purpose::Client => None,
            Purpose::Serving => Some(Histogram::with_opts(
                HistogramOpts::new(
                    "kubelet_certificate_manager_server_rotation_seconds",
                    "[ALPHA] How long a serving certificate was in use when it was replaced",
                )
                .buckets(ROTATION_BUCKETS.to_vec()),
            )?),
        };
        Ok(Self {
            failures: IntCounter::new(name, help)?,
            rotation_age,
        })
    }

    /// Registers the counts, and what is read off the keeper's state.
    pub fn register(
        &self,
        registry: &Registry,
        purpose: Purpose,
        state: watch::Receiver<State>,
        clock: SharedClock,
    ) -> prometheus::Result<()> {
        registry.register(Box::new(self.failures.clone()))?;
        if let Some(histogram) = &self.rotation_age {
            registry.register(Box::new(histogram.clone()))?;
        }
        registry.register(Box::new(StateFigures::new(purpose, state, clock)?))
    }

    pub(crate) fn failed(&self) {
        self.failures.inc();
    }

    pub(crate) fn replaced(&self, old: &Leaf, now: SystemTime) {
        if let Some(histogram) = &self.rotation_age {
            let age = now.duration_since(old.not_before).unwrap_or_default();
            histogram.observe(age.as_secs_f64());
        }
    }
}

/// What is computed when somebody asks: the time left, and the state.
struct StateFigures {
    state: watch::Receiver<State>,
    clock: SharedClock,
    time_left: Gauge,
    states: GaugeVec,
}

impl StateFigures {
    fn new(
        purpose: Purpose,
        state: watch::Receiver<State>,
        clock: SharedClock,
    ) -> prometheus::Result<Self> {
        let (name, help) = match purpose {
            Purpose::Client => (
                "kubelet_certificate_manager_client_ttl_seconds",
                "[ALPHA] Seconds until the client certificate expires: negative if it has, +Inf if there is none",
            ),
            Purpose::Serving => (
                "kubelet_certificate_manager_server_ttl_seconds",
                "[ALPHA] Seconds until the serving certificate expires: negative if it has, +Inf if there is none",
            ),
        };
        let states = Opts::new(
            "ferrolet_certificate_state",
            "1 for the state that the certificate is in, 0 for the others",
        )
        .const_label("certificate", purpose.to_string());
        Ok(Self {
            state,
            clock,
            time_left: Gauge::new(name, help)?,
            states: GaugeVec::new(states, &["state"])?,
        })
    }
}

impl Collector for StateFigures {
    fn desc(&self) -> Vec<&Desc> {
        let mut described = self.time_left.desc();
        described.extend(self.states.desc());
        described
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let state = self.state.borrow().clone();
        self.time_left.set(time_left(&state, self.clock.now()));
        for name in STATES {
            let here = if name == state.name() { 1.0 } else { 0.0 };
            self.states.with_label_values(&[name]).set(here);
        }
        let mut families = self.time_left.collect();
        families.extend(self.states.collect());
        families
    }
}

/// Whole seconds, towards zero.
fn time_left(state: &State, now: SystemTime) -> f64 {
    let until = match state {
        State::Issued { until, .. } | State::Rotating { until, .. } => *until,
        State::Expired { since, .. } => *since,
        State::NoCredentials | State::Requesting { .. } | State::WaitingForApproval(_) => {
            return f64::INFINITY;
        }
    };
    match until.duration_since(now) {
        Ok(left) => left.as_secs_f64().trunc(),
        Err(past) => -past.duration().as_secs_f64().trunc(),
    }
}
