//! The API server is gone, out of reach, silent, or answers badly for a while: the
//! node finds back by itself, soon, gently, and with no more than it had before.
//!
//! Where the server or the network fails, the node is our program in a lab node, and
//! its requests are counted in the API server's audit log. Where answers are bad, see
//! [`crate::afflicted`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use jiff::Timestamp;
use serde_json::Value;
use testkit::lab::{Component, Kubectl, Lab, Node, Runtime};
use testkit::wait;

use crate::afflicted::afflict;
use crate::control_plane::{ControlPlane, unique};

const READY: Duration = Duration::from_secs(60);
/// After the return: the lease is renewed and the status is sent by then. So long
/// requests are counted, too.
const RECOVERED: Duration = Duration::from_secs(10);
/// How long an agent may hold more than before: its threads for blocking calls end
/// when they had nothing to do for a second, and connections are closed in their time.
const SETTLED: Duration = Duration::from_secs(25);
/// How long a heartbeat is waited for: one that began in an outage may end after it.
/// Every outage here is longer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const SHORTEST: Duration = Duration::from_secs(12);
/// `kubeAPIQPS` as it is by default.
pub(crate) const RATE: usize = 50;
/// Every look at the node is told, so that the test can tell a look from none.
const CONFIG: &str = "nodeStatusReportFrequency: 5s\n";
const AUDIT_LOG: &str = "/var/log/kubernetes-audit.log";
const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, userGroups: ['system:nodes']}
- {level: None}
";

#[test]
fn a_node_comes_back_from_every_outage_of_its_api_server_as_it_was() -> Result<()> {
    let lasting = lasting()?;
    let scene = Scene::set()?;
    let (lab, node) = (&scene.control_plane.lab, &scene.node);
    let server = lab.component(Component::ApiServer);
    let outage = |what: &str| Outage {
        what: what.to_owned(),
        lasting,
        lab,
    };
    // At the same time: neither touches what the other one stands on.
    thread::scope(|scope| {
        let afflicted = scope.spawn(|| afflict(lab, outage));
        let cut = outage("the network loses every packet").befalls(
            &scene,
            || node.cut_off(),
            || node.reconnect(),
        );
        let afflicted = afflicted.join();
        cut.and(afflicted.map_err(|_| anyhow!("the test itself has died"))?)
    })?;
    outage("the API server is stopped").befalls(
        &scene,
        // Not asked to stop: it would take its time.
        || server.kill(),
        || {
            server.start_again()?;
            lab.wait_ready()
        },
    )?;
    outage("the API server is silent").befalls(&scene, || server.freeze(), || server.thaw())
}

/// For how long, chosen by `FERROLET_OUTAGE_SECONDS`.
fn lasting() -> Result<Duration> {
    let Ok(seconds) = std::env::var("FERROLET_OUTAGE_SECONDS") else {
        return Ok(SHORTEST);
    };
    let seconds = seconds.parse().context("FERROLET_OUTAGE_SECONDS")?;
    Ok(Duration::from_secs(seconds).max(SHORTEST))
}

/// Whom an outage befalls.
pub(crate) trait Sufferer {
    fn name(&self) -> &str;

    /// What its agent holds at this moment, by kind.
    fn held(&self) -> Result<Held>;

    /// When its requests arrived at the API server, from that moment on.
    fn arrivals(&self, since: Timestamp) -> Result<Vec<Timestamp>>;
}

pub(crate) type Held = BTreeMap<&'static str, usize>;

/// One way of being without the API server.
pub(crate) struct Outage<'a> {
    pub(crate) what: String,
    lasting: Duration,
    lab: &'a Lab,
}

