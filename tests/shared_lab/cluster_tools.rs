//! The cluster's tools against a cluster that kubeadm made: the same objects as
//! kubeadm makes, and what the classic guides do by hand, by our commands alone.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::lab::{Kubectl, Lab};
use testkit::{cargo, command, wait};

const SOON: Duration = Duration::from_secs(90);
const KIND: &str = "certificatesigningrequest.certificates.k8s.io";
const NODE_CLIENT: &str = "system:certificates.k8s.io:certificatesigningrequests:nodeclient";
const NODE_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const SERVING_SIGNER: &str = "kubernetes.io/kubelet-serving";

#[test]
fn tokens_are_the_ones_that_kubeadm_makes() -> Result<()> {
    let tools = Tools::new()?;
    let token = "tools1.0123456789abcdef";
    tools.kubectl.run([
        "--namespace=kube-system",
        "delete",
        "secret",
        "bootstrap-token-tools1",
        "--ignore-not-found",
    ])?;
    for words in [
        &["--description", "rack 7, top", "--ttl", "2h30m"][..],
        &["--ttl", "0", "--usages", "signing,authentication"],
        &[
            "--groups",
            "system:bootstrappers:tools-a,system:bootstrappers:tools-b",
            "--usages",
            "authentication",
        ],
    ] {
        let create = [&["token", "create", token][..], words].concat();
        assert_eq!(tools.kubeadm(&create)?.trim(), token);
        let theirs = token_secret(&tools.kubectl)?;
        let their_line = line_of(&tools.kubeadm(&["token", "list"])?, token)?;
        tools.kubeadm(&["token", "delete", "tools1"])?;

        assert_eq!(tools.printed(&create)?.trim(), token);
        let ours = token_secret(&tools.kubectl)?;
        assert_eq!(ours, theirs, "{words:?}");
        let our_line = line_of(&tools.printed(&["token", "list"])?, token)?;
        let as_kubeadm_tells = line_of(&tools.kubeadm(&["token", "list"])?, token)?;
        assert_eq!(without_time(&our_line), without_time(&their_line));
        assert_eq!(our_line, as_kubeadm_tells);

        let again = tools.refused(&create)?;
        ensure!(again.contains("ferrolet token delete tools1"), "{again}");
        tools.printed(&["token", "delete", token])?;
        let gone = tools.refused(&["token", "delete", "tools1"])?;
        ensure!(gone.contains("no token with the id tools1"), "{gone}");
    }

    // Both print the pin of the same authority.
    let create = ["token", "create", token, "--print-join-command"];
    let theirs = tools.kubeadm(&create)?;
    tools.kubeadm(&["token", "delete", token])?;
    let ours = tools.printed(&create)?;
    tools.printed(&["token", "delete", token])?;
    let behind = |line: &str| -> Result<String> {
        let (_, rest) = line.split_once(" --token ").context("a token")?;
        Ok(rest.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    assert_eq!(behind(&ours)?, behind(&theirs)?);
    let place = tools.lab.inner_url();
    let place = place.trim_start_matches("https://");
    ensure!(
        ours.starts_with(&format!("ferrolet join {place} ")),
        "{ours}"
    );
    Ok(())
}

#[test]
fn roles_are_the_ones_that_kubeadm_makes() -> Result<()> {
    let tools = Tools::new()?;
    let said = tools.printed(&["rbac", "bootstrap"])?;
    assert_eq!(said.lines().count(), 6);
    ensure!(
        said.lines().all(|line| line.ends_with(" unchanged")),
        "{said}"
    );
    let ours: Value =
        serde_json::from_str(&tools.printed(&["rbac", "bootstrap", "--dry-run", "-o", "json"])?)?;
    for object in ours["items"].as_array().context("a list")? {
        let (kind, name) = (&object["kind"], &object["metadata"]["name"]);
        let (kind, name) = (
            kind.as_str().context("kind")?,
            name.as_str().context("name")?,
        );
        let theirs = tools.kubectl.json(["get", kind, name])?;
        assert_eq!(meaning(object), meaning(&theirs), "{kind} {name}");
    }

    let group = "system:bootstrappers:tools-roles";
    let own = OwnBindings::of(&tools, group)?;
    let bootstrap = ["rbac", "bootstrap", "--group", group];
    let first = tools.printed(&bootstrap)?;
    assert_eq!(first.matches(" created\n").count(), 3, "{first}");
    for name in &own.names {
        ensure!(first.contains(&format!("/{name} created\n")), "{first}");
    }
    let second = tools.printed(&bootstrap)?;
    assert_eq!(second.matches(" unchanged\n").count(), 6, "{second}");

    // What somebody else has put there is not touched.
    let binding = &own.names[1];
    tools
        .kubectl
        .run(["delete", "clusterrolebinding", binding])?;
    tools.kubectl.run([
        "create",
        "clusterrolebinding",
        binding,
        "--clusterrole=view",
        "--group=tools-somebody",
    ])?;
    let output = tools.command(&bootstrap).output()?;
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr)?;
    ensure!(said.contains(binding) && said.contains("view"), "{said}");
    let before = String::from_utf8(output.stdout)?;
    assert_eq!(before.lines().count(), 2, "those before it: {before}");
    Ok(())
}

#[test]
fn a_certificate_for_a_person_as_the_guides_get_it() -> Result<()> {
    let tools = Tools::new()?;
    tools.forget("jane-")?;
    let create = [
        "csr",
        "create",
        "--subject",
        "CN=jane,O=dev,O=ops",
        "--expires",
        "24h",
        "--timeout",
    ];
    let said = tools.refused(&[&create[..], &["2s"]].concat())?;
    ensure!(said.contains("still waiting for approval"), "{said}");
    let key = fs::read(tools.path("jane.key"))?;
    assert_eq!(mode(&tools.path("jane.key"))?, 0o600);
    let name = tools.request_named("jane-")?;
    ensure!(
        said.contains(&format!("ferrolet csr approve {name}")),
        "{said}"
    );

    let shown = tools.printed(&["csr", "show", &name])?;
    for line in [
        "Requested by:       kubernetes-admin\n",
        "Status:             Pending\n",
        "Wished life:        24h\n",
        "Subject:            CN=jane, O=dev, O=ops\n",
        "  in the groups:    dev, ops\n",
        "Auto-approval:      no: ",
    ] {
        ensure!(shown.contains(line), "{line:?} is not in {shown}");
    }
    let listed = tools.printed(&["csr", "list"])?;
    let ours = line_of(&listed, &name)?;
    let theirs = line_of(&tools.kubectl.run(["get", "csr"])?, &name)?;
    // All of kubectl's columns but the age, which may have grown.
    let columns = |line: &str| -> Vec<String> {
        let cells = line.split_whitespace().map(str::to_owned);
        cells
            .enumerate()
            .filter(|(index, _)| *index != 1)
            .map(|(_, cell)| cell)
            .take(5)
            .collect()
    };
    assert_eq!(columns(&ours), columns(&theirs));
    ensure!(ours.contains("CN=jane, O=dev, O=ops"), "{ours}");

    let approved = tools.printed(&["csr", "approve", &name])?;
    assert_eq!(approved, format!("{KIND}/{name} approved\n"));
    let done = tools.printed(&[&create[..], &["30s"]].concat())?;
    assert_eq!(done.lines().count(), 4, "{done}");
    assert_eq!(fs::read(tools.path("jane.key"))?, key, "the same key");
    let certificate = tools.path("jane.crt");
    let subject = command::run(
        Command::new("openssl")
            .args(["x509", "-noout", "-subject", "-nameopt", "RFC2253", "-in"])
            .arg(&certificate),
    )?;
    assert_eq!(subject.trim(), "subject=CN=jane,O=ops+O=dev");
    let kubeconfig = tools.path("jane.kubeconfig");
    assert_eq!(mode(&kubeconfig)?, 0o600);
    let whoami = tools
        .kubectl
        .with_kubeconfig(&kubeconfig)
        .json(["auth", "whoami"])?;
    let user = &whoami["status"]["userInfo"];
    assert_eq!(user["username"], "jane");
    assert_eq!(
        user["groups"],
        json!(["dev", "ops", "system:authenticated"])
    );

    // A run after the end has nothing to ask, and changes nothing.
    tools.kubectl.run(["delete", "csr", &name])?;
    let before = fs::read(&certificate)?;
    assert_eq!(tools.printed(&[&create[..], &["30s"]].concat())?, done);
    assert_eq!(fs::read(&certificate)?, before);

    // No permission for a step.
    let said = tools
        .with(&kubeconfig)
        .refused(&["csr", "approve", &name])?;
    ensure!(
        said.contains("forbids") && said.contains("administrator"),
        "{said}"
    );
    Ok(())
}

#[test]
fn a_denied_request_says_so_and_how_to_go_on() -> Result<()> {
    let tools = Tools::new()?;
    let create = [
        "csr",
        "create",
        "--subject",
        "CN=tools-joe",
        "--key-type",
        "ed25519",
        "--timeout",
        "30s",
    ];
    let waiting = [&create[..], &["--wait=false", "-o", "name"]].concat();
    let name = tools.printed(&waiting)?;
    let name = name.trim();
    let denied = tools.printed(&[
        "csr",
        "deny",
        name,
        "--reason",
        "Unknown",
        "--message",
        "who is joe",
    ])?;
    assert_eq!(denied, format!("{name} denied\n"));
    let bare = name.split_once('/').context("a kind")?.1;
    let said = tools.refused(&create)?;
    ensure!(said.contains("Unknown: who is joe"), "{said}");
    let advice = format!("kubectl delete csr {bare}");
    ensure!(said.contains(&advice), "{said}");
    let shown = tools.printed(&["csr", "show", bare])?;
    ensure!(shown.contains("Unknown: who is joe"), "{shown}");
    let said = tools.refused(&["csr", "approve", bare, "tools-none"])?;
    ensure!(said.contains("cannot be taken back"), "{said}");
    ensure!(said.contains("there is no request tools-none"), "{said}");

    // What the advice promises.
    tools.kubectl.run(["delete", "csr", bare])?;
    assert_eq!(tools.printed(&waiting)?.trim(), name);
    tools.printed(&["csr", "approve", name])?;
    tools.printed(&create)?;
    tools.kubectl.run(["delete", "csr", bare])?;
    Ok(())
}

#[test]
fn ctrl_c_leaves_what_a_second_run_finishes() -> Result<()> {
    let tools = Tools::new()?;
    tools.forget("tools-kim-")?;
    let create = [
        "csr",
        "create",
        "--subject",
        "CN=tools-kim",
        "--timeout",
        "60s",
    ];
    let mut first = Running::start(tools.command(&create))?;
    let name = wait::until("the request", SOON, || tools.request_named("tools-kim-"))?;
    first.signal("INT")?;
    assert_eq!(first.wait()?, Some(1));
    tools.printed(&["csr", "approve", &name])?;
    tools.printed(&create)?;
    assert_eq!(
        tools.request_named("tools-kim-")?,
        name,
        "no second request"
    );
    tools.kubectl.run(["delete", "csr", &name])?;
    Ok(())
}

#[test]
fn a_node_is_approved_by_the_cluster_once_its_group_is_bound() -> Result<()> {
    let tools = Tools::new()?;
    tools.forget("system-node-tools-n1-")?;
    let group = "system:bootstrappers:tools-nodes";
    let own = OwnBindings::of(&tools, group)?;
    let token = tools.printed(&["token", "create", "--ttl", "1h", "--groups", group])?;
    let token = token.trim();
    fs::write(tools.path("ca.crt"), tools.lab.authority()?)?;
    let url = tools.lab.url();
    let words = [
        "kubeconfig",
        "bootstrap",
        "--server",
        &url,
        "--ca",
        "ca.crt",
        "--out",
        "bootstrap.conf",
        "--token",
        token,
    ];
    tools.plain(&words)?;
    let node = tools.with(&tools.path("bootstrap.conf"));
    let create = [
        "csr",
        "create",
        "--signer",
        NODE_SIGNER,
        "--out",
        "node",
        "--subject",
        "O=system:nodes,CN=system:node:tools-n1",
        "--timeout",
    ];

    // The API server hears of a token a moment after it is made.
    let forbidden = || -> Result<()> {
        let said = node.refused(&[&create[..], &["1s"]].concat())?;
        ensure!(said.contains("forbids"), "{said}");
        ensure!(
            !said.contains(token),
            "a token is not to be repeated: {said}"
        );
        Ok(())
    };
    wait::until("a token that may nothing", SOON, forbidden)?;

    // It may ask, and that is all: one of the three bindings.
    tools.kubectl.run([
        "create",
        "clusterrolebinding",
        &own.names[1],
        "--clusterrole=system:node-bootstrapper",
        &format!("--group={group}"),
    ])?;
    let pending = || -> Result<()> {
        let said = node.refused(&[&create[..], &["1s"]].concat())?;
        ensure!(said.contains("still waiting"), "{said}");
        Ok(())
    };
    wait::until("a request that waits", SOON, pending)?;
    let name = tools.request_named("system-node-tools-n1-")?;
    let shown = tools.printed(&["csr", "show", &name])?;
    ensure!(
        shown.contains(&format!("lacks the role {NODE_CLIENT}")),
        "{shown}"
    );
    let advice = format!("--clusterrole={NODE_CLIENT} --group={group}\n");
    ensure!(shown.contains(&advice), "{shown}");

    tools.printed(&["rbac", "bootstrap", "--group", group])?;
    let shown = tools.printed(&["csr", "show", &name, "-o", "json"])?;
    let shown: Value = serde_json::from_str(&shown)?;
    let verdict = &shown["autoApproval"]["wouldApprove"];
    ensure!(
        *verdict == true || shown["condition"] != "Pending",
        "{shown}"
    );
    node.printed(&[&create[..], &["90s"]].concat())?;
    let approved = tools.printed(&["csr", "show", &name])?;
    ensure!(approved.contains("AutoApproved"), "{approved}");
    let kubeconfig = tools.path("node.kubeconfig");
    let whoami = tools
        .kubectl
        .with_kubeconfig(&kubeconfig)
        .json(["auth", "whoami"])?;
    assert_eq!(
        whoami["status"]["userInfo"]["username"],
        "system:node:tools-n1"
    );
    tools.printed(&["token", "delete", token])?;
    tools.kubectl.run(["delete", "csr", &name])?;
    Ok(())
}

#[test]
fn serving_requests_are_approved_for_a_nodes_own_addresses_only() -> Result<()> {
    let tools = Tools::new()?;
    tools.forget("system-node-tools-serving-")?;
    let kubectl = &tools.kubectl;
    make_approver(kubectl)?;
    register(kubectl, "tools-serving", "10.76.99.1")?;
    let node = tools.impersonating("node", "system:node:tools-serving", &["system:nodes"])?;
    let approver = tools.impersonating("approver", "tools-approver", &[])?;
    let mut watching =
        Running::start(approver.command(&["csr", "approve", "--watch", "--kubelet-serving"]))?;

    let subject = "CN=system:node:tools-serving,O=system:nodes";
    let serving = |out: &'static str, address: &'static str, timeout: &'static str| {
        [
            "csr",
            "create",
            "--subject",
            subject,
            "--signer",
            SERVING_SIGNER,
            "--dns",
            "tools-serving",
            "--ip",
            address,
            "--out",
            out,
            "--timeout",
            timeout,
        ]
    };
    // The forged one first: it is refused by the time the other is approved.
    let forged = handed_in(&node.refused(&serving("forged", "10.76.99.2", "1s"))?)?;
    node.printed(&serving("own", "10.76.99.1", "30s"))?;
    let issued = command::run(
        Command::new("openssl")
            .args(["x509", "-noout", "-ext", "subjectAltName", "-in"])
            .arg(tools.path("own.crt")),
    )?;
    ensure!(issued.contains("IP Address:10.76.99.1"), "{issued}");
    ensure!(!tools.path("own.kubeconfig").exists(), "it logs nobody in");

    // It has become the node's address, without a change to the request.
    let pending = tools.printed(&["csr", "show", &forged])?;
    ensure!(pending.contains("Status:             Pending"), "{pending}");
    set_address(kubectl, "tools-serving", "10.76.99.2")?;
    node.printed(&serving("forged", "10.76.99.2", "30s"))?;

    watching.signal("TERM")?;
    assert_eq!(watching.wait()?, Some(0));
    let said = watching.printed()?;
    let of_forged: Vec<&str> = said.lines().filter(|line| line.contains(&forged)).collect();
    let [first, second] = of_forged[..] else {
        bail!("a refusal and an approval are expected: {said}");
    };
    ensure!(
        first.contains("refused: 10.76.99.2 is not an address of the Node tools-serving"),
        "{first}"
    );
    ensure!(
        second.ends_with(" of system:node:tools-serving approved"),
        "{second}"
    );

    tools.forget("system-node-tools-serving-")?;
    kubectl.run(["delete", "node", "tools-serving", "--wait=false"])?;
    kubectl.run(["delete", "clusterrole,clusterrolebinding", "tools-approver"])?;
    Ok(())
}

