//! `ferrolet up` is killed at random moments while people write and watch: nothing that was
//! acknowledged or shown is lost, and the next start answers soon.
//!
//! `cargo xtask chaos server` kills it a hundred times; every day it is a few.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use fastrand::Rng;
use futures_util::TryStreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{
    Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, WatchEvent,
    WatchParams,
};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use testkit::knobs::{number, seed};
use testkit::wait;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::access::Access;
use crate::ledger::{Begun, Ledger, Revision, Seen};
use crate::program::{Home, PATIENCE, Started};

/// How often, and how soon a start after a kill has to answer. What is promised of a machine
/// that does nothing else is a second; the tests of every day share theirs.
const EVERY_DAY: (usize, Duration) = (15, Duration::from_secs(10));
const PROMISED: Duration = Duration::from_secs(1);

const WRITERS: usize = 4;
const NAMES: usize = 5;
/// So long, at most, it writes before it is killed.
const WRITING: Duration = Duration::from_millis(400);
/// Of the objects that are ours.
const LABEL: &str = "killed=yes";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_however_often_it_is_killed() -> Result<()> {
    let (kills, soon) = match number("FERROLET_KILLS")? {
        Some(kills) => (usize::try_from(kills)?, PROMISED),
        None => EVERY_DAY,
    };
    let seed = seed()?;
    println!("{kills} kills, FERROLET_SEED={seed}");
    let mut story = Story::new(seed)?;
    for kill in 0..kills {
        let played = story.kill().await;
        played.with_context(|| format!("kill {kill} of FERROLET_SEED={seed}"))?;
    }
    story.end(soon).await
}

/// One cluster that is killed over and over, and others that are killed when they begin.
struct Story {
    random: Rng,
    home: Home,
    ledger: Arc<Mutex<Ledger>>,
    /// From each start after a kill to its first answer.
    answered_after: Vec<Duration>,
    /// Before it answered, at its very first start, and while it was written to.
    starting: usize,
    beginning: usize,
    writing: usize,
}

/// A start that has answered, and whose objects are what they have to be.
struct Alive {
    started: Started,
    access: Access,
    revision: Revision,
}

impl Story {
    fn new(seed: u64) -> Result<Self> {
        let mut random = Rng::with_seed(seed);
        Ok(Self {
            home: Home::new(&mut random)?,
            random,
            ledger: Arc::default(),
            answered_after: Vec::new(),
            starting: 0,
            beginning: 0,
            writing: 0,
        })
    }

    async fn kill(&mut self) -> Result<()> {
        match self.random.u8(..10) {
            0..=1 => self.kill_at_its_first_start().await,
            2..=3 => self.kill_before_it_answers().await,
            _ => self.kill_while_it_is_written_to().await,
        }
    }

    /// A moment in the time that a start takes.
    fn moment(&mut self) -> Duration {
        let usual = self.answered_after.last().copied();
        usual.unwrap_or(WRITING).mul_f64(self.random.f64())
    }

    /// A cluster whose first start did not end has promised nothing but its keys, if anybody has
    /// seen them.
    async fn kill_at_its_first_start(&mut self) -> Result<()> {
        let home = Home::new(&mut self.random)?;
        let started = home.start()?;
        sleep(self.moment()).await;
        started.kill()?;
        let authority = home.data().join("ca.crt");
        let before = fs::read(&authority).ok();
        let mut started = home.start()?;
        let (access, _, _) = first_answer(&home, &mut started).await?;
        self.answered_after.push(started.began.elapsed());
        let after = fs::read(&authority)?;
        ensure!(
            before.is_none_or(|before| before == after),
            "it has another CA"
        );
        access.close().await;
        self.beginning += 1;
        Ok(())
    }

    async fn kill_before_it_answers(&mut self) -> Result<()> {
        let started = self.home.start()?;
        sleep(self.moment()).await;
        self.starting += 1;
        started.kill()
    }

