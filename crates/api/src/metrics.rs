//! What the transport counts, under the names that upstream's dashboards know.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

const LATENCY_BUCKETS: [f64; 12] = [
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0,
];
const SIZE_BUCKETS: [f64; 11] = [
    64.0,
    256.0,
    512.0,
    1024.0,
    4096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
];

/// The counters of the clients of one node, or of a fleet that shares them.
#[derive(Debug, Clone)]
pub struct ClientMetrics {
    requests: IntCounterVec,
    retries: IntCounterVec,
    duration: HistogramVec,
    throttled: HistogramVec,
    request_size: HistogramVec,
    response_size: HistogramVec,
    plugin_calls: IntCounterVec,
}

impl Default for ClientMetrics {
    fn default() -> Self {
        Self::new()
    }
}

impl ClientMetrics {
    pub fn new() -> Self {
        let by_verb = ["verb", "host"];
        Self {
            requests: counter(
                "rest_client_requests_total",
                "HTTP requests sent to the API server, by status code, method and host.",
                &["code", "method", "host"],
            ),
            retries: counter(
                "rest_client_request_retries_total",
                "Requests that were sent again because the API server asked for it, by the status code that asked, verb and host.",
                &["code", "verb", "host"],
            ),
            duration: histogram(
                "rest_client_request_duration_seconds",
                "Seconds from the request to the end of the response, waits included, by verb and host; without watches.",
                &LATENCY_BUCKETS,
                &by_verb,
            ),
            throttled: histogram(
                "rest_client_rate_limiter_duration_seconds",
                "Seconds that requests waited for the client's own rate limit, by verb and host.",
                &LATENCY_BUCKETS,
                &by_verb,
            ),
            request_size: histogram(
                "rest_client_request_size_bytes",
                "Bytes of request bodies, by verb and host.",
                &SIZE_BUCKETS,
                &by_verb,
            ),
            response_size: histogram(
                "rest_client_response_size_bytes",
                "Bytes of response bodies, by verb and host; without watches.",
                &SIZE_BUCKETS,
                &by_verb,
            ),
            plugin_calls: counter(
                "rest_client_exec_plugin_call_total",
                "Runs of the kubeconfig's credential plugin, by exit code and kind of failure.",
                &["code", "call_status"],
            ),
        }
    }

    /// Makes them part of what a registry shows.
    pub fn register(&self, registry: &Registry) -> prometheus::Result<()> {
        for counter in [&self.requests, &self.retries, &self.plugin_calls] {
            registry.register(Box::new(counter.clone()))?;
        }
        for histogram in [
            &self.duration,
            &self.throttled,
            &self.request_size,
            &self.response_size,
        ] {
            registry.register(Box::new(histogram.clone()))?;
        }
        Ok(())
    }

    pub(crate) fn requested(&self, code: &str, method: &str, host: &str) {
        self.requests.with_label_values(&[code, method, host]).inc();
    }

    pub(crate) fn retried(&self, code: &str, verb: &str, host: &str) {
        self.retries.with_label_values(&[code, verb, host]).inc();
    }

    pub(crate) fn took(&self, duration: Duration, verb: &str, host: &str) {
        self.duration
            .with_label_values(&[verb, host])
            .observe(duration.as_secs_f64());
    }

    pub(crate) fn waited(&self, duration: Duration, verb: &str, host: &str) {
        self.throttled
            .with_label_values(&[verb, host])
            .observe(duration.as_secs_f64());
    }

    pub(crate) fn sent(&self, bytes: usize, verb: &str, host: &str) {
        self.request_size
            .with_label_values(&[verb, host])
            .observe(size(bytes));
    }

    pub(crate) fn received(&self, bytes: usize, verb: &str, host: &str) {
        self.response_size
            .with_label_values(&[verb, host])
            .observe(size(bytes));
    }

    pub(crate) fn plugin_called(&self, code: i32, status: &str) {
        self.plugin_calls
            .with_label_values(&[code.to_string().as_str(), status])
            .inc();
    }
}

fn counter(name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
    #[expect(
        clippy::expect_used,
        reason = "names and labels are the constants above; the test below makes them all"
    )]
    IntCounterVec::new(Opts::new(name, help), labels).expect("a valid counter")
}

fn histogram(name: &str, help: &str, buckets: &[f64], labels: &[&str]) -> HistogramVec {
    let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
    #[expect(
        clippy::expect_used,
        reason = "names, labels and buckets are the constants above; the test below makes them all"
    )]
    HistogramVec::new(options, labels).expect("a valid histogram")
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a body of 2^53 bytes does not exist"
)]
fn size(bytes: usize) -> f64 {
    bytes as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_labels_and_buckets_are_upstreams() {
        let metrics = ClientMetrics::new();
        let registry = Registry::new();
        metrics.register(&registry).unwrap();
        let host = "192.0.2.10:6443";
        metrics.requested("200", "GET", host);
        metrics.retried("429", "GET", host);
        metrics.took(Duration::from_millis(30), "GET", host);
        metrics.waited(Duration::ZERO, "GET", host);
        metrics.sent(0, "GET", host);
        metrics.received(3000, "GET", host);
        metrics.plugin_called(0, "no_error");
        let text = prometheus::TextEncoder::new()
            .encode_to_string(&registry.gather())
            .unwrap();
        for line in [
            "rest_client_requests_total{code=\"200\",host=\"192.0.2.10:6443\",method=\"GET\"} 1",
            "rest_client_request_retries_total{code=\"429\",host=\"192.0.2.10:6443\",verb=\"GET\"} 1",
            "rest_client_request_duration_seconds_bucket{host=\"192.0.2.10:6443\",verb=\"GET\",le=\"0.025\"} 0",
            "rest_client_request_duration_seconds_bucket{host=\"192.0.2.10:6443\",verb=\"GET\",le=\"0.1\"} 1",
            "rest_client_rate_limiter_duration_seconds_bucket{host=\"192.0.2.10:6443\",verb=\"GET\",le=\"60\"} 1",
            "rest_client_request_size_bytes_bucket{host=\"192.0.2.10:6443\",verb=\"GET\",le=\"64\"} 1",
            "rest_client_response_size_bytes_bucket{host=\"192.0.2.10:6443\",verb=\"GET\",le=\"1024\"} 0",
            "rest_client_response_size_bytes_bucket{host=\"192.0.2.10:6443\",verb=\"GET\",le=\"16777216\"} 1",
            "rest_client_exec_plugin_call_total{call_status=\"no_error\",code=\"0\"} 1",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
