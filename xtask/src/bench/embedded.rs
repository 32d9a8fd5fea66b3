//! `cargo xtask bench fleet --embedded`: hollow nodes at the API server of
//! `ferrolet up`, both as an ordinary user, with the machine to themselves.
//! What the nodes do is seen from outside, with kubectl; what they and the API
//! server cost, at the kernel.

use std::fmt::Write as _;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use jiff::Timestamp;
use serde_json::Value;
use tempfile::TempDir;
use testkit::lab::{self, Kubectl};
use testkit::{cargo, command, wait};

use super::heartbeats::{Heartbeats, Look};
use super::process::Process;
use super::{KIB, MIB, SETTLED, circumstances, keep};

const BETWEEN_LOOKS: Duration = Duration::from_secs(5);
/// How often the fleet's own word is read before all are Ready.
const BETWEEN_FIRST_LOOKS: Duration = Duration::from_millis(500);
/// Until the node of `up` is Ready, or every node of the fleet: what is later
/// is not worth waiting for.
const PATIENCE: Duration = Duration::from_secs(300);
/// For a program that was told to end.
const FAREWELL: Duration = Duration::from_secs(60);
const PREFIX: &str = "embedded-";
/// Who owns nothing, where the one who asks owns everything.
const NOBODY: u32 = 65534;

/// How soon the node of `up` is to be Ready, in seconds.
const SOON: f64 = 5.0;
const ALL_SOON: f64 = 60.0;
const LATEST_LEASE: f64 = 20.0;
/// For CI, where the build is slow and others work beside: what a lease lasts.
const LATEST_LEASE_SHORT: f64 = 40.0;

/// What is measured.
pub(super) struct Plan {
    pub(super) nodes: u32,
    pub(super) period: Duration,
    /// As tests build it, in memory only, and nothing is kept.
    pub(super) short: bool,
}

/// Where the API server keeps its objects.
#[derive(Clone, Copy)]
enum Store {
    Memory,
    Disk,
}

/// What was seen of one cluster.
struct Seen {
    store: Store,
    /// The node of `up` was Ready, after its start.
    up_after: Duration,
    /// Every node of the fleet was, after the start of the fleet.
    all_after: Duration,
    heartbeats: Heartbeats,
    /// Resident memory of `up` before the fleet came.
    alone: u64,
    up: Cost,
    fleet: Cost,
}

/// What a process cost while all nodes were Ready.
struct Cost {
    /// The most that was met.
    resident: u64,
    cpu: Duration,
    period: Duration,
}

#[derive(Clone, Copy)]
enum Bar {
    None,
    AtMost(f64),
    AtLeast(f64),
}

/// One line of the table.
struct Row {
    figure: &'static str,
    decimals: usize,
    /// For each cluster.
    values: Vec<f64>,
    bar: Bar,
}

pub(super) fn run(plan: &Plan) -> Result<()> {
    println!("building …");
    let built = if plan.short {
        cargo::program("ferrolet")?
    } else {
        cargo::release_program("ferrolet")?
    };
    let stores: &[Store] = if plan.short {
        &[Store::Memory]
    } else {
        &[Store::Memory, Store::Disk]
    };
    let seen: Vec<Seen> = stores
        .iter()
        .map(|&store| plan.observe(&built, store))
        .collect::<Result<_>>()?;
    let rows = plan.rows(&seen);
    let table = table(&rows, &seen);
    println!("{table}");
    if !plan.short {
        keep("embedded.md", &plan.text(&table)?)?;
    }
    let missed: Vec<&str> = rows
        .iter()
        .filter(|row| row.missed())
        .map(|row| row.figure)
        .collect();
    ensure!(
        missed.is_empty(),
        "the bar is missed by: {}",
        missed.join(", ")
    );
    Ok(())
}

