//! The one who writes: takes what waits, brings it to disk with one sync, shows it, and
//! answers.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::error;

use super::collection::Collections;
use super::disk::Disk;
use super::watch::Change;
use super::{Expect, Key, Revision, Stored, WriteError, read, write};

/// Writes that go to disk together.
pub(super) const BATCH: usize = 1024;

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
    disk: Option<Arc<Disk>>,
}

impl Writer {
    pub(super) fn new(
        collections: Arc<RwLock<Collections>>,
        orders: mpsc::Receiver<Order>,
        disk: Option<Disk>,
    ) -> Self {
        Self {
            collections,
            orders,
            disk: disk.map(Arc::new),
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

    async fn carry_out(&self, orders: &mut Vec<Order>) {
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

    async fn keep(&self, changes: Vec<Change>) -> Result<(), String> {
        let changes = match &self.disk {
            Some(disk) if !changes.is_empty() => {
                let disk = Arc::clone(disk);
                let written =
                    tokio::task::spawn_blocking(move || disk.write(&changes).map(|()| changes));
                let written = written.await.map_err(|error| error.to_string())?;
                written.map_err(|cause| {
                    error!(err = %cause, "the store cannot be written: free disk space, then restart the server");
                    cause.to_string()
                })?
            }
            _ => changes,
        };
        write(&self.collections).apply(changes);
        Ok(())
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
