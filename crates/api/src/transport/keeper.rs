//! What happens without a request: connections that are due are closed, files are looked at
//! again, new certificates are taken up.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rustls::sign::CertifiedKey;
use seams::{Clock, SharedClock};
use tokio::sync::watch;

use super::dial::{Changes, Dialer};
use super::identity::ShownCertificate;
use super::link::Tasks;
use super::pool::Pool;

/// How often certificate and CA files are looked at, as upstream. A failed handshake looks at
/// once.
const RELOAD: Duration = Duration::from_secs(5 * 60);

type Managed = watch::Receiver<Option<Arc<CertifiedKey>>>;

/// The pools of a transport. A pool ends with the lane that it is for.
#[derive(Debug, Default)]
pub(super) struct Pools(Mutex<Vec<Weak<Pool>>>);

impl Pools {
    pub(super) fn add(&self, pool: &Arc<Pool>) {
        let mut pools = self.lock();
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(Arc::downgrade(pool));
    }

    pub(super) fn connections(&self) -> usize {
        self.living().iter().map(|pool| pool.connections()).sum()
    }

    /// Does what is due in each, and tells when something is due next.
    fn tend(&self) -> Option<Duration> {
        self.living().iter().filter_map(|pool| pool.tend()).min()
    }

    fn living(&self) -> Vec<Arc<Pool>> {
        self.lock().iter().filter_map(Weak::upgrade).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Pool>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts what runs for as long as the transport.
pub(super) fn start(
    pools: &Arc<Pools>,
    dialer: &Arc<Dialer>,
    managed: Option<Managed>,
    shown: &Arc<ShownCertificate>,
    tasks: &Tasks,
    clock: &SharedClock,
) {
    let changes = Arc::clone(&dialer.changes);
    tasks.spawn(tend(
        Arc::clone(pools),
        Arc::clone(&changes),
        Arc::clone(clock),
    ));
    if dialer.is_reloadable() {
        tasks.spawn(reload(Arc::clone(dialer), Arc::clone(clock)));
    }
    if let Some(managed) = managed {
        tasks.spawn(follow(managed, Arc::clone(shown), changes));
    }
}

async fn tend(pools: Arc<Pools>, changes: Arc<Changes>, clock: SharedClock) {
    loop {
        let due = pools.tend();
        tokio::select! {
            () = changes.wake.notified() => {}
            () = until(&*clock, due) => {}
        }
    }
}

async fn until(clock: &dyn Clock, due: Option<Duration>) {
    match due {
        Some(due) => clock.sleep(due.saturating_sub(clock.uptime())).await,
        None => std::future::pending().await,
    }
}

async fn reload(dialer: Arc<Dialer>, clock: SharedClock) {
    loop {
        clock.sleep(RELOAD).await;
        dialer.reload();
    }
}

/// Takes up what the certificate's owner publishes.
async fn follow(mut managed: Managed, shown: Arc<ShownCertificate>, changes: Arc<Changes>) {
    while managed.changed().await.is_ok() {
        // Held until it is shown, so that nothing newer is covered by it.
        let certificate = managed.borrow_and_update();
        let is_there = certificate.is_some();
        let is_new = shown.show(certificate.clone());
        drop(certificate);
        if is_new && is_there {
            tracing::info!("a new client certificate: making new connections to the API server");
        }
        if is_new {
            changes.happened();
        }
    }
}
