//! What is counted of those who ask, and of what was asked about them.

use std::time::Duration;

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry,
};

/// The default buckets of Prometheus.
const BUCKETS: [f64; 11] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// None to a year.
const EXPIRIES: [f64; 14] = [
    0.0,
    1800.0,
    3600.0,
    7200.0,
    21600.0,
    43200.0,
    86400.0,
    172_800.0,
    345_600.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
];

const REQUEST_LABELS: [&str; 4] = ["method", "path", "server_type", "long_running"];

/// What the API server was asked about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asked {
    Token,
    Access,
}

/// Clones count together.
#[derive(Clone, Debug)]
pub(crate) struct DoorMetrics {
    requests: IntCounterVec,
    durations: HistogramVec,
    in_flight: IntGaugeVec,
    token_reviews: IntCounterVec,
    token_review_durations: HistogramVec,
    access_reviews: IntCounterVec,
    access_review_durations: HistogramVec,
    expiries: Histogram,
}

impl DoorMetrics {
    pub(crate) fn new(registry: &Registry) -> prometheus::Result<Self> {
        let histogram = |name: &str, help: &str, labels: &[&str], buckets: Vec<f64>| {
            let options = HistogramOpts::new(name, help).buckets(buckets);
            HistogramVec::new(options, labels)
        };
        let reviews = || vec![0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0];
        let metrics = Self {
            requests: IntCounterVec::new(
                Opts::new(
                    "kubelet_http_requests_total",
                    "[ALPHA] Number of the http requests received since the server started",
                ),
                &REQUEST_LABELS,
            )?,
            durations: histogram(
                "kubelet_http_requests_duration_seconds",
                "[ALPHA] Duration in seconds to serve http requests",
                &REQUEST_LABELS,
                BUCKETS.to_vec(),
            )?,
            in_flight: IntGaugeVec::new(
                Opts::new(
                    "kubelet_http_inflight_requests",
                    "[ALPHA] Number of the inflight http requests",
                ),
                &REQUEST_LABELS,
            )?,
            token_reviews: IntCounterVec::new(
                Opts::new(
                    "apiserver_delegated_authn_request_total",
                    "[ALPHA] Number of HTTP requests partitioned by status code.",
                ),
                &["code"],
            )?,
            token_review_durations: histogram(
                "apiserver_delegated_authn_request_duration_seconds",
                "[ALPHA] Request latency in seconds. Broken down by status code.",
                &["code"],
                reviews(),
            )?,
            access_reviews: IntCounterVec::new(
                Opts::new(
                    "apiserver_delegated_authz_request_total",
                    "[ALPHA] Number of HTTP requests partitioned by status code.",
                ),
                &["code"],
            )?,
            access_review_durations: histogram(
                "apiserver_delegated_authz_request_duration_seconds",
                "[ALPHA] Request latency in seconds. Broken down by status code.",
                &["code"],
                reviews(),
            )?,
            expiries: Histogram::with_opts(
                HistogramOpts::new(
                    "apiserver_client_certificate_expiration_seconds",
                    "[ALPHA] Distribution of the remaining lifetime on the certificate used to authenticate a request.",
                )
                .buckets(EXPIRIES.to_vec()),
            )?,
        };
        registry.register(Box::new(metrics.requests.clone()))?;
        registry.register(Box::new(metrics.durations.clone()))?;
        registry.register(Box::new(metrics.in_flight.clone()))?;
        registry.register(Box::new(metrics.token_reviews.clone()))?;
        registry.register(Box::new(metrics.token_review_durations.clone()))?;
        registry.register(Box::new(metrics.access_reviews.clone()))?;
        registry.register(Box::new(metrics.access_review_durations.clone()))?;
        registry.register(Box::new(metrics.expiries.clone()))?;
        Ok(metrics)
    }

    /// A certificate was shown that is good for so many seconds more.
    pub(crate) fn shown(&self, left: f64) {
        self.expiries.observe(left);
    }

    pub(crate) fn asked(&self, asked: Asked, code: &str, took: Duration) {
        let (count, durations) = match asked {
            Asked::Token => (&self.token_reviews, &self.token_review_durations),
            Asked::Access => (&self.access_reviews, &self.access_review_durations),
        };
        count.with_label_values(&[code]).inc();
        durations
            .with_label_values(&[code])
            .observe(took.as_secs_f64());
    }

    /// A request has come in.
    pub(crate) fn came(&self, labels: [&'static str; 4]) {
        self.requests.with_label_values(&labels).inc();
        self.in_flight.with_label_values(&labels).inc();
    }

    /// It was answered, to the end.
    pub(crate) fn went(&self, labels: [&'static str; 4], took: Duration) {
        self.in_flight.with_label_values(&labels).dec();
        let durations = self.durations.with_label_values(&labels);
        durations.observe(took.as_secs_f64());
    }
}
