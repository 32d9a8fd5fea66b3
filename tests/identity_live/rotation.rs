//! The client certificate is replaced under load, and nobody notices.

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use identity::decide::state::State;
use serde_json::json;
use testkit::lab::{Component, Kubectl, Lab};
use testkit::wait;
use tokio::runtime::Runtime;

use crate::control_plane::{ControlPlane, Swept, unique};
use crate::load::{Load, create_lease, read_node, renew_lease};
use crate::node::{LiveNode, StoredPair, heartbeats, requests};
use crate::watches::{MARK, Watches};

const WATCHES: usize = 50;
// Together twenty requests a second.
const READ: Duration = Duration::from_micros(66_667);
const RENEW: Duration = Duration::from_millis(200);
const LEAST_RATE: f64 = 19.0;
/// After a rotation the connections of the certificate before must be gone: by our doing, and not
/// because that certificate has run out, which is 28 seconds later at the earliest.
const DRAINED: Duration = Duration::from_secs(20);

/// How long to look, chosen by `FERROLET_ROTATION_MINUTES`.
struct Plan {
    /// The signer backdates by five minutes and counts them: a certificate for
    /// one minute is due at once, and is used for the least time that we allow.
    signing: &'static str,
    rotations: usize,
    lasting: Duration,
    /// The longest that one certificate is used.
    longest_use: Duration,
}

impl Plan {
    fn chosen() -> Result<Self> {
        let Ok(minutes) = std::env::var("FERROLET_ROTATION_MINUTES") else {
            return Ok(Self {
                signing: "1m",
                rotations: 1,
                lasting: Duration::ZERO,
                // Its life, as it is signed.
                longest_use: Duration::from_secs(60),
            });
        };
        let minutes: u64 = minutes.parse()?;
        Ok(Self {
            signing: "3m",
            // Each comes after 36 to 132 seconds.
            rotations: usize::try_from(minutes * 3 / 8)?.max(1),
            lasting: Duration::from_secs(60 * minutes),
            longest_use: Duration::from_secs(150),
        })
    }
}

#[test]
fn a_certificate_is_replaced_under_load_without_a_failed_request_or_a_lost_event() -> Result<()> {
    let plan = Plan::chosen()?;
    let control_plane = ControlPlane::take()?;
    let lab = &control_plane.lab;
    let signing = format!("--cluster-signing-duration={}", plan.signing);
    control_plane.bend(Component::ControllerManager, &[&signing])?;
    lab.wait_serving()?;
    let name = unique("rotating");
    let objects = Objects::make(lab, &name)?;

    let runtime = Runtime::new()?;
    let _inside = runtime.enter();
    let others = control_plane.connections()?;
    let node = runtime.block_on(LiveNode::join(lab, &name))?;
    let start = Instant::now();
    let (load, watches) = runtime.block_on(keep_busy(&node, &name))?;
    objects.mark("start")?;
    watches.wait_for("start")?;

    let mut scene = Scene {
        control_plane: &control_plane,
        node: &node,
        others,
        pair: node.stored()?,
        most_connections: 0,
        longest_drain: Duration::ZERO,
    };
    let mut rotations = 0;
    loop {
        let may_end = || rotations >= plan.rotations && start.elapsed() >= plan.lasting;
        let Some(old) = scene.next_rotation(plan.longest_use, may_end)? else {
            break;
        };
        rotations += 1;
        println!("rotation {rotations} after {:.0?}", start.elapsed());
        // While watches move to other connections, and when they have moved.
        objects.mark(&format!("during-{rotations}"))?;
        scene.pair_is_new()?;
        scene.old_connections_go(&old)?;
        watches.wait_for(&format!("during-{rotations}"))?;
        objects.mark(&format!("after-{rotations}"))?;
        watches.wait_for(&format!("after-{rotations}"))?;
    }

    let lasted = start.elapsed();
    runtime.block_on(load.stop());
    let seen = Seen {
        lasted,
        rotations,
        load: load.tally.so_far(),
        watches: watches.count(),
        watch_errors: watches.tally.so_far().failures,
        lists_again: watches.lists_again(),
        most_connections: scene.most_connections,
        longest_drain: scene.longest_drain,
    };
    println!("{seen}");
    runtime.block_on(async {
        watches.stop().await;
        node.end().await
    })?;
    seen.judge()
}

/// Starts the load and the watches that must not notice anything.
async fn keep_busy(node: &LiveNode, name: &str) -> Result<(Load, Watches)> {
    let (ordinary, heartbeat) = (requests(&node.transport), heartbeats(&node.transport));
    let (ordinary, heartbeat) = (ordinary.client("default"), heartbeat.client("default"));
    create_lease(heartbeat.clone(), name).await?;
    let load = Load::new();
    load.send_every(READ, read_node(ordinary.clone(), name));
    load.send_every(RENEW, renew_lease(heartbeat, name));
    let mut watches = Watches::new();
    watches.follow_as_node(&ordinary, name, WATCHES);
    Ok((load, watches))
}

/// What is looked at from one rotation to the next.
struct Scene<'a> {
    control_plane: &'a ControlPlane,
    node: &'a LiveNode,
    /// Connections that are not ours.
    others: BTreeSet<u16>,
    pair: StoredPair,
    most_connections: usize,
    longest_drain: Duration,
}

