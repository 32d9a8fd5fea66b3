//! A runtime that runs pods of which nothing is real but their story.
//!
//! Its state is a function of time: nothing runs while nobody looks, so that ten
//! thousand of them cost memory only. A look makes up for what has happened.

mod calls;
mod container;
mod curve;
mod details;
mod events;
mod exec;
mod ids;
mod images;
mod labels;
mod logs;
mod moment;
mod net;
mod network;
mod printed;
mod refusal;
mod sandbox;
mod state;
mod stats;
mod story;
mod streams;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use seams::SharedClock;
use seams::cri::CgroupDriver;
use tokio::sync::{Notify, watch};

pub use logs::{LogLine, Logs};
pub use network::{NetworkError, PodNetwork};
pub use streams::StreamsPort;

use crate::faults::Faults;
use moment::Moment;
use state::State;

/// What runtimes of one kind have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeShape {
    pub name: String,
    pub version: String,
    /// Where pods get their addresses from until the node tells its own range;
    /// without one the network is not ready until then.
    pub pod_network: Option<PodNetwork>,
    /// How long an image takes that is not there yet, where the pod says nothing.
    pub pull_delay: Duration,
    pub logs: Logs,
    /// Bytes on the disk of the images.
    pub storage: u64,
    /// Where that disk is mounted. Whoever asks may look there for how much is free.
    pub mountpoint: String,
    /// What a kubelet is told to make the cgroups of pods with.
    pub cgroup_driver: CgroupDriver,
    /// Whether it tells what it can do, as containerd 2 does: user namespaces,
    /// recursively read-only mounts, policies for supplemental groups. A kubelet
    /// refuses pods that ask for what is not told of.
    pub tells_features: bool,
}

impl Default for RuntimeShape {
    fn default() -> Self {
        Self {
            name: "ferrolet-sim".to_owned(),
            version: "0.1.0".to_owned(),
            pod_network: Some(PodNetwork::default()),
            pull_delay: Duration::from_millis(500),
            logs: Logs::None,
            storage: 512 << 30,
            mountpoint: "/".to_owned(),
            cgroup_driver: CgroupDriver::Systemd,
            tells_features: false,
        }
    }
}

/// One runtime.
#[derive(Debug)]
pub struct Runtime {
    core: Arc<Core>,
}

impl Runtime {
    pub fn new(
        shape: Arc<RuntimeShape>,
        clock: SharedClock,
        faults: watch::Receiver<Faults>,
    ) -> Self {
        // So that ids differ between runtimes, as they do between real ones.
        let seed = clock.random().to_bits() ^ clock.random().to_bits().rotate_left(32);
        let state = State::new(seed, shape.pod_network.clone());
        Self {
            core: Arc::new(Core {
                shape,
                clock,
                faults,
                changed: Arc::clone(&state.changed),
                streams_at: OnceLock::new(),
                state: Mutex::new(state),
            }),
        }
    }

    /// What a container has printed so far: at most so many lines from the given
    /// one on, counted from 0. Nothing for a container that is not there.
    pub fn log_lines(&self, container: &str, from: u64, most: u64) -> Vec<LogLine> {
        let (state, now) = self.core.look();
        let container = state.container(container);
        container.map_or_else(
            |_| Vec::new(),
            |container| logs::to_lines(container, from, most, now),
        )
    }

    /// Writes the logs of containers into their files, each second, until
    /// `shutdown`. It only waits for that where logs go nowhere ([`Logs::None`]).
    pub async fn keep_logs(&self, shutdown: impl Future<Output = ()> + Send) {
        match self.core.shape.logs {
            Logs::None => shutdown.await,
            Logs::Files => logs::keep(&self.core, shutdown).await,
        }
    }
}

/// What the runtime shares with the streams of its events.
#[derive(Debug)]
struct Core {
    shape: Arc<RuntimeShape>,
    clock: SharedClock,
    faults: watch::Receiver<Faults>,
    /// Rings at each change of the state.
    changed: Arc<Notify>,
    /// The port of its streams; without one they are served in memory.
    streams_at: OnceLock<SocketAddr>,
    /// Held for one look or one change, never over a wait.
    state: Mutex<State>,
}

impl Core {
    /// The state as of now.
    fn look(&self) -> (MutexGuard<'_, State>, Moment) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock: so nobody sees a moment before that of the last change.
        let now = Moment::of(&*self.clock);
        state.settle(now);
        (state, now)
    }

    /// Looks at each change until it finds what is looked for. It has one timer, for
    /// the next change that comes by itself.
    async fn until<T>(&self, mut found: impl FnMut(&mut State) -> Option<T>) -> T {
        loop {
            // Before the look: it hears all that rings once it is made.
            let ring = self.changed.notified();
            let wait = {
                let (mut state, now) = self.look();
                if let Some(found) = found(&mut state) {
                    return found;
                }
                let next = state.next_change();
                next.map(|change| change.saturating_sub(now.uptime))
            };
            tokio::select! {
                () = ring => {}
                () = self.sleep(wait) => {}
            }
        }
    }

    async fn sleep(&self, wait: Option<Duration>) {
        match wait {
            Some(wait) => self.clock.sleep(wait).await,
            None => std::future::pending().await,
        }
    }
}