impl Plan {
    fn observe(&self, built: &Path, store: Store) -> Result<Seen> {
        let place = Place::new(built)?;
        println!("a cluster {} …", store.words());
        let cluster = Cluster::start(&place, store)?;
        println!(
            "its node is Ready after {:.1} s",
            cluster.took.as_secs_f64()
        );
        let alone = cluster.up.process().resident()?;
        println!("{} nodes for {:?} …", self.nodes, self.period);
        let started = Instant::now();
        let fleet = self.fleet(&place, &cluster)?;
        let watched = Watched {
            cluster: &cluster,
            fleet: &fleet,
        };
        watched.wait_ready(self.nodes)?;
        let all_after = started.elapsed();
        println!("all Ready after {:.1} s", all_after.as_secs_f64());
        let mut heartbeats = Heartbeats::default();
        if !self.short {
            watched.look_for(SETTLED, &mut heartbeats)?;
        }
        let (up, fleet_cost) = watched.look_for(self.period, &mut heartbeats)?;
        fleet.end()?;
        let up_after = cluster.took;
        cluster.up.end()?;
        Ok(Seen {
            store,
            up_after,
            all_after,
            heartbeats,
            alone,
            up,
            fleet: fleet_cost,
        })
    }

    fn fleet(&self, place: &Place, cluster: &Cluster) -> Result<Program> {
        let mut fleet = place.ferrolet("fleet");
        fleet
            .arg("--kubeconfig")
            .arg(&cluster.kubeconfig)
            .arg(format!("--nodes={}", self.nodes))
            .arg(format!("--name-pattern={PREFIX}{{:05}}"))
            // As fast as both come along: how fast that is, is measured.
            .args(["--ramp=1000", "--qps=10000"])
            .args(["--node-ports=none", "--interval=1s", "--json"]);
        Program::start("the fleet", fleet, place.file("fleet.said"))
    }

    #[allow(clippy::cast_precision_loss, reason = "figures for people")]
    fn rows(&self, seen: &[Seen]) -> Vec<Row> {
        let nodes = f64::from(self.nodes);
        let row = |figure, decimals, bar, of: &dyn Fn(&Seen) -> f64| Row {
            figure,
            decimals,
            values: seen.iter().map(of).collect(),
            bar,
        };
        let lease = if self.short {
            LATEST_LEASE_SHORT
        } else {
            LATEST_LEASE
        };
        let soon = if self.short {
            Bar::None
        } else {
            Bar::AtMost(SOON)
        };
        vec![
            row("node of `up` Ready after its start, s", 2, soon, &|seen| {
                seen.up_after.as_secs_f64()
            }),
            row("all Ready after, s", 1, Bar::AtMost(ALL_SOON), &|seen| {
                seen.all_after.as_secs_f64()
            }),
            row("latest lease, s", 1, Bar::AtMost(lease), &|seen| {
                seen.heartbeats.latest.as_secs_f64()
            }),
            row(
                "fewest nodes Ready at a look",
                0,
                Bar::AtLeast(nodes),
                &|seen| seen.heartbeats.fewest_alive.unwrap_or(0) as f64,
            ),
            row("looks", 0, Bar::None, &|seen| seen.heartbeats.looks as f64),
            row(
                "resident memory of `up` before, MiB",
                1,
                Bar::None,
                &|seen| mib(seen.alone),
            ),
            row("resident memory of `up`, MiB", 1, Bar::None, &|seen| {
                mib(seen.up.resident)
            }),
            row("of it for each node, KiB", 1, Bar::None, &|seen| {
                seen.up.resident.saturating_sub(seen.alone) as f64 / KIB / nodes
            }),
            row("resident memory of the fleet, MiB", 1, Bar::None, &|seen| {
                mib(seen.fleet.resident)
            }),
            row("CPU time of `up`, ms a second", 0, Bar::None, &|seen| {
                seen.up.cpu_per_second()
            }),
            row(
                "CPU time of the fleet, ms a second",
                0,
                Bar::None,
                &|seen| seen.fleet.cpu_per_second(),
            ),
        ]
    }

    fn text(&self, table: &str) -> Result<String> {
        Ok(format!(
            "# A fleet of hollow nodes on the embedded API server\n\nWritten by `cargo xtask bench fleet --embedded \
             --nodes {} --minutes {}` {}, as an ordinary user:\n`ferrolet up` with one node, and `ferrolet fleet` \
             beside it, which share the machine with those who look. Leases and\nconditions were looked at every {} \
             s with kubectl, from the moment that all were Ready; memory is the most that was\nresident, and CPU time \
             is counted from {} s later. `up` was started with `--ephemeral`, which keeps its objects in\nmemory, \
             and with `--data-dir`.\n\n{table}",
            self.nodes,
            self.period.as_secs() / 60,
            circumstances()?,
            BETWEEN_LOOKS.as_secs(),
            SETTLED.as_secs(),
        ))
    }
}

