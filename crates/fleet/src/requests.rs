//! What the fleet asks of the API server: counted by the transport, read here from
//! what it shows to Prometheus.

use std::collections::BTreeMap;

use prometheus::Registry;
use prometheus::proto::MetricFamily;
use serde::Serialize;

/// The transport's word for it.
const NO_ANSWER: &str = "<error>";
const REQUESTS: &str = "rest_client_requests_total";
const DURATION: &str = "rest_client_request_duration_seconds";

/// Counts since the start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counted {
    /// By status code, or the transport's word for no answer.
    by_code: BTreeMap<String, u64>,
    /// Upper bound in seconds, and how many took no longer; in rising order.
    durations: Vec<(f64, u64)>,
}

/// What happened between two counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Requests {
    pub requests: u64,
    /// Of them, those that no server answered.
    pub unanswered: u64,
    /// Answered by neither 2xx nor 3xx, nor by a 404 or 409, which are part of
    /// a node's life.
    pub failed: u64,
    /// Seconds; `None` without a request.
    pub median: Option<f64>,
    pub ninety_ninth: Option<f64>,
}

impl Counted {
    pub fn read(registry: &Registry) -> Self {
        Self::of(&registry.gather())
    }

    fn of(families: &[MetricFamily]) -> Self {
        let metrics = |name: &'static str| {
            let families = families.iter().filter(move |family| family.name() == name);
            families.flat_map(MetricFamily::get_metric)
        };
        let mut counted = Self::default();
        for metric in metrics(REQUESTS) {
            let code = metric
                .get_label()
                .iter()
                .find(|label| label.name() == "code");
            let code = code
                .map(|label| label.value().to_owned())
                .unwrap_or_default();
            *counted.by_code.entry(code).or_default() += whole(metric.get_counter().get_value());
        }
        for metric in metrics(DURATION) {
            let histogram = metric.get_histogram();
            let bounded = histogram.get_bucket().iter();
            let bounded = bounded.map(|bucket| (bucket.upper_bound(), bucket.cumulative_count()));
            let all = (f64::INFINITY, histogram.get_sample_count());
            let buckets: Vec<(f64, u64)> = bounded.chain([all]).collect();
            counted.durations.resize(buckets.len(), (0.0, 0));
            for (sum, (bound, count)) in counted.durations.iter_mut().zip(buckets) {
                *sum = (bound, sum.1 + count);
            }
        }
        counted
    }

    pub fn total(&self) -> u64 {
        self.by_code.values().sum()
    }

    pub fn by_code(&self) -> &BTreeMap<String, u64> {
        &self.by_code
    }

    /// What has happened since `before`.
    pub fn since(&self, before: &Self) -> Requests {
        let more =
            |code: &str, now: u64| now - before.by_code.get(code).copied().unwrap_or(0).min(now);
        let fresh = self
            .by_code
            .iter()
            .map(|(code, now)| (code.as_str(), more(code, *now)));
        let failed = fresh.clone().filter(|(code, _)| is_failure(code));
        let durations: Vec<(f64, u64)> = self
            .durations
            .iter()
            .enumerate()
            .map(|(index, (bound, now))| {
                let earlier = before.durations.get(index).map_or(0, |(_, count)| *count);
                (*bound, now.saturating_sub(earlier))
            })
            .collect();
        Requests {
            requests: fresh.clone().map(|(_, count)| count).sum(),
            unanswered: more(NO_ANSWER, self.by_code.get(NO_ANSWER).copied().unwrap_or(0)),
            failed: failed.map(|(_, count)| count).sum(),
            median: quantile(&durations, 0.5),
            ninety_ninth: quantile(&durations, 0.99),
        }
    }
}

fn is_failure(code: &str) -> bool {
    !(code.starts_with('2') || code.starts_with('3') || code == "404" || code == "409")
}

/// The value below which this part of the requests lies, as Prometheus works it
/// out: evenly spread within a bucket. What lies beyond the last bound that is a
/// number counts as lying there.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn quantile(buckets: &[(f64, u64)], part: f64) -> Option<f64> {
    let (_, total) = *buckets.last()?;
    if total == 0 {
        return None;
    }
    let rank = part * total as f64;
    let mut below = (0.0, 0);
    for &(bound, count) in buckets {
        if count as f64 >= rank && count > below.1 {
            if bound.is_infinite() {
                break;
            }
            let within = (rank - below.1 as f64) / (count - below.1) as f64;
            return Some(below.0 + (bound - below.0) * within);
        }
        below = (bound, count);
    }
    Some(below.0)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a counter counts upwards from nothing"
)]
fn whole(count: f64) -> u64 {
    count as u64
}

#[cfg(test)]
mod tests {
    use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts};

    use super::*;

    #[test]
    fn counts_of_all_kinds_are_put_together_and_told_by_code() {
        let registry = Registry::new();
        let requests = IntCounterVec::new(Opts::new(REQUESTS, "."), &["code", "method"]).unwrap();
        let options = HistogramOpts::new(DURATION, ".").buckets(vec![0.1, 0.2, 0.4]);
        let durations = HistogramVec::new(options, &["verb"]).unwrap();
        registry.register(Box::new(requests.clone())).unwrap();
        registry.register(Box::new(durations.clone())).unwrap();
        let request = |code: &str, method: &str, seconds: f64| {
            requests.with_label_values(&[code, method]).inc();
            durations.with_label_values(&[method]).observe(seconds);
        };
        request("200", "GET", 0.05);
        let before = Counted::read(&registry);
        for _ in 0..50 {
            request("200", "PUT", 0.05);
            request("201", "POST", 0.15);
        }
        request("404", "GET", 0.15);
        request("500", "GET", 0.3);
        request("<error>", "GET", 9.0);
        let now = Counted::read(&registry);
        assert_eq!(now.total(), 104);
        let since = now.since(&before);
        assert_eq!(
            (since.requests, since.failed, since.unanswered),
            (103, 2, 1)
        );
        let median = since.median.unwrap();
        assert!((0.1..0.11).contains(&median), "{median}");
        let most = since.ninety_ninth.unwrap();
        assert!((0.2..=0.4).contains(&most), "{most}");
        assert_eq!(now.since(&now), Requests::default());
    }

    #[test]
    fn a_quantile_lies_within_its_bucket() {
        let buckets = [(1.0, 10), (2.0, 10), (4.0, 20)];
        for (part, value) in [(0.25, 0.5), (0.5, 1.0), (0.75, 3.0), (1.0, 4.0)] {
            assert_eq!(quantile(&buckets, part), Some(value), "{part}");
        }
        assert_eq!(quantile(&[(1.0, 1), (f64::INFINITY, 4)], 0.9), Some(1.0));
        assert_eq!(quantile(&[(1.0, 0)], 0.5), None);
        assert_eq!(quantile(&[], 0.5), None);
    }
}
