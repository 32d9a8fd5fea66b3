//! The node as a service of systemd, under the name that kubeadm starts and stops.

use std::path::Path;

pub const UNIT_PATH: &str = "/etc/systemd/system/kubelet.service";
pub const DROP_IN_PATH: &str = "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf";

/// By this line a reset knows what it may take away.
pub(super) const MARK: &str = "# Written by ferrolet join; removed by ferrolet reset --node.";

/// The files as people find them in the repository, who may want them without a join.
const UNIT: &str = include_str!("../../../../deploy/systemd/kubelet.service");
const DROP_IN: &str = include_str!("../../../../deploy/systemd/10-kubeadm.conf");

/// Where the program is in them.
const PROGRAM: &str = "/usr/local/bin/ferrolet";

/// The unit. It starts for ever: the node waits for what is missing.
pub(super) fn unit(program: &Path) -> String {
    written(UNIT, program)
}

/// How the node is started after a join: the same variables as with kubeadm, so
/// that what guides say about them holds.
pub(super) fn drop_in(program: &Path) -> String {
    written(DROP_IN, program)
}

fn written(text: &str, program: &Path) -> String {
    let text = text.replace(PROGRAM, &program.display().to_string());
    format!("{MARK}\n{text}")
}

#[cfg(test)]
mod tests {
    use super::super::{BOOTSTRAP_KUBECONFIG, FLAGS, KUBECONFIG, KUBELET_CONFIG};
    use super::*;

    #[test]
    fn the_service_starts_our_program_with_kubeadms_files_and_variables() {
        let program = Path::new("/opt/ferrolet");
        let drop_in = drop_in(program);
        let starts: Vec<_> = drop_in
            .lines()
            .filter(|line| line.starts_with("ExecStart="))
            .collect();
        // The first clears what the unit says.
        assert_eq!(
            starts,
            [
                "ExecStart=",
                "ExecStart=/opt/ferrolet kubelet $KUBELET_KUBECONFIG_ARGS \
                 $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS"
            ]
        );
        for part in [
            format!("--bootstrap-kubeconfig={BOOTSTRAP_KUBECONFIG} --kubeconfig={KUBECONFIG}\""),
            format!("--config={KUBELET_CONFIG}\""),
            format!("EnvironmentFile=-{FLAGS}\n"),
        ] {
            assert!(drop_in.contains(&part), "{part}");
        }
        let unit = unit(program);
        assert!(unit.contains("ExecStart=/opt/ferrolet kubelet\n"), "{unit}");
        for text in [unit, drop_in] {
            assert!(text.starts_with(MARK), "a reset would not know it: {text}");
            assert!(!text.contains(PROGRAM), "{text}");
        }
    }

    #[test]
    fn what_takes_a_kubelets_place_starts_as_a_joined_node_does() {
        let replacing = include_str!("../../../../deploy/systemd/20-ferrolet.conf");
        let settings = |text: &str, names: &[&str]| -> Vec<String> {
            let lines = text.lines();
            let named = |line: &&str| names.iter().any(|name| line.starts_with(name));
            lines.filter(named).map(str::to_owned).collect()
        };
        let start = ["ExecStart="];
        assert_eq!(settings(replacing, &start), settings(DROP_IN, &start));
        let manner = ["NotifyAccess=", "WatchdogSec=", "KillMode="];
        assert_eq!(settings(replacing, &manner), settings(UNIT, &manner));
        // A reset must not take away what somebody put there by hand.
        assert!(!replacing.contains(MARK));
    }
}
