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
    register(lab, &daemon)?;
    drop(lock);
    wait::until(
        "metrics-server to be available",
        Duration::from_secs(90),
        || {
            runs(&daemon)?;
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

fn runs(daemon: &Daemon) -> Result<()> {
    if !daemon.is_running() {
        bail!("it has ended:\n{}", last_lines(&daemon.log(), 5));
    }
    Ok(())
}

/// The objects without the API, or that alone.
fn objects(is_api: bool) -> String {
    let objects = OBJECTS
        .split("---\n")
        .filter(|object| object.contains("\nkind: APIService\n") == is_api);
    let objects: Vec<&str> = objects.collect();
    objects
        .join("---\n")
        .replace("@ADDRESS@", ADDRESS)
        .replace("@PORT@", &PORT.to_string())
}

/// Says whose API it is once somebody answers for it: while there is an API that nobody serves,
/// no namespace goes.
fn register(lab: &Lab, daemon: &Daemon) -> Result<()> {
    let place = format!("https://{ADDRESS}:{PORT}/livez");
    let curl = ["--silent", "--insecure", "--max-time", "10", &place];
    wait::until("metrics-server to listen", Duration::from_secs(60), || {
        runs(daemon)?;
        lab.control_plane().run("curl", curl)
    })?;
    lab.kubectl().apply(&objects(true)).map(drop)
}

fn launch(lab: &Lab, daemon: &Daemon) -> Result<()> {
    let machine = lab.control_plane();
    lab.kubectl().apply(&objects(false))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_is_told_of_apart_from_what_serves_it() {
        let (others, api) = (objects(false), objects(true));
        assert_eq!(api.matches("\nkind: ").count(), 1, "{api}");
        assert!(api.contains("v1beta1.metrics.k8s.io"), "{api}");
        assert!(!others.contains("APIService"), "{others}");
        let all = OBJECTS.matches("\nkind: ").count();
        assert_eq!(others.matches("\nkind: ").count(), all - 1, "{others}");
    }
}
