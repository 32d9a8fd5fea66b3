//! `ferrolet doctor` and `ferrolet explain` on real nodes: one that is well, and ones
//! that are ill, whose illness is named, and mended by the very command that is told.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use testkit::lab::{FERROLET, Lab, Node, Runtime, Spec};
use testkit::workload::Workload;
use testkit::{command, wait};

const SOON: Duration = Duration::from_secs(60);
/// A heartbeat counts for 40 s.
const STALE: Duration = Duration::from_secs(90);
const ADMIN: &str = "/etc/kubernetes/admin.conf";
const CONFIG: &str = "/var/lib/kubelet/config.yaml";
const CURRENT: &str = "/var/lib/kubelet/pki/kubelet-client-current.pem";

#[test]
fn a_node_that_is_well_has_nothing_found_and_is_explained_with_its_own_objects() -> Result<()> {
    let lab = Lab::shared()?;
    let node = patient(&lab, "doctor-well", "")?;
    let name = node.name();
    let report = wait_well(&node)?;
    ensure!(report.all_hidden().is_empty(), "{report:?}");
    // Each look may fall into a moment in which the machine is slow, which is found, too.
    wait::until("a look that finds nothing", SOON, || {
        let told = said(&mut doctor(&node, &["--strict"]))?;
        ensure!(told.0 == Some(0), "{told:?}");
        ensure!(told.1.starts_with("node doctor-well\n"), "{}", told.1);
        ensure!(told.1.ends_with("\nnothing found\n"), "{}", told.1);
        ensure!(told.1.contains("relist         ok"), "{}", told.1);
        let wide = told.1.lines().find(|line| line.chars().count() > 80);
        ensure!(wide.is_none(), "{wide:?}");
        Ok(())
    })?;

    // The node itself may not see its figures: that is told, and is no fault.
    fs::remove_file(node.machine().root(ADMIN))?;
    wait::until("a look of the node itself", SOON, || {
        let (code, told) = said(node.ferrolet().arg("doctor"))?;
        ensure!(code == Some(0) && told.contains("nothing found"), "{told}");
        ensure!(told.contains("--admin-kubeconfig FILE"), "{told}");
        Ok(())
    })?;

    // Nor may a stranger.
    wait::until("a stranger's look", SOON, || {
        let mut stranger = node.machine().command("setpriv");
        stranger.args(["--reuid=65534", "--regid=65534", "--clear-groups", FERROLET]);
        let (code, told) = said(stranger.arg("doctor"))?;
        ensure!(code == Some(0), "{told}");
        ensure!(
            told.contains("containerd.sock is not for this user"),
            "{told}"
        );
        ensure!(told.contains("sudo ferrolet doctor"), "{told}");
        ensure!(told.contains("agent          ok"), "{told}");
        Ok(())
    })?;

    give_admin(&lab, &node)?;
    explained(&lab, &node, name)?;
    node.remove()
}

fn explained(lab: &Lab, node: &Node, name: &str) -> Result<()> {
    let explain = |words: &[&str]| -> Result<String> {
        let mut command = node.ferrolet();
        let (code, told) = said(command.arg("explain").args(words))?;
        ensure!(code == Some(0), "{told}");
        Ok(told)
    };
    let bootstrap = explain(&["bootstrap"])?;
    let requests = lab.kubectl().json(["get", "csr"])?;
    let requests = requests["items"].as_array().context("requests")?;
    let own = requests
        .iter()
        .filter_map(|csr| csr["metadata"]["name"].as_str());
    let named = own.filter(|csr| bootstrap.contains(&format!("CSR {csr}: Approved,Issued")));
    ensure!(named.count() >= 1, "{bootstrap}");
    ensure!(
        bootstrap.contains(&format!("system:node:{name}")),
        "{bootstrap}"
    );
    ensure!(bootstrap.contains("Ready: True since"), "{bootstrap}");

    let heartbeat = explain(&["heartbeat"])?;
    let held = format!("lease kube-node-lease/{name}, held by {name}");
    ensure!(heartbeat.contains(&held), "{heartbeat}");
    ensure!(
        heartbeat.contains("kubelet is posting ready status"),
        "{heartbeat}"
    );

    let rotation = explain(&["rotation"])?;
    ensure!(rotation.contains("the agent has drawn 20"), "{rotation}");
    ensure!(rotation.contains("-> kubelet-client-20"), "{rotation}");

    let workload = Workload::create(lab.kubectl(), "doctor", node, 1, "sleep 1000")?;
    let pods = workload.wait_running(1, SOON)?;
    let pod = pods.first().context("a pod")?.name();
    // Its events come a moment after its status.
    wait::until("all of a pod to be explained", SOON, || {
        let told = explain(&["pod", pod, "--admin-kubeconfig", ADMIN])?;
        ensure!(
            told.contains(&format!("/{pod}, from api, made"))
                || told.contains(&format!("/{pod}, from the API, made")),
            "{told}"
        );
        ensure!(told.contains("main: running since"), "{told}");
        ensure!(told.contains("ago Started: "), "{told}");
        Ok(())
    })?;
    ensure!(explain(&["pod"])?.contains(pod), "the newest");
    let (code, said) = said(node.ferrolet().args(["explain", "pod", "none/such"]))?;
    ensure!(
        code == Some(1) && said.contains("has no pod none/such"),
        "{said}"
    );
    workload.delete()
}

