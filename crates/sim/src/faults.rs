//! What ails a simulated machine. Many machines can share one ailment: it is read
//! from a channel at each call, and so can be changed while they run.

use std::time::Duration;

use seams::runtime::Code;
use seams::{Elapsed, RuntimeError, SharedClock, timeout};
use tokio::sync::watch;

/// How long a call may take, as the clients of a real runtime have it.
const CALL_LIMIT: Duration = Duration::from_secs(120);

/// All that can be wrong with a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    pub runtime: RuntimeFault,
    pub disk: DiskFault,
}

/// What can be wrong with a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskFault {
    #[default]
    None,
    /// A hundredth of it is left, in bytes and in files: less than any threshold
    /// that a node has by default.
    Full,
}

impl DiskFault {
    /// What is left of so much.
    pub(crate) fn left(self, free: u64, capacity: u64) -> u64 {
        match self {
            Self::None => free,
            Self::Full => free.min(capacity / 100),
        }
    }
}

/// What can be wrong with a runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuntimeFault {
    #[default]
    None,
    /// Nobody listens on its socket.
    Down,
    /// It takes calls and answers none.
    Hanging,
    /// Each call takes so much longer.
    Slow(Duration),
}

/// Lets a call pass as the faults of its moment say.
pub(crate) async fn pass(
    faults: &watch::Receiver<Faults>,
    clock: &SharedClock,
    call: &'static str,
) -> Result<(), RuntimeError> {
    let fault = faults.borrow().runtime;
    match fault {
        RuntimeFault::None => Ok(()),
        RuntimeFault::Down => Err(unavailable(call)),
        RuntimeFault::Slow(delay) if delay < CALL_LIMIT => {
            clock.sleep(delay).await;
            Ok(())
        }
        RuntimeFault::Hanging | RuntimeFault::Slow(_) => until_mended(faults, clock, call).await,
    }
}

/// There is nobody to ask.
pub(crate) fn unavailable(call: &'static str) -> RuntimeError {
    RuntimeError::new(call, Code::Unavailable, "the simulated runtime is down")
}

/// Waits until the fault is another; but no call lasts for ever.
async fn until_mended(
    faults: &watch::Receiver<Faults>,
    clock: &SharedClock,
    call: &'static str,
) -> Result<(), RuntimeError> {
    let mut faults = faults.clone();
    let before = faults.borrow_and_update().runtime;
    let mended = async {
        // What it gives back is a lock, not to be held over a wait.
        let mended = faults.wait_for(|now| now.runtime != before).await.is_ok();
        if !mended {
            // Nobody is left who could mend it.
            std::future::pending::<()>().await;
        }
    };
    match timeout(&**clock, CALL_LIMIT, mended).await {
        Ok(()) => Ok(()),
        Err(Elapsed) => Err(RuntimeError::new(
            call,
            Code::DeadlineExceeded,
            "the simulated runtime hangs",
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::SystemTime;

    use testkit::clock::TokioClock;

    use super::*;

    fn clock() -> SharedClock {
        Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH))
    }

    fn ailing(runtime: RuntimeFault) -> (watch::Sender<Faults>, watch::Receiver<Faults>) {
        watch::channel(Faults {
            runtime,
            ..Faults::default()
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_ends_as_the_fault_of_its_moment_says() {
        let seconds = Duration::from_secs;
        for (fault, code, lasts) in [
            (RuntimeFault::None, None, 0),
            (RuntimeFault::Down, Some(Code::Unavailable), 0),
            (RuntimeFault::Slow(seconds(3)), None, 3),
            (
                RuntimeFault::Slow(seconds(500)),
                Some(Code::DeadlineExceeded),
                120,
            ),
            (RuntimeFault::Hanging, Some(Code::DeadlineExceeded), 120),
        ] {
            let clock = clock();
            let (_mend, faults) = ailing(fault);
            let before = clock.uptime();
            let ended = pass(&faults, &clock, "Status").await;
            assert_eq!(ended.err().map(|error| error.code), code, "{fault:?}");
            assert_eq!(clock.uptime(), before + seconds(lasts), "{fault:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_hangs_goes_on_when_the_runtime_is_mended() {
        let clock = clock();
        let (mend, faults) = ailing(RuntimeFault::Hanging);
        let mending = async {
            clock.sleep(Duration::from_secs(7)).await;
            mend.send_replace(Faults::default());
        };
        let (ended, ()) = tokio::join!(pass(&faults, &clock, "Status"), mending);
        assert_eq!(ended, Ok(()));
        assert_eq!(clock.uptime(), Duration::from_secs(7));
    }
}
