//! metrics-server, the first client of a kubelet's resource metrics: not part
//! of every lab, started where a test wants it. It runs beside the control
//! plane; the API server finds it through API aggregation.

use std::time::Duration;

use anyhow::{Result, bail};

use super::control_plane::{ADDRESS, Component, last_lines};
use super::{Daemon, Lab, kubeconfig};
use crate::wait;

pub(super) const PORT: u16 = 4443;
const KUBECONFIG: &str = "/etc/kubernetes/metrics-server.conf";
const OBJECTS: &str = include_str!("../../../../lab/metrics-server.yaml");

pub(super) fn start(lab: &Lab) -> Result<()> {
    let daemon = Component::MetricsServer.daemon(lab.control_plane());
    // Two tests may want it at the same time; the second one waits for what the first has started.
    let lock = lab.lock()?;
    if !daemon.is_running() {
        launch(lab, &daemon)?;
    }
    drop(lock);
    wait::until(
        "metrics-server to be available",
        Duration::from_secs(90),
        || {
            if !daemon.is_running() {
                bail!("it has ended:\n{}", last_lines(&daemon.log(), 5));
            }
            let service = lab
                .kubectl()
                .json(["get", "apiservice", "v1beta1.metrics.k8s.io"])?;
            let condition = &service["status"]["conditions"][0];
            if condition["status"] != "True" {
                bail!("{condition}");
            }
            Ok(())
        },
    )
}

fn launch(lab: &Lab, daemon: &Daemon) -> Result<()> {
    let machine = lab.control_plane();
    lab.kubectl().apply(
        &OBJECTS
            .replace("@ADDRESS@", ADDRESS)
            .replace("@PORT@", &PORT.to_string()),
    )?;
    let token = lab.kubectl().run([
        "--namespace=kube-system",
        "create",
        "token",
        "metrics-server",
        "--duration=24h",
    ])?;
    machine.write(
        KUBECONFIG,
        kubeconfig(&lab.authority()?, &lab.inner_url(), token.trim()),
    )?;
    let arguments = [
        &format!("--kubeconfig={KUBECONFIG}"),
        &format!("--authentication-kubeconfig={KUBECONFIG}"),
        &format!("--authorization-kubeconfig={KUBECONFIG}"),
        &format!("--secure-port={PORT}"),
        "--cert-dir=/var/tmp/metrics-server",
        "--kubelet-preferred-address-types=InternalIP",
        // Kubelets of the lab sign their serving certificates themselves.
        "--kubelet-insecure-tls",
        // The shortest that it takes; a request may last less than that.
        "--metric-resolution=10s",
        "--kubelet-request-timeout=5s",
    ];
    daemon.start(&Component::MetricsServer.spec(
        "metrics-server".to_owned(),
        arguments.map(|argument: &str| argument.to_owned()).to_vec(),
    ))
}