/// Where one cluster's programs find what they need, and leave what they say.
struct Place {
    directory: TempDir,
    program: PathBuf,
    /// As whom they run, if not as who asks.
    user: Option<u32>,
}

impl Place {
    fn new(built: &Path) -> Result<Self> {
        // Where there is a disk, which not every /tmp is on.
        let directory = tempfile::tempdir_in("/var/tmp")?;
        // Root owns every file and every port: what a newcomer can do is seen
        // as somebody else, who must be able to reach the program.
        let is_root = command::run(Command::new("id").arg("--user"))?.trim() == "0";
        let user = is_root.then_some(NOBODY);
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755))?;
        let program = directory.path().join("ferrolet");
        cargo::install(built, &program)?;
        fs::set_permissions(&program, Permissions::from_mode(0o755))?;
        let home = directory.path().join("home");
        fs::create_dir(&home)?;
        chown(&home, user, user)?;
        Ok(Self {
            directory,
            program,
            user,
        })
    }

    /// A directory that is theirs.
    fn home(&self) -> PathBuf {
        self.directory.path().join("home")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn ferrolet(&self, verb: &str) -> Command {
        let mut ferrolet = match self.user {
            None => Command::new(&self.program),
            Some(user) => {
                let mut lowered = Command::new("setpriv");
                lowered
                    .arg(format!("--reuid={user}"))
                    .arg(format!("--regid={user}"))
                    .arg("--clear-groups")
                    .arg(&self.program);
                lowered
            }
        };
        ferrolet
            .arg(verb)
            .env("HOME", self.home())
            .env("TMPDIR", self.home())
            .env_remove("XDG_STATE_HOME")
            .current_dir(self.home());
        ferrolet
    }
}

/// A program that runs, and ends with this.
struct Program {
    name: &'static str,
    child: Child,
    said: PathBuf,
}

impl Program {
    fn start(name: &'static str, mut program: Command, said: PathBuf) -> Result<Self> {
        let output = File::create(&said)?;
        let child = program
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Self { name, child, said })
    }

    fn process(&self) -> Process {
        Process::numbered(self.child.id())
    }

    fn said(&self) -> Result<String> {
        Ok(fs::read_to_string(&self.said)?)
    }

    /// Fails with its last words if it runs no more.
    fn expect_alive(&self) -> Result<()> {
        const LINES: usize = 10;
        // What has ended has no memory, though its parent has not asked yet.
        if self.process().resident().is_ok() {
            return Ok(());
        }
        let said = self.said()?;
        let mut lines: Vec<&str> = said.lines().rev().take(LINES).collect();
        lines.reverse();
        bail!("{} has ended:\n{}", self.name, lines.join("\n"))
    }

    /// Ends it as Ctrl-C does, and sees that it does so well.
    fn end(mut self) -> Result<()> {
        self.expect_alive()?;
        signal("INT", self.child.id())?;
        let (name, said) = (self.name, self.said()?);
        let ended = wait::until(&format!("the end of {name}"), FAREWELL, || {
            match self.child.try_wait() {
                Ok(Some(status)) => Ok(status),
                Ok(None) => Err("it runs".to_owned()),
                Err(error) => Err(error.to_string()),
            }
        })?;
        ensure!(ended.success(), "{name} ended with {ended}:\n{said}");
        Ok(())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn signal(name: &str, process: u32) -> Result<()> {
    let mut kill = Command::new("kill");
    command::run(kill.args([&format!("-{name}"), &process.to_string()])).map(drop)
}

/// A `ferrolet up` whose node is Ready.
struct Cluster {
    up: Program,
    took: Duration,
    kubeconfig: PathBuf,
    kubectl: Kubectl,
}

impl Cluster {
    fn start(place: &Place, store: Store) -> Result<Self> {
        let mut up = place.ferrolet("up");
        match store {
            Store::Memory => up.arg("--ephemeral"),
            Store::Disk => up
                .arg("--data-dir")
                .arg(place.home().join("data"))
                .arg("--port=0"),
        };
        let began = Instant::now();
        let up = Program::start("`ferrolet up`", up, place.file("up.said"))?;
        let kubeconfig = wait::until("the node of `ferrolet up`", PATIENCE, || {
            if let Err(ended) = up.expect_alive() {
                return Ok(Err(ended));
            }
            let said = up.said()?;
            let told = said
                .lines()
                .find_map(|line| line.split_once("export KUBECONFIG="));
            match told {
                Some((_, path)) => Ok(Ok(PathBuf::from(path.trim()))),
                None => bail!("{said}"),
            }
        })??;
        Ok(Self {
            took: began.elapsed(),
            up,
            kubectl: lab::kubectl(&kubeconfig)?,
            kubeconfig,
        })
    }

    fn look(&self) -> Result<Look> {
        let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
        let at = Timestamp::now();
        let leases = self.kubectl.run(["get", "--raw", leases])?;
        let nodes = self.kubectl.run(["get", "--raw", "/api/v1/nodes"])?;
        Look::read(at, &nodes, &leases, PREFIX)
    }
}

/// A cluster and the fleet in it.
struct Watched<'a> {
    cluster: &'a Cluster,
    fleet: &'a Program,
}

