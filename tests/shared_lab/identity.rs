//! Who our node is: from a bootstrap token to a certificate that the API server
//! knows, on files that the upstream kubelet can take over and hand back.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use testkit::lab::{FERROLET, Kubectl, Lab, Node, Runtime, Spec};
use testkit::{command, wait};

const SOON: Duration = Duration::from_secs(90);
const READY: Duration = Duration::from_secs(60);
const CURRENT: &str = "/var/lib/kubelet/pki/kubelet-client-current.pem";
const SERVING: &str = "/var/lib/kubelet/pki/kubelet-server-current.pem";
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const SERVING_SIGNER: &str = "kubernetes.io/kubelet-serving";

#[test]
fn a_token_becomes_a_certificate_with_which_the_node_sees_itself() -> Result<()> {
    let lab = Lab::shared()?;
    let node = fresh_node(&lab, "id-token")?;
    node.start_ferrolet("")?;
    wait_log(&node, "the own Node object is there")?;

    let requests = requests(&lab, &node, CLIENT_SIGNER)?;
    assert_eq!(requests.len(), 1);
    let spec = &requests[0]["spec"];
    assert_eq!(requests[0]["metadata"]["generateName"], "csr-");
    assert_eq!(spec["usages"], json!(["digital signature", "client auth"]));
    assert!(spec.get("expirationSeconds").is_none(), "{spec}");
    let asked_as = spec["username"].as_str().unwrap_or_default();
    assert!(asked_as.starts_with("system:bootstrap:"), "{asked_as}");

    let subject = openssl(&node, CURRENT, &["-subject", "-nameopt", "RFC2253"])?;
    assert_eq!(
        subject.trim(),
        "subject=CN=system:node:id-token,O=system:nodes"
    );
    let key = node
        .machine()
        .run("openssl", ["pkey", "-in", CURRENT, "-noout", "-text"])?;
    assert!(key.contains("prime256v1"), "{key}");
    let stored = fs::read_link(node.machine().root(CURRENT))?;
    let stored = node.machine().root(stored.to_str().context("a name")?);
    assert_eq!(fs::metadata(stored)?.permissions().mode() & 0o777, 0o600);

    let whoami = as_node(&node, &["auth", "whoami", "-o", "json"])?;
    let whoami: Value = serde_json::from_str(&whoami)?;
    assert_eq!(
        whoami["status"]["userInfo"]["username"],
        "system:node:id-token"
    );
    let own = as_node(&node, &["get", "node", "id-token", "-o", "name"])?;
    assert_eq!(own.trim(), "node/id-token");
    let others = as_node(&node, &["get", "secrets", "--all-namespaces"]);
    assert!(others.is_err(), "a node may not list secrets");

    // Ends at once when it is told to, and says where it stood.
    node.kubelet().stop()?;
    let (status, said) = certs(&node, &["status"])?;
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("client certificate: valid"), "{said}");
    unregister(&lab, &node)?;
    node.remove()
}

#[test]
fn the_upstream_kubelet_goes_on_with_our_files_and_we_with_its() -> Result<()> {
    let lab = Lab::shared()?;
    let node = fresh_node(&lab, "id-swap")?;
    node.start_ferrolet("")?;
    wait_log(&node, "the node has an identity")?;
    let ours = fs::read_link(node.machine().root(CURRENT))?;
    node.kubelet().stop()?;

    node.start_upstream_kubelet("")?;
    node.wait_ready(READY)?;
    assert_eq!(fs::read_link(node.machine().root(CURRENT))?, ours);
    assert_eq!(
        requests(&lab, &node, CLIENT_SIGNER)?.len(),
        1,
        "no second request"
    );
    node.kubelet().stop()?;

    // Now the other way: upstream begins with nothing but a token.
    for path in ["/etc/kubernetes/kubelet.conf", CURRENT] {
        fs::remove_file(node.machine().root(path))?;
    }
    node.start_upstream_kubelet("")?;
    let renewed = || -> Result<()> {
        let now = fs::read_link(node.machine().root(CURRENT))?;
        ensure!(now != ours, "not yet");
        Ok(())
    };
    wait::until("upstream's certificate", READY, renewed)?;
    let theirs = fs::read_link(node.machine().root(CURRENT))?;
    node.kubelet().stop()?;
    // What the first agent said is not what the second says.
    fs::remove_file(node.kubelet().log_file())?;
    node.start_ferrolet("")?;
    wait_log(&node, "the own Node object is there")?;
    assert_eq!(fs::read_link(node.machine().root(CURRENT))?, theirs);
    assert_eq!(
        requests(&lab, &node, CLIENT_SIGNER)?.len(),
        2,
        "one of each"
    );
    node.kubelet().stop()?;
    unregister(&lab, &node)?;
    node.remove()
}

