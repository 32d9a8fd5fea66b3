//! Joining: our `join` against a cluster that the real kubeadm has made, the real
//! kubeadm and the upstream kubelet against what ours leaves, and the way back.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use testkit::lab::{FERROLET, Lab, Node, Runtime, Spec};
use testkit::{cargo, command, wait};

const READY: Duration = Duration::from_secs(60);
const FLAGS_OF_THE_USER: &str = "/etc/default/kubelet";
const PID_FILE: &str = "/run/ferrolet-kubelet.pid";
/// What a lab node asks of any kubelet, beside the cluster's configuration.
const LAB_FLAGS: [&str; 4] = [
    "--fail-cgroupv1=false",
    "--fail-swap-on=false",
    "--eviction-hard=memory.available<100Mi,nodefs.available<0%,imagefs.available<0%",
    "--image-gc-high-threshold=100",
];
/// Everything that a join writes, and what the agent makes of it.
const DIRECTORIES: [&str; 2] = ["/etc/kubernetes", "/var/lib/kubelet"];

#[test]
fn a_token_of_kubeadms_makes_a_node_and_reset_unmakes_it() -> Result<()> {
    let lab = Lab::shared()?;
    let node = machine(&lab, "join-undo")?;
    let line = join_line(&lab, &[])?;
    let join = |more: &[&str]| run(&node, &line, more);

    let dry = join(&["--dry-run"])?;
    dry.expect(
        0,
        "create      0600  /etc/kubernetes/bootstrap-kubelet.conf",
    )?;
    dry.expect(0, "nothing was written")?;
    nothing_is_left(&node)?;

    // What fails in the middle is finished by a second run.
    let flags = |flags: &str| {
        let line = format!("KUBELET_EXTRA_ARGS={flags}\n");
        node.machine().write(FLAGS_OF_THE_USER, line)
    };
    flags("--no-such-flag")?;
    join(&[])?.expect(1, "error: start: the agent would not start on these files")?;
    flags("--fail-cgroupv1=false --fail-swap-on=false")?;
    let joined = join(&[])?;
    joined.expect(0, "[7/8] certificate: ok")?;
    joined.expect(0, "[8/8] ready: ok, join-undo is Ready")?;
    joined.expect(0, "join-undo has joined the cluster")?;
    ensure!(!joined.text.contains(line.secret()), "the token is told");
    is_the_node(&node)?;
    let bootstrap = node
        .machine()
        .root("/etc/kubernetes/bootstrap-kubelet.conf");
    ensure!(!bootstrap.exists(), "the token is still on the disk");

    // The agent's command line and log say nothing that must not be known.
    let id = fs::read_to_string(node.machine().root(PID_FILE))?;
    let place = format!("/proc/{}/cmdline", id.trim());
    for path in [place.as_str(), "/var/log/ferrolet-kubelet.log"] {
        let text = node.machine().run("cat", [path])?;
        ensure!(!text.is_empty() && !text.contains(line.secret()), "{path}");
    }

    join(&[])?.expect(0, "nothing was left to do")?;
    ensure!(fs::read_to_string(node.machine().root(PID_FILE))? == id);

    let reset = |words: &[&str]| said(&node, &[&["reset", "--node"][..], words].concat());
    reset(&[])?.expect(2, "--yes")?;
    reset(&["--dry-run"])?.expect(0, "nothing was removed")?;
    is_the_node(&node)?;
    reset(&["--yes"])?.expect(0, "the join is undone")?;
    nothing_is_left(&node)?;
    // A process that nobody has collected yet has no words any more.
    let gone = format!("! grep --quiet --no-messages . {place}");
    let gone = node.machine().run("sh", ["-c", &gone]);
    ensure!(gone.is_ok(), "the agent is still there");
    reset(&["--yes"])?.expect(0, "there is nothing of a join")?;

    // And again, as if nothing had been; but for the Node, which is the cluster's.
    lab.kubectl().run(["delete", "node", node.name()])?;
    join(&[])?.expect(0, "join-undo has joined the cluster")?;
    is_the_node(&node)?;
    reset(&["--yes"])?.expect(0, "the join is undone")?;
    line.delete(&lab)?;
    node.remove()
}

