//! `ferrolet up` on machines with a real runtime: its own node on containerd, and the
//! upstream kubelet as a node of the embedded API server.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testkit::lab::{Daemon, FERROLET, Lab, Node, Runtime, Spec};
use testkit::{command, wait};

/// Of a data directory in a lab machine.
const DATA: &str = "/opt/lab/up";
const KUBECONFIG: &str = "/opt/lab/up/kubeconfig";

/// What is promised of a start is held by `tests/readme`: this is a debug build beside other tests.
const SOON: Duration = Duration::from_secs(60);

#[test]
fn a_machine_with_containerd_is_a_cluster_and_keeps_its_containers_over_restarts() -> Result<()> {
    let node = Lab::shared()?.node("up-real", Runtime::Containerd2)?;
    node.install_ferrolet()?;
    let began = Instant::now();
    let up = start(&node, &["--runtime=containerd"])?;
    let said = wait_invited(&up)?;
    println!("on containerd, Ready after {:?}", began.elapsed());
    ensure!(began.elapsed() < SOON, "{:?}: {said}", began.elapsed());
    ensure!(
        said.contains("up-real is this machine, and runs containers with containerd 2."),
        "{said}"
    );
    ensure!(
        said.contains("a certificate for system:node:up-real"),
        "{said}"
    );

    let began = Instant::now();
    let (place, script) = (
        "--image-pull-policy=IfNotPresent",
        "echo hello; exec sleep 1000",
    );
    kubectl(
        &node,
        &[
            "run",
            "hello",
            "--image=busybox",
            place,
            "--",
            "sh",
            "-c",
            script,
        ],
    )?;
    kubectl(
        &node,
        &[
            "wait",
            "--for=condition=Ready",
            "pod/hello",
            "--timeout=60s",
        ],
    )?;
    println!("the first pod, Ready after {:?}", began.elapsed());
    ensure!(began.elapsed() < SOON, "{:?}", began.elapsed());
    wait_greeted(&node)?;
    let said = kubectl(&node, &["exec", "hello", "--", "hostname"])?;
    ensure!(said.trim() == "hello", "{said}");
    let running = node.crictl(["ps", "--quiet"])?;
    ensure!(running.lines().count() == 1, "{running}");
    is_found(&node)?;

    // Neither a restart nor a crash of the cluster is one of its containers.
    up.stop()?;
    ensure!(node.crictl(["ps", "--quiet"])? == running);
    // Another cluster would end what it does not know.
    let mut other = node.ferrolet();
    other.args(["up", "--ephemeral", "--runtime=containerd"]);
    let refused = other.output()?;
    let refused = String::from_utf8(refused.stderr)?;
    ensure!(
        refused.contains("1 pods of another node or cluster"),
        "{refused}"
    );
    start(&node, &["--runtime=containerd"])?;
    wait_invited(&up)?;
    up.kill()?;
    start(&node, &["--runtime=containerd"])?;
    let said = wait_invited(&up)?;
    ensure!(said.contains("a cluster resumes in"), "{said}");
    ensure!(!said.contains("asks for a certificate"), "{said}");
    ensure!(node.crictl(["ps", "--quiet"])? == running);
    let restarts = "jsonpath={.status.containerStatuses[0].restartCount}";
    let restarts = kubectl(&node, &["get", "pod", "hello", "-o", restarts])?;
    ensure!(restarts == "0", "{restarts}");
    kubectl(
        &node,
        &[
            "delete",
            "pod",
            "hello",
            "--grace-period=1",
            "--timeout=60s",
        ],
    )?;
    up.stop()?;
    node.remove()
}

#[test]
fn an_ephemeral_cluster_takes_its_containers_along() -> Result<()> {
    let node = Lab::shared()?.node("up-ephemeral", Runtime::Containerd2)?;
    node.install_ferrolet()?;
    let up = node.machine().daemon("up");
    up.start(&spec(&["up", "--ephemeral"]))?;
    let said = wait_invited(&up)?;
    let (_, kubeconfig) = said
        .split_once("export KUBECONFIG=")
        .context("a kubeconfig")?;
    let kubeconfig = kubeconfig.lines().next().unwrap_or_default().to_owned();
    let kubectl = |words: &[&str]| {
        let words = [&["--kubeconfig", &kubeconfig], words].concat();
        node.machine().run("kubectl", words)
    };
    let words = [
        "--image=busybox",
        "--image-pull-policy=IfNotPresent",
        "--",
        "sleep",
        "1000",
    ];
    kubectl(&[&["run", "hello"], &words[..]].concat())?;
    kubectl(&[
        "wait",
        "--for=condition=Ready",
        "pod/hello",
        "--timeout=60s",
    ])?;
    up.stop()?;
    let left = node.crictl(["ps", "--all", "--quiet"])?;
    ensure!(left.is_empty(), "{left}");
    ensure!(!node.machine().root(&kubeconfig).exists());
    node.remove()
}

