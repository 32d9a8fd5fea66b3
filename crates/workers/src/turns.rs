//! Turns at the runtime: a few pods at a time are in its hands, critical ones ahead,
//! then the oldest; what is left of the dead goes last. Started all at once, each would
//! wait for all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seams::Clock;
use tokio::sync::oneshot;

/// Who is next: the least goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// What nobody waits for: to remove what is left of a pod that is over.
    pub afterwards: bool,
    pub ordinary: bool,
    /// When the pod was made; since 1970, in seconds.
    pub made: i64,
    /// Which of those that were made in the same second the node heard of first: all
    /// turns of one pod come before those of the next, so that the first are ready
    /// when the last begin.
    pub order: u64,
}

/// Clones are the same.
#[derive(Clone, Debug)]
pub struct Turns {
    // Held for a few instructions.
    queue: Arc<Mutex<Queue>>,
}

#[derive(Debug)]
struct Queue {
    free: usize,
    next: u64,
    waiting: BTreeMap<(Rank, u64), oneshot::Sender<Turn>>,
}

/// Somebody's turn, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    turns: Option<Turns>,
}

/// Who holds a turn for longer gives it back, and goes on without: a call that hangs
/// must not keep all pods waiting, least of all the one that it hangs for.
const PATIENCE: Duration = Duration::from_secs(10);

impl Turn {
    /// Work that this turn is for.
    pub async fn spend<T>(self, clock: &dyn Clock, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = clock.sleep(PATIENCE) => drop(self),
        }
        work.await
    }
}

impl Turns {
    pub fn new(at_once: usize) -> Self {
        let queue = Queue {
            free: at_once.max(1),
            next: 0,
            waiting: BTreeMap::new(),
        };
        Self {
            queue: Arc::new(Mutex::new(queue)),
        }
    }

    /// Waits for a turn. May be dropped.
    pub async fn take(&self, rank: Rank) -> Turn {
        let called = {
            let mut queue = self.lock();
            if queue.free > 0 {
                queue.free -= 1;
                return self.turn();
            }
            let (call, called) = oneshot::channel();
            let number = queue.next;
            queue.next += 1;
            queue.waiting.insert((rank, number), call);
            called
        };
        match called.await {
            Ok(turn) => turn,
            // The queue lives as long as we do, so it is not dropped before.
            Err(_) => self.turn(),
        }
    }

    fn turn(&self) -> Turn {
        Turn {
            turns: Some(self.clone()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_back(&self) {
        let mut queue = self.lock();
        while let Some((_, call)) = queue.waiting.pop_first() {
            match call.send(self.turn()) {
                Ok(()) => return,
                // It went away: the turn must not come back through its drop, as
                // the queue is held.
                Err(mut turn) => turn.turns = None,
            }
        }
        queue.free += 1;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turns) = self.turns.take() {
            turns.give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(ordinary: bool, made: i64) -> Rank {
        Rank {
            ordinary,
            made,
            ..Rank::default()
        }
    }

    #[tokio::test]
    async fn critical_pods_come_first_then_the_oldest_and_what_nobody_waits_for_last() {
        let turns = Turns::new(1);
        let first = turns.take(rank(true, 0)).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let afterwards = Rank {
            afterwards: true,
            ..rank(false, 0)
        };
        let waits = [
            rank(true, 3),
            afterwards,
            rank(true, 1),
            rank(false, 9),
            rank(true, 1),
        ];
        let mut tasks = tokio::task::JoinSet::new();
        for (number, rank) in waits.into_iter().enumerate() {
            let (queue, order) = (turns.clone(), Arc::clone(&order));
            tasks.spawn(async move {
                let _turn = queue.take(rank).await;
                order.lock().unwrap().push(number);
            });
            // Each is in the queue before the next comes.
            while turns.lock().waiting.len() <= number {
                tokio::task::yield_now().await;
            }
        }
        drop(first);
        while tasks.join_next().await.is_some() {}
        assert_eq!(*order.lock().unwrap(), [3, 2, 4, 0, 1]);
        assert_eq!(turns.lock().free, 1);
    }

    #[tokio::test]
    async fn a_pod_that_was_heard_of_first_has_all_its_turns_first() {
        let turns = Turns::new(1);
        let rank = |order| Rank {
            order,
            ..Rank::default()
        };
        let first = turns.take(rank(0)).await;
        let mut later = Box::pin(turns.take(rank(2)));
        assert!(futures_util::poll!(&mut later).is_pending());
        let mut sooner = Box::pin(turns.take(rank(1)));
        assert!(futures_util::poll!(&mut sooner).is_pending());
        drop(first);
        let turn = sooner.await;
        assert!(futures_util::poll!(&mut later).is_pending());
        drop(turn);
        drop(later.await);
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_long_gives_the_turn_back_and_goes_on() {
        let clock = testkit::clock::TokioClock::starting_at(std::time::UNIX_EPOCH);
        let turns = Turns::new(1);
        let turn = turns.take(Rank::default()).await;
        let long = turn.spend(&clock, clock.sleep(PATIENCE * 3));
        let next = async {
            drop(turns.take(Rank::default()).await);
            clock.uptime()
        };
        let begun = clock.uptime();
        let ((), taken) = tokio::join!(long, next);
        assert_eq!(taken, begun + PATIENCE);
        assert_eq!(clock.uptime(), begun + PATIENCE * 3);
        assert_eq!(turns.lock().free, 1);
    }

    #[tokio::test]
    async fn a_turn_is_not_lost_with_one_who_went_away() {
        let turns = Turns::new(1);
        let first = turns.take(Rank::default()).await;
        {
            let mut waiting = Box::pin(turns.take(Rank::default()));
            let poll = futures_util::poll!(&mut waiting);
            assert!(poll.is_pending());
        }
        drop(first);
        assert_eq!(turns.lock().free, 1);
        drop(turns.take(Rank::default()).await);
        assert_eq!(turns.lock().free, 1);
    }
}
