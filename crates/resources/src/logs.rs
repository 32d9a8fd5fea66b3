//! The logs of running containers: one that has grown large enough is put aside, the
//! runtime begins another, and of those put aside only so many stay, all but the newest
//! packed.
//!
//! In: what the runtime lists, the sizes of files, and the machine's word that a file
//! was written to. Out: files, in upstream's layout, and calls that tell the runtime to
//! open its log anew.
//!
//! Every `containerLogMonitorInterval` all logs are looked at, as upstream does; the
//! runtime is asked but once where each is. In between, growth says when to look:
//!
//! - A quiet log costs nothing. The machine watches it, and tells of the first write.
//! - One that was written to is looked at within [`PAUSE`](ledger::PAUSE), together with
//!   all others of which that is true: one look in a second, however many they are.
//! - One that will be full before the next regular look is looked at when it should be.
//! - The link that a new container's log gets brings the regular look forward.
//!
//! What to do with a log's files is said by a pure function ([`plan`](mod@plan)), when to
//! look by another ([`ledger`]). Work on logs is bounded, and none is worked on twice at
//! once.

mod ledger;
mod plan;
mod policy;
mod rotate;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::StreamExt as _;
use futures_util::future::FutureExt as _;
use futures_util::stream::FuturesUnordered;
use jiff::tz::TimeZone;
use seams::cri::{
    ContainerFilter, ContainerState, ContainerStateValue, ContainerStatusRequest,
    ListContainersRequest,
};
use seams::host::{Growth, HostError};
use seams::{RuntimeError, SharedClock, SharedHost, SharedRuntime, SharedStorage, storage};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::garbage::logs::place;
use ledger::{Ended, Ledger};
use rotate::{Rotation, Turn, reopen};

pub use policy::Policy;
pub use rotate::RotateError;

/// The task that keeps logs small.
#[derive(Debug)]
pub struct LogRotation {
    pub runtime: SharedRuntime,
    pub storage: SharedStorage,
    pub host: SharedHost,
    pub clock: SharedClock,
    pub policy: Policy,
    /// In which times are told in names of files.
    pub zone: TimeZone,
    /// `/var/log/containers`: a new link there tells of a new container.
    pub links: PathBuf,
}

/// Why a log could not be looked after.
#[derive(Debug, thiserror::Error)]
enum LogError {
    #[error("where its log is cannot be asked, the next look tries again: {0}")]
    Status(RuntimeError),
    #[error("the runtime says of its log only {0:?}: see the runtime's own log")]
    Place(String),
    #[error("its log cannot be looked at: {0}")]
    Look(#[from] HostError),
    #[error("its log is gone, and the runtime did not make another: {0}")]
    Gone(RuntimeError),
    #[error(transparent)]
    Rotate(#[from] RotateError),
}

impl LogError {
    /// The container went away meanwhile.
    fn is_over(&self) -> bool {
        match self {
            Self::Status(error) | Self::Gone(error) | Self::Rotate(RotateError::Reopen(error)) => {
                error.is_not_found()
            }
            _ => false,
        }
    }
}

/// A log that is to be looked at: its container, and where it is, if that is known.
type Wanted = (String, Option<PathBuf>);

type Job<'a> = Pin<Box<dyn Future<Output = (String, Ended)> + Send + 'a>>;

/// What a running task has at hand.
struct Desk<'a> {
    ledger: Ledger,
    growth: Box<dyn Growth>,
    jobs: FuturesUnordered<Job<'a>>,
    workers: &'a Semaphore,
    ending: &'a CancellationToken,
}

impl LogRotation {
    /// Until `shutdown`. A log that has been put aside by then gets its successor.
    pub async fn run(self, shutdown: CancellationToken) {
        let workers = Semaphore::new(self.policy.workers.min(Semaphore::MAX_PERMITS));
        let mut desk = Desk {
            ledger: Ledger::default(),
            growth: self.host.growth(),
            jobs: FuturesUnordered::new(),
            workers: &workers,
            ending: &shutdown,
        };
        shutdown.run_until_cancelled(self.keep(&mut desk)).await;
        while desk.jobs.next().await.is_some() {}
    }