#[test]
fn the_files_are_kubeadms_and_the_upstream_kubelet_becomes_ready_on_them() -> Result<()> {
    let lab = Lab::shared()?;
    let node = machine(&lab, "join-files")?;
    let line = own_join_line(&lab)?;

    // kubeadm's own join with the same token, as far as it goes without changing anything.
    let script = format!(
        "KUBEADM_JOIN_DRYRUN_DIR=/var/tmp/kubeadm exec kubeadm join {} --dry-run --ignore-preflight-errors=all",
        line.words.join(" ")
    );
    let kubeadm = node.machine().run("sh", ["-c", &script])?;
    ensure!(
        kubeadm.contains("This node has joined the cluster"),
        "{kubeadm}"
    );

    run(&node, &line, &["--start", "no"])?.expect(0, "start the agent with:")?;
    for (kubeadms, ours) in [
        ("bootstrap-kubelet.conf", "/etc/kubernetes"),
        ("ca.crt", "/etc/kubernetes/pki"),
        ("config.yaml", "/var/lib/kubelet"),
        ("instance-config.yaml", "/var/lib/kubelet"),
        ("kubeadm-flags.env", "/var/lib/kubelet"),
    ] {
        let look = |path: String| look(&node.machine().root(&path));
        let theirs = look(format!("/var/tmp/kubeadm/{kubeadms}"))?;
        let ours = look(format!("{ours}/{kubeadms}"))?;
        assert_eq!(ours, theirs, "{kubeadms}");
    }

    // The flags of the drop-in, and what a lab node needs.
    let flags = [
        "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf",
        "--kubeconfig=/etc/kubernetes/kubelet.conf",
        "--config=/var/lib/kubelet/config.yaml",
    ];
    let flags = flags.iter().chain(&LAB_FLAGS);
    node.kubelet().start(&Spec {
        program: "kubelet".to_owned(),
        arguments: flags.map(|&flag| flag.to_owned()).collect(),
        ..Spec::default()
    })?;
    node.wait_ready(READY)?;
    is_the_node(&node)?;

    // A second run takes the token away, starts no second kubelet, and sees Ready.
    let again = run(&node, &line, &["--timeout", "60s"])?;
    again.expect(0, "a kubelet runs already")?;
    again.expect(0, "[8/8] ready: ok, join-files is Ready")?;
    let bootstrap = node
        .machine()
        .root("/etc/kubernetes/bootstrap-kubelet.conf");
    ensure!(!bootstrap.exists(), "the token is still on the disk");
    // Files are not taken from under a kubelet that join has not started.
    let reset = ["reset", "--node", "--yes"];
    said(&node, &reset)?.expect(1, "a kubelet runs here")?;
    is_the_node(&node)?;
    // Nor may another machine take the name of a node at work.
    let other = machine(&lab, "join-other")?;
    let words = ["--node-name", "join-files", "--dry-run"];
    run(&other, &line, &words)?.expect(1, "a node named join-files is in the cluster and Ready")?;
    other.remove()?;
    node.kubelet().stop()?;
    line.delete(&lab)?;
    node.remove()
}

#[test]
fn under_systemd_the_agent_is_the_service_kubelet() -> Result<()> {
    let lab = Lab::shared()?;
    let node = machine(&lab, "join-service")?;
    let line = join_line(&lab, &[])?;
    let machine = node.machine();
    machine.write("/run/systemd/system/.keep", "")?;
    machine.write("/var/tmp/bin/systemctl", SYSTEMCTL)?;
    machine.run("chmod", ["755", "/var/tmp/bin/systemctl"])?;
    let flags = "KUBELET_EXTRA_ARGS=\"--fail-cgroupv1=false --fail-swap-on=false\"\n";
    machine.write(FLAGS_OF_THE_USER, flags)?;
    let with_systemd = |words: &[&str]| -> Result<Said> {
        let mut command = machine.command("env");
        command.args(["PATH=/var/tmp/bin:/usr/sbin:/usr/bin:/sbin:/bin", FERROLET]);
        Said::of(command.args(words))
    };
    let join = [&["join"], &line.words()[..]].concat();
    let joined = with_systemd(&join)?;
    joined.expect(0, "[6/8] start: ok, the service kubelet")?;
    joined.expect(0, "join-service has joined the cluster")?;
    is_the_node(&node)?;
    with_systemd(&join)?.expect(0, "nothing was left to do")?;
    let reset = with_systemd(&["reset", "--node", "--yes"])?;
    reset.expect(0, "stop    the service kubelet")?;
    nothing_is_left(&node)?;
    let units = machine.run("find", ["/etc/systemd/system", "-name", "*kubelet*"])?;
    ensure!(units.is_empty(), "{units}");
    let told = machine.run("cat", ["/var/tmp/systemctl.log"])?;
    let told: Vec<_> = told
        .lines()
        .filter(|line| !line.starts_with("is-active"))
        .collect();
    let expected = [
        "daemon-reload",
        "enable kubelet",
        "restart kubelet",
        "disable --now kubelet",
        "daemon-reload",
    ];
    assert_eq!(told, expected);
    line.delete(&lab)?;
    node.remove()
}