    async fn kill_while_it_is_written_to(&mut self) -> Result<()> {
        let alive = self.start().await?;
        let mut busy = JoinSet::new();
        for writer in 0..WRITERS {
            let writer = Writer {
                own: format!("w{writer}"),
                random: self.random.fork(),
                objects: objects(&alive.access.client),
                ledger: Arc::clone(&self.ledger),
            };
            busy.spawn(writer.run());
        }
        let watched = objects(&alive.access.client);
        busy.spawn(watch(watched, alive.revision, Arc::clone(&self.ledger)));
        sleep(WRITING.mul_f64(self.random.f64())).await;
        alive.started.kill()?;
        while let Some(ended) = busy.join_next().await {
            ended??;
        }
        alive.access.close().await;
        self.writing += 1;
        Ok(())
    }

    /// Starts it, and compares what is there with what was promised.
    async fn start(&mut self) -> Result<Alive> {
        let known = self.home.kubeconfig().exists();
        let mut started = self.home.start()?;
        let (access, found, revision) = first_answer(&self.home, &mut started).await?;
        if known {
            self.answered_after.push(started.began.elapsed());
        }
        locked(&self.ledger).settle(found, revision)?;
        Ok(Alive {
            started,
            access,
            revision,
        })
    }

    /// After all that it is a cluster like any other: its node comes back, and it ends in order.
    async fn end(mut self, soon: Duration) -> Result<()> {
        let alive = self.start().await?;
        wait::until("the node", PATIENCE, || {
            let said = alive.started.said();
            if said.contains("sim-0 is Ready") {
                return Ok(());
            }
            Err(said)
        })?;
        alive.access.close().await;
        alive.started.end()?;
        let ledger = locked(&self.ledger);
        let mut after = self.answered_after;
        after.sort();
        let worst = *after.last().context("it was never started again")?;
        let median = after[after.len() / 2];
        println!(
            "killed {} times at the first start, {} before an answer, {} while written to",
            self.beginning, self.starting, self.writing
        );
        println!(
            "{} writes were acknowledged and {} changes shown; of those under way {} were done and {} not",
            ledger.acknowledged, ledger.shown, ledger.done, ledger.not_done
        );
        println!(
            "{} starts after a kill: answered after {median:.0?} (median), {worst:.0?} (worst)",
            after.len()
        );
        ensure!(
            self.writing == 0 || (ledger.acknowledged > 0 && ledger.shown > 0),
            "hardly anything was written: the kills say nothing"
        );
        ensure!(worst <= soon, "a start took {worst:?}");
        Ok(())
    }
}

fn locked(ledger: &Mutex<Ledger>) -> std::sync::MutexGuard<'_, Ledger> {
    // What a writer found wrong is told by that writer.
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

fn objects(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "default")
}

/// What is there, and as of when, as soon as it is answered.
async fn first_answer(
    home: &Home,
    started: &mut Started,
) -> Result<(Access, BTreeMap<String, Seen>, Revision)> {
    let give_up = Instant::now() + PATIENCE;
    loop {
        started.check()?;
        let problem = match ask(home).await {
            Ok(answer) => return Ok(answer),
            Err(problem) => problem,
        };
        if Instant::now() > give_up {
            bail!("no answer: {problem:#}: {}", started.said());
        }
        sleep(Duration::from_millis(5)).await;
    }
}

async fn ask(home: &Home) -> Result<(Access, BTreeMap<String, Seen>, Revision)> {
    let access = Access::new(&home.kubeconfig())?;
    let list = objects(&access.client)
        .list(&ListParams::default().labels(LABEL))
        .await?;
    let revision = list.metadata.resource_version.context("no revision")?;
    let found = list.items.iter();
    let found = found.map(|object| (object.name_any(), Seen::of(object)));
    Ok((access, found.collect(), revision.parse()?))
}

/// Somebody who makes, changes and deletes objects of their own, one at a time.
struct Writer {
    own: String,
    random: Rng,
    objects: Api<ConfigMap>,
    ledger: Arc<Mutex<Ledger>>,
}

