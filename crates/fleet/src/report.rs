//! How a fleet fared over its time: every sample is one line, and the whole is a
//! report.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use crate::figures::{Figures, OldestLease};
use crate::requests::{Counted, Requests};

/// One moment of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Seconds since the start.
    pub elapsed: f64,
    #[serde(flatten)]
    pub figures: Figures,
    pub requests_per_second: f64,
    #[serde(flatten)]
    pub requests: Requests,
    /// Bytes.
    pub resident: u64,
    pub resident_per_node: Option<u64>,
}

/// What is kept of all moments.
#[derive(Clone, Debug)]
pub struct History {
    started: Duration,
    /// Bytes before the first node.
    empty: u64,
    first: Counted,
    last: Counted,
    last_at: Duration,
    /// At the last line.
    told: Counted,
    told_at: Duration,
    /// How many nodes it had when all were Ready the last time.
    complete: usize,
    report: Report,
}

/// The whole story.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    pub seconds: f64,
    /// Until every node that was well was Ready for the first time.
    pub seconds_until_ready: Option<f64>,
    /// At the end.
    pub figures: Figures,
    /// From the moment when all were Ready: the oldest lease of a node that was
    /// well, over the whole time.
    pub worst_lease: Option<OldestLease>,
    /// How many times a sample was short of a Ready node after that moment.
    pub samples_not_ready: usize,
    pub requests: u64,
    pub requests_by_code: BTreeMap<String, u64>,
    pub requests_per_second: f64,
    pub peak_requests_per_second: f64,
    pub median_latency: Option<f64>,
    pub ninety_ninth_latency: Option<f64>,
    /// Bytes.
    pub resident_empty: u64,
    pub resident: u64,
    pub resident_per_node: Option<u64>,
}

impl History {
    /// `now` is the clock's uptime; `resident` what the process holds without
    /// nodes.
    pub fn begin(now: Duration, resident: u64, counted: Counted) -> Self {
        Self {
            started: now,
            empty: resident,
            first: counted.clone(),
            last: counted.clone(),
            last_at: now,
            told: counted,
            told_at: now,
            complete: 0,
            report: Report {
                resident_empty: resident,
                ..Report::default()
            },
        }
    }

    /// Takes in a moment.
    pub fn sample(
        &mut self,
        now: Duration,
        figures: Figures,
        counted: Counted,
        resident: u64,
    ) -> Sample {
        let elapsed = now.saturating_sub(self.started).as_secs_f64();
        let requests = counted.since(&self.last);
        let between = now.saturating_sub(self.last_at);
        let rate = per_second(requests.requests, between);
        let all = counted.since(&self.first);
        let report = &mut self.report;
        if figures.all_ready() && report.seconds_until_ready.is_none() {
            report.seconds_until_ready = Some(elapsed);
        }
        if figures.all_ready() {
            self.complete = figures.nodes;
        }
        if report.seconds_until_ready.is_some() {
            // Who grows is not complete for a while.
            let missed = !figures.all_ready() && figures.nodes <= self.complete;
            report.samples_not_ready += usize::from(missed);
            let worst = report
                .worst_lease
                .as_ref()
                .map_or(0.0, |lease| lease.seconds);
            let oldest = figures.oldest_lease.as_ref();
            if let Some(lease) = oldest.filter(|lease| lease.seconds > worst) {
                report.worst_lease = Some(lease.clone());
            }
        }
        report.seconds = elapsed;
        report.requests = all.requests;
        report.requests_by_code = counted.by_code().clone();
        report.requests_per_second = per_second(all.requests, now.saturating_sub(self.started));
        report.peak_requests_per_second = report.peak_requests_per_second.max(rate);
        report.median_latency = all.median;
        report.ninety_ninth_latency = all.ninety_ninth;
        report.resident = resident;
        report.resident_per_node = per_node(resident, self.empty, figures.nodes);
        report.figures = figures.clone();
        let sample = Sample {
            elapsed,
            requests_per_second: rate,
            requests,
            resident,
            resident_per_node: report.resident_per_node,
            figures,
        };
        self.last = counted;
        self.last_at = now;
        sample
    }

    /// The newest sample as a line: with the requests since the last line.
    pub fn line(&mut self, sample: &Sample) -> Sample {
        let requests = self.last.since(&self.told);
        let span = self.last_at.saturating_sub(self.told_at);
        self.told = self.last.clone();
        self.told_at = self.last_at;
        Sample {
            requests_per_second: per_second(requests.requests, span),
            requests,
            ..sample.clone()
        }
    }

    pub fn report(&self) -> &Report {
        &self.report
    }
}

