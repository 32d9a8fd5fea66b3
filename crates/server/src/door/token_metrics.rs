//! What is counted of tokens that are looked up: whether the answer was remembered, who
//! waits, and what became of questions.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts};
use prometheus::{Registry, Result};
use types::figures::SECONDS;

const STATUS: [&str; 1] = ["status"];

/// Clones count together.
#[derive(Clone, Debug)]
pub(crate) struct TokenMetrics {
    requests: IntCounterVec,
    durations: HistogramVec,
    fetches: IntCounterVec,
    active: IntGaugeVec,
}

/// Counted until dropped.
#[derive(Debug)]
pub(crate) struct Active(IntGauge);

impl Drop for Active {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl TokenMetrics {
    pub(crate) fn new(registry: &Registry) -> Result<Self> {
        let named = |name: &str, help: &str| {
            let name = format!("authentication_token_cache_{name}");
            Opts::new(name, format!("[ALPHA] {help}"))
        };
        let durations = named(
            "request_duration_seconds",
            "Seconds until it was known whose a token is, by whether that was remembered",
        );
        let metrics = Self {
            requests: IntCounterVec::new(
                named(
                    "request_total",
                    "Tokens that were looked up, by whether they were remembered",
                ),
                &STATUS,
            )?,
            durations: HistogramVec::new(
                HistogramOpts::from(durations).buckets(SECONDS.to_vec()),
                &STATUS,
            )?,
            fetches: IntCounterVec::new(
                named(
                    "fetch_total",
                    "Questions about tokens to the API server, by whether it had an answer",
                ),
                &STATUS,
            )?,
            active: IntGaugeVec::new(
                named(
                    "active_fetch_count",
                    "Questions about tokens under way, and requests that wait for them",
                ),
                &STATUS,
            )?,
        };
        registry.register(Box::new(metrics.requests.clone()))?;
        registry.register(Box::new(metrics.durations.clone()))?;
        registry.register(Box::new(metrics.fetches.clone()))?;
        registry.register(Box::new(metrics.active.clone()))?;
        Ok(metrics)
    }

    /// A token was looked up.
    pub(crate) fn looked_up(&self, remembered: bool, took: Duration) {
        let status = if remembered { "hit" } else { "miss" };
        self.requests.with_label_values(&[status]).inc();
        let durations = self.durations.with_label_values(&[status]);
        durations.observe(took.as_secs_f64());
    }

    /// Somebody waits for an answer.
    pub(crate) fn waits(&self) -> Active {
        self.active("blocked")
    }

    /// The API server is being asked.
    pub(crate) fn asks(&self) -> Active {
        self.active("in_flight")
    }

    /// It was asked.
    pub(crate) fn asked(&self, answered: bool) {
        let status = if answered { "ok" } else { "error" };
        self.fetches.with_label_values(&[status]).inc();
    }

    fn active(&self, status: &str) -> Active {
        let gauge = self.active.with_label_values(&[status]);
        gauge.inc();
        Active(gauge)
    }
}
