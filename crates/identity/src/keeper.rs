//! Keeps one certificate fresh for as long as the node runs: asks for the first,
//! replaces each in time, and says at every moment where it stands.
//!
//! One task, one certificate. What it needs from outside (the names to ask for,
//! a way to the API server) comes in; what others need (the certificate to shake
//! hands with, the state) goes out through `watch` channels.

mod attempt;
mod outlet;

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kube::Client;
use rustls::crypto::CryptoProvider;
use seams::SharedClock;
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use outlet::{Findings, Outlet};

use crate::csr::Requester;
use crate::decide::health::{Remedy, remedy, server_healthy};
use crate::decide::rotation::{self, AFTER_SUCCESS, ClockSign, Lack};
use crate::decide::state::Event;
use crate::metrics::KeeperMetrics;
use crate::pair::Pair;
use crate::request::{Purpose, Template};
use crate::store::{PairStore, StoreError};
use crate::tls::TlsError;
use attempt::{Attempted, Failure};

/// The longest sleep while a certificate is in use: the wall clock may be set,
/// and the machine may have been asleep itself.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// How often the node asks itself whether it has been without a certificate for
/// too long.
const WATCHFUL: Duration = Duration::from_secs(10);

/// How the API server is reached in one attempt. Told whether there is a valid
/// certificate to reach it with.
pub type Access = Box<dyn Fn(Standing) -> Result<Way, NoAccess> + Send + Sync>;

/// A way to the API server.
pub struct Way {
    pub client: Client,
    pub requester: Requester,
}

impl fmt::Debug for Way {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Way").finish_non_exhaustive()
    }
}

/// Whether the node has a valid certificate of its own at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Certified,
    Uncertified,
}

/// Why there is no way to the API server.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct NoAccess(pub String);

/// Why the keeper gave up: the process should end with exit code 1, so that
/// whoever starts it again can lay down new credentials.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "there has been no valid client certificate for {} minutes although the API server answers, so this process ends, to be started again with new credentials; last failure: {cause}",
    .without.as_secs() / 60
)]
pub struct GaveUp {
    pub without: Duration,
    pub cause: String,
}

/// What a keeper is made of.
pub struct Keeper {
    pub purpose: Purpose,
    pub store: PairStore,
    /// The names to ask for; `None` as long as they are not known.
    pub templates: watch::Receiver<Option<Template>>,
    pub access: Access,
    /// A pair from inside a kubeconfig, to begin with where the store is empty.
    pub embedded: Option<Pair>,
    pub clock: SharedClock,
    pub provider: Arc<CryptoProvider>,
    pub outlet: Outlet,
    pub metrics: KeeperMetrics,
}

impl fmt::Debug for Keeper {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Keeper").finish_non_exhaustive()
    }
}

/// The certificate in use.
#[derive(Debug)]
struct Held {
    pair: Pair,
    rotate_at: SystemTime,
    saved: bool,
}

/// What the keeper remembers from attempt to attempt.
struct Memory {
    held: Option<Held>,
    /// Replace what is held whatever its age.
    forced: bool,
    failures: u32,
    /// When there was a valid certificate last, on the monotonic clock.
    last_valid: Duration,
    healthy: bool,
    /// As whom the last attempt was made.
    requester: Requester,
    /// What was last said to be missing in the certificate.
    told_lack: Option<Lack>,
    /// Since when a living server has refused one attempt after the other.
    refused_since: Option<Duration>,
    last_failure: String,
}