impl Watched<'_> {
    /// Until all are, as kubectl sees it. A look has its price, which the nodes
    /// would pay: it is the fleet that says when it is worth it.
    fn wait_ready(&self, nodes: u32) -> Result<()> {
        let nodes = usize::try_from(nodes)?;
        wait::until(&format!("{nodes} nodes to be Ready"), PATIENCE, || {
            if let Err(ended) = self.expect_alive() {
                // Waiting longer would not help.
                return Ok(Err(ended));
            }
            let told = ready_told(&self.fleet.said()?);
            if told < nodes {
                sleep(BETWEEN_FIRST_LOOKS);
                bail!("the fleet says that {told} are");
            }
            let alive = self.cluster.look()?.alive();
            ensure!(alive >= nodes, "{alive} are");
            Ok(Ok(()))
        })?
    }

    /// Looks at regular intervals for that long: what `up` and the fleet cost.
    fn look_for(&self, period: Duration, heartbeats: &mut Heartbeats) -> Result<(Cost, Cost)> {
        let start = Instant::now();
        let (up, fleet) = (self.cluster.up.process(), self.fleet.process());
        let before = (up.cpu()?, fleet.cpu()?);
        let mut resident = (0, 0);
        let mut next = start;
        while start.elapsed() < period {
            self.expect_alive()?;
            heartbeats.add(self.cluster.look()?);
            resident = (
                up.resident()?.max(resident.0),
                fleet.resident()?.max(resident.1),
            );
            next += BETWEEN_LOOKS;
            let end = next.min(start + period);
            sleep(end.saturating_duration_since(Instant::now()));
        }
        let cost = |process: &Process, before: Duration, resident| -> Result<Cost> {
            Ok(Cost {
                resident,
                cpu: process.cpu()?.saturating_sub(before),
                period: start.elapsed(),
            })
        };
        Ok((
            cost(&up, before.0, resident.0)?,
            cost(&fleet, before.1, resident.1)?,
        ))
    }

    fn expect_alive(&self) -> Result<()> {
        self.cluster.up.expect_alive()?;
        self.fleet.expect_alive()
    }
}

/// How many were Ready by the last line of figures.
fn ready_told(said: &str) -> usize {
    let figures = said.lines().rev().find_map(|line| {
        let line: Value = serde_json::from_str(line).ok()?;
        line["ready"].as_u64()
    });
    figures
        .and_then(|ready| usize::try_from(ready).ok())
        .unwrap_or(0)
}

impl Store {
    fn words(self) -> &'static str {
        match self {
            Self::Memory => "in memory",
            Self::Disk => "on disk",
        }
    }
}

impl Cost {
    fn cpu_per_second(&self) -> f64 {
        self.cpu.as_secs_f64() * 1000.0 / self.period.as_secs_f64()
    }
}

impl Row {
    fn missed(&self) -> bool {
        self.values.iter().any(|&value| match self.bar {
            Bar::None => false,
            Bar::AtMost(bar) => value > bar,
            Bar::AtLeast(bar) => value < bar,
        })
    }

