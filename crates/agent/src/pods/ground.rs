//! The ground that a node's pods stand on, before the first of them: its directories, who makes
//! cgroups, and what its people should know of its memory.

use std::path::Path;
use std::time::Duration;

use resources::CgroupDriver;
use seams::host::HostError;
use seams::{Clock, Runtime, Storage, cri, start};
use tracing::{info, warn};

/// What a node says that has swap and a kernel that puts everything there.
pub(super) const SWAP_REASON: &str = "PossibleMemoryBackedVolumesOnDisk";
const SWAP_MESSAGE: &str = "The tmpfs noswap option is not supported. Memory-backed volumes (e.g. secrets, emptyDirs, etc.) might be swapped to disk and should no longer be considered secure.";

/// Of directories that nobody has made before.
const MODE: u32 = 0o750;

/// Where drivers and device plugins put their sockets and what is mounted for them; they
/// expect to find both.
const OF_PLUGINS: [&str; 2] = ["plugins", "plugins_registry"];

/// People who put secrets into memory think that they stay there.
pub(super) fn swap_notice(swap: u64, keeps_from_swap: bool) -> Option<&'static str> {
    (swap > 0 && !keeps_from_swap).then_some(SWAP_MESSAGE)
}

/// Makes the root directory, and lets what is mounted below it be seen by containers that have
/// it mounted already.
pub(super) fn make_directories(storage: &dyn Storage, root: &Path) {
    let shared = make(storage, root).and_then(|()| storage.make_shared(root));
    if let Err(error) = shared {
        warn!(err = %error, "the root directory cannot be made shared: mounts in it do not reach containers that have it");
    }
    for name in OF_PLUGINS {
        if let Err(error) = make(storage, &root.join(name)) {
            warn!(err = %error, "there is no directory for plugins: make it, or they cannot register");
        }
    }
}

/// Whoever made it before chose its mode.
fn make(storage: &dyn Storage, path: &Path) -> Result<(), HostError> {
    if storage.entries(path)?.is_none() {
        storage.make_directory(path, MODE, MODE)?;
    }
    Ok(())
}

/// Who makes cgroups: the runtime's word counts, where it has one. It is waited for, and so is
/// one that says what nobody understands: it may be replaced.
pub(super) async fn cgroup_driver(
    runtime: &dyn Runtime,
    clock: &dyn Clock,
    configured: CgroupDriver,
    pause: Duration,
) -> CgroupDriver {
    let mut told = None;
    loop {
        let error = match start::cgroup_driver(runtime).await {
            Ok(named) => {
                let driver = match named {
                    Some(cri::CgroupDriver::Systemd) => CgroupDriver::Systemd,
                    Some(cri::CgroupDriver::Cgroupfs) => CgroupDriver::Cgroupfs,
                    None => configured,
                };
                info!(?driver, "cgroups are made as the runtime makes them");
                return driver;
            }
            Err(error) => Some(error),
        };
        // Once per problem, not once per question.
        if let Some(err) = error.as_ref().filter(|_| error != told) {
            warn!(%err, "pods wait for the container runtime");
        }
        told = error;
        clock.sleep(pause).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::SystemTime;

    use seams::RuntimeError;
    use seams::runtime::{Answer, Code};
    use testkit::clock::TokioClock;

    use super::*;

    /// Says one thing after the other, and then the last for ever.
    #[derive(Debug)]
    struct Says(Mutex<Vec<Result<Option<i32>, Code>>>);

    impl Runtime for Says {
        fn runtime_config(
            &self,
            _: cri::RuntimeConfigRequest,
        ) -> Answer<'_, cri::RuntimeConfigResponse> {
            let mut left = self.0.lock().unwrap();
            let next = if left.len() > 1 {
                left.remove(0)
            } else {
                left[0]
            };
            let answer = next
                .map(|driver| cri::RuntimeConfigResponse {
                    linux: driver
                        .map(|cgroup_driver| cri::LinuxRuntimeConfiguration { cgroup_driver }),
                })
                .map_err(|code| RuntimeError::new("RuntimeConfig", code, "no"));
            Box::pin(async move { answer })
        }
    }

    /// What comes of it, and after how many seconds.
    async fn asked(
        configured: CgroupDriver,
        says: &[Result<Option<i32>, Code>],
    ) -> (CgroupDriver, u64) {
        let clock = TokioClock::starting_at(SystemTime::UNIX_EPOCH);
        let runtime = Says(Mutex::new(says.to_vec()));
        let pause = Duration::from_secs(2);
        let driver = cgroup_driver(&runtime, &clock, configured, pause).await;
        (driver, clock.uptime().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn the_runtime_says_who_makes_cgroups_and_is_waited_for() {
        use CgroupDriver::{Cgroupfs, Systemd};
        for (configured, says, driver, after) in [
            (Cgroupfs, vec![Ok(Some(0))], Systemd, 0),
            (Systemd, vec![Ok(Some(1))], Cgroupfs, 0),
            (Systemd, vec![Ok(None)], Systemd, 0),
            (Cgroupfs, vec![Ok(None)], Cgroupfs, 0),
            (Cgroupfs, vec![Err(Code::Unimplemented)], Cgroupfs, 0),
            (
                Systemd,
                vec![Err(Code::Unavailable), Ok(Some(1))],
                Cgroupfs,
                2,
            ),
            // A number that is not known is no word for systemd.
            (
                Systemd,
                vec![Ok(Some(7)), Ok(Some(7)), Ok(Some(1))],
                Cgroupfs,
                4,
            ),
        ] {
            assert_eq!(asked(configured, &says).await, (driver, after), "{says:?}");
        }
    }

    #[test]
    fn people_are_told_of_swap_where_the_kernel_would_use_it() {
        for (swap, keeps, told) in [(0, false, false), (1, true, false), (1, false, true)] {
            assert_eq!(swap_notice(swap, keeps).is_some(), told, "{swap} {keeps}");
        }
    }
}