impl Keeper {
    /// Runs until told to stop. Never ends by itself but by giving up, which only
    /// a keeper of client certificates does.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), GaveUp> {
        tokio::select! {
            () = shutdown.cancelled() => Ok(()),
            gave_up = self.keep() => Err(gave_up),
        }
    }

    /// Begins with what is in the store or the kubeconfig, and replaces it in time.
    async fn keep(mut self) -> GaveUp {
        let mut memory = self.begin();
        loop {
            let template = match self.until_due(&mut memory).await {
                Ok(template) => template,
                Err(gave_up) => return gave_up,
            };
            let standing = memory.standing(&self.clock);
            let way = (self.access)(standing);
            if let Ok(way) = &way {
                memory.requester = way.requester;
            }
            // On the heap, and gone afterwards: it is seldom under way, and large.
            let attempt = Box::pin(self.attempt(&template, way));
            let outcome = match self.see_through(&mut memory, standing, attempt).await {
                Ok(outcome) => outcome,
                Err(gave_up) => return gave_up,
            };
            let pause = match outcome {
                Attempted::Issued(pair) => self.adopt(&mut memory, *pair),
                Attempted::Outdated => self.settle(&memory),
                Attempted::Failed(failure) => self.failed(&mut memory, &failure),
            };
            let rest = self.clock.sleep(pause);
            if let Err(gave_up) = self.watchfully(&mut memory, rest).await {
                return gave_up;
            }
        }
    }

    fn begin(&mut self) -> Memory {
        let now = self.clock.now();
        let mut memory = Memory {
            held: None,
            forced: false,
            failures: 0,
            last_valid: self.clock.uptime(),
            healthy: false,
            requester: Requester::Kubeconfig,
            told_lack: None,
            refused_since: None,
            last_failure: "none yet".to_owned(),
        };
        match self.store.current() {
            Ok(Some(pair)) if !pair.leaf().is_expired(now) => {
                self.hold_or_say(&mut memory, pair);
                return memory;
            }
            Ok(Some(pair)) => {
                self.outlet.found_expired(pair.leaf().not_after, now);
            }
            Ok(None) => {}
            Err(error) => {
                warn!(err = %error, "the stored pair cannot be used, a new certificate will be asked for");
            }
        }
        memory.forced = true;
        if let Some(pair) = self.embedded.take() {
            if let Err(error) = self.store.update(&pair, now) {
                warn!(err = %error, "the pair of the kubeconfig cannot be stored");
            }
            self.hold_or_say(&mut memory, pair);
        }
        memory
    }

    fn hold_or_say(&self, memory: &mut Memory, pair: Pair) {
        if let Err(error) = self.hold(memory, pair, true) {
            warn!(err = %error, "the pair cannot be used in handshakes");
        }
    }

    /// Sleeps until a certificate must be asked for, and returns what to ask for.
    async fn until_due(&mut self, memory: &mut Memory) -> Result<Template, GaveUp> {
        loop {
            self.look(memory)?;
            self.save(memory);
            let wanted = self.templates.borrow_and_update().clone();
            let now = self.clock.now();
            if let Some(template) = wanted
                && memory.is_due(&template, now)
            {
                return Ok(template);
            }
            let next = memory.held.as_ref().map(|held| {
                let next = held.rotate_at.min(held.pair.leaf().not_after);
                next.duration_since(now).unwrap_or_default()
            });
            // A second at least: at its very end a certificate is still valid.
            let pause = next.unwrap_or(LOOK_AGAIN).clamp(AFTER_SUCCESS, LOOK_AGAIN);
            tokio::select! {
                () = self.clock.sleep(pause) => {}
                changed = self.templates.changed() => if changed.is_err() {
                    // Whoever knew the names is gone, so they stay what they are.
                    self.clock.sleep(pause).await;
                }
            }
        }
    }

    /// Sees an attempt through, unless the certificate that it is made with ends:
    /// then the next one must be made with other credentials.
    async fn see_through(
        &self,
        memory: &mut Memory,
        standing: Standing,
        attempt: impl Future<Output = Attempted> + Unpin,
    ) -> Result<Attempted, GaveUp> {
        let mut attempt = attempt;
        let depends = standing == Standing::Certified && self.purpose == Purpose::Client;
        loop {
            tokio::select! {
                biased;
                outcome = &mut attempt => return Ok(outcome),
                () = self.clock.sleep(WATCHFUL) => self.look(memory)?,
            }
            if depends && memory.held.is_none() {
                return Ok(Attempted::Outdated);
            }
        }
    }

    /// Does `work`, and meanwhile notices what time does to the certificate.
    async fn watchfully<W: Future>(
        &self,
        memory: &mut Memory,
        work: W,
    ) -> Result<W::Output, GaveUp> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                output = &mut work => return Ok(output),
                () = self.clock.sleep(WATCHFUL) => self.look(memory)?,
            }
        }
    }

    /// Drops a certificate that has ended, and gives up when that is all there is
    /// left to do.
    fn look(&self, memory: &mut Memory) -> Result<(), GaveUp> {
        let now = self.clock.now();
        memory.held = memory.held.take().filter(|held| {
            let valid = !held.pair.leaf().is_expired(now);
            if !valid {
                self.outlet.expire(now);
            }
            valid
        });
        if memory.held.is_none() {
            self.look_into_store(memory);
        }
        if memory.held.is_some() {
            memory.last_valid = self.clock.uptime();
            return Ok(());
        }
        // A request that the server has taken is on its way: ending would lose it.
        if self.purpose == Purpose::Serving || self.outlet.is_waiting() {
            return Ok(());
        }
        let uptime = self.clock.uptime();
        let without = uptime.saturating_sub(memory.last_valid);
        let refused = memory
            .refused_since
            .map_or(Duration::ZERO, |since| uptime.saturating_sub(since));
        let failing = (memory.requester == Requester::Bootstrap).then_some(refused);
        match remedy(without, memory.healthy, failing) {
            Remedy::Exit => Err(GaveUp {
                without,
                cause: memory.last_failure.clone(),
            }),
            // Each attempt chooses its credentials by what there is.
            Remedy::Wait | Remedy::Rebootstrap => Ok(()),
        }
    }

    /// A clock that was wrong and is right again makes a stored pair valid again.
    fn look_into_store(&self, memory: &mut Memory) {
        let stored = self.store.current();
        if let Ok(Some(pair)) = stored
            && !pair.leaf().is_expired(self.clock.now())
        {
            memory.forced = false;
            self.hold_or_say(memory, pair);
        }
    }

    /// After an attempt that was given up: what is held is in use as before.
    fn settle(&self, memory: &Memory) -> Duration {
        if let Some(held) = &memory.held {
            let until = held.pair.leaf().not_after;
            self.outlet.stored(until, held.rotate_at);
        }
        AFTER_SUCCESS
    }

    /// Takes an issued pair into use and stores it. Returns the pause until the
    /// next step.
    fn adopt(&self, memory: &mut Memory, pair: Pair) -> Duration {
        let now = self.clock.now();
        let life = (pair.leaf().not_before, pair.leaf().not_after);
        match rotation::clock_sign(life, now) {
            ClockSign::Plausible => {}
            ClockSign::Behind { by } => warn!(
                behind = ?by,
                "the new certificate begins in the future: this machine's clock is behind the signer's, set it"
            ),
            ClockSign::Ahead { by } => return self.failed(memory, &Failure::ClockAhead { by }),
        }
        let old = memory.held.as_ref().map(|held| held.pair.leaf().clone());
        // On disk first: whoever sees the certificate in use may look for it.
        let stored = self.store.update(&pair, now);
        if let Err(error) = self.hold(memory, pair, stored.is_ok()) {
            return self.failed(memory, &Failure::Handshake(error));
        }
        if let Some(old) = &old {
            self.metrics.replaced(old, now);
        }
        memory.forced = false;
        memory.failures = 0;
        memory.healthy = true;
        memory.refused_since = None;
        self.tell_stored(stored, now);
        AFTER_SUCCESS
    }

    fn hold(&self, memory: &mut Memory, pair: Pair, saved: bool) -> Result<(), TlsError> {
        let now = self.clock.now();
        let life = (pair.leaf().not_before, pair.leaf().not_after);
        let rotate_at = rotation::next(life, now, self.clock.random());
        self.outlet.publish(&pair, rotate_at, &self.provider)?;
        memory.last_valid = self.clock.uptime();
        memory.held = Some(Held {
            pair,
            rotate_at,
            saved,
        });
        Ok(())
    }

    /// Stores the pair in use if that has not been done. What cannot be stored
    /// stays in use: nothing is won by asking for another.
    fn save(&self, memory: &mut Memory) {
        let now = self.clock.now();
        let Some(held) = memory.held.as_mut().filter(|held| !held.saved) else {
            return;
        };
        let stored = self.store.update(&held.pair, now);
        if stored.is_ok() {
            held.saved = true;
            let until = held.pair.leaf().not_after;
            self.outlet.stored(until, held.rotate_at);
        }
        self.tell_stored(stored, now);
    }

    fn tell_stored(&self, stored: Result<PathBuf, StoreError>, now: SystemTime) {
        match stored {
            Ok(path) => {
                info!(purpose = %self.purpose, file = %path.display(), "certificate stored");
                if let Err(error) = self.store.prune(now) {
                    warn!(err = %error, "expired certificates cannot be removed");
                }
            }
            Err(error) => {
                self.metrics.failed();
                self.outlet.event(Event::Unsaved {
                    cause: error.to_string(),
                });
            }
        }
    }

    fn failed(&self, memory: &mut Memory, failure: &Failure) -> Duration {
        self.metrics.failed();
        if failure.was_taken() {
            memory.refused_since = None;
        }
        if let Some(healthy) = server_healthy(failure.attempt()) {
            memory.healthy = healthy;
            let since = memory.refused_since.unwrap_or(self.clock.uptime());
            memory.refused_since = healthy.then_some(since);
        }
        memory.failures = memory.failures.saturating_add(1);
        let cause = failure.describe(memory.requester);
        memory.last_failure.clone_from(&cause);
        self.outlet.event(Event::Failed { cause });
        rotation::pause_after(memory.failures, self.clock.random())
    }
}

impl Memory {
    /// Whether to ask for a certificate for `template` now.
    fn is_due(&mut self, template: &Template, now: SystemTime) -> bool {
        let Some(held) = &self.held else {
            return true;
        };
        let lack = rotation::lack(held.pair.leaf(), template);
        if lack != self.told_lack {
            if let Some(lack) = &lack {
                info!(%lack, "the certificate does not fit any more");
            }
            self.told_lack.clone_from(&lack);
        }
        self.forced || lack.is_some() || now >= held.rotate_at
    }

    fn standing(&self, clock: &SharedClock) -> Standing {
        let now = clock.now();
        match &self.held {
            Some(held) if !held.pair.leaf().is_expired(now) => Standing::Certified,
            _ => Standing::Uncertified,
        }
    }
}

#[cfg(test)]
mod tests;
