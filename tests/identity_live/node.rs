//! A node as the API server sees it: an identity from a bootstrap token, kept
//! fresh, and connections that carry it. Wired as the agent does.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::kubeconfig::Kubeconfig;
use api::transport::{Credentials, Lane, LaneOptions, Limits, Options, Transport};
use identity::client::{Dial, Establish, Wanted};
use identity::keeper::{Findings, GaveUp, Outlet};
use identity::metrics::KeeperMetrics;
use identity::request::Purpose;
use jiff::tz::TimeZone;
use linux::SystemClock;
use tempfile::TempDir;
use testkit::lab::Lab;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::in_process;

const FIRST_CERTIFICATE: Duration = Duration::from_secs(30);

/// A node that has an identity.
pub(crate) struct LiveNode {
    pub(crate) transport: Transport,
    pub(crate) findings: Findings,
    directory: TempDir,
    shutdown: CancellationToken,
    keeper: JoinHandle<Result<(), GaveUp>>,
}

/// What lies on disk of the current pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredPair {
    pub(crate) file: PathBuf,
    pub(crate) key: String,
    pub(crate) mode: u32,
}

impl LiveNode {
    /// Bootstraps, and waits for the first certificate.
    pub(crate) async fn join(lab: &Lab, name: &str) -> Result<Self> {
        let directory = TempDir::new()?;
        let bootstrap = directory.path().join("bootstrap-kubelet.conf");
        fs::write(&bootstrap, bootstrap_kubeconfig(lab)?)?;
        let wanted = Wanted {
            node_name: name.to_owned(),
            kubeconfig: directory.path().join("kubelet.conf"),
            bootstrap_kubeconfig: Some(bootstrap),
            directory: directory.path().join("pki"),
            rotate: true,
            zone: TimeZone::UTC,
        };
        let options = options();
        let dialed = options.clone();
        let dial: Dial = Arc::new(move |_| Ok(dialed.clone()));
        let (outlet, findings) = Outlet::new(Purpose::Client);
        let establish = Establish {
            wanted: &wanted,
            dial,
            outlet,
            findings,
            metrics: KeeperMetrics::new(Purpose::Client)?,
        };
        let identity = establish.run(&options).await?;
        let managed = identity.managed.context("the identity is not kept fresh")?;
        let shutdown = CancellationToken::new();
        let keeper = tokio::spawn(managed.keeper.run(shutdown.clone()));
        let mut certificate = managed.findings.certificate.clone();
        let arrived = certificate.wait_for(Option::is_some);
        tokio::time::timeout(FIRST_CERTIFICATE, arrived)
            .await
            .context("there is no first certificate")??;
        Ok(Self {
            transport: identity.transport,
            findings: managed.findings,
            directory,
            shutdown,
            keeper,
        })
    }

    pub(crate) fn stored(&self) -> Result<StoredPair> {
        stored(&self.directory.path().join("pki"))
    }

    pub(crate) async fn end(self) -> Result<()> {
        self.shutdown.cancel();
        self.keeper.await??;
        self.transport.close().await;
        ensure!(
            self.transport.connections() == 0,
            "connections are left after the end"
        );
        Ok(())
    }
}

/// What every transport here is given.
pub(crate) fn options() -> Options {
    in_process::options(Arc::new(SystemClock::start()))
}

/// A transport that is what its kubeconfig says. To be called inside a runtime.
pub(crate) fn transport(kubeconfig: &Path) -> Result<Transport> {
    let config = Kubeconfig::read(kubeconfig)?.resolve(None)?;
    Ok(Transport::new(&config, Credentials::Configured, options())?)
}

/// The lab's, for use on the host.
pub(crate) fn bootstrap_kubeconfig(lab: &Lab) -> Result<String> {
    let inner = lab.bootstrap_kubeconfig()?;
    Ok(inner.replace(&lab.inner_url(), &lab.url()))
}

/// For ordinary requests and watches, at the kubelet's usual rate.
pub(crate) fn requests(transport: &Transport) -> Lane {
    transport.lane(LaneOptions {
        name: "requests",
        limits: Limits::from_settings(50.0, 100),
        timeout: None,
        own_connections: false,
    })
}

/// For what must not wait behind the others.
pub(crate) fn heartbeats(transport: &Transport) -> Lane {
    transport.lane(LaneOptions {
        name: "heartbeats",
        limits: None,
        timeout: Some(Duration::from_secs(10)),
        own_connections: true,
    })
}

fn stored(pki: &Path) -> Result<StoredPair> {
    let current = pki.join("kubelet-client-current.pem");
    let file = fs::read_link(&current).with_context(|| format!("no {}", current.display()))?;
    let text = fs::read_to_string(&current)?;
    let key = text
        .split_once("-----BEGIN EC PRIVATE KEY-----")
        .with_context(|| format!("no key in {}", current.display()))?
        .1;
    Ok(StoredPair {
        key: key.to_owned(),
        mode: fs::metadata(&current)?.permissions().mode() & 0o7777,
        file,
    })
}
