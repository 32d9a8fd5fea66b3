//! CPU profiles of this process, for whoever may ask one of its nodes for them. There is one
//! process: one profile at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use linux::profile::Profile;
use server::{Profiler, Profiling};

/// Upstream's words.
const IN_USE: &str = "cpu profiling already in use";

/// Whether one is being taken: it is of all nodes of the process.
static TAKEN: AtomicBool = AtomicBool::new(false);

pub(crate) fn profiler() -> Profiler {
    Arc::new(|| -> Result<Box<dyn Profiling>, String> {
        let turn = Turn::take().ok_or(IN_USE)?;
        let profile = Profile::start().map_err(|error| error.to_string())?;
        Ok(Box::new(Taken {
            profile,
            _turn: turn,
        }))
    })
}

/// Given back when dropped.
struct Turn;

impl Turn {
    fn take() -> Option<Self> {
        let before = TAKEN.swap(true, Ordering::AcqRel);
        // Not one that is made and dropped: that would give back another's.
        (!before).then(|| Self)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        TAKEN.store(false, Ordering::Release);
    }
}

struct Taken {
    profile: Profile,
    _turn: Turn,
}

impl Profiling for Taken {
    fn look(&mut self) {
        self.profile.look();
    }

    fn finish(self: Box<Self>, begun: SystemTime, took: Duration) -> Result<Vec<u8>, String> {
        let profile = self.profile.finish(begun, took);
        profile.map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_profile_at_a_time() {
        let profiler = profiler();
        let first = profiler().unwrap();
        assert_eq!(profiler().err().as_deref(), Some(IN_USE));
        drop(first);
        let second = profiler().unwrap();
        let profile = second.finish(SystemTime::UNIX_EPOCH, Duration::from_secs(1));
        // As gzip begins.
        assert!(profile.unwrap().starts_with(&[0x1f, 0x8b]));
        assert!(profiler().is_ok());
    }
}