fn per_node(resident: u64, empty: u64, nodes: usize) -> Option<u64> {
    let nodes = u64::try_from(nodes).ok()?;
    resident.saturating_sub(empty).checked_div(nodes)
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn per_second(count: u64, span: Duration) -> f64 {
    let seconds = span.as_secs_f64();
    if seconds > 0.0 {
        count as f64 / seconds
    } else {
        0.0
    }
}

/// Bytes as people read them.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub fn bytes(count: u64) -> String {
    const KIB: f64 = 1024.0;
    let kib = count as f64 / KIB;
    if kib < KIB {
        format!("{kib:.1} KiB")
    } else {
        format!("{:.1} MiB", kib / KIB)
    }
}

/// Seconds as people read them.
pub fn latency(seconds: Option<f64>) -> String {
    match seconds {
        None => "–".to_owned(),
        Some(seconds) if seconds < 1.0 => format!("{:.0} ms", seconds * 1000.0),
        Some(seconds) => format!("{seconds:.1} s"),
    }
}

impl Report {
    /// For people.
    pub fn table(&self) -> String {
        let figures = &self.figures;
        let until = |seconds: f64| format!("{seconds:.1} s");
        let worst = self.worst_lease.as_ref();
        let codes = self.requests_by_code.iter();
        let codes: Vec<String> = codes
            .map(|(code, count)| format!("{code}: {count}"))
            .collect();
        let pods = figures.pods.iter();
        let pods: Vec<String> = pods
            .map(|(phase, count)| format!("{phase}: {count}"))
            .collect();
        let rows = [
            ("time", format!("{:.0} s", self.seconds)),
            ("nodes", figures.nodes.to_string()),
            ("ailing on purpose", figures.ailing.to_string()),
            ("registered", figures.registered.to_string()),
            ("Ready", figures.ready.to_string()),
            (
                "pods on them",
                if pods.is_empty() {
                    "none".to_owned()
                } else {
                    pods.join(", ")
                },
            ),
            (
                "all Ready after",
                self.seconds_until_ready.map_or("never".to_owned(), until),
            ),
            (
                "samples without all Ready after that",
                self.samples_not_ready.to_string(),
            ),
            (
                "oldest lease ever",
                worst.map_or("–".to_owned(), |lease| {
                    format!("{:.1} s ({})", lease.seconds, lease.node)
                }),
            ),
            (
                "API requests",
                format!("{} ({})", self.requests, codes.join(", ")),
            ),
            (
                "a second",
                format!(
                    "{:.1}, at most {:.1}",
                    self.requests_per_second, self.peak_requests_per_second
                ),
            ),
            (
                "latency, median and 99 %",
                format!(
                    "{}, {}",
                    latency(self.median_latency),
                    latency(self.ninety_ninth_latency)
                ),
            ),
            (
                "resident memory",
                format!(
                    "{} ({} without nodes)",
                    bytes(self.resident),
                    bytes(self.resident_empty)
                ),
            ),
            (
                "for each node",
                self.resident_per_node.map_or("–".to_owned(), bytes),
            ),
        ];
        let width = rows
            .iter()
            .map(|(name, _)| name.chars().count())
            .max()
            .unwrap_or(0);
        let mut table = String::new();
        for (name, value) in rows {
            // Writing to a string cannot fail.
            let _ = writeln!(table, "{name:<width$}   {value}");
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(ready: usize, oldest: f64) -> Figures {
        Figures {
            nodes: 2,
            registered: 2,
            ready,
            well_and_ready: ready,
            oldest_lease: Some(OldestLease {
                node: "n".to_owned(),
                seconds: oldest,
            }),
            ..Figures::default()
        }
    }

    #[test]
    fn a_report_counts_leases_from_the_moment_when_all_were_ready() {
        let seconds = Duration::from_secs;
        let mut history = History::begin(seconds(100), 1000, Counted::default());
        for (at, ready, oldest) in [(101, 1, 50.0), (102, 2, 3.0), (103, 1, 9.0), (104, 2, 4.0)] {
            history.sample(
                seconds(at),
                figures(ready, oldest),
                Counted::default(),
                5096,
            );
        }
        let report = history.report();
        assert_eq!(report.seconds_until_ready, Some(2.0));
        assert_eq!(
            report.worst_lease.as_ref().map(|lease| lease.seconds),
            Some(9.0)
        );
        assert_eq!(report.samples_not_ready, 1);
        assert_eq!(report.resident_per_node, Some(2048));
        let table = report.table();
        for line in [
            "all Ready after                        2.0 s",
            "9.0 s (n)",
            "2.0 KiB",
        ] {
            assert!(table.contains(line), "{line}:\n{table}");
        }
    }

    #[test]
    fn a_sample_is_one_line_for_programs() {
        let mut history = History::begin(Duration::ZERO, 0, Counted::default());
        let sample = history.sample(
            Duration::from_secs(1),
            figures(2, 3.5),
            Counted::default(),
            1,
        );
        let line = serde_json::to_string(&sample).unwrap();
        for part in [
            "\"nodes\":2",
            "\"ready\":2",
            "\"seconds\":3.5",
            "\"requests_per_second\":0.0",
        ] {
            assert!(line.contains(part), "{part}: {line}");
        }
    }
}