impl Outage<'_> {
    /// The whole story: before, the outage, and what came after it.
    pub(crate) fn befalls(
        &self,
        sufferer: &impl Sufferer,
        begin: impl Fn() -> Result<()>,
        end: impl Fn() -> Result<()>,
    ) -> Result<()> {
        self.story(sufferer, begin, end)
            .with_context(|| self.what.clone())
    }

    /// The same, without its name in the error.
    pub(crate) fn story(
        &self,
        sufferer: &impl Sufferer,
        begin: impl Fn() -> Result<()>,
        end: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let what = format!("{}: the way back", self.what);
        wait::promised(&what, RECOVERED, || {
            Ok((self.play(sufferer, &begin, &end)?, ()))
        })
    }

    /// How long it took until the node was back.
    fn play(
        &self,
        sufferer: &impl Sufferer,
        begin: impl Fn() -> Result<()>,
        end: impl Fn() -> Result<()>,
    ) -> Result<Duration> {
        let kubectl = self.lab.kubectl();
        wait::until("the node to be well", READY, || {
            is_back(&kubectl, sufferer.name(), Timestamp::now())
        })?;
        let before = wait::until("the agent to be at rest", READY, || at_rest(sufferer))?;
        let since = Timestamp::now();
        begin()?;
        // An outage is a time: there is nothing else to wait for.
        sleep(self.lasting);
        end()?;
        let (start, returned) = (Instant::now(), Timestamp::now());
        wait::until("the node to be back", READY, || {
            is_back(&kubectl, sufferer.name(), returned)
        })?;
        let recovered = start.elapsed();
        sleep(RECOVERED.saturating_sub(start.elapsed()));
        let (after, inside): (Vec<_>, Vec<_>) = sufferer
            .arrivals(since)?
            .into_iter()
            .partition(|&arrival| arrival >= returned);
        let most = most_in_a_second(&inside).max(most_in_a_second(&after));
        println!(
            "{}, {:.0?}: back after {recovered:.1?}; requests that arrived: {} in the outage, {} \
             in {RECOVERED:?} after it, {most} in one second at most; held: {before:?}",
            self.what,
            self.lasting,
            inside.len(),
            after.len(),
        );
        ensure!(inside.len() + after.len() > 0, "no request was counted");
        ensure!(most <= RATE, "{most} requests in one second");
        // Less is as good: a thread for work on disks ends when there is none.
        wait::until("the agent to hold no more than before", SETTLED, || {
            let now = sufferer.held()?;
            let grown = now
                .iter()
                .any(|(what, count)| before.get(what) < Some(count));
            ensure!(!grown, "{now:?}, and {before:?} before");
            Ok(())
        })?;
        Ok(recovered)
    }
}

/// What is held once that no longer changes.
fn at_rest(sufferer: &impl Sufferer) -> Result<Held> {
    const REST: Duration = Duration::from_secs(2);
    let first = sufferer.held()?;
    sleep(REST);
    let second = sufferer.held()?;
    ensure!(first == second, "{first:?}, then {second:?}");
    Ok(second)
}

/// The node is Ready, and its lease and its status are of this moment, or were on
/// their way then.
fn is_back(kubectl: &Kubectl, name: &str, moment: Timestamp) -> Result<()> {
    let read = |kind, namespace: &str| {
        let namespace = format!("--namespace={namespace}");
        kubectl.json(["--request-timeout=2s", &namespace, "get", kind, name])
    };
    let earliest = moment - REQUEST_TIMEOUT;
    let is_fresh = |what: &str, time: &Value| {
        let time: Timestamp = text(time)?.parse()?;
        ensure!(time >= earliest, "the {what} is of {time}, not {earliest}");
        Ok(())
    };
    let lease = read("lease", "kube-node-lease")?;
    is_fresh("lease", &lease["spec"]["renewTime"])?;
    let node = read("node", "")?;
    let conditions = node["status"]["conditions"].as_array();
    let ready = conditions
        .and_then(|conditions| conditions.iter().find(|one| one["type"] == "Ready"))
        .context("the node has no condition Ready")?;
    ensure!(ready["status"] == "True", "Ready is {ready}");
    is_fresh("status", &ready["lastHeartbeatTime"])
}