/// As much of systemctl as a join needs: it starts what the drop-in says, and
/// writes down what it is told.
const SYSTEMCTL: &str = r#"#!/bin/sh
echo "$*" >> /var/tmp/systemctl.log
drop_in=/etc/systemd/system/kubelet.service.d/10-kubeadm.conf
pid=/var/tmp/systemctl.pid
case "$*" in
'restart kubelet')
    eval "$(sed -n 's/^Environment="\([A-Z_]*\)=\(.*\)"$/\1="\2"/p' $drop_in)"
    for file in $(sed -n 's/^EnvironmentFile=-//p' $drop_in); do
        test -e "$file" && . "$file"
    done
    eval "exec setsid $(sed -n 's/^ExecStart=\(..*\)/\1/p' $drop_in)" < /dev/null > /var/log/service.log 2>&1 &
    echo $! > $pid ;;
'disable --now kubelet')
    kill "$(cat $pid)"
    # Like systemd: until its last thread has given back what it had, its ports too.
    while grep -q '^State:.[^Z]' /proc/"$(cat $pid)"/task/*/status 2> /dev/null; do sleep 0.1; done ;;
'is-active --quiet kubelet')
    kill -0 "$(cat $pid)" 2> /dev/null ;;
esac
"#;

#[test]
fn what_is_wrong_is_told_and_nothing_is_left() -> Result<()> {
    let lab = Lab::shared()?;
    let node = machine(&lab, "join-wrong")?;
    let line = join_line(&lab, &[])?;
    let [endpoint, _, token, _, hash] = &line.words[..] else {
        panic!("{:?}", line.words);
    };
    let host = endpoint.trim_end_matches(":6443");
    let other_hash = format!("sha256:{}", "ab".repeat(32));
    let closed = format!("{host}:1");
    let registry = format!("{host}:5000");
    let other_secret = format!("{}.aaaaaaaaaaaaaaaa", &token[..6]);
    let unknown = "zzzzzz.0123456789abcdef";
    let cases = [
        (
            endpoint,
            &**token,
            &*other_hash,
            1,
            "which is none of those given",
        ),
        (
            endpoint,
            &*other_secret,
            &**hash,
            1,
            "tampered with, or the secret half",
        ),
        (
            endpoint,
            unknown,
            hash,
            1,
            "no signature by the token zzzzzz",
        ),
        (&closed, token, hash, 1, "connection refused"),
        (
            &registry,
            token,
            hash,
            1,
            "not an API server (it does not speak TLS)",
        ),
        (endpoint, "abcdef", hash, 2, "not of the form ID.SECRET"),
        (endpoint, token, "sha256:ab", 2, "64 are needed"),
        (
            &host.to_owned(),
            token,
            hash,
            2,
            "not of the form HOST:PORT",
        ),
    ];
    // Whoever asks before it is signed is told of that, and of nothing else.
    wait_signed(&lab, &token[..6])?;
    for (endpoint, token, hash, code, expected) in cases {
        let words = ["join", endpoint, "--token", token, "--timeout", "5s"];
        let pin = ["--discovery-token-ca-cert-hash", hash];
        said(&node, &[&words[..], &pin].concat())?.expect(code, expected)?;
        nothing_is_left(&node)?;
    }

    // A token that has expired: the cluster has taken its signature away.
    let with = |token: &str, patience: &str| {
        let words = ["join", endpoint, "--token", token, "--timeout", patience];
        let pin = ["--discovery-token-ca-cert-hash", hash];
        said(&node, &[&words[..], &pin].concat())
    };
    let past = json!({"expiration": "2020-01-01T00:00:00Z"});
    let expired = stored_token(&lab, "joinex", &past)?;
    with(&expired, "5s")?.expect(1, "the token has expired")?;

    // One that signs, and does not let anybody in.
    let shut = json!({"usage-bootstrap-authentication": "false"});
    let signing = stored_token(&lab, "joinsg", &shut)?;
    let refused = with(&signing, "30s")?;
    refused.expect(1, "error: node-name: ")?;
    refused.expect(1, "does not accept the token joinsg")?;
    nothing_is_left(&node)?;
    let secret = ["delete", "secret", "bootstrap-token-joinsg"];
    lab.kubectl()
        .run([&["--namespace", "kube-system"][..], &secret].concat())?;

    // One whose group may not ask for certificates; another one helps, without a reset.
    let flags = "KUBELET_EXTRA_ARGS=--fail-cgroupv1=false --fail-swap-on=false\n";
    node.machine().write(FLAGS_OF_THE_USER, flags)?;
    let group = ["--groups", "system:bootstrappers:join-nobody"];
    let nobody = join_line(&lab, &group)?;
    wait_signed(&lab, &nobody.words[2][..6])?;
    let skip = ["--skip-phases", "kubelet-config", "--timeout"];
    let waited = run(&node, &nobody, &[&skip[..], &["20s"]].concat())?;
    waited.expect(1, "no certificate after 20s")?;
    waited.expect(1, "--clusterrole=system:node-bootstrapper")?;
    let again = run(&node, &line, &[&skip[..], &["90s"]].concat())?;
    again.expect(0, "the token that a former run left")?;
    again.expect(0, "join-wrong has joined the cluster")?;
    is_the_node(&node)?;
    said(&node, &["reset", "--node", "--yes"])?.expect(0, "the join is undone")?;
    nobody.delete(&lab)?;
    lab.kubectl().run(["delete", "node", node.name()])?;

    // A file of somebody else is not overwritten, and nothing is written beside it.
    let mine = "/etc/kubernetes/pki/ca.crt";
    node.machine().write(mine, "mine")?;
    run(&node, &line, &[])?.expect(1, "/etc/kubernetes/pki/ca.crt is there already")?;
    ensure!(node.machine().run("cat", [mine])? == "mine");
    let others = node
        .machine()
        .run("find", ["/etc/kubernetes", "-type", "f"])?;
    ensure!(others.trim() == mine, "{others}");

    // Nor is a machine of a control plane made a node, or reset.
    node.machine().write("/etc/kubernetes/admin.conf", "x")?;
    run(&node, &line, &[])?.expect(1, "part of a control plane")?;
    said(&node, &["reset", "--node", "--yes"])?.expect(1, "part of the control plane")?;
    line.delete(&lab)?;
    node.remove()
}

/// What the program said, on both streams, and how it ended.
struct Said {
    code: Option<i32>,
    text: String,
}

impl Said {
    fn of(command: &mut Command) -> Result<Self> {
        let output = command.output()?;
        let text = [output.stdout, output.stderr].concat();
        Ok(Self {
            code: output.status.code(),
            text: String::from_utf8_lossy(&text).into_owned(),
        })
    }

    fn expect(&self, code: i32, words: &str) -> Result<()> {
        let Self { code: found, text } = self;
        ensure!(
            *found == Some(code) && text.contains(words),
            "exit {found:?} where {code} and {words:?} were expected:\n{text}"
        );
        Ok(())
    }
}

fn said(node: &Node, words: &[&str]) -> Result<Said> {
    Said::of(node.ferrolet().args(words))
}

/// Our join, with what kubeadm's line says.
fn run(node: &Node, line: &JoinLine, more: &[&str]) -> Result<Said> {
    said(node, &[&["join"], &line.words()[..], more].concat())
}

/// The line that kubeadm prints for whoever wants to join.
struct JoinLine {
    /// HOST:PORT --token T --discovery-token-ca-cert-hash H
    words: Vec<String>,
}

/// A token that kubeadm makes, and the line that it prints for it.
fn join_line(lab: &Lab, more: &[&str]) -> Result<JoinLine> {
    let words = [&CREATE[..], more].concat();
    read_line(&lab.control_plane().run("kubeadm", words)?)
}

/// The same by our own program.
fn own_join_line(lab: &Lab) -> Result<JoinLine> {
    let mut ours = Command::new(cargo::program("ferrolet")?);
    ours.args(CREATE)
        .arg("--kubeconfig")
        .arg(lab.admin_kubeconfig());
    read_line(&command::run(&mut ours)?)
}

const CREATE: [&str; 3] = ["token", "create", "--print-join-command"];

fn read_line(said: &str) -> Result<JoinLine> {
    let words = said.split_whitespace().map(str::to_owned);
    let words: Vec<_> = words.skip_while(|word| word != "join").skip(1).collect();
    ensure!(words.len() == 5, "{said}");
    Ok(JoinLine { words })
}

impl JoinLine {
    fn words(&self) -> Vec<&str> {
        self.words.iter().map(String::as_str).collect()
    }

    fn secret(&self) -> &str {
        self.words[2]
            .split_once('.')
            .map_or("", |(_, secret)| secret)
    }

    fn delete(&self, lab: &Lab) -> Result<()> {
        let words = ["token", "delete", &self.words[2][..6]];
        lab.control_plane().run("kubeadm", words).map(drop)
    }
}

/// A token as a Secret, with more in it. Whoever cleans tokens may take it at once.
fn stored_token(lab: &Lab, id: &str, more: &Value) -> Result<String> {
    let secret = "0123456789abcdef";
    let mut data = json!({
        "token-id": id,
        "token-secret": secret,
        "usage-bootstrap-authentication": "true",
        "usage-bootstrap-signing": "true",
    });
    let fields = data.as_object_mut().context("an object")?;
    fields.extend(more.as_object().context("an object")?.clone());
    let name = format!("bootstrap-token-{id}");
    let object = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": name, "namespace": "kube-system"},
        "stringData": data,
    });
    lab.kubectl().apply(&object.to_string())?;
    Ok(format!("{id}.{secret}"))
}

/// Waits until cluster-info is signed with the token of this id.
fn wait_signed(lab: &Lab, id: &str) -> Result<()> {
    let words = ["--namespace=kube-public", "get", "configmap/cluster-info"];
    let signature = format!("jws-kubeconfig-{id}");
    wait::until(&format!("a signature by the token {id}"), READY, || {
        let info = lab.kubectl().json(words)?;
        ensure!(info["data"][&signature].is_string(), "{info}");
        Ok(())
    })
}

/// A node that has our program, and nothing of a kubelet.
fn machine(lab: &Lab, name: &str) -> Result<Node> {
    let node = lab.node(name, Runtime::Containerd2)?;
    node.install_ferrolet()?;
    let words = ["delete", "node", name, "--ignore-not-found"];
    lab.kubectl().run(words)?;
    Ok(node)
}

fn nothing_is_left(node: &Node) -> Result<()> {
    for path in DIRECTORIES.iter().chain(&[PID_FILE]) {
        let path = node.machine().root(path);
        ensure!(!path.exists(), "{} is there", path.display());
    }
    Ok(())
}

/// The node's own kubeconfig opens the cluster, as this node.
fn is_the_node(node: &Node) -> Result<()> {
    let words = ["auth", "whoami", "-o", "json"];
    let place = ["--kubeconfig", "/etc/kubernetes/kubelet.conf"];
    let said = node
        .machine()
        .run("kubectl", [&place[..], &words].concat())?;
    let whoami: Value = serde_json::from_str(&said)?;
    let expected = format!("system:node:{}", node.name());
    ensure!(
        whoami["status"]["userInfo"]["username"] == *expected,
        "{said}"
    );
    Ok(())
}

/// Mode and content of a file, without what does not matter: quotes around an
/// address, and what a cluster is called inside a kubeconfig.
fn look(path: &Path) -> Result<(u32, String)> {
    let metadata = fs::metadata(path).with_context(|| path.display().to_string())?;
    let text = fs::read_to_string(path)?.replace('"', "");
    let unnamed = text
        .replace("name: lab\n", "name: kubernetes\n")
        .replace("cluster: lab\n", "cluster: kubernetes\n");
    Ok((metadata.permissions().mode() & 0o777, unnamed))
}
