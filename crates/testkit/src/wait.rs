//! Waiting for a condition, never for a time.

use std::fmt::Display;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

/// Asks `probe` until it answers `Ok`, and fails with its last answer when
/// `timeout` has passed. `what` completes the sentence "timed out waiting for".
pub fn until<T, E: Display>(
    what: &str,
    timeout: Duration,
    mut probe: impl FnMut() -> Result<T, E>,
) -> Result<T> {
    // What takes long is asked for less often: most probes start a program, and many wait at once.
    const LONGEST_PAUSE: Duration = Duration::from_millis(500);
    const OFTEN: Duration = Duration::from_millis(250);
    let start = Instant::now();
    let mut pause = Duration::from_millis(10);
    loop {
        match probe() {
            Ok(value) => return Ok(value),
            Err(last) if start.elapsed() >= timeout => {
                return Err(anyhow!(
                    "timed out after {timeout:?} waiting for {what}: {last:#}"
                ));
            }
            Err(_) => {}
        }
        sleep(pause);
        pause = (pause * 2).min((start.elapsed() / 10).clamp(OFTEN, LONGEST_PAUSE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_as_soon_as_the_probe_does() {
        let mut asked = 0;
        let answer = until("three", Duration::from_secs(5), || {
            asked += 1;
            if asked == 3 {
                Ok(asked)
            } else {
                Err("not yet")
            }
        });
        assert_eq!(answer.unwrap(), 3);
    }

    #[test]
    fn tells_what_it_waited_for_and_the_last_answer() {
        let answer = until("the moon", Duration::from_millis(20), || {
            Err::<(), _>("it is made of cheese")
        });
        let message = answer.unwrap_err().to_string();
        assert!(message.contains("waiting for the moon"), "{message}");
        assert!(message.contains("made of cheese"), "{message}");
    }
}