/// Our program on the host, as the administrator or as somebody else.
struct Tools {
    lab: Lab,
    kubectl: Kubectl,
    program: PathBuf,
    directory: TempDir,
    kubeconfig: PathBuf,
}

impl Tools {
    fn new() -> Result<Self> {
        let lab = Lab::shared()?;
        Ok(Self {
            kubectl: lab.kubectl(),
            program: cargo::program("ferrolet")?,
            directory: TempDir::new()?,
            kubeconfig: lab.admin_kubeconfig(),
            lab,
        })
    }

    /// The same with another kubeconfig, in the same directory.
    fn with(&self, kubeconfig: &Path) -> Other<'_> {
        Other {
            tools: self,
            kubeconfig: kubeconfig.to_owned(),
        }
    }

    /// The administrator, acting as somebody else.
    fn impersonating(&self, file: &str, user: &str, groups: &[&str]) -> Result<Other<'_>> {
        let mut config = self.kubectl.json(["config", "view", "--raw"])?;
        let acting = &mut config["users"][0]["user"];
        acting["as"] = json!(user);
        acting["as-groups"] = json!([groups, &["system:authenticated"][..]].concat());
        let path = self.path(file);
        fs::write(&path, config.to_string())?;
        Ok(self.with(&path))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        self.with(&self.kubeconfig).command(words)
    }

    fn printed(&self, words: &[&str]) -> Result<String> {
        self.with(&self.kubeconfig).printed(words)
    }

    fn refused(&self, words: &[&str]) -> Result<String> {
        self.with(&self.kubeconfig).refused(words)
    }

    /// A command that takes no kubeconfig.
    fn plain(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.current_dir(self.directory.path()).args(words);
        command::run(&mut command)
    }

    fn kubeadm(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(self.lab.programs().join("kubeadm"));
        command
            .args(words)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig);
        command::run(&mut command)
    }

    /// Removes what an earlier run may have left.
    fn forget(&self, prefix: &str) -> Result<()> {
        let names = self.printed(&["csr", "list", "-o", "name"])?;
        let prefix = format!("{KIND}/{prefix}");
        for name in names.lines().filter(|name| name.starts_with(&prefix)) {
            self.kubectl.run(["delete", name, "--ignore-not-found"])?;
        }
        Ok(())
    }

    /// The only request whose name begins so.
    fn request_named(&self, prefix: &str) -> Result<String> {
        let names = self.printed(&["csr", "list", "-o", "name"])?;
        let prefix = format!("{KIND}/{prefix}");
        let mut found = names.lines().filter(|name| name.starts_with(&prefix));
        let name = found
            .next()
            .with_context(|| format!("no {prefix} in {names}"))?;
        ensure!(found.next().is_none(), "several {prefix} in {names}");
        Ok(name[KIND.len() + 1..].to_owned())
    }
}

