//! Where the commands are executed: this machine with a home of its own, the cluster's
//! administrator, a machine that joins, and a node that kubeadm has set up.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tempfile::TempDir;
use testkit::lab::{Lab, Node, Runtime, workspace};
use testkit::{cargo, wait};

use super::terminal::{Staying, Terminal};

const READY: Duration = Duration::from_secs(120);

/// What a lab node asks of any kubelet, beside the cluster's configuration.
const LAB_FLAGS: &str = "KUBELET_EXTRA_ARGS=\"--fail-cgroupv1=false --fail-swap-on=false --eviction-hard=memory.available<100Mi,nodefs.available<0%,imagefs.available<0% --image-gc-high-threshold=100\"\n";

/// kubeadm's, as its packages bring it, but for the place of the program.
const KUBEADMS: &str = r#"[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/opt/lab/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
"#;

/// As much of systemctl as a swap needs: it starts what the drop-ins say, the last word last.
const SYSTEMCTL: &str = r#"#!/bin/sh
pid=/var/tmp/service.pid
case "$*" in
daemon-reload) ;;
'restart kubelet')
    if test -e $pid; then
        kill "$(cat $pid)"
        # Like systemd: until its last thread has given back what it had, its ports too.
        while grep -q '^State:.[^Z]' /proc/"$(cat $pid)"/task/*/status 2> /dev/null; do sleep 0.1; done
    fi
    cat /etc/systemd/system/kubelet.service.d/*.conf > /var/tmp/service.conf
    eval "$(sed -n 's/^Environment="\([A-Z_]*\)=\(.*\)"$/\1="\2"/p' /var/tmp/service.conf)"
    for file in $(sed -n 's/^EnvironmentFile=-//p' /var/tmp/service.conf); do
        test -e "$file" && . "$file"
    done
    line=$(sed -n 's/^ExecStart=\(..*\)/\1/p' /var/tmp/service.conf | tail -n 1)
    eval "exec setsid $line" < /dev/null >> /var/log/service.log 2>&1 &
    echo $! > $pid ;;
*) exit 1 ;;
esac
"#;

pub(crate) struct Places {
    lab: Lab,
    home: TempDir,
    here: Terminal,
    kept: Option<Staying>,
    stays: usize,
    administrator: Terminal,
    joins: (Node, Terminal),
    kubelet: (Node, Terminal),
    /// Who was the node last, by the version that it shows; and the pod that lives through it.
    is_ours: bool,
    container: String,
}

impl Places {
    pub(crate) fn furnish(lab: &Lab) -> Result<Self> {
        let home = TempDir::new()?;
        let file = |name: &str| home.path().join(name);
        let here = Terminal::open(shell(lab, &home), file("here"))?;
        let mut as_administrator = shell(lab, &home);
        let release = workspace().join("target/release");
        as_administrator.env("KUBECONFIG", lab.admin_kubeconfig());
        as_administrator.env("PATH", with_path(&[release]));
        let administrator = Terminal::open(as_administrator, file("administrator"))?;
        let joins = machine(lab, "readme-joins", &file("joins"))?;
        let kubelet = machine(lab, "readme-kubelet", &file("kubelet"))?;
        let mut places = Self {
            lab: lab.clone(),
            here,
            kept: None,
            stays: 0,
            administrator,
            joins,
            kubelet,
            home,
            is_ours: false,
            container: String::new(),
        };
        places.set_up_by_kubeadm()?;
        Ok(places)
    }

    /// Until Ctrl-C, which comes once it is up.
    pub(crate) fn stay(&mut self, line: &str, up: &str) -> Result<String> {
        let (staying, said) = self.start(line, up)?;
        staying.interrupt()?;
        Ok(said)
    }

    /// Until Ctrl-C, which comes in the end. Of the one before nothing is left.
    pub(crate) fn keep(&mut self, line: &str, up: &str) -> Result<String> {
        if let Some(former) = self.kept.take() {
            former.interrupt()?;
            fs::remove_dir_all(self.home.path().join(STATE))?;
        }
        let (staying, said) = self.start(line, up)?;
        self.kept = Some(staying);
        Ok(said)
    }

    fn start(&mut self, line: &str, up: &str) -> Result<(Staying, String)> {
        self.stays += 1;
        let file = self.home.path().join(format!("stays-{}", self.stays));
        let mut shell = shell(&self.lab, &self.home);
        // What the second terminal has exported by then.
        shell.env("PATH", with_path(&[workspace().join("target/release")]));
        Staying::start(shell, line, up, file)
    }

    /// A look may fall into a moment in which the machine is slow, which is found.
    pub(crate) fn here(&mut self, line: &str) -> Result<String> {
        if line != "ferrolet doctor" {
            return self.here.run(line);
        }
        wait::until("a look that finds nothing", READY, || {
            let said = self.here.run(line)?;
            ensure!(said.contains("nothing found"), "{said}");
            Ok(said)
        })
    }

    /// What it says is what the machine that joins is told.
    pub(crate) fn administrator(&mut self, line: &str) -> Result<String> {
        let said = self.administrator.run(line)?;
        let words: Vec<&str> = said
            .split_whitespace()
            .skip_while(|word| *word != "join")
            .collect();
        let [_, server, _, token, _, hash] = words[..] else {
            anyhow::bail!("not a line to join with: {said}");
        };
        self.joins
            .1
            .run(&format!("SERVER={server} TOKEN={token} HASH={hash}"))?;
        Ok(said)
    }

    pub(crate) fn joins(&mut self, line: &str) -> Result<String> {
        self.joins.1.run(line)
    }

    /// A service that was started a moment ago is asked again.
    pub(crate) fn kubelet(&mut self, line: &str) -> Result<String> {
        if line != "ferrolet doctor" {
            return self.kubelet.1.run(line);
        }
        wait::until("a well node", READY, || self.kubelet.1.run(line))
    }

    /// After a restart of the service the other agent is the node, and its pod runs on.
    pub(crate) fn is_swapped(&mut self) -> Result<()> {
        self.is_ours = !self.is_ours;
        self.is_other_node()
            .with_context(|| format!("the service's last words:\n{}", self.last_words()))
    }

    fn is_other_node(&self) -> Result<()> {
        let node = &self.kubelet.0;
        let version = [
            "get",
            "node",
            node.name(),
            "-o",
            "jsonpath={.status.nodeInfo.kubeletVersion}",
        ];
        wait::until("the other agent to be the node", READY, || {
            let version = self.lab.kubectl().run(version)?;
            ensure!(version.contains("ferrolet") == self.is_ours, "{version}");
            Ok(())
        })?;
        node.wait_ready(READY)?;
        let running = self.running()?;
        ensure!(
            running == self.container,
            "{} became {running}",
            self.container
        );
        Ok(())
    }

    pub(crate) fn end(self) -> Result<()> {
        if let Some(kept) = self.kept {
            kept.interrupt()?;
        }
        self.lab
            .kubectl()
            .run(["delete", "pod", POD, "--force", "--grace-period=0"])?;
        self.joins.0.remove()?;
        self.kubelet.0.remove()
    }

    /// The files of a join, and the upstream kubelet as the service on them, with a pod.
    fn set_up_by_kubeadm(&mut self) -> Result<()> {
        let mut ours = Command::new(cargo::release_program("ferrolet")?);
        ours.args(["token", "create", "--print-join-command", "--kubeconfig"]);
        let said = testkit::command::run(ours.arg(self.lab.admin_kubeconfig()))?;
        let (_, words) = said.split_once("join ").context("a line to join with")?;
        let (node, terminal) = &mut self.kubelet;
        let join = format!("target/release/ferrolet join {} --start no", words.trim());
        terminal.run(&join)?;
        let machine = node.machine();
        machine.write(
            "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf",
            KUBEADMS,
        )?;
        machine.write("/usr/local/bin/systemctl", SYSTEMCTL)?;
        terminal.run("chmod 755 /usr/local/bin/systemctl && systemctl restart kubelet")?;
        node.wait_ready(READY)?;
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": POD },
            "spec": {
                "nodeName": node.name(),
                "terminationGracePeriodSeconds": 1,
                "containers": [{ "name": "main", "image": "busybox:1.35", "command": ["sleep", "100000"] }],
            },
        });
        self.lab.kubectl().apply(&pod.to_string())?;
        let wait = ["wait", "--for=condition=Ready", "--timeout=120s"];
        self.lab
            .kubectl()
            .run([&wait[..], &[&format!("pod/{POD}")]].concat())?;
        self.container = self.running()?;
        Ok(())
    }

    /// Of both agents, as the service has kept them.
    fn last_words(&self) -> String {
        let words = ["-n", "40", SERVICE_LOG];
        let said = self.kubelet.0.machine().run("tail", words);
        said.unwrap_or_else(|error| error.to_string())
    }

    /// The pod's container.
    fn running(&self) -> Result<String> {
        let name = [
            "ps",
            "--quiet",
            "--label",
            &format!("io.kubernetes.pod.name={POD}"),
        ];
        self.kubelet.0.crictl(name)
    }
}

/// Of a cluster, in the home of who starts it.
const STATE: &str = ".local/state/ferrolet";
const POD: &str = "readme-lives-on";
const SERVICE_LOG: &str = "/var/log/service.log";

/// A shell on this machine, of somebody whose home is empty.
fn shell(lab: &Lab, home: &TempDir) -> Command {
    let mut shell = Command::new("bash");
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        // What cargo says to those whom it runs would have it build anew.
        let cargos = text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_");
        if cargos || text == "KUBECONFIG" || text == "XDG_STATE_HOME" {
            shell.env_remove(&name);
        }
    }
    let own = |name: &str, usual: &str| {
        let home = std::env::var_os("HOME").unwrap_or_default();
        std::env::var_os(name).unwrap_or_else(|| PathBuf::from(home).join(usual).into())
    };
    shell
        .env("CARGO_HOME", own("CARGO_HOME", ".cargo"))
        .env("RUSTUP_HOME", own("RUSTUP_HOME", ".rustup"))
        .env("HOME", home.path())
        .env("PATH", with_path(&[lab.programs().to_owned()]))
        .current_dir(workspace());
    shell
}

fn with_path(first: &[PathBuf]) -> std::ffi::OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = first.iter().cloned().chain(std::env::split_paths(&path));
    // It was split at the same signs.
    std::env::join_paths(all).unwrap_or(path)
}

/// A machine of the lab, and root's terminal on it, in this checkout.
fn machine(lab: &Lab, name: &str, said: &std::path::Path) -> Result<(Node, Terminal)> {
    let node = lab.node(name, Runtime::Containerd2)?;
    let machine = node.machine();
    // Of all directories this one is the host's.
    machine.run("mount", ["-t", "tmpfs", "tmpfs", "/usr/local/bin"])?;
    machine.write("/etc/default/kubelet", LAB_FLAGS)?;
    let mut terminal = Terminal::open(machine.command("bash"), said.to_owned())?;
    terminal.run(&format!("cd '{}'", workspace().display()))?;
    Ok((node, terminal))
}