#[test]
fn what_ails_a_node_is_named_with_the_command_that_mends_it() -> Result<()> {
    let lab = Lab::shared()?;
    let node = patient(&lab, "doctor-ill", "")?;
    wait_well(&node)?;

    // Cut off from its API server; and no look takes longer than it may.
    node.cut_off()?;
    let began = Instant::now();
    let report = Report::of(&node)?;
    ensure!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
    let found = report.found("API server")?;
    ensure!(found.cause.contains("does not answer"), "{found:?}");
    ensure!(report.code == Some(1), "{report:?}");
    node.reconnect()?;
    wait_well(&node)?;

    // Its agent is killed: told at once, and the lease when it is stale.
    node.kubelet().kill()?;
    let found = Report::of(&node)?.found("agent")?;
    ensure!(found.cause.contains("no agent runs"), "{found:?}");
    let found = wait::until("a stale lease", STALE, || Report::of(&node)?.found("lease"))?;
    ensure!(
        found.object == "lease kube-node-lease/doctor-ill",
        "{found:?}"
    );
    ensure!(found.cause.contains("no agent runs"), "{found:?}");
    mend(&node, &found)?;
    wait_well(&node)?;

    // The setting names a socket that nobody has made.
    let config = fs::read_to_string(node.machine().root(CONFIG))?;
    let wrong = config.replace("/run/containerd/containerd.sock", "/run/nope.sock");
    ensure!(wrong != config, "{config}");
    node.machine().write(CONFIG, wrong)?;
    let found = Report::of(&node)?.found("runtime")?;
    ensure!(found.object == "/run/nope.sock", "{found:?}");
    ensure!(
        found
            .cause
            .contains("one at /var/run/containerd/containerd.sock"),
        "{found:?}"
    );
    mend(&node, &found)?;
    wait_well(&node)?;

    // Somebody has the node's port while its agent is away.
    stop_all(&node)?;
    // The agent's last thread may have it a moment longer.
    let listen = "use IO::Socket::INET; my $s; until ($s = IO::Socket::INET->new(LocalAddr => '0.0.0.0', LocalPort => 10250, Listen => 1, ReuseAddr => 1)) { select(undef, undef, undef, 0.1) } sleep 1000";
    node.machine().daemon("squatter").start(&Spec {
        program: "perl".to_owned(),
        arguments: vec!["-e".to_owned(), listen.to_owned()],
        ..Spec::default()
    })?;
    let found = wait::until("a port that is taken", SOON, || {
        Report::of(&node)?.found("ports")
    })?;
    ensure!(found.object == "port 10250 (port)", "{found:?}");
    ensure!(found.cause.contains("perl (process "), "{found:?}");
    mend(&node, &found)?;
    wait::until("a free port", SOON, || {
        let report = Report::of(&node)?;
        ensure!(report.found("ports").is_err(), "{report:?}");
        Ok::<(), anyhow::Error>(())
    })?;

    // Its certificate has expired, and a token is still there.
    expire(&node)?;
    let found = Report::of(&node)?.found("certificates")?;
    ensure!(found.object == "client certificate", "{found:?}");
    ensure!(found.cause.contains("expired"), "{found:?}");
    mend(&node, &found)?;
    wait_well(&node)?;
    node.remove()
}

#[test]
fn a_request_that_waits_is_named_with_its_approval() -> Result<()> {
    let lab = Lab::shared()?;
    let node = patient(&lab, "doctor-csr", "serverTLSBootstrap: true\n")?;
    let found = wait::until("a request that waits", SOON, || {
        Report::of(&node)?.found("certificates")
    })?;
    let csr = found.object.strip_prefix("CSR ").context("a request")?;
    let command = found.command.as_deref().unwrap_or_default();
    ensure!(
        command == format!("kubectl certificate approve {csr}"),
        "{found:?}"
    );
    let words = command.split(' ').skip(1);
    lab.kubectl().run(words)?;
    wait_well(&node)?;
    node.remove()
}

