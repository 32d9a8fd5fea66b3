//! What `prometheus` keeps, in the same form as the node's own.

use prometheus::Registry;
use prometheus::proto::{Metric, MetricFamily, MetricType};
use types::figures::{Page, write_labels, write_number};

pub(super) fn show(registry: &Registry, page: &mut Page) {
    for family in registry.gather() {
        let kind = match family.get_field_type() {
            MetricType::COUNTER => "counter",
            MetricType::GAUGE => "gauge",
            MetricType::HISTOGRAM => "histogram",
            // Nobody here keeps others.
            MetricType::SUMMARY | MetricType::UNTYPED => continue,
        };
        page.foreign(family.name(), family.help(), kind, |text| {
            for metric in family.get_metric() {
                write(text, &family, metric);
            }
        });
    }
}

fn write(text: &mut String, family: &MetricFamily, metric: &Metric) {
    let mut sample = |suffix: &str, bound: Option<f64>, value: f64| {
        text.push_str(family.name());
        text.push_str(suffix);
        let labels = metric.get_label().iter();
        let labels = labels.map(|label| (label.name(), label.value()));
        write_labels(text, labels, bound);
        text.push(' ');
        write_number(text, value);
        text.push('\n');
    };
    match family.get_field_type() {
        MetricType::COUNTER => sample("", None, metric.get_counter().get_value()),
        MetricType::GAUGE => sample("", None, metric.get_gauge().get_value()),
        MetricType::HISTOGRAM => {
            let histogram = metric.get_histogram();
            for bucket in histogram.get_bucket() {
                let count = whole(bucket.cumulative_count());
                sample("_bucket", Some(bucket.upper_bound()), count);
            }
            let count = whole(histogram.get_sample_count());
            let last = histogram.get_bucket().last();
            if last.is_none_or(|last| last.upper_bound() != f64::INFINITY) {
                sample("_bucket", Some(f64::INFINITY), count);
            }
            sample("_sum", None, histogram.get_sample_sum());
            sample("_count", None, count);
        }
        MetricType::SUMMARY | MetricType::UNTYPED => {}
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "nothing is counted to 2^53 in the life of a process"
)]
fn whole(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use prometheus::{HistogramOpts, HistogramVec, IntCounter};

    use super::*;

    #[test]
    fn families_of_others_are_written_as_the_nodes_own() {
        let registry = Registry::new();
        let options = HistogramOpts::new("took_seconds", "[ALPHA] Time").buckets(vec![1.0, 4e6]);
        let took = HistogramVec::new(options, &["b", "a"]).unwrap();
        took.with_label_values(&["x", "y\""]).observe(2.5);
        registry.register(Box::new(took)).unwrap();
        let asked = IntCounter::new("asked", "[ALPHA] Asked").unwrap();
        registry.register(Box::new(asked)).unwrap();
        let mut page = Page::default();
        show(&registry, &mut page);
        let labels = "a=\"y\\\"\",b=\"x\"";
        let lines = [
            "# HELP asked [ALPHA] Asked".to_owned(),
            "# TYPE asked counter".to_owned(),
            "asked 0".to_owned(),
            "# HELP took_seconds [ALPHA] Time".to_owned(),
            "# TYPE took_seconds histogram".to_owned(),
            format!("took_seconds_bucket{{{labels},le=\"1\"}} 0"),
            format!("took_seconds_bucket{{{labels},le=\"4e+06\"}} 1"),
            format!("took_seconds_bucket{{{labels},le=\"+Inf\"}} 1"),
            format!("took_seconds_sum{{{labels}}} 2.5"),
            format!("took_seconds_count{{{labels}}} 1"),
        ];
        assert_eq!(page.finish(), lines.join("\n") + "\n");
    }
}
