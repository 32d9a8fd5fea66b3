//! Many short trials, a few at a time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, bail};

/// Each trial waits for two short programs, one after the other.
const WORKERS: usize = 3;

/// Examines every item and fails with all problems that were found; an error
/// of `examine` is one of them.
pub(crate) fn examine_all<Item: Sync>(
    items: &[Item],
    examine: impl Fn(usize, &Item) -> Result<Vec<String>> + Sync,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let problems = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else {
                        break;
                    };
                    let found =
                        examine(index, item).unwrap_or_else(|error| vec![format!("{error:#}")]);
                    // Poisoned only by a panic that fails the test anyway.
                    if let Ok(mut problems) = problems.lock() {
                        problems.extend(found);
                    }
                }
            });
        }
    });
    let mut problems = problems.into_inner().ok().context("a worker panicked")?;
    problems.sort();
    if problems.is_empty() {
        return Ok(());
    }
    bail!(
        "{} problems in {} trials:\n{}",
        problems.len(),
        items.len(),
        problems.join("\n")
    )
}