/// Our program with a kubeconfig of its own.
struct Other<'a> {
    tools: &'a Tools,
    kubeconfig: PathBuf,
}

impl Other<'_> {
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.tools.program);
        command.current_dir(self.tools.directory.path()).args(words);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        command
    }

    fn printed(&self, words: &[&str]) -> Result<String> {
        command::run(&mut self.command(words))
    }

    /// Runs what must fail, and answers what was said of it.
    fn refused(&self, words: &[&str]) -> Result<String> {
        let Output {
            status,
            stdout,
            stderr,
        } = self.command(words).output()?;
        let said = String::from_utf8(stderr)?;
        ensure!(status.code() == Some(1), "{words:?}: {status}: {said}");
        ensure!(stdout.is_empty(), "{}", String::from_utf8_lossy(&stdout));
        Ok(said)
    }
}

/// A run of our program that goes on beside the test, and ends with it.
struct Running(Child);

impl Running {
    fn start(mut command: Command) -> Result<Self> {
        Ok(Self(command.stdout(Stdio::piped()).spawn()?))
    }

    fn signal(&self, name: &str) -> Result<()> {
        let id = self.0.id().to_string();
        command::run(Command::new("kill").args(["-s", name, &id]))?;
        Ok(())
    }

    fn wait(&mut self) -> Result<Option<i32>> {
        wait::until("the end of a run", SOON, || -> Result<Option<i32>> {
            Ok(self.0.try_wait()?.context("it still runs")?.code())
        })
    }

