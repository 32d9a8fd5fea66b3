//! An answer that is given again for a moment: a look at every group of a node costs far more
//! than to send what was seen, and whoever asks ten times a second learns nothing new.

use std::time::Duration;

use bytes::Bytes;
use seams::Clock;
use tokio::sync::Mutex;

/// Upstream's figures are ten seconds old and more.
const STAYS: Duration = Duration::from_secs(1);

/// Who comes while an answer is made waits for it, without a thread.
#[derive(Debug, Default)]
pub(super) struct Again {
    /// With the uptime at which it was made.
    kept: Mutex<Option<(Duration, Bytes)>>,
}

impl Again {
    /// What was said a moment ago, or what is made now. What went wrong is not kept.
    pub(super) async fn or<E>(
        &self,
        clock: &dyn Clock,
        make: impl Future<Output = Result<Vec<u8>, E>>,
    ) -> Result<Bytes, E> {
        let mut kept = self.kept.lock().await;
        if let Some((at, answer)) = &*kept
            && clock.uptime().saturating_sub(*at) < STAYS
        {
            return Ok(answer.clone());
        }
        // Not two of them at once in memory.
        *kept = None;
        let answer = Bytes::from(make.await?);
        *kept = Some((clock.uptime(), answer.clone()));
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::UNIX_EPOCH;

    use testkit::clock::TokioClock;
    use tokio::time::advance;

    use super::*;

    async fn ask(again: &Again, clock: &TokioClock, now: &str) -> String {
        let make = async { Ok::<_, Infallible>(now.as_bytes().to_vec()) };
        let answer = again.or(clock, make).await.unwrap();
        String::from_utf8(answer.to_vec()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_holds_for_a_second() {
        let (again, clock) = (Again::default(), TokioClock::starting_at(UNIX_EPOCH));
        assert_eq!(ask(&again, &clock, "first").await, "first");
        advance(Duration::from_millis(999)).await;
        assert_eq!(ask(&again, &clock, "second").await, "first");
        advance(Duration::from_millis(1)).await;
        assert_eq!(ask(&again, &clock, "third").await, "third");
    }

    #[tokio::test(start_paused = true)]
    async fn what_went_wrong_is_asked_for_again() {
        let (again, clock) = (Again::default(), TokioClock::starting_at(UNIX_EPOCH));
        let fault = again.or(&clock, async { Err("no") }).await;
        assert_eq!(fault, Err("no"));
        assert_eq!(ask(&again, &clock, "well").await, "well");
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_meanwhile_gets_the_same() {
        let (again, clock) = (Again::default(), TokioClock::starting_at(UNIX_EPOCH));
        let slow = async {
            clock.sleep(Duration::from_secs(3)).await;
            Ok::<_, Infallible>(b"slow".to_vec())
        };
        let (first, second) = tokio::join!(again.or(&clock, slow), ask(&again, &clock, "own"));
        assert_eq!(
            (&first.unwrap()[..], second.as_str()),
            (&b"slow"[..], "slow")
        );
    }
}
