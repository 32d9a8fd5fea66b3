//! Two connections made one.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use seams::{Clock, Elapsed, timeout};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};

/// What is on its way in one direction.
const ON_THE_WAY: usize = 32 * 1024;

/// For the runtime to go on when the client has said all: whoever has gone altogether
/// looks the same at first. And for the client to hear the last of what was said to it.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// Carries bytes both ways until one side ends. Neither is open afterwards.
///
/// A runtime that is done closes its connection while the client may still speak (pings, at
/// least). That must not cut off what it said before, which may be megabytes that the client
/// has not read yet: what the client says is then heard and dropped, until it goes, too.
pub(crate) async fn splice<C, R>(clock: &dyn Clock, client: C, runtime: R) -> io::Result<()>
where
    C: AsyncRead + AsyncWrite,
    R: AsyncRead + AsyncWrite,
{
    let (from_client, to_client) = split(client);
    let (from_runtime, to_runtime) = split(runtime);
    let told = AtomicU64::new(0);
    let mut down = std::pin::pin!(carry_down(from_runtime, to_client, &told));
    let mut up = std::pin::pin!(carry_up(from_client, to_runtime));
    tokio::select! {
        biased;
        ended = down.as_mut() => {
            ended?;
            // A connection that is closed while somebody speaks takes along what was not read.
            let _ = timeout(clock, LAST_WORDS, up).await;
            Ok(())
        }
        () = up.as_mut() => loop {
            let before = told.load(Relaxed);
            match timeout(clock, LAST_WORDS, down.as_mut()).await {
                Ok(ended) => break ended,
                Err(Elapsed) if told.load(Relaxed) == before => break Ok(()),
                Err(Elapsed) => {}
            }
        },
    }
}

/// What the runtime says, to its end, and that too. `told` is how much that was.
async fn carry_down<R, W>(mut from: R, mut to: W, told: &AtomicU64) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut buffer = vec![0; ON_THE_WAY];
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..length]).await?;
        to.flush().await?;
        told.fetch_add(1, Relaxed);
    }
}

/// What the client says, until it ends or vanishes, to a runtime that may listen no more.
async fn carry_up<R, W>(mut from: R, to: W)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut listener = Some(to);
    let mut buffer = vec![0; ON_THE_WAY];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        if let Some(to) = &mut listener {
            let written = async {
                to.write_all(&buffer[..length]).await?;
                to.flush().await
            };
            if written.await.is_err() {
                listener = None;
            }
        }
    }
    if let Some(to) = &mut listener {
        // It may have gone by now.
        let _ = to.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use seams::Clock as _;
    use testkit::clock::TokioClock;
    use tokio::io::duplex;

    use super::*;

    fn clock() -> TokioClock {
        TokioClock::starting_at(SystemTime::UNIX_EPOCH)
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_runtime_says_at_last_still_comes() {
        let ((mut client, ours), (theirs, mut runtime)) = (duplex(100), duplex(100));
        let clock = clock();
        let spliced = splice(&clock, ours, theirs);
        let client = async move {
            client.write_all(b"question").await.unwrap();
            client.shutdown().await.unwrap();
            let mut heard = Vec::new();
            client.read_to_end(&mut heard).await.unwrap();
            heard
        };
        let runtime = async move {
            let mut heard = Vec::new();
            runtime.read_to_end(&mut heard).await.unwrap();
            runtime.write_all(&[7; 1000]).await.unwrap();
            heard
        };
        let (spliced, answer, question) = tokio::join!(spliced, client, runtime);
        spliced.unwrap();
        assert_eq!(question, b"question");
        assert_eq!(answer, [7; 1000]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_the_runtime_is_the_end_of_both() {
        let ((mut client, ours), (theirs, runtime)) = (duplex(100), duplex(100));
        let clock = clock();
        drop(runtime);
        let client = async move {
            assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
        };
        let (spliced, ()) = tokio::join!(splice(&clock, ours, theirs), client);
        spliced.unwrap();
        assert_eq!(clock.uptime(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_client_says_after_the_runtime_has_ended_costs_nothing_of_what_was_said() {
        let ((mut client, ours), (theirs, mut runtime)) = (duplex(100), duplex(5000));
        let clock = clock();
        let spliced = splice(&clock, ours, theirs);
        let client = async move {
            let mut heard = vec![0; 10];
            client.read_exact(&mut heard).await.unwrap();
            // Nobody hears it: the runtime has gone, and much of what it said is still on its
            // way.
            client.write_all(b"ping").await.unwrap();
            client.read_to_end(&mut heard).await.unwrap();
            client.write_all(b"ping").await.unwrap();
            heard
        };
        runtime.write_all(&[7; 5000]).await.unwrap();
        drop(runtime);
        let (spliced, heard) = tokio::join!(spliced, client);
        spliced.unwrap();
        assert_eq!(heard, [7; 5000]);
        assert_eq!(clock.uptime(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stays_silent_after_the_end_is_left() {
        let ((mut client, ours), (theirs, runtime)) = (duplex(100), duplex(100));
        let clock = clock();
        drop(runtime);
        splice(&clock, ours, theirs).await.unwrap();
        assert_eq!(clock.uptime(), LAST_WORDS);
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_runtime_has_its_time_while_somebody_reads_what_it_says() {
        let ((mut client, ours), (theirs, mut runtime)) = (duplex(100), duplex(100));
        let clock = clock();
        let spliced = splice(&clock, ours, theirs);
        let client = async move {
            client.shutdown().await.unwrap();
            let mut heard = Vec::new();
            client.read_to_end(&mut heard).await.unwrap();
            heard
        };
        let slow = async {
            for _ in 0..5 {
                clock.sleep(LAST_WORDS / 2).await;
                runtime.write_all(b"word").await.unwrap();
            }
            drop(runtime);
        };
        let (spliced, heard, ()) = tokio::join!(spliced, client, slow);
        spliced.unwrap();
        assert_eq!(heard, b"word".repeat(5));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_vanishes_takes_a_runtime_along_that_does_not_end() {
        let ((client, ours), (theirs, mut runtime)) = (duplex(100), duplex(100));
        let clock = clock();
        drop(client);
        splice(&clock, ours, theirs).await.unwrap();
        assert_eq!(clock.uptime(), LAST_WORDS);
        assert_eq!(runtime.read(&mut [0]).await.unwrap(), 0);
        assert!(runtime.write_all(b"anybody?").await.is_err());
    }
}