/// A node of ours that has been Ready, with an administrator's kubeconfig on it.
fn patient(lab: &Lab, name: &str, config: &str) -> Result<Node> {
    let node = lab.node(name, Runtime::Containerd2)?;
    give_admin(lab, &node)?;
    node.start_ferrolet(config)?;
    node.wait_ready(SOON)?;
    Ok(node)
}

fn give_admin(lab: &Lab, node: &Node) -> Result<()> {
    let admin = fs::read(lab.control_plane().root(ADMIN))?;
    node.machine().write(ADMIN, admin)
}

fn doctor(node: &Node, words: &[&str]) -> Command {
    let mut command = node.ferrolet();
    command
        .args(["doctor", "--admin-kubeconfig", ADMIN])
        .args(words);
    command
}

fn said(command: &mut Command) -> Result<(Option<i32>, String)> {
    let output = command.output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let told = String::from_utf8_lossy(&output.stdout).into_owned() + &errors;
    Ok((output.status.code(), told))
}

/// Does what is told, in a shell of the node.
fn mend(node: &Node, finding: &Finding) -> Result<()> {
    let line = finding.command.as_deref().context("no command is told")?;
    println!("{}: {line}", finding.object);
    // What is started in the background must not hold our pipes.
    let line = format!("{{ {line}\n}} </dev/null >/dev/null 2>&1");
    command::run(node.machine().command("sh").args(["-c", &line]))?;
    Ok(())
}

/// Ends whichever agent a mending has started.
fn stop_all(node: &Node) -> Result<()> {
    let line = "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline | grep -q '^/opt/lab/tools/ferrolet kubelet ' && kill ${p#/proc/}; done 2>/dev/null; true";
    wait::until("no agent", SOON, || {
        node.machine().run("sh", ["-c", line])?;
        let report = Report::of(node)?;
        ensure!(report.value["process"].is_null(), "{report:?}");
        Ok::<(), anyhow::Error>(())
    })
}

/// A pair for this node whose time is over.
fn expire(node: &Node) -> Result<()> {
    let made = tempfile::tempdir()?;
    let path = |name: &str| made.path().join(name).display().to_string();
    let (key, request, certificate) = (path("key"), path("csr"), path("crt"));
    let subject = format!("/O=system:nodes/CN=system:node:{}", node.name());
    let openssl = |words: &[&str]| command::run(Command::new("openssl").args(words));
    let curve = ["ecparam", "-name", "prime256v1", "-genkey", "-noout"];
    openssl(&[&curve[..], &["-out", &key]].concat())?;
    openssl(&[
        "req", "-new", "-key", &key, "-subj", &subject, "-out", &request,
    ])?;
    let sign = [
        "x509", "-req", "-in", &request, "-signkey", &key, "-days", "-1",
    ];
    openssl(&[&sign[..], &["-out", &certificate]].concat())?;
    let pair = fs::read_to_string(&certificate)? + &fs::read_to_string(&key)?;
    let dated = "/var/lib/kubelet/pki/kubelet-client-2020-01-01-00-00-00.pem";
    node.machine().write(dated, pair)?;
    let current = node.machine().root(CURRENT);
    fs::remove_file(&current)?;
    symlink(dated, &current)?;
    Ok(())
}

fn wait_well(node: &Node) -> Result<Report> {
    node.wait_ready(SOON)?;
    wait::until("a node of which nothing is found", SOON, || {
        let report = Report::of(node)?;
        ensure!(report.code == Some(0), "{report:?}");
        ensure!(report.value["errors"] == 0, "{report:?}");
        ensure!(report.value["warnings"] == 0, "{report:?}");
        Ok(report)
    })
}

/// What the doctor says.
#[derive(Debug)]
struct Report {
    code: Option<i32>,
    value: Value,
}

#[derive(Debug)]
struct Finding {
    object: String,
    cause: String,
    command: Option<String>,
}

impl Report {
    fn of(node: &Node) -> Result<Self> {
        let output = doctor(node, &["-o", "json"]).output()?;
        let value = serde_json::from_slice(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok(Self {
            code: output.status.code(),
            value: value.context(errors)?,
        })
    }

    fn checks(&self) -> impl Iterator<Item = &Value> {
        self.value["checks"].as_array().into_iter().flatten()
    }

    /// The first finding of a check, an error.
    fn found(&self, check: &str) -> Result<Finding> {
        let mut checks = self.checks();
        let found = checks.find(|one| one["name"] == check);
        let found = &found.context("no such check")?["findings"][0];
        ensure!(found["severity"] == "error", "{check}: {self:?}");
        let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
        Ok(Finding {
            object: text("object"),
            cause: text("cause"),
            command: found["command"].as_str().map(str::to_owned),
        })
    }

    fn all_hidden(&self) -> Vec<&Value> {
        let hidden = self
            .checks()
            .filter_map(|check| check["notSeen"].as_array());
        hidden.flatten().collect()
    }
}
