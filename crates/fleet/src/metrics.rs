//! The figures of a fleet for Prometheus. What its nodes ask of the API server is
//! beside them, under upstream's names (`rest_client_…`).

use prometheus::{Gauge, IntGauge, IntGaugeVec, Opts, Registry};

use crate::report::Sample;

/// The gauges.
#[derive(Clone, Debug)]
pub struct FleetMetrics {
    nodes: IntGauge,
    ailing: IntGauge,
    registered: IntGauge,
    ready: IntGauge,
    late_leases: IntGauge,
    oldest_lease: Gauge,
    resident: IntGauge,
    pods: IntGaugeVec,
}

impl FleetMetrics {
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let count = |name: &str, help: &str| -> prometheus::Result<IntGauge> {
            let gauge = IntGauge::new(name, help)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok(gauge)
        };
        let oldest_lease = Gauge::new(
            "ferrolet_fleet_oldest_lease_seconds",
            "Seconds since the renewal of the lease that was not renewed for the longest time, of nodes that do not ail on purpose.",
        )?;
        registry.register(Box::new(oldest_lease.clone()))?;
        let options = Opts::new("ferrolet_fleet_pods", "Pods on the nodes, by phase.");
        let pods = IntGaugeVec::new(options, &["phase"])?;
        registry.register(Box::new(pods.clone()))?;
        Ok(Self {
            pods,
            nodes: count("ferrolet_fleet_nodes", "Nodes that are wanted.")?,
            ailing: count("ferrolet_fleet_nodes_ailing", "Nodes that ail on purpose.")?,
            registered: count(
                "ferrolet_fleet_nodes_registered",
                "Nodes whose object is there.",
            )?,
            ready: count(
                "ferrolet_fleet_nodes_ready",
                "Nodes that are Ready by the API server's word.",
            )?,
            late_leases: count(
                "ferrolet_fleet_late_leases",
                "Leases that were not renewed for 20 seconds, of nodes that do not ail on purpose.",
            )?,
            oldest_lease,
            resident: count(
                "ferrolet_fleet_resident_bytes",
                "Resident memory of the process.",
            )?,
        })
    }

    pub fn set(&self, sample: &Sample) {
        let figures = &sample.figures;
        let counts = [
            (&self.nodes, figures.nodes),
            (&self.ailing, figures.ailing),
            (&self.registered, figures.registered),
            (&self.ready, figures.ready),
            (&self.late_leases, figures.late_leases),
        ];
        for (gauge, count) in counts {
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        // A phase without pods has no line.
        self.pods.reset();
        for (phase, count) in &figures.pods {
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            self.pods.with_label_values(&[phase]).set(count);
        }
        let oldest = figures.oldest_lease.as_ref();
        self.oldest_lease
            .set(oldest.map_or(0.0, |lease| lease.seconds));
        self.resident
            .set(i64::try_from(sample.resident).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Figures, OldestLease};

    #[test]
    fn every_figure_has_its_gauge() {
        let registry = Registry::new();
        let metrics = FleetMetrics::new(&registry).unwrap();
        metrics.set(&Sample {
            figures: Figures {
                nodes: 5,
                ailing: 1,
                registered: 4,
                ready: 3,
                well_and_ready: 3,
                late_leases: 2,
                oldest_lease: Some(OldestLease {
                    node: "n".to_owned(),
                    seconds: 21.5,
                }),
                pods: [("Running".to_owned(), 9)].into(),
            },
            resident: 6,
            ..Sample::default()
        });
        let text = prometheus::TextEncoder::new()
            .encode_to_string(&registry.gather())
            .unwrap();
        for line in [
            "nodes 5",
            "nodes_ailing 1",
            "nodes_registered 4",
            "nodes_ready 3",
            "late_leases 2",
            "oldest_lease_seconds 21.5",
            "pods{phase=\"Running\"} 9",
            "resident_bytes 6",
        ] {
            let line = format!("\nferrolet_fleet_{line}\n");
            assert!(text.contains(&line), "{line} is not in\n{text}");
        }
    }
}