#[test]
fn without_rotation_the_first_certificate_has_a_request_of_a_fixed_name() -> Result<()> {
    let lab = Lab::shared()?;
    let node = fresh_node(&lab, "id-once")?;
    node.start_ferrolet("rotateCertificates: false\n")?;
    wait_log(&node, "the node has an identity")?;
    let requests = requests(&lab, &node, CLIENT_SIGNER)?;
    assert_eq!(requests.len(), 1);
    let name = requests[0]["metadata"]["name"].as_str().unwrap_or_default();
    assert!(name.starts_with("node-csr-") && name.len() == 52, "{name}");
    let key = node
        .machine()
        .root("/var/lib/kubelet/pki/kubelet-client.key.tmp");
    assert!(!key.exists(), "the key is in the pair now");
    let own = as_node(&node, &["auth", "whoami", "-o", "json"])?;
    assert!(own.contains("system:node:id-once"), "{own}");
    node.kubelet().stop()?;
    node.remove()
}

#[test]
fn a_kubeconfig_with_a_token_is_enough_to_get_a_certificate_of_its_own() -> Result<()> {
    let lab = Lab::shared()?;
    let node = fresh_node(&lab, "id-kubeconfig")?;
    node.install_ferrolet()?;
    let token = lab.bootstrap_kubeconfig()?;
    node.machine().write("/var/tmp/kubelet.conf", &token)?;
    let words = [
        "kubelet",
        "--kubeconfig=/var/tmp/kubelet.conf",
        "--rotate-certificates",
        "--fail-cgroupv1=false",
    ];
    node.kubelet().start(&Spec {
        program: FERROLET.to_owned(),
        arguments: words.map(str::to_owned).to_vec(),
        ..Spec::default()
    })?;
    wait_log(&node, "the node has an identity")?;
    assert_eq!(requests(&lab, &node, CLIENT_SIGNER)?.len(), 1);
    let kept = fs::read_to_string(node.machine().root("/var/tmp/kubelet.conf"))?;
    assert_eq!(kept, token, "the operator's file is left as it was");
    node.kubelet().stop()?;
    node.remove()
}

#[test]
fn a_serving_certificate_waits_for_approval_and_says_so() -> Result<()> {
    let lab = Lab::shared()?;
    let kubectl = lab.kubectl();
    let node = fresh_node(&lab, "id-serving")?;
    // It does not look at its addresses again while the test adds one.
    node.start_ferrolet("serverTLSBootstrap: true\nnodeStatusUpdateFrequency: 5m\n")?;
    node.wait_ready(READY)?;
    let first = wait_pending(&lab, &node)?;

    // The command that it prints is the one that helps.
    let advice = format!("kubectl certificate approve {first}");
    let told = || -> Result<()> {
        let (status, said) = certs(&node, &["status"])?;
        ensure!(status == 1 && said.contains(&advice), "{said}");
        Ok(())
    };
    wait::until("certs status to name the request", SOON, told)?;
    wait::until("an event about the request", SOON, || -> Result<()> {
        let events = kubectl.run([
            "get",
            "events",
            "--namespace",
            "default",
            "--field-selector",
            "involvedObject.name=id-serving,reason=ServingCertificatePending",
            "-o",
            "jsonpath={.items[*].message}",
        ])?;
        ensure!(events.contains(&first), "{events}");
        Ok(())
    })?;
    assert!(!node.machine().root(SERVING).exists());
    kubectl.run(["certificate", "approve", &first])?;
    let own = format!("IP Address:{}", node.address());
    wait_names(&node, &["DNS:id-serving", &own])?;

    // Another address needs another certificate; until then the old one serves.
    add_address(&kubectl, &node, "10.76.9.2")?;
    let second = wait_pending(&lab, &node)?;
    assert_ne!(first, second);
    kubectl.run(["certificate", "approve", &second])?;
    wait_names(&node, &["DNS:id-serving", &own, "IP Address:10.76.9.2"])?;
    let (status, said) = certs(&node, &["check"])?;
    assert_eq!(status, 0, "{said}");
    node.kubelet().stop()?;
    unregister(&lab, &node)?;
    node.remove()
}

