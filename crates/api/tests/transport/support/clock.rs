//! A clock that goes with real time, and whose hands can be turned ahead: sockets need the one,
//! waits of minutes the other.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use seams::{Clock, Sleep};
use tokio::sync::watch;
use tokio::time::Instant;

#[derive(Debug)]
pub(crate) struct TurnableClock {
    started: Instant,
    turned: watch::Sender<Duration>,
    begun: Mutex<BTreeMap<Duration, usize>>,
}

impl TurnableClock {
    pub(crate) fn new() -> std::sync::Arc<Self> {
        std::sync::Arc::new(Self {
            started: Instant::now(),
            turned: watch::Sender::new(Duration::ZERO),
            begun: Mutex::default(),
        })
    }

    pub(crate) fn turn(&self, by: Duration) {
        self.turned.send_modify(|turned| *turned += by);
    }

    /// How many waits for so many seconds have begun: before that, turning is in vain.
    pub(crate) fn begun(&self, seconds: u64) -> usize {
        let begun = self.begun.lock().unwrap();
        let count = begun.get(&Duration::from_secs(seconds));
        count.copied().unwrap_or_default()
    }
}

impl Clock for TurnableClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn uptime(&self) -> Duration {
        self.started.elapsed() + *self.turned.borrow()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        *self.begun.lock().unwrap().entry(duration).or_default() += 1;
        let due = self.uptime() + duration;
        let started = self.started;
        let mut turned = self.turned.subscribe();
        Box::pin(async move {
            loop {
                let now = started.elapsed() + *turned.borrow_and_update();
                let Some(rest) = due.checked_sub(now).filter(|rest| !rest.is_zero()) else {
                    return;
                };
                tokio::select! {
                    () = tokio::time::sleep(rest) => return,
                    changed = turned.changed() => if changed.is_err() { return },
                }
            }
        })
    }

    fn random(&self) -> f64 {
        0.5
    }
}