impl Writer {
    /// Until there is no answer any more.
    async fn run(mut self) -> Result<()> {
        loop {
            match self.write().await {
                Ok(()) => {}
                Err(Stopped::NoAnswer) => return Ok(()),
                Err(Stopped::Wrong(problem)) => return Err(problem),
            }
        }
    }

    async fn write(&mut self) -> Result<(), Stopped> {
        let name = format!("{}-{}", self.own, self.random.usize(..NAMES));
        let value = format!("{:x}", self.random.u64(..));
        let there = locked(&self.ledger).get(&name).cloned();
        let Some(there) = there else {
            self.begin(
                &name,
                Begun::Create {
                    value: value.clone(),
                },
            );
            let object = object(&name, &value, None);
            let created = self.objects.create(&PostParams::default(), &object).await;
            return self.written(&name, &value, created);
        };
        match self.random.u8(..10) {
            0..=1 => {
                self.begin(&name, Begun::Delete);
                let deleted = self.objects.delete(&name, &DeleteParams::default()).await;
                deleted.map_err(|error| stopped(&name, error))?;
                locked(&self.ledger).deleted(&name);
                Ok(())
            }
            2..=5 => {
                self.begin(
                    &name,
                    Begun::Update {
                        value: value.clone(),
                    },
                );
                let object = object(&name, &value, Some(there.revision));
                let posted = PostParams::default();
                let replaced = self.objects.replace(&name, &posted, &object).await;
                self.written(&name, &value, replaced)
            }
            _ => {
                self.begin(
                    &name,
                    Begun::Update {
                        value: value.clone(),
                    },
                );
                let patch = Patch::Merge(json!({"data": {"value": value}}));
                let asked = PatchParams::default();
                let patched = self.objects.patch(&name, &asked, &patch).await;
                self.written(&name, &value, patched)
            }
        }
    }

    fn begin(&self, name: &str, write: Begun) {
        locked(&self.ledger).begin(name, write);
    }

    fn written(
        &self,
        name: &str,
        value: &str,
        answer: kube::Result<ConfigMap>,
    ) -> Result<(), Stopped> {
        let object = answer.map_err(|error| stopped(name, error))?;
        let seen = Seen::of(&object);
        if seen.value != value {
            let problem = anyhow!("{name} was to be {value}, and the answer is {seen:?}");
            return Err(Stopped::Wrong(problem));
        }
        locked(&self.ledger)
            .written(name, seen)
            .map_err(Stopped::Wrong)
    }
}

enum Stopped {
    NoAnswer,
    Wrong(anyhow::Error),
}

/// Nobody else writes these objects: every write that is answered is done.
fn stopped(name: &str, error: kube::Error) -> Stopped {
    match error {
        kube::Error::Api(status) => Stopped::Wrong(anyhow!("{name} was refused: {status:?}")),
        _ => Stopped::NoAnswer,
    }
}

fn object(name: &str, value: &str, revision: Option<Revision>) -> ConfigMap {
    let (key, label) = LABEL.split_once('=').unwrap_or_default();
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(BTreeMap::from([(key.to_owned(), label.to_owned())])),
            resource_version: revision.map(|revision| revision.to_string()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("value".to_owned(), value.to_owned())])),
        ..ConfigMap::default()
    }
}

/// Notes all that is shown, until nothing is any more.
async fn watch(
    objects: Api<ConfigMap>,
    revision: Revision,
    ledger: Arc<Mutex<Ledger>>,
) -> Result<()> {
    let asked = WatchParams::default().labels(LABEL);
    let Ok(changes) = objects.watch(&asked, &revision.to_string()).await else {
        return Ok(());
    };
    let mut changes = std::pin::pin!(changes);
    while let Ok(Some(change)) = changes.try_next().await {
        let (object, deleted) = match change {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
            WatchEvent::Deleted(object) => (object, true),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(status) => bail!("the watch has failed: {status:?}"),
        };
        locked(&ledger).shown(&object.name_any(), Seen::of(&object), deleted)?;
    }
    Ok(())
}