#[test]
fn what_a_tired_operator_gets_wrong_is_named_with_its_remedy() -> Result<()> {
    let lab = Lab::shared()?;
    let node = fresh_node(&lab, "id-wrong")?;
    node.install_ferrolet()?;
    let machine = node.machine();
    let authority = lab.authority()?;
    let server = lab.inner_url();
    let config = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfailCgroupV1: false\n";
    machine.write("/var/tmp/config.yaml", config)?;
    machine.write("/var/tmp/ca.crt", &authority)?;
    let kubeconfig = |cluster: &str, user: &str, context: &str| {
        format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{{cluster}}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n{context}"
        )
    };
    let good = format!("server: '{server}', certificate-authority: /var/tmp/ca.crt");
    let current = "current-context: x\n";
    let cases = [
        (
            "no current-context",
            kubeconfig(&good, "token: a.b", ""),
            "current-context is not set",
        ),
        (
            "a missing file",
            kubeconfig(
                &good,
                "client-certificate: /var/tmp/none.pem, client-key: /var/tmp/none.pem",
                current,
            ),
            "/var/tmp/none.pem",
        ),
        (
            "an unknown token",
            kubeconfig(&good, "token: abcdef.0123456789abcdef", current),
            "kubeadm token create",
        ),
        (
            "a key of another certificate",
            kubeconfig(
                &good,
                "client-certificate: /var/tmp/a.crt, client-key: /var/tmp/b.key",
                current,
            ),
            "does not belong to the certificate",
        ),
    ];
    for name in ["a", "b"] {
        let script = format!(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name} -keyout /var/tmp/{name}.key -out /var/tmp/{name}.crt"
        );
        machine.run("sh", ["-c", &script])?;
    }
    let bootstrapping = [
        "--bootstrap-kubeconfig=/var/tmp/bootstrap.conf",
        "--kubeconfig=/var/tmp/kubelet.conf",
    ];
    for (what, bootstrap, expected) in cases {
        machine.write("/var/tmp/bootstrap.conf", bootstrap)?;
        let said = fails_at_once(&node, &bootstrapping)?;
        ensure!(said.contains(expected), "{what}: {said}");
        ensure!(
            !machine.root("/var/tmp/kubelet.conf").exists(),
            "{what} leaves nothing behind"
        );
    }
    // What may heal by itself does not end a node that rotates.
    let patient = [
        (
            kubeconfig("server: 'https://10.76.0.1:1'", "token: a.b", current),
            "https://10.76.0.1:1 cannot be reached: connection refused",
        ),
        (
            kubeconfig(&format!("server: '{server}'"), "token: a.b", current),
            "unknown authority",
        ),
    ];
    // Nor does the wait of a node that does not rotate keep it from ending.
    machine.write("/var/tmp/bootstrap.conf", &patient[0].0)?;
    goes_on_until_told(&node, &bootstrapping, "10.76.0.1:1")?;
    for (bootstrap, expected) in patient {
        machine.write("/var/tmp/bootstrap.conf", bootstrap)?;
        let flags = [&bootstrapping[..], &["--rotate-certificates"]].concat();
        goes_on_until_told(&node, &flags, expected)?;
    }
    let said = fails_at_once(&node, &["--kubeconfig=/var/tmp/none.conf"])?;
    ensure!(
        said.contains("/var/tmp/none.conf") && said.contains("--bootstrap-kubeconfig"),
        "{said}"
    );
    node.remove()
}

/// Runs our kubelet, which ends by itself with an error.
fn fails_at_once(node: &Node, flags: &[&str]) -> Result<String> {
    let mut command = node.machine().command("timeout");
    // Whoever goes on is told to end, and that is another code.
    command.args(["--preserve-status", "--signal=TERM", "60", FERROLET]);
    let output = command.args(once(flags)).output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let code = output.status.code();
    ensure!(code == Some(1), "{}: {said}", output.status);
    Ok(said)
}

/// Runs our kubelet until it has said something, and sees that it ends soon when it is told to.
fn goes_on_until_told(node: &Node, flags: &[&str], words: &str) -> Result<()> {
    let what = format!("the end of a kubelet that says {words:?}");
    wait::promised(&what, Duration::from_secs(2), || {
        let kubelet = node.kubelet();
        let _ = fs::remove_file(kubelet.log_file());
        kubelet.start(&Spec {
            program: FERROLET.to_owned(),
            arguments: once(flags).into_iter().map(str::to_owned).collect(),
            ..Spec::default()
        })?;
        wait_log(node, words)?;
        let told = Instant::now();
        kubelet.stop()?;
        Ok((told.elapsed(), ()))
    })
}

