//! The one who writes: takes what waits, brings it to disk with one sync, shows it, and
//! answers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use super::collection::Collections;
use super::disk::Disk;
use super::watch::Change;
use super::{Expect, Key, Revision, Store, Stored, WriteError, read, write};

/// Writes that go to disk together.
pub(super) const BATCH: usize = 1024;

/// After a write that failed: opening the file again reads all of it.
const AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) enum Operation {
    Create(Value),
    Update(Expect, Value),
    Delete(Expect),
}

#[derive(Debug)]
pub(super) struct Order {
    pub(super) key: Key,
    pub(super) operation: Operation,
    pub(super) answer: oneshot::Sender<Result<Stored, WriteError>>,
}

/// The other half of a store: nothing is written unless it runs.
#[derive(Debug)]
pub struct Writer {
    collections: Arc<RwLock<Collections>>,
    orders: mpsc::Receiver<Order>,
    /// Only the writer writes: the lock is for the thread that waits for the disk.
    disk: Option<Arc<Mutex<Disk>>>,
    failing: Arc<AtomicBool>,
    failure: Option<Failure>,
}

/// What became of the last write to the disk.
#[derive(Debug)]
struct Failure {
    problem: String,
    again: Instant,
}

impl Writer {
    pub(super) fn new(store: &Store, orders: mpsc::Receiver<Order>, disk: Option<Disk>) -> Self {
        Self {
            collections: Arc::clone(&store.collections),
            orders,
            disk: disk.map(|disk| Arc::new(Mutex::new(disk))),
            failing: Arc::clone(&store.failing),
            failure: None,
        }
    }

    /// Writes until told to end, then what still waits.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let mut batch = Vec::new();
        loop {
            let received = self.orders.recv_many(&mut batch, BATCH);
            if shutdown.run_until_cancelled(received).await.is_none() {
                break;
            }
            if batch.is_empty() {
                return;
            }
            self.carry_out(&mut batch).await;
        }
        self.orders.close();
        while self.orders.recv_many(&mut batch, BATCH).await > 0 {
            self.carry_out(&mut batch).await;
        }
    }

    async fn carry_out(&mut self, orders: &mut Vec<Order>) {
        let mut plan = Plan::new(&self.collections);
        let decided: Vec<_> = orders
            .drain(..)
            .map(|order| (order.answer, plan.decide(&order.key, order.operation)))
            .collect();
        let changes = plan.changes;
        let kept = self.keep(changes).await;
        for (answer, decision) in decided {
            let outcome = match &kept {
                Ok(()) => decision,
                // Refusals may rest on what could not be kept.
                Err(problem) => Err(WriteError::Lost(problem.clone())),
            };
            // Who asked may have gone.
            let _ = answer.send(outcome);
        }
    }

    async fn keep(&mut self, changes: Vec<Change>) -> Result<(), String> {
        let changes = match &self.disk {
            Some(disk) if !changes.is_empty() => {
                let failure = self.failure.as_ref();
                if let Some(failure) = failure.filter(|failure| Instant::now() < failure.again) {
                    return Err(failure.problem.clone());
                }
                let written = self.to_disk(Arc::clone(disk), changes).await;
                self.note(written.as_ref().err());
                written?
            }
            _ => changes,
        };
        write(&self.collections).apply(changes);
        Ok(())
    }

    async fn to_disk(
        &self,
        disk: Arc<Mutex<Disk>>,
        changes: Vec<Change>,
    ) -> Result<Vec<Change>, String> {
        let acknowledged = read(&self.collections).revision();
        let writing = tokio::task::spawn_blocking(move || {
            let mut disk = disk.lock().unwrap_or_else(PoisonError::into_inner);
            disk.write(&changes, acknowledged).map(|()| changes)
        });
        let written = writing.await.map_err(|error| error.to_string())?;
        written.map_err(|cause| cause.to_string())
    }

    /// Says once that the store cannot be written, and once that it can again.
    fn note(&mut self, problem: Option<&String>) {
        self.failing.store(problem.is_some(), Ordering::Relaxed);
        let was = self.failure.take();
        self.failure = problem.map(|problem| Failure {
            problem: problem.clone(),
            again: Instant::now() + AGAIN,
        });
        match (problem, was) {
            (Some(problem), was) if was.as_ref().is_none_or(|was| was.problem != *problem) => {
                error!("{problem}");
            }
            (None, Some(_)) => info!("the store can be written again"),
            _ => {}
        }
    }
}

/// What becomes of the writes of one batch, each seeing the ones before it.
struct Plan<'a> {
    collections: &'a RwLock<Collections>,
    revision: Revision,
    /// What the batch has made of objects so far.
    pending: HashMap<String, Option<Stored>>,
    changes: Vec<Change>,
}

impl<'a> Plan<'a> {
    fn new(collections: &'a RwLock<Collections>) -> Self {
        Self {
            collections,
            revision: read(collections).revision(),
            pending: HashMap::new(),
            changes: Vec::new(),
        }
    }

    fn decide(&mut self, key: &Key, operation: Operation) -> Result<Stored, WriteError> {
        let place = key.on_disk();
        let current = match self.pending.get(&place) {
            Some(pending) => pending.clone(),
            None => read(self.collections).get(key),
        };
        let (object, deleted) = match (operation, &current) {
            (Operation::Create(_), Some(_)) => return Err(WriteError::Exists),
            (Operation::Update(..) | Operation::Delete(_), None) => {
                return Err(WriteError::Missing);
            }
            (Operation::Create(object), None) => (object, false),
            (Operation::Update(expect, object), Some(current)) => {
                check(&expect, current)?;
                (object, false)
            }
            (Operation::Delete(expect), Some(current)) => {
                check(&expect, current)?;
                (current.value(), true)
            }
        };
        self.revision += 1;
        let object = Stored::new(key, self.revision, object);
        let left = (!deleted).then(|| object.clone());
        self.pending.insert(place, left);
        self.changes.push(Change {
            revision: self.revision,
            object: object.clone(),
            previous: current,
            deleted,
        });
        Ok(object)
    }
}

fn check(expect: &Expect, current: &Stored) -> Result<(), WriteError> {
    match expect {
        Expect::At(revision) if *revision != current.revision() => {
            Err(WriteError::Changed(current.revision()))
        }
        _ => Ok(()),
    }
}