fn most_in_a_second(arrivals: &[Timestamp]) -> usize {
    let second = Duration::from_secs(1);
    let following = |&from: &Timestamp| {
        let within = |&&other: &&Timestamp| other >= from && other < from + second;
        arrivals.iter().filter(within).count()
    };
    arrivals.iter().map(following).max().unwrap_or_default()
}

/// A node of ours that is Ready, and an API server that writes down its requests.
struct Scene {
    node: Node,
    // After the node: it is removed while the API server answers.
    control_plane: ControlPlane,
}

impl Scene {
    fn set() -> Result<Self> {
        let control_plane = ControlPlane::take()?;
        let lab = &control_plane.lab;
        let policy = "/etc/kubernetes/audit.yaml";
        lab.control_plane().write(policy, AUDIT_POLICY)?;
        let words = [
            format!("--audit-policy-file={policy}"),
            format!("--audit-log-path={AUDIT_LOG}"),
        ];
        // Asked to stop, it would take longer than a short outage.
        lab.component(Component::ApiServer).kill()?;
        control_plane.bend(Component::ApiServer, &words.each_ref().map(String::as_str))?;
        lab.wait_serving()?;
        let node = lab.node(&unique("outage"), Runtime::Containerd2)?;
        node.start_ferrolet(CONFIG)?;
        node.wait_ready(READY)?;
        // The roots of its cgroups are held from when somebody first asks for figures, as the
        // lab's metrics-server may do at any moment: let that be before anything is counted.
        let figures = format!("/api/v1/nodes/{}/proxy/metrics/resource", node.name());
        wait::until("the node to tell what it uses", READY, || {
            lab.kubectl().run(["get", "--raw", &figures])
        })?;
        Ok(Self {
            node,
            control_plane,
        })
    }
}

impl Sufferer for Scene {
    fn name(&self) -> &str {
        self.node.name()
    }

    fn held(&self) -> Result<Held> {
        let pid = self.node.kubelet().pid().context("the agent has ended")?;
        let place = format!("/proc/{}", pid.as_raw_nonzero());
        let connected = |end: &str, port: &str| {
            let filter = ["state", "connected", end, "=", port];
            let words = [&["--no-header", "--tcp", "--numeric"], &filter[..]].concat();
            let connections = self.node.machine().run("ss", words)?;
            Ok::<_, anyhow::Error>(connections.lines().count())
        };
        let entries =
            |kind| Ok::<_, anyhow::Error>(fs::read_dir(format!("{place}/{kind}"))?.count());
        // Who asks the node, like the lab's metrics-server, comes and stays as he likes.
        let guests = connected("sport", ":10250")?;
        Ok(Held::from([
            ("threads", entries("task")?),
            ("connections", connected("dport", ":6443")?),
            ("files", entries("fd")?.saturating_sub(guests)),
        ]))
    }

    fn arrivals(&self, since: Timestamp) -> Result<Vec<Timestamp>> {
        let machine = self.control_plane.lab.control_plane();
        let log = fs::read_to_string(machine.root(AUDIT_LOG))?;
        let user = format!("system:node:{}", self.node.name());
        let mut arrivals = BTreeSet::new();
        for line in log.lines() {
            let entry: Value = serde_json::from_str(line)?;
            if entry["user"]["username"] == user {
                let arrived: Timestamp = text(&entry["requestReceivedTimestamp"])?.parse()?;
                // A watch has two entries.
                arrivals.insert((arrived, text(&entry["auditID"])?.to_owned()));
            }
        }
        let arrivals = arrivals.into_iter().map(|(arrived, _)| arrived);
        Ok(arrivals.filter(|&arrived| arrived >= since).collect())
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // Whatever was done may have been left in the middle. Not asked to stop: it would
        // take its time.
        let server = self.control_plane.lab.component(Component::ApiServer);
        let mended = self.node.reconnect().and_then(|()| server.kill());
        let mended = mended.and_then(|()| self.control_plane.straighten());
        if let Err(error) = mended {
            eprintln!("the outage goes on: {error:#}");
        }
    }
}

fn text(value: &Value) -> Result<&str> {
    value.as_str().with_context(|| format!("no text: {value}"))
}
