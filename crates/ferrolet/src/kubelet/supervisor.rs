//! Who started this process and watches it: systemd, or nobody.

use std::env;
use std::ffi::OsString;
use std::process;
use std::sync::Arc;
use std::time::Duration;

use agent::Running;
use linux::process::{ProcessError, ServiceManager};
use seams::SharedClock;
use tokio::sync::oneshot;
use tracing::{info, warn};

/// What systemd leaves in the environment of a service that it watches.
#[derive(Debug, Default)]
struct Given {
    notify_socket: Option<OsString>,
    watchdog_usec: Option<OsString>,
    watchdog_pid: Option<OsString>,
}

/// The service manager, told of the node's life.
#[derive(Clone, Debug)]
pub(super) struct Supervisor {
    manager: Option<Arc<ServiceManager>>,
    /// How often it wants to hear of us.
    interval: Option<Duration>,
}

impl Supervisor {
    pub(super) fn of_process() -> Self {
        let given = Given {
            notify_socket: env::var_os("NOTIFY_SOCKET"),
            watchdog_usec: env::var_os("WATCHDOG_USEC"),
            watchdog_pid: env::var_os("WATCHDOG_PID"),
        };
        Self::new(&given, process::id())
    }

    fn new(given: &Given, own_pid: u32) -> Self {
        let socket = given.notify_socket.as_ref();
        let manager = socket.filter(|socket| !socket.is_empty()).map(|socket| {
            ServiceManager::at(socket)
                .inspect_err(|error| warn!(err = %error, "nobody is told of this node"))
        });
        let manager = manager.and_then(Result::ok).map(Arc::new);
        let interval = manager.as_ref().and_then(|_| interval(given, own_pid));
        Self { manager, interval }
    }

    /// Tells that the node runs once it does, and from the beginning that it is
    /// well, for as long as this future is driven.
    pub(super) async fn attend(self, running: oneshot::Receiver<Running>, clock: SharedClock) {
        tokio::join!(self.tell_when_running(running), self.keep_telling(&clock));
    }

    async fn tell_when_running(&self, running: oneshot::Receiver<Running>) {
        if running.await.is_ok() {
            info!("the node runs");
            self.tell(ServiceManager::ready);
        }
    }

    async fn keep_telling(&self, clock: &SharedClock) {
        let Some(interval) = self.interval else {
            return;
        };
        info!(?interval, "the service manager watches over this process");
        loop {
            self.tell(ServiceManager::alive);
            clock.sleep(interval).await;
        }
    }

    /// The node was told to end.
    pub(super) fn stopping(&self) {
        self.tell(ServiceManager::stopping);
    }

    fn tell(&self, what: impl Fn(&ServiceManager) -> Result<(), ProcessError>) {
        if let Some(Err(error)) = self.manager.as_deref().map(what) {
            warn!(err = %error, "the service manager does not hear us");
        }
    }
}

/// Half of what systemd waits for, as its manual asks; `None` if it does not wait
/// for this process.
fn interval(given: &Given, own_pid: u32) -> Option<Duration> {
    let limit = given.watchdog_usec.as_ref()?.to_string_lossy();
    let meant = given.watchdog_pid.as_ref().map(|pid| pid.to_string_lossy());
    if meant.is_some_and(|pid| pid != own_pid.to_string()) {
        return None;
    }
    let Ok(microseconds @ 1..) = limit.parse() else {
        warn!(
            WATCHDOG_USEC = %limit,
            "the service manager's patience is no number of microseconds, so it is not kept"
        );
        return None;
    };
    Some(Duration::from_micros(microseconds) / 2)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;
    use std::time::SystemTime;

    use tempfile::TempDir;
    use testkit::clock::TokioClock;
    use tokio::task::JoinSet;

    use super::*;

    const PID: u32 = 7;

    struct Systemd {
        directory: TempDir,
        socket: UnixDatagram,
    }

    impl Systemd {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let socket = UnixDatagram::bind(directory.path().join("notify")).unwrap();
            socket.set_nonblocking(true).unwrap();
            Self { directory, socket }
        }

        fn given(&self, watchdog: Option<(&str, u32)>) -> Given {
            Given {
                notify_socket: Some(self.directory.path().join("notify").into_os_string()),
                watchdog_usec: watchdog.map(|(limit, _)| limit.into()),
                watchdog_pid: watchdog.map(|(_, pid)| pid.to_string().into()),
            }
        }

        fn told(&self) -> Vec<String> {
            let mut buffer = [0; 64];
            std::iter::from_fn(|| {
                self.socket
                    .recv(&mut buffer)
                    .ok()
                    .map(|length| buffer[..length].to_vec())
            })
            .map(|message| String::from_utf8(message).unwrap())
            .collect()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn systemd_hears_of_the_start_of_life_and_of_the_end() {
        let systemd = Systemd::new();
        let supervisor = Supervisor::new(&systemd.given(Some(("4000000", PID))), PID);
        let clock: SharedClock = Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH));
        let (started, running) = oneshot::channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(supervisor.clone().attend(running, clock.clone()));

        clock.sleep(Duration::from_secs(5)).await;
        assert_eq!(systemd.told(), ["WATCHDOG=1"; 3], "at 0, 2 and 4 s");
        started.send(Running { member: None }).unwrap();
        clock.sleep(Duration::from_millis(500)).await;
        assert_eq!(systemd.told(), ["READY=1"]);
        supervisor.stopping();
        assert_eq!(systemd.told(), ["STOPPING=1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_never_ran_is_not_told_of_as_running() {
        let systemd = Systemd::new();
        let supervisor = Supervisor::new(&systemd.given(None), PID);
        let clock: SharedClock = Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH));
        let (started, running) = oneshot::channel();
        drop(started);
        supervisor.attend(running, clock).await;
        assert!(systemd.told().is_empty());
    }

    #[test]
    fn who_is_not_watched_says_nothing_of_its_life() {
        let systemd = Systemd::new();
        for (watchdog, wanted) in [
            (Some(("30000000", PID)), Some(Duration::from_secs(15))),
            (Some(("30000000", PID + 1)), None),
            (Some(("0", PID)), None),
            (Some(("soon", PID)), None),
            (None, None),
        ] {
            let supervisor = Supervisor::new(&systemd.given(watchdog), PID);
            assert_eq!(supervisor.interval, wanted, "{watchdog:?}");
        }
        let alone = Given {
            watchdog_usec: Some("30000000".into()),
            ..Given::default()
        };
        let supervisor = Supervisor::new(&alone, PID);
        assert!(supervisor.manager.is_none() && supervisor.interval.is_none());
        supervisor.stopping();
    }
}