    /// All that it has printed; after its end.
    fn printed(&mut self) -> Result<String> {
        let mut text = String::new();
        let stdout = self.0.stdout.as_mut().context("a pipe")?;
        stdout.read_to_string(&mut text)?;
        Ok(text)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The bindings of a group of our own: absent at the beginning, and at the end.
struct OwnBindings {
    kubectl: Kubectl,
    names: [String; 3],
}

impl OwnBindings {
    fn of(tools: &Tools, group: &str) -> Result<Self> {
        let names = [
            "get-nodes",
            "kubelet-bootstrap",
            "node-autoapprove-bootstrap",
        ];
        let own = Self {
            kubectl: tools.kubectl.clone(),
            names: names.map(|purpose| format!("ferrolet:{purpose}:{group}")),
        };
        own.remove()?;
        Ok(own)
    }

    fn remove(&self) -> Result<()> {
        let words = ["delete", "clusterrolebinding", "--ignore-not-found"];
        let names = self.names.iter().map(String::as_str);
        self.kubectl.run(words.into_iter().chain(names))?;
        Ok(())
    }
}

impl Drop for OwnBindings {
    fn drop(&mut self) {
        // The next run removes what this one could not.
        let _ = self.remove();
    }
}

/// The Secret of the test's token, without what differs from one to the next.
fn token_secret(kubectl: &Kubectl) -> Result<Value> {
    let words = [
        "--namespace=kube-system",
        "get",
        "secret",
        "bootstrap-token-tools1",
    ];
    let mut secret = kubectl.json(words)?;
    let metadata = secret["metadata"].as_object_mut().context("metadata")?;
    metadata.retain(|name, _| {
        !["creationTimestamp", "resourceVersion", "uid"].contains(&name.as_str())
    });
    if let Some(expiration) = secret["data"].get_mut("expiration") {
        // Its form stays; how long it is away is compared in the lists.
        *expiration = json!(expiration.as_str().context("text")?.len());
    }
    Ok(secret)
}

/// What an RBAC object means, without what the API server fills in.
fn meaning(object: &Value) -> Value {
    let mut subjects = object["subjects"].clone();
    for subject in subjects.as_array_mut().into_iter().flatten() {
        subject["apiGroup"] = json!("rbac.authorization.k8s.io");
    }
    json!([object["kind"], object["roleRef"], object["rules"], subjects])
}

/// The line that tells of something, with single spaces.
fn line_of(table: &str, what: &str) -> Result<String> {
    let line = table.lines().find(|line| line.contains(what));
    let line = line.with_context(|| format!("{what} is not in {table}"))?;
    Ok(line.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The name of the request that a run says it has handed in.
fn handed_in(said: &str) -> Result<String> {
    let (_, behind) = said
        .split_once("handed it in as ")
        .with_context(|| said.to_owned())?;
    let name = behind.split_whitespace().next().context("a name")?;
    Ok(name.to_owned())
}

/// A line of tokens without the third column, which is a time.
fn without_time(line: &str) -> String {
    let words = line.split(' ').enumerate();
    let kept: Vec<_> = words
        .filter(|(index, _)| *index != 2)
        .map(|(_, word)| word)
        .collect();
    kept.join(" ")
}

fn mode(path: &Path) -> Result<u32> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o777)
}

/// Somebody who may approve serving requests of one node only: in this lab there
/// are nodes of others, whose requests are none of ours.
fn make_approver(kubectl: &Kubectl) -> Result<()> {
    let api = "rbac.authorization.k8s.io";
    let metadata = json!({"name": "tools-approver"});
    let certificates = "certificates.k8s.io";
    let rules = json!([
        {"apiGroups": [certificates], "resources": ["certificatesigningrequests"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [certificates], "resources": ["certificatesigningrequests/approval"], "verbs": ["update"]},
        {"apiGroups": [certificates], "resources": ["signers"], "resourceNames": [SERVING_SIGNER], "verbs": ["approve"]},
        {"apiGroups": [""], "resources": ["nodes"], "resourceNames": ["tools-serving"], "verbs": ["get"]},
    ]);
    let role = json!({"apiVersion": format!("{api}/v1"), "kind": "ClusterRole", "metadata": metadata, "rules": rules});
    let binding = json!({
        "apiVersion": format!("{api}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": "tools-approver"},
        "subjects": [{"apiGroup": api, "kind": "User", "name": "tools-approver"}],
    });
    kubectl.apply(&role.to_string())?;
    kubectl.apply(&binding.to_string())?;
    // One of the role's rights: the others come with it.
    let right = ["auth", "can-i", "watch", "certificatesigningrequests"];
    wait::until("a right that was given", SOON, || {
        kubectl.run([&right[..], &["--as", "tools-approver"]].concat())
    })?;
    Ok(())
}

/// A Node that nobody runs.
fn register(kubectl: &Kubectl, name: &str, address: &str) -> Result<()> {
    let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    kubectl.apply(&object.to_string())?;
    set_address(kubectl, name, address)
}

fn set_address(kubectl: &Kubectl, name: &str, address: &str) -> Result<()> {
    let addresses = json!([
        {"type": "InternalIP", "address": address},
        {"type": "Hostname", "address": name},
    ]);
    let patch = json!({"status": {"addresses": addresses}}).to_string();
    let words = [
        "patch",
        "node",
        name,
        "--subresource=status",
        "--type=merge",
        "--patch",
    ];
    kubectl.run(words.into_iter().chain([patch.as_str()]))?;
    Ok(())
}