    async fn keep<'a>(&'a self, desk: &mut Desk<'a>) {
        // The nodes of a fleet begin together; they need not look together.
        let spread = self.policy.interval.mul_f64(self.clock.random());
        let mut regular = self.clock.uptime() + spread;
        let mut begun = self.host.hint(&self.links);
        loop {
            let now = self.clock.uptime();
            let next = desk.ledger.next().map_or(regular, |next| next.min(regular));
            let pause = self.clock.sleep(next.saturating_sub(now));
            // Once a look is due soon, the rest is told of then.
            let soon = next <= now + ledger::PAUSE;
            tokio::select! {
                biased;
                Some((id, ended)) = desk.jobs.next(), if !desk.jobs.is_empty() => {
                    let (now, full) = (self.clock.uptime(), self.policy.most_bytes);
                    desk.ledger.end(&id, ended, now, full);
                }
                () = pause => {
                    self.take_up_growth(desk);
                    let now = self.clock.uptime();
                    let wanted = if now >= regular {
                        regular = now + self.policy.interval;
                        self.all(&mut desk.ledger).await
                    } else {
                        desk.ledger.due(now)
                    };
                    self.look(wanted, desk).await;
                }
                () = &mut begun => {
                    begun = self.host.hint(&self.links);
                    regular = regular.min(self.clock.uptime() + ledger::PAUSE);
                }
                grown = desk.growth.grown(), if !soon => {
                    for path in grown {
                        desk.ledger.grown(&path, self.clock.uptime());
                    }
                }
            }
            let (now, interval) = (self.clock.uptime(), self.policy.interval);
            for path in desk.ledger.take_unwatched(interval, now) {
                desk.growth.watch(&path);
            }
        }
    }

    /// What was told of while nobody listened; it is due now.
    fn take_up_growth(&self, desk: &mut Desk<'_>) {
        let now = self.clock.uptime();
        for path in desk.growth.grown().now_or_never().into_iter().flatten() {
            desk.ledger.grown(&path, now);
        }
    }

    /// All that nobody works on.
    async fn all(&self, ledger: &mut Ledger) -> Vec<Wanted> {
        match self.running().await {
            Ok(running) => ledger.running(running),
            Err(error) => {
                warn!(%error, "cannot ask whose logs to look at, the next look tries again");
            }
        }
        ledger.idle()
    }

    /// The containers that can write something.
    async fn running(&self) -> Result<Vec<String>, RuntimeError> {
        let running = ContainerState::ContainerRunning;
        let state = ContainerStateValue {
            state: running.into(),
        };
        let filter = ContainerFilter {
            state: Some(state),
            ..ContainerFilter::default()
        };
        let filter = Some(filter);
        let listed = self
            .runtime
            .list_containers(ListContainersRequest { filter });
        let listed = listed.await?.containers.into_iter();
        let listed = listed.filter(|container| container.state() == running);
        Ok(listed.map(|container| container.id).collect())
    }