#[test]
fn who_may_not_use_containerd_has_a_simulated_node_and_is_told_why() -> Result<()> {
    let node = Lab::shared()?.node("up-anybody", Runtime::Containerd2)?;
    node.install_ferrolet()?;
    let up = node.machine().daemon("up");
    let anybody = ["--reuid=65534", "--regid=65534", "--clear-groups", FERROLET];
    let words = [&anybody[..], &["up", "--ephemeral"]].concat();
    up.start(&Spec {
        program: "setpriv".to_owned(),
        ..spec(&words)
    })?;
    let said = wait_invited(&up)?;
    let why = "sim-0 is simulated: its containers are told of, not run (containerd is here, and a node on it needs root: run this with sudo)";
    ensure!(said.contains(why), "{said}");
    // By the program's own clock, in a debug build beside other tests.
    let ready = said.lines().find(|line| line.ends_with("sim-0 is Ready"));
    println!("an ordinary user: {}", ready.unwrap_or_default().trim());
    up.stop()?;

    node.runtime().stop()?;
    node.machine()
        .run("rm", ["--force", "/run/containerd/containerd.sock"])?;
    let _ = fs::remove_file(up.log_file());
    up.start(&spec(&["up", "--ephemeral"]))?;
    let said = wait_invited(&up)?;
    let why = "sim-0 is simulated: its containers are told of, not run (there is no socket ";
    ensure!(said.contains(why), "{said}");
    up.stop()?;
    node.remove()
}

/// To who knows nothing of it but a token and the hash of its CA: what everybody may read is
/// signed with the token.
fn proves_itself(node: &Node) -> Result<()> {
    let create = ["token", "create", "--print-join-command"];
    let mut ferrolet = node.ferrolet();
    ferrolet.args(create).args(["--kubeconfig", KUBECONFIG]);
    let line = command::run(&mut ferrolet)?;
    let words = line.split_whitespace().skip_while(|word| *word != "join");
    let mut join = node.ferrolet();
    join.args(words).args(["--dry-run", "--node-name=other"]);
    // There is no kubeadm, and so no configuration of its making.
    let output = join.args(["--skip-phases", "kubelet-config"]).output()?;
    let said = String::from_utf8([output.stdout, output.stderr].concat())?;
    let proof = "signed with the token, and its CA is the pinned one";
    ensure!(output.status.success() && said.contains(proof), "{said}");
    Ok(())
}

/// Without a word of where it is.
fn is_found(node: &Node) -> Result<()> {
    let told = |words: &[&str]| -> Result<String> {
        let output = node.ferrolet().args(words).output()?;
        // A disk that is nearly full is found by the doctor, and is not the point here.
        Ok(String::from_utf8([output.stdout, output.stderr].concat())?)
    };
    let walk = told(&["explain", "bootstrap"])?;
    let head = format!("With the objects of node up-real of the cluster in {DATA}");
    ensure!(walk.replace('\n', " ").contains(&head), "{walk}");
    ensure!(walk.contains("Approved,Issued"), "{walk}");
    let walk = told(&["explain", "pod", "hello"])?;
    ensure!(
        walk.contains(&format!("sudo ls {DATA}/nodes/up-real/kubelet/pods/")),
        "{walk}"
    );
    let head = format!("node up-real of the cluster in {DATA}\n");
    // One look may fall into a moment in which the machine is slow, which is found.
    wait::until("a look that finds nothing", SOON, || {
        let report = told(&["doctor"])?;
        ensure!(report.starts_with(&head), "{report}");
        // It is this machine, so this machine is looked at.
        for row in [
            "runtime        ok",
            "ports          ok",
            "relist         ok",
        ] {
            ensure!(report.contains(row), "no {row:?} in:\n{report}");
        }
        Ok(())
    })
}

