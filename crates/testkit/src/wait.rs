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

/// Plays what is promised to take no longer than `bound` up to three times, and answers with the
/// first play that kept to it. A machine that stumbles breaks a promise now and then; a fault
/// breaks it each time.
pub fn promised<T>(
    what: &str,
    bound: Duration,
    mut play: impl FnMut() -> Result<(Duration, T)>,
) -> Result<T> {
    const PLAYS: usize = 3;
    let mut too_slow = Vec::new();
    while too_slow.len() < PLAYS {
        let (took, value) = play()?;
        if took <= bound {
            println!("{what}: {took:.2?}");
            return Ok(value);
        }
        println!("{what}: {took:.2?}, more than {bound:?}");
        too_slow.push(took);
    }
    Err(anyhow!(
        "{what} took {too_slow:.2?}, each time more than {bound:?}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_kept_once_or_broken_each_time() {
        let bound = Duration::from_secs(5);
        let play = |times: [u64; 4]| {
            let mut times = times.into_iter();
            let mut played = 0;
            promised("a walk", bound, || {
                played += 1;
                Ok((Duration::from_secs(times.next().unwrap()), played))
            })
        };
        assert_eq!(play([5, 9, 9, 9]).unwrap(), 1);
        assert_eq!(play([9, 9, 1, 9]).unwrap(), 3);
        let broken = play([6, 7, 8, 1]).unwrap_err().to_string();
        assert!(
            broken.contains("6.00s") && broken.contains("8.00s"),
            "{broken}"
        );
    }

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
