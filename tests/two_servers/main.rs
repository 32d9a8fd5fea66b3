//! The embedded API server and the lab's kube-apiserver are asked the same, at random: the same
//! verdicts, the same objects and the same changes must come back.
//!
//! In: crate `apiserver` in this process, and the API server of the shared lab through its
//! loopback port. Out: verdicts; what differs is told with all that was asked before it, and with
//! the seed that asks the same again.
//!
//! `cargo xtask compare api` plays many more than the tests of every day.

#![allow(
    clippy::disallowed_methods,
    reason = "a test owns its process: it reads the clock and the environment"
)]

#[path = "../embedded/access.rs"]
mod access;
#[path = "../api_server.rs"]
mod api_server;
mod asked;
mod normal;
mod objects;
mod place;
mod random;

use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context, Result, bail, ensure};
use futures_util::{FutureExt as _, StreamExt as _};
use tempfile::TempDir;
use testkit::clock::TokioClock;
use testkit::knobs::{number, seed};
use testkit::lab::Lab;
use tokio_util::sync::CancellationToken;

use crate::access::Access;
use crate::asked::Asked;
use crate::place::{Answer, Place};
use crate::random::Story;

/// Sequences in the tests of every day, and requests in each.
const EVERY_DAY: usize = 60;
const REQUESTS: usize = 40;
/// Sequences at once: each waits for answers most of the time.
const AT_ONCE: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_requests_are_answered_alike() -> Result<()> {
    let sequences = match number("FERROLET_SEQUENCES")? {
        Some(sequences) => usize::try_from(sequences)?,
        None => EVERY_DAY,
    };
    let seed = seed()?;
    println!("{sequences} sequences, FERROLET_SEED={seed}");
    let lab = tokio::task::spawn_blocking(Lab::shared).await??;
    let server = api_server::start(Arc::new(TokioClock::starting_at(SystemTime::now()))).await?;
    let directory = TempDir::new()?;
    let kubeconfig = directory.path().join("admin.conf");
    fs::write(&kubeconfig, server.admin_kubeconfig())?;
    let ending = CancellationToken::new();
    let running = tokio::spawn(server.run(ending.clone()));
    let (ours, theirs) = (
        Access::new(&kubeconfig)?,
        Access::new(&lab.admin_kubeconfig())?,
    );

    // Namespaces of an earlier run may still be going.
    let run = SystemTime::UNIX_EPOCH.elapsed()?.as_millis();
    let one = |number: usize, again: usize| {
        let seed = seed.wrapping_add(number as u64);
        let (ours, theirs) = (&ours.client, &theirs.client);
        async move {
            let namespace = format!("two-servers-{run}-{number}-{again}");
            let mut pair = [
                Place::new("ours", ours.clone(), &namespace),
                Place::new("kube-apiserver", theirs.clone(), &namespace),
            ];
            let played = play(&mut pair, seed, &namespace).await;
            for place in &pair {
                place.clear().await?;
            }
            let told = format!("sequence {number}: FERROLET_SEED={seed} FERROLET_SEQUENCES=1");
            let count = played.with_context(|| told)?;
            Ok(Count { again, ..count })
        }
    };
    let first = |number| one(number, 0).map(move |outcome| (number, outcome));
    let mut played: Vec<(usize, Result<Count>)> =
        futures_util::stream::iter((0..sequences).map(first))
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
    // A controller of either may have come in between, or a watch have ended before it was told
    // all: what counts comes twice, the second time with nothing beside it.
    for (number, outcome) in &mut played {
        if let Err(error) = outcome {
            println!("played once more: {error:#}");
            *outcome = one(*number, 1).await;
        }
    }
    ours.close().await;
    theirs.close().await;
    ending.cancel();
    running.await?;

    let mut count = Count::default();
    let mut differences = String::new();
    for (_, outcome) in played {
        match outcome {
            Ok(played) => count.add(&played),
            Err(error) => writeln!(differences, "{error:#}\n")?,
        }
    }
    println!(
        "{} requests to each, {} of them done and {} refused; {} changes watched; {} sequences played twice",
        count.asked,
        count.asked - count.refused,
        count.refused,
        count.watched,
        count.again
    );
    ensure!(differences.is_empty(), "{differences}");
    ensure!(
        count.refused * 20 > count.asked && count.refused * 2 < count.asked && count.watched > 0,
        "too few or too many were refused, or nothing was watched: this says little"
    );
    ensure!(
        count.again * 10 <= sequences,
        "{} of {sequences} sequences had to be played twice",
        count.again
    );
    Ok(())
}

/// What was seen, so that nobody takes silence for agreement.
#[derive(Debug, Default)]
struct Count {
    asked: usize,
    refused: usize,
    watched: usize,
    /// Sequences that differed, and did not when they were played once more.
    again: usize,
}

impl Count {
    fn add(&mut self, other: &Self) {
        self.asked += other.asked;
        self.refused += other.refused;
        self.watched += other.watched;
        self.again += other.again;
    }

    fn note(&mut self, answer: &Answer) {
        self.asked += 1;
        self.refused += usize::from(answer.code >= 400);
        self.watched += answer.changes.len();
    }
}

/// One sequence at both, up to the first difference.
async fn play(pair: &mut [Place; 2], seed: u64, namespace: &str) -> Result<Count> {
    for place in pair.iter() {
        place.furnish().await?;
    }
    let mut story = Story::new(seed, format!("node-of-{namespace}"));
    let mut count = Count::default();
    let mut before: Vec<Asked> = Vec::new();
    for _ in 0..REQUESTS {
        let asked = story.next();
        let answers = both(pair, &asked).await?;
        story.heard(&asked, &answers[0]);
        count.note(&answers[0]);
        alike(&asked, &answers, &before)?;
        before.push(asked);
    }
    // What is there is known to both before the past is asked for.
    for asked in random::lists() {
        let answers = both(pair, &asked).await?;
        alike(&asked, &answers, &before)?;
    }
    let watches = story.watches();
    let [ours, theirs] = pair;
    let (ours, theirs) = tokio::join!(ours.watch_all(&watches), theirs.watch_all(&watches));
    for (asked, answers) in watches.iter().zip(ours?.into_iter().zip(theirs?)) {
        let answers = [answers.0, answers.1];
        count.note(&answers[0]);
        alike(asked, &answers, &before)?;
    }
    Ok(count)
}

async fn both(pair: &mut [Place; 2], asked: &Asked) -> Result<[Answer; 2]> {
    let [ours, theirs] = pair;
    let (ours, theirs) = tokio::join!(ours.ask(asked), theirs.ask(asked));
    Ok([ours?, theirs?])
}

fn alike(asked: &Asked, answers: &[Answer; 2], before: &[Asked]) -> Result<()> {
    let [ours, theirs] = answers;
    if ours == theirs {
        return Ok(());
    }
    let mut story = String::new();
    for asked in before {
        writeln!(story, "  {asked}")?;
    }
    bail!("after\n{story}this differs: {asked}\nours:           {ours}\nkube-apiserver: {theirs}");
}
