//! What a node is: figures that never change while it runs.

use std::env::consts::{ARCH, OS};

use config::gates::FeatureGates;
use config::schema::{GATES, GateStage};
use types::figures::{Family, Page};

const NODE_NAME: Family =
    Family::gauge("kubelet_node_name", "[ALPHA] 1 for the node's name").by(&["node"]);

const PROVIDER: Family = Family::gauge(
    "kubelet_metrics_provider",
    "[ALPHA] 1 for where the usage of containers is read",
)
.by(&["provider"]);

const BUILD: Family = Family::gauge(
    "kubernetes_build_info",
    "[ALPHA] 1 for what this program is and follows",
)
.by(&[
    "build_date",
    "compiler",
    "git_commit",
    "git_tree_state",
    "git_version",
    "go_version",
    "major",
    "minor",
    "platform",
]);

const FEATURES: Family = Family::gauge(
    "kubernetes_feature_enabled",
    "[BETA] Whether a feature is on, by its gate and stage",
)
.by(&["name", "stage"]);

/// What a node is.
#[derive(Clone, Debug)]
pub struct About {
    pub node_name: String,
    /// As its object has it: `v1.36.4+…`.
    pub version: String,
    pub gates: FeatureGates,
}

impl About {
    pub(super) fn show(&self, page: &mut Page) {
        page.family(&NODE_NAME, |family| family.count(&[&self.node_name], 1));
        // It reads cgroups itself, as upstream does by its cAdvisor, and does not ask
        // the runtime.
        page.family(&PROVIDER, |family| family.count(&["cadvisor"], 1));
        let mut numbers = self.version.trim_start_matches('v').split('.');
        let (major, minor) = (numbers.next(), numbers.next());
        let platform = platform();
        let labels = [
            "",
            "rustc",
            "",
            "",
            &self.version,
            "",
            major.unwrap_or_default(),
            minor.unwrap_or_default(),
            &platform,
        ];
        page.family(&BUILD, |family| family.count(&labels, 1));
        page.family(&FEATURES, |family| {
            for gate in GATES {
                let on = self.gates.enabled(gate.name);
                family.count(&[gate.name, stage(gate.stage)], u64::from(on));
            }
        });
    }
}

fn stage(stage: GateStage) -> &'static str {
    match stage {
        GateStage::Alpha => "ALPHA",
        GateStage::Beta => "BETA",
        GateStage::Ga => "",
        GateStage::Deprecated => "DEPRECATED",
    }
}

/// Go's names for the system and the machine.
fn platform() -> String {
    let machine = match ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{OS}/{machine}")
}