impl Scene<'_> {
    /// Waits for a new certificate, and answers the connections from before; none if the test
    /// `may_end` first.
    fn next_rotation(
        &mut self,
        longest_use: Duration,
        may_end: impl Fn() -> bool,
    ) -> Result<Option<BTreeSet<u16>>> {
        let mut certificate = self.node.findings.certificate.clone();
        certificate.borrow_and_update();
        let mut before = self.ours()?;
        wait::until("a rotation", longest_use, || {
            if may_end() {
                return Ok(None);
            }
            let now = self.ours()?;
            if certificate.has_changed()? {
                return Ok(Some(before.clone()));
            }
            // Certainly from before.
            before = now;
            bail!("the state is {:?}", *self.node.findings.state.borrow());
        })
    }

    /// Our connections, where they arrive.
    fn ours(&mut self) -> Result<BTreeSet<u16>> {
        let ours = &self.control_plane.connections()? - &self.others;
        let most = ours.len().max(self.node.transport.connections());
        self.most_connections = self.most_connections.max(most);
        Ok(ours)
    }

    /// There is another key on disk, for its owner only.
    fn pair_is_new(&mut self) -> Result<()> {
        let pair = wait::until("the new pair on disk", Duration::from_secs(5), || {
            let pair = self.node.stored()?;
            ensure!(pair.file != self.pair.file, "still {}", pair.file.display());
            Ok::<_, anyhow::Error>(pair)
        })?;
        ensure!(pair.key != self.pair.key, "the key was used again");
        ensure!(pair.mode == 0o600, "the pair has mode {:o}", pair.mode);
        self.pair = pair;
        let state = self.node.findings.state.borrow().clone();
        ensure!(
            matches!(state, State::Issued { unsaved: None, .. }),
            "after a rotation the state is {state:?}"
        );
        Ok(())
    }

    fn old_connections_go(&mut self, old: &BTreeSet<u16>) -> Result<()> {
        ensure!(
            !old.is_empty(),
            "no connection was seen before the rotation"
        );
        let start = Instant::now();
        wait::until("the old connections to go", DRAINED, || {
            let now = self.ours()?;
            let left: Vec<_> = now.intersection(old).collect();
            ensure!(left.is_empty(), "{left:?} of {old:?} are still there");
            let believed = self.node.transport.connections();
            ensure!(
                believed == now.len(),
                "{believed} connections by our count, at the server {now:?}"
            );
            Ok(())
        })?;
        self.longest_drain = self.longest_drain.max(start.elapsed());
        Ok(())
    }
}

/// What was seen in the whole time.
struct Seen {
    lasted: Duration,
    rotations: usize,
    load: crate::figures::Counted,
    watches: usize,
    watch_errors: Vec<String>,
    lists_again: usize,
    most_connections: usize,
    longest_drain: Duration,
}

impl Seen {
    fn judge(&self) -> Result<()> {
        ensure!(self.load.failures.is_empty(), "{:#?}", self.load.failures);
        ensure!(self.watch_errors.is_empty(), "{:#?}", self.watch_errors);
        ensure!(
            self.lists_again == 0,
            "{} watches began anew instead of resuming",
            self.lists_again
        );
        ensure!(self.rate() >= LEAST_RATE, "the load was too thin");
        Ok(())
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "as many requests as can be counted here fit"
    )]
    fn rate(&self) -> f64 {
        self.load.requests() as f64 / self.lasted.as_secs_f64()
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = [
            ("seconds", format!("{:.0}", self.lasted.as_secs_f64())),
            ("rotations", self.rotations.to_string()),
            (
                "requests",
                format!("{} ({:.1} a second)", self.load.requests(), self.rate()),
            ),
            ("requests failed", self.load.failures.len().to_string()),
            ("slowest request", format!("{:.0?}", self.load.slowest())),
            ("watches", self.watches.to_string()),
            ("watch errors", self.watch_errors.len().to_string()),
            ("watches begun anew", self.lists_again.to_string()),
            ("connections, at most", self.most_connections.to_string()),
            ("old ones gone after", format!("{:.1?}", self.longest_drain)),
        ];
        for (name, value) in lines {
            writeln!(formatter, "{name:<24} {value}")?;
        }
        Ok(())
    }
}

/// What the node reads and watches, made by the administrator. All have the node's name, and
/// the namespace has it too.
struct Objects {
    kubectl: Kubectl,
    name: String,
    _swept: Swept,
}

impl Objects {
    fn make(lab: &Lab, name: &str) -> Result<Self> {
        let mut swept = Swept::new(lab);
        swept.later("node", "", name);
        swept.later("lease", "kube-node-lease", name);
        swept.later("namespace", "", name);
        let objects = Self {
            kubectl: lab.kubectl(),
            name: name.to_owned(),
            _swept: swept,
        };
        let items = json!({ "apiVersion": "v1", "kind": "List", "items": [
            { "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } },
            { "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } },
            { "apiVersion": "v1", "kind": "Service",
              "metadata": { "name": name, "namespace": name },
              "spec": { "ports": [{ "port": 80 }] } },
        ]});
        objects.kubectl.apply(&items.to_string())?;
        // Nobody runs the pod: its node has no kubelet. So nobody may wait for its end either.
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "namespace": name },
            "spec": {
                "nodeName": name,
                "terminationGracePeriodSeconds": 0,
                "automountServiceAccountToken": false,
                "tolerations": [{ "operator": "Exists" }],
                "containers": [{ "name": "none", "image": "none.test/none" }],
            },
        });
        // A namespace has its service account a moment after it is made.
        wait::until("the pod to be taken", Duration::from_secs(15), || {
            objects.kubectl.apply(&pod.to_string())
        })?;
        Ok(objects)
    }

    /// Changes each of them.
    fn mark(&self, mark: &str) -> Result<()> {
        let mark = format!("{MARK}={mark}");
        let namespace = format!("--namespace={}", self.name);
        for kind in ["node", "pod", "service"] {
            let words = [
                "annotate",
                "--overwrite",
                &namespace,
                kind,
                &self.name,
                &mark,
            ];
            self.kubectl.run(words)?;
        }
        Ok(())
    }
}