    /// Looks at logs, all at once. Those that something is to be done about become
    /// somebody's work.
    async fn look<'a>(&'a self, wanted: Vec<Wanted>, desk: &mut Desk<'a>) {
        if wanted.is_empty() {
            return;
        }
        let sizes = self.sizes(&wanted).await;
        let (now, full) = (self.clock.uptime(), self.policy.most_bytes);
        for ((id, path), size) in wanted.into_iter().zip(sizes) {
            if let Some(size) = size {
                let tick = self.policy.interval;
                desk.ledger.seen(&id, size, now, full, tick);
            }
            if size.is_none_or(|size| size >= full) {
                desk.ledger.begin(&id);
                let job = self.attend(id, path, desk.workers, desk.ending);
                desk.jobs.push(Box::pin(job));
            }
        }
    }

    /// Of each, if it is known and can be told.
    async fn sizes(&self, wanted: &[Wanted]) -> Vec<Option<u64>> {
        let paths: Vec<Option<PathBuf>> = wanted.iter().map(|(_, path)| path.clone()).collect();
        let sizes = storage::perform(&self.storage, move |disks| {
            let size = |path: Option<PathBuf>| disks.size(&path?).ok().flatten();
            paths.into_iter().map(size).collect::<Vec<_>>()
        });
        sizes.await.unwrap_or_else(|_| vec![None; wanted.len()])
    }

    /// Does for one log what has to be done, when a worker is free.
    async fn attend(
        &self,
        id: String,
        path: Option<PathBuf>,
        workers: &Semaphore,
        ending: &CancellationToken,
    ) -> (String, Ended) {
        let mut ended = Ended::default();
        let permit = ending.run_until_cancelled(workers.acquire()).await;
        if let Some(Ok(_permit)) = permit
            && let Err(error) = self.see_to(&id, path, ending, &mut ended).await
        {
            ended.failed = true;
            if error.is_over() {
                debug!(container = id, %error, "a container ended while its log was seen to");
            } else {
                warn!(container = id, %error, "the log of a container is not as it should be");
            }
        }
        (id, ended)
    }

    async fn see_to(
        &self,
        id: &str,
        path: Option<PathBuf>,
        ending: &CancellationToken,
        ended: &mut Ended,
    ) -> Result<(), LogError> {
        let path = match path {
            Some(path) => path,
            None => match ending.run_until_cancelled(self.ask_where(id)).await {
                Some(asked) => asked?,
                None => return Ok(()),
            },
        };
        ended.path = Some(path.clone());
        let size = if let Some(size) = self.size(&path).await? {
            size
        } else {
            reopen(&self.runtime, id).await.map_err(LogError::Gone)?;
            ended.is_new = true;
            self.size(&path).await?.unwrap_or_default()
        };
        ended.size = Some(size);
        let (Some(directory), Some(log)) = (path.parent(), path.file_name()) else {
            return Ok(());
        };
        if size < self.policy.most_bytes {
            return Ok(());
        }
        let log = log.to_string_lossy();
        let turn = self.rotation().rotate(id, directory, &log, ending).await;
        let turn = match turn {
            // It is rotated all the same.
            Err(error @ RotateError::Compress(_)) => {
                warn!(container = id, %error, "a log takes more room than it should");
                Turn::Rotated
            }
            turn => turn?,
        };
        match turn {
            Turn::NotYet => ended.again_after = Some(to_next_second(self.clock.now())),
            Turn::Rotated => {
                info!(container = id, log = %path.display(), bytes = size, "a log was rotated");
                ended.is_new = true;
                // What has come since is little, or told of.
                ended.size = self.size(&path).await?;
            }
        }
        Ok(())
    }

    async fn ask_where(&self, id: &str) -> Result<PathBuf, LogError> {
        let request = ContainerStatusRequest {
            container_id: id.to_owned(),
            ..ContainerStatusRequest::default()
        };
        let status = self.runtime.container_status(request).await;
        let status = status.map_err(LogError::Status)?.status.unwrap_or_default();
        match place(&status.log_path) {
            Some((directory, log)) => Ok(directory.join(log)),
            None => Err(LogError::Place(status.log_path)),
        }
    }

    async fn size(&self, path: &Path) -> Result<Option<u64>, HostError> {
        let path = path.to_owned();
        storage::perform(&self.storage, move |disks| disks.size(&path)).await?
    }

    fn rotation(&self) -> Rotation<'_> {
        Rotation {
            runtime: &self.runtime,
            storage: &self.storage,
            clock: &self.clock,
            zone: &self.zone,
            most_files: self.policy.most_files,
        }
    }
}

/// How long it is until a rotated log gets another name than it would get now.
fn to_next_second(now: SystemTime) -> Duration {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let passed = Duration::from_nanos(u64::from(since.subsec_nanos()));
    Duration::from_secs(1).saturating_sub(passed)
}