fn once<'f>(flags: &[&'f str]) -> Vec<&'f str> {
    let own = [
        "kubelet",
        "--config=/var/tmp/config.yaml",
        "--cert-dir=/var/tmp/pki",
    ];
    own.into_iter().chain(flags.iter().copied()).collect()
}

/// A node of which the cluster knows nothing, not even from an earlier run.
fn fresh_node(lab: &Lab, name: &str) -> Result<Node> {
    let node = lab.node(name, Runtime::Containerd2)?;
    for signer in [CLIENT_SIGNER, SERVING_SIGNER] {
        for request in requests(lab, &node, signer)? {
            let csr = request["metadata"]["name"].as_str().context("a name")?;
            lab.kubectl().run(["delete", "csr", csr])?;
        }
    }
    let words = ["delete", "node", name, "--ignore-not-found"];
    lab.kubectl().run(words)?;
    Ok(node)
}

fn unregister(lab: &Lab, node: &Node) -> Result<()> {
    lab.kubectl()
        .run(["delete", "node", node.name(), "--wait=false"])?;
    Ok(())
}

/// One more address, beside those that the agent has found.
fn add_address(kubectl: &Kubectl, node: &Node, address: &str) -> Result<()> {
    let addresses = json!([{"type": "ExternalIP", "address": address}]);
    let patch = json!({"status": {"addresses": addresses}}).to_string();
    kubectl.run([
        "patch",
        "node",
        node.name(),
        "--subresource=status",
        "--patch",
        &patch,
    ])?;
    Ok(())
}

/// Requests for this node, oldest first.
fn requests(lab: &Lab, node: &Node, signer: &str) -> Result<Vec<Value>> {
    let subject = format!("CN = system:node:{}", node.name());
    let mut all = lab
        .kubectl()
        .json(["get", "csr", "--sort-by=.metadata.creationTimestamp"])?;
    let items = all["items"].as_array_mut().context("a list")?;
    let mut found = Vec::new();
    for item in std::mem::take(items) {
        if item["spec"]["signerName"] != signer {
            continue;
        }
        let pem = item["spec"]["request"].as_str().context("a request")?;
        let script = format!("echo {pem} | base64 -d | openssl req -noout -subject");
        let said = command::run(std::process::Command::new("sh").args(["-c", &script]))?;
        if said.trim().ends_with(&subject) {
            found.push(item);
        }
    }
    Ok(found)
}

/// The name of the serving request that nobody has answered.
fn wait_pending(lab: &Lab, node: &Node) -> Result<String> {
    wait::until("a serving request", SOON, || -> Result<String> {
        let requests = requests(lab, node, SERVING_SIGNER)?;
        let open = requests
            .iter()
            .find(|csr| csr["status"].get("conditions").is_none());
        let open = open.context("none is open")?;
        let name = open["metadata"]["name"].as_str();
        Ok(name.context("a name")?.to_owned())
    })
}

/// These names and no other, in whatever order.
fn wait_names(node: &Node, names: &[&str]) -> Result<()> {
    let mut names = names.to_vec();
    names.sort_unstable();
    wait::until("the serving certificate", SOON, || -> Result<()> {
        let said = openssl(node, SERVING, &["-ext", "subjectAltName"])?;
        let last = said.lines().last().unwrap_or_default();
        let mut found: Vec<&str> = last.split(',').map(str::trim).collect();
        found.sort_unstable();
        ensure!(found == names, "{said}");
        Ok(())
    })
}

fn openssl(node: &Node, file: &str, what: &[&str]) -> Result<String> {
    let words = ["x509", "-in", file, "-noout"];
    node.machine().run("openssl", [&words[..], what].concat())
}

/// kubectl in the node, with the kubeconfig that our agent wrote.
fn as_node(node: &Node, words: &[&str]) -> Result<String> {
    let place = ["--kubeconfig", "/etc/kubernetes/kubelet.conf"];
    node.machine().run("kubectl", [&place[..], words].concat())
}

fn certs(node: &Node, words: &[&str]) -> Result<(i32, String)> {
    let Output {
        status,
        stdout,
        stderr,
    } = node.ferrolet().arg("certs").args(words).output()?;
    let said = [stdout, stderr].concat();
    let code = status.code().context("an exit code")?;
    Ok((code, String::from_utf8_lossy(&said).into_owned()))
}

fn wait_log(node: &Node, words: &str) -> Result<()> {
    wait::until(&format!("the agent to say {words:?}"), SOON, || {
        let log = node.kubelet().log();
        if log.contains(words) {
            return Ok(());
        }
        bail!("it says:\n{log}")
    })
}