#[test]
fn the_upstream_kubelet_joins_the_embedded_server_and_runs_a_pod() -> Result<()> {
    let node = Lab::shared()?.node("up-upstream", Runtime::Containerd2)?;
    node.install_ferrolet()?;
    let up = start(&node, &["--runtime=sim"])?;
    wait_invited(&up)?;
    proves_itself(&node)?;
    let config = serde_json::json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": format!("{DATA}/ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        // As the lab's own kubelets: its machines are small, and share a disk.
        "evictionHard": {"memory.available": "100Mi"},
        "failCgroupV1": false,
        "failSwapOn": false,
        "imageGCHighThresholdPercent": 100,
    });
    node.machine()
        .write("/opt/lab/kubelet.json", config.to_string())?;
    let kubelet = node.machine().daemon("stranger");
    let flags = [
        "--config=/opt/lab/kubelet.json".to_owned(),
        "--kubeconfig=/opt/lab/stranger/kubelet.conf".to_owned(),
        format!("--bootstrap-kubeconfig={DATA}/bootstrap-kubelet.conf"),
        "--cert-dir=/opt/lab/stranger/pki".to_owned(),
        "--root-dir=/opt/lab/stranger/root".to_owned(),
        "--hostname-override=stranger".to_owned(),
    ];
    kubelet.start(&Spec {
        program: "kubelet".to_owned(),
        arguments: flags.to_vec(),
        ..Spec::default()
    })?;
    let outcome = stranger_runs_a_pod(&node);
    outcome.with_context(|| kubelet.log())?;
    kubelet.stop()?;
    up.stop()?;
    node.remove()
}

fn stranger_runs_a_pod(node: &Node) -> Result<()> {
    let ready = ["wait", "--for=condition=Ready", "--timeout=60s"];
    wait::until("the node", SOON, || {
        kubectl(node, &["get", "node", "stranger"])
    })?;
    kubectl(node, &[&ready[..], &["node/stranger"]].concat())?;
    let place = r#"--overrides={"spec":{"nodeName":"stranger"}}"#;
    let image = ["--image=busybox", "--image-pull-policy=IfNotPresent"];
    let script = ["--", "sh", "-c", "echo hello; exec sleep 1000"];
    kubectl(
        node,
        &[&["run", "hello", place], &image[..], &script].concat(),
    )?;
    kubectl(node, &[&ready[..], &["pod/hello"]].concat())?;
    wait_greeted(node)?;
    let said = kubectl(node, &["exec", "hello", "--", "hostname"])?;
    ensure!(said.trim() == "hello", "{said}");
    kubectl(
        node,
        &[
            "delete",
            "pod",
            "hello",
            "--grace-period=1",
            "--timeout=60s",
        ],
    )?;
    Ok(())
}

/// On the data directory of all starts in this machine.
fn start(node: &Node, flags: &[&str]) -> Result<Daemon> {
    let up = node.machine().daemon("up");
    // What was said before would be taken for what is said now.
    let _ = fs::remove_file(up.log_file());
    up.start(&spec(&[&["up", "--data-dir", DATA], flags].concat()))?;
    Ok(up)
}

fn spec(words: &[&str]) -> Spec {
    Spec {
        program: FERROLET.to_owned(),
        arguments: words.iter().copied().map(str::to_owned).collect(),
        ..Spec::default()
    }
}

/// Until its nodes are Ready; what it said.
fn wait_invited(up: &Daemon) -> Result<String> {
    wait::until("the cluster", SOON, || {
        let said = up.log();
        if said.contains("Ctrl-C ends it.") {
            Ok(said)
        } else {
            Err(said)
        }
    })
}

/// What the pod says may come a moment after it runs.
fn wait_greeted(node: &Node) -> Result<()> {
    wait::until("the pod's greeting", SOON, || {
        let said = kubectl(node, &["logs", "hello"])?;
        ensure!(said.trim() == "hello", "{said:?}");
        Ok(())
    })
}

fn kubectl(node: &Node, words: &[&str]) -> Result<String> {
    let words = [&["--kubeconfig", KUBECONFIG], words].concat();
    node.machine().run("kubectl", words)
}
