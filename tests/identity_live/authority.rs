//! The API server's CA is replaced, and connections follow the bundle's file.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use kube::Client;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use serde_json::Value;
use tempfile::TempDir;
use testkit::lab::Component;
use testkit::wait;
use tokio::runtime::Runtime;

use crate::control_plane::ControlPlane;
use crate::load::causes;
use crate::node::{bootstrap_kubeconfig, requests, transport};

/// What kubeadm puts into the lab's own certificate.
const NAMES: [&str; 9] = [
    "control-plane",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
    "10.96.0.1",
    "10.76.0.1",
    "127.0.0.1",
];
/// From the moment at which the server answers again.
const FOLLOWED: Duration = Duration::from_secs(5);
/// From the moment at which the bundle is mended.
const RECOVERED: Duration = Duration::from_secs(15);
/// For one request: what hangs must not look like what takes its time.
const ASKED: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn connections_follow_the_ca_bundle_without_being_made_anew() -> Result<()> {
    let control_plane = ControlPlane::take()?;
    let place = TempDir::new()?;
    let client_side = ClientSide::new(&control_plane, place.path())?;
    let runtime = Runtime::new()?;
    let _inside = runtime.enter();
    let transport = transport(&client_side.kubeconfig)?;
    let client = requests(&transport).client("default");
    let ask = || runtime.block_on(ask(&client));
    ask().context("before anything changed")?;

    let answered = || {
        let start = Instant::now();
        wait::until("an answer", PATIENCE, ask)?;
        Ok::<_, anyhow::Error>(start.elapsed())
    };
    // A CA that was believed once is known from then on: each play has its own.
    let mut numbers = 0..;
    let mut make = |what: &str| {
        let number = numbers.next().unwrap_or_default();
        NewAuthority::make(&format!("{what}-{number}"))
    };

    // As it should be done: first the bundle, then the server.
    wait::promised("an answer under the new CA", FOLLOWED, || {
        let first = make("first")?;
        client_side.trust_also(&first)?;
        first.serve(&control_plane)?;
        Ok((answered()?, ()))
    })?;

    // And as it happens: first the server.
    let what = "an answer under the mended bundle";
    let second = wait::promised(what, RECOVERED, || {
        let second = make("second")?;
        second.serve(&control_plane)?;
        for _ in 0..3 {
            is_refused(ask)?;
        }
        client_side.trust_also(&second)?;
        Ok((answered()?, second))
    })?;

    let mut serves_second = true;
    wait::promised("an answer under the old CA", FOLLOWED, || {
        if !serves_second {
            second.serve(&control_plane)?;
            answered()?;
        }
        serves_second = false;
        control_plane.straighten()?;
        Ok((answered()?, ()))
    })?;
    runtime.block_on(transport.close());
    Ok(())
}

/// What a client of the lab is told: a kubeconfig, and its CA bundle in a file.
struct ClientSide {
    kubeconfig: PathBuf,
    bundle: PathBuf,
}

impl ClientSide {
    fn new(control_plane: &ControlPlane, place: &Path) -> Result<Self> {
        let lab = &control_plane.lab;
        let client_side = Self {
            kubeconfig: place.join("kubeconfig"),
            bundle: place.join("ca.crt"),
        };
        fs::write(&client_side.bundle, lab.authority()?)?;
        let mut kubeconfig: Value = serde_json::from_str(&bootstrap_kubeconfig(lab)?)?;
        let cluster = kubeconfig["clusters"][0]["cluster"]
            .as_object_mut()
            .context("a kubeconfig without a cluster")?;
        cluster.remove("certificate-authority-data");
        let bundle = client_side.bundle.to_string_lossy().into_owned();
        cluster.insert("certificate-authority".to_owned(), bundle.into());
        fs::write(&client_side.kubeconfig, kubeconfig.to_string())?;
        Ok(client_side)
    }

    fn trust_also(&self, authority: &NewAuthority) -> Result<()> {
        let text = fs::read_to_string(&self.bundle)? + &authority.certificate;
        let unfinished = self.bundle.with_extension("new");
        fs::write(&unfinished, text)?;
        Ok(fs::rename(&unfinished, &self.bundle)?)
    }
}

/// A CA that is not the lab's, and a pair from it for the API server.
struct NewAuthority {
    name: String,
    certificate: String,
    server_certificate: String,
    server_key: String,
}

impl NewAuthority {
    fn make(name: &str) -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.self_signed(&key)?.pem();
        let issuer = Issuer::new(params, key);
        let server_key = KeyPair::generate()?;
        let mut server = CertificateParams::new(NAMES.map(str::to_owned))?;
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        Ok(Self {
            name: name.to_owned(),
            certificate,
            server_certificate: server.signed_by(&server_key, &issuer)?.pem(),
            server_key: server_key.serialize_pem(),
        })
    }

    /// Restarts the API server with this pair, and waits until it answers with it.
    fn serve(&self, control_plane: &ControlPlane) -> Result<()> {
        let machine = control_plane.lab.control_plane();
        let file = |kind: &str| format!("/etc/kubernetes/live/{}.{kind}", self.name);
        machine.write(&file("ca"), &self.certificate)?;
        machine.write(&file("crt"), &self.server_certificate)?;
        machine.write(&file("key"), &self.server_key)?;
        let arguments = [
            format!("--tls-cert-file={}", file("crt")),
            format!("--tls-private-key-file={}", file("key")),
        ];
        control_plane.bend(Component::ApiServer, &[&arguments[0], &arguments[1]])?;
        // The lab's own clients do not believe it now.
        let url = format!("{}/readyz", control_plane.lab.inner_url());
        let authority = file("ca");
        let words = [
            "--silent",
            "--fail",
            "--max-time",
            "2",
            "--cacert",
            &authority,
            &url,
        ];
        wait::until(
            "the API server under a new CA",
            Duration::from_secs(60),
            || machine.run("curl", words),
        )?;
        Ok(())
    }
}

/// That the server is never believed, and is refused for the reason that there is.
fn is_refused(ask: impl Fn() -> Result<()>) -> Result<()> {
    let believed = wait::until("a refusal", PATIENCE, || {
        let Err(error) = ask() else {
            return Ok(true);
        };
        let said = format!("{error:#}");
        ensure!(said.contains("unknown authority"), "it was said: {said}");
        Ok(false)
    })?;
    ensure!(
        !believed,
        "an API server that nobody vouches for was believed"
    );
    Ok(())
}

/// A request that any authenticated user may make.
async fn ask(client: &Client) -> Result<()> {
    let asked = tokio::time::timeout(ASKED, client.apiserver_version()).await;
    let asked = asked.context("no answer in time")?;
    asked.map(drop).map_err(|error| anyhow!(causes(&error)))
}