    fn shown_bar(&self) -> String {
        match self.bar {
            Bar::None => String::new(),
            Bar::AtMost(bar) => format!("≤ {bar:.0}"),
            Bar::AtLeast(bar) => format!("≥ {bar:.0}"),
        }
    }
}

fn table(rows: &[Row], seen: &[Seen]) -> String {
    let stores: Vec<&str> = seen.iter().map(|seen| seen.store.words()).collect();
    let lines = "---:|".repeat(stores.len() + 1);
    let mut table = format!("| figure | {} | bar |\n|---|{lines}\n", stores.join(" | "));
    for row in rows {
        let values: Vec<String> = row
            .values
            .iter()
            .map(|value| format!("{value:.*}", row.decimals))
            .collect();
        let _ = writeln!(
            table,
            "| {} | {} | {} |",
            row.figure,
            values.join(" | "),
            row.shown_bar()
        );
    }
    table
}

#[allow(clippy::cast_precision_loss, reason = "figures for people")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / MIB
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan {
        nodes: 1024,
        period: Duration::from_secs(120),
        short: false,
    };

    fn cost(mebibytes: u64) -> Cost {
        Cost {
            resident: mebibytes << 20,
            cpu: Duration::from_secs(60),
            period: Duration::from_secs(120),
        }
    }

    fn seen(store: Store) -> Seen {
        let mut heartbeats = Heartbeats::default();
        heartbeats.latest = Duration::from_secs(11);
        heartbeats.fewest_alive = Some(1024);
        Seen {
            store,
            up_after: Duration::from_secs(2),
            all_after: Duration::from_secs(40),
            heartbeats,
            alone: 20 << 20,
            up: cost(120),
            fleet: cost(300),
        }
    }

    fn missed(plan: &Plan, on_disk: Seen) -> Vec<&'static str> {
        let rows = plan.rows(&[seen(Store::Memory), on_disk]);
        let missed = rows.iter().filter(|row| row.missed());
        missed.map(|row| row.figure).collect()
    }

    #[test]
    fn each_bar_is_missed_by_the_cluster_that_is_over_it_and_by_no_other() {
        assert_eq!(missed(&PLAN, seen(Store::Disk)), Vec::<&str>::new());
        let mut late = seen(Store::Disk);
        late.up_after = Duration::from_millis(5001);
        assert_eq!(
            missed(&PLAN, late),
            ["node of `up` Ready after its start, s"]
        );
        let mut slow = seen(Store::Disk);
        slow.all_after = Duration::from_millis(60_001);
        assert_eq!(missed(&PLAN, slow), ["all Ready after, s"]);
        let mut lost = seen(Store::Disk);
        lost.heartbeats.fewest_alive = Some(1023);
        lost.heartbeats.latest = Duration::from_secs(21);
        assert_eq!(
            missed(&PLAN, lost),
            ["latest lease, s", "fewest nodes Ready at a look"]
        );
    }

    #[test]
    fn in_ci_a_slow_start_and_a_lease_that_still_holds_are_let_pass() {
        let short = Plan {
            short: true,
            ..PLAN
        };
        let mut slow = seen(Store::Disk);
        slow.up_after = Duration::from_secs(9);
        slow.heartbeats.latest = Duration::from_secs(39);
        assert_eq!(missed(&short, slow), Vec::<&str>::new());
    }

    #[test]
    fn the_table_has_a_column_for_each_cluster_and_memory_by_node() {
        let seen = [seen(Store::Memory), seen(Store::Disk)];
        let shown = table(&PLAN.rows(&seen), &seen);
        for line in [
            "| figure | in memory | on disk | bar |\n|---|---:|---:|---:|\n",
            "| fewest nodes Ready at a look | 1024 | 1024 | ≥ 1024 |",
            "| of it for each node, KiB | 100.0 | 100.0 |  |",
            "| CPU time of `up`, ms a second | 500 | 500 |  |",
        ] {
            assert!(shown.contains(line), "{shown}");
        }
    }

    #[test]
    fn the_last_line_of_figures_counts_whatever_else_was_said() {
        let said = "{\"ready\":3}\n{\"ready\":7,\"nodes\":9}\nwarning: {\n{\"rea";
        assert_eq!(ready_told(said), 7);
        assert_eq!(ready_told("warning"), 0);
    }
}
