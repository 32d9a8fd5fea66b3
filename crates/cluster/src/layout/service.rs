//! The node as a service of systemd, under the name that kubeadm starts and stops.

use std::path::Path;

use super::{BOOTSTRAP_KUBECONFIG, FLAGS, KUBECONFIG, KUBELET_CONFIG};

pub const UNIT_PATH: &str = "/etc/systemd/system/kubelet.service";
pub const DROP_IN_PATH: &str = "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf";

/// By this line a reset knows what it may take away.
pub(super) const MARK: &str = "# Written by ferrolet join; removed by ferrolet reset --node.";

/// The unit. It starts for ever: the node waits for what is missing.
pub(super) fn unit(program: &Path) -> String {
    format!(
        "{MARK}
[Unit]
Description=Ferrolet, the Kubernetes node agent
Wants=network-online.target
After=network-online.target

[Service]
ExecStart={} kubelet
Restart=always
RestartSec=10
# Its end must not end the pods.
KillMode=process

[Install]
WantedBy=multi-user.target
",
        program.display()
    )
}

/// How the node is started after a join: the same variables as with kubeadm, so
/// that what guides say about them holds.
pub(super) fn drop_in(program: &Path) -> String {
    format!(
        "{MARK}
[Service]
Environment=\"KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig={BOOTSTRAP_KUBECONFIG} --kubeconfig={KUBECONFIG}\"
Environment=\"KUBELET_CONFIG_ARGS=--config={KUBELET_CONFIG}\"
# KUBELET_KUBEADM_ARGS: what the join found out about this node.
EnvironmentFile=-{FLAGS}
# KUBELET_EXTRA_ARGS: yours; the last word on every flag.
EnvironmentFile=-/etc/default/kubelet
EnvironmentFile=-/etc/sysconfig/kubelet
ExecStart=
ExecStart={} kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
",
        program.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_starts_our_program_with_kubeadms_files_and_variables() {
        let program = Path::new("/usr/local/bin/ferrolet");
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
                "ExecStart=/usr/local/bin/ferrolet kubelet $KUBELET_KUBECONFIG_ARGS \
                 $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS"
            ]
        );
        for part in [
            "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf",
            "--kubeconfig=/etc/kubernetes/kubelet.conf",
            "--config=/var/lib/kubelet/config.yaml",
            "EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env",
        ] {
            assert!(drop_in.contains(part), "{part}");
        }
        assert!(unit(program).contains("ExecStart=/usr/local/bin/ferrolet kubelet\n"));
    }
}
