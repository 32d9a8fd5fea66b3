//! The lab as seen from beside a fleet, and a fleet that ends with its test.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde_json::Value;
use tempfile::TempDir;
use testkit::lab::{Kubectl, Lab};
use testkit::{cargo, command, wait};

/// Held by the test that runs.
static ALONE: Mutex<()> = Mutex::new(());

/// For nodes that are well to become Ready, and for objects to go.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// The lab, for one test at a time.
pub(crate) struct Cluster {
    pub(crate) lab: Lab,
    pub(crate) kubectl: Kubectl,
    /// Of this test: for the fleet's files.
    pub(crate) directory: TempDir,
    fleet: String,
    _alone: MutexGuard<'static, ()>,
}

/// What the API server says of a node.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) node: Value,
    pub(crate) ready: String,
    pub(crate) message: String,
}

impl Cluster {
    /// `fleet` is the name of the fleet that the test runs.
    pub(crate) fn take(fleet: &str) -> Result<Self> {
        // A test that failed has removed what it made.
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let lab = Lab::shared()?;
        let cluster = Self {
            kubectl: lab.kubectl(),
            lab,
            directory: TempDir::new()?,
            fleet: fleet.to_owned(),
            _alone: alone,
        };
        cluster.remove()?;
        Ok(cluster)
    }

    pub(crate) fn selector(&self) -> String {
        format!("--selector=ferrolet.dev/fleet={}", self.fleet)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Its nodes by name.
    pub(crate) fn nodes(&self) -> Result<BTreeMap<String, Seen>> {
        let listed = self.kubectl.json(["get", "nodes", &self.selector()])?;
        let items = listed["items"].as_array().context("no items")?;
        items
            .iter()
            .map(|node| {
                let name = node["metadata"]["name"].as_str().context("no name")?;
                let conditions = node["status"]["conditions"].as_array();
                let mut conditions = conditions.into_iter().flatten();
                let ready = conditions.find(|condition| condition["type"] == "Ready");
                let text = |key: &str| {
                    let text = ready.and_then(|ready| ready[key].as_str());
                    text.unwrap_or_default().to_owned()
                };
                let seen = Seen {
                    node: node.clone(),
                    ready: text("status"),
                    message: text("message"),
                };
                Ok((name.to_owned(), seen))
            })
            .collect()
    }

    /// Waits until there are so many of them, all Ready.
    pub(crate) fn wait_ready(&self, count: usize) -> Result<()> {
        wait::until(&format!("{count} nodes to be Ready"), SOON, || {
            let nodes = self.nodes()?;
            let ready = nodes.values().filter(|node| node.ready == "True").count();
            ensure!(
                nodes.len() == count && ready == count,
                "{ready} of {} are Ready",
                nodes.len()
            );
            Ok(())
        })
    }

    /// The leases of nodes whose names begin so, and the seconds since the renewal.
    pub(crate) fn leases(&self, prefix: &str) -> Result<BTreeMap<String, f64>> {
        // Before it is asked: how long the answer takes does not make them older.
        let now = Timestamp::now();
        let listed = self
            .kubectl
            .json(["--namespace=kube-node-lease", "get", "leases"])?;
        let items = listed["items"].as_array().context("no items")?;
        let named = items.iter().filter_map(|lease| {
            let name = lease["metadata"]["name"].as_str()?;
            name.starts_with(prefix).then_some((name, lease))
        });
        named
            .map(|(name, lease)| {
                let renewed = lease["spec"]["renewTime"]
                    .as_str()
                    .context("no renewTime")?;
                let renewed: Timestamp = renewed.parse()?;
                Ok((name.to_owned(), (now - renewed).total(jiff::Unit::Second)?))
            })
            .collect()
    }

    /// Starts a fleet of this test's name.
    pub(crate) fn start(&self, words: &[&str]) -> Result<Running> {
        let (out, err) = (self.path("out"), self.path("err"));
        let mut command = self.command(words)?;
        command
            .stdout(File::create(&out)?)
            .stderr(File::create(&err)?);
        Ok(Running {
            child: command.spawn()?,
            out,
            err,
        })
    }

    pub(crate) fn command(&self, words: &[&str]) -> Result<Command> {
        let mut command = Command::new(cargo::program("ferrolet")?);
        command.arg("fleet").args(words).stdin(Stdio::null());
        command.arg("--kubeconfig").arg(self.lab.admin_kubeconfig());
        Ok(command)
    }

    fn remove(&self) -> Result<()> {
        let words = ["delete", "nodes", &self.selector(), "--wait=false"];
        self.kubectl.run(words).map(drop)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            eprintln!("the fleet's nodes are left behind: {error:#}");
        }
    }
}

/// A fleet, ended with the test.
pub(crate) struct Running {
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

impl Running {
    pub(crate) fn said(&self) -> String {
        let text = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        text(&self.err) + &text(&self.out)
    }

    /// The newest line of figures.
    pub(crate) fn figures(&self) -> Result<Value> {
        let out = fs::read_to_string(&self.out)?;
        let mut lines = out.lines().filter(|line| line.starts_with('{'));
        let last = lines.next_back().context("no line of figures yet")?;
        Ok(serde_json::from_str(last)?)
    }

    /// The most requests that were answered in a second, until this time of the fleet's and after it.
    pub(crate) fn peaks(&self, time: f64) -> Result<(f64, f64)> {
        let (mut before, mut after) = (0.0_f64, 0.0_f64);
        let mut last = 0.0;
        let out = fs::read_to_string(&self.out)?;
        // The last one may be half written.
        let whole = out.rsplit_once('\n').map_or("", |(whole, _)| whole);
        for line in whole.lines() {
            let figures: Value = serde_json::from_str(line)?;
            let count = |key: &str| figures[key].as_f64().context("no requests");
            let elapsed = figures["elapsed"].as_f64().context("no time")?;
            // A line that comes late tells of more than a second.
            let requests = (count("requests")? - count("unanswered")?) / (elapsed - last).max(1.0);
            last = elapsed;
            let peak = if elapsed <= time {
                &mut before
            } else {
                &mut after
            };
            *peak = requests.max(*peak);
        }
        Ok((before, after))
    }

    pub(crate) fn terminate(&mut self) -> Result<()> {
        let id = self.child.id().to_string();
        command::run(Command::new("kill").args(["-s", "TERM", &id]))?;
        let status = self.child.wait()?;
        ensure!(status.success(), "{status}: {}", self.said());
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended, unless a test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Nodes of others, deleted in the end.
pub(crate) struct Swept {
    kubectl: Kubectl,
    nodes: Vec<String>,
}

impl Swept {
    pub(crate) fn new(kubectl: &Kubectl) -> Self {
        Self {
            kubectl: kubectl.clone(),
            nodes: Vec::new(),
        }
    }

    pub(crate) fn later(&mut self, name: &str) {
        self.nodes.push(name.to_owned());
    }
}

impl Drop for Swept {
    fn drop(&mut self) {
        for name in &self.nodes {
            if let Err(error) = self
                .kubectl
                .run(["delete", "node", name, "--ignore-not-found"])
            {
                eprintln!("{name} is left behind: {error:#}");
            }
        }
    }
}
