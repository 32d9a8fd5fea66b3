//! Answers of the API server that hold for a while: a bounded number of them, and one
//! question at a time for everybody who has it.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Shared, WeakShared};

/// What is asked for, by its digest: neither tokens nor names are kept.
pub(crate) type Key = [u8; 32];

/// A question under way.
pub(crate) type Asking<V> = Pin<Box<dyn Future<Output = V> + Send>>;

#[derive(Debug)]
pub(crate) struct Remembered<V: Clone> {
    /// A mutex: entries are looked up and exchanged under it, and nobody waits while
    /// holding it.
    inner: Mutex<Inner<V>>,
    most: usize,
}

#[derive(Debug)]
struct Inner<V: Clone> {
    answers: HashMap<Key, Entry<V>>,
    /// Keys by when they were last used, oldest first.
    order: BTreeMap<u64, Key>,
    used: u64,
    asking: HashMap<Key, WeakShared<Asking<V>>>,
}

#[derive(Debug)]
struct Entry<V> {
    answer: V,
    /// By the clock's uptime.
    until: Duration,
    used: u64,
}

impl<V: Clone> Remembered<V> {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            inner: Mutex::new(Inner {
                answers: HashMap::new(),
                order: BTreeMap::new(),
                used: 0,
                asking: HashMap::new(),
            }),
            most,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<V>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An answer that still holds.
    pub(crate) fn get(&self, key: &Key, now: Duration) -> Option<V> {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let entry = inner.answers.get_mut(key)?;
        inner.order.remove(&entry.used);
        if entry.until <= now {
            inner.answers.remove(key);
            return None;
        }
        inner.used += 1;
        entry.used = inner.used;
        inner.order.insert(entry.used, *key);
        Some(entry.answer.clone())
    }

    pub(crate) fn put(&self, key: Key, answer: V, until: Duration) {
        let mut inner = self.lock();
        let inner = &mut *inner;
        inner.used += 1;
        let used = inner.used;
        let entry = Entry {
            answer,
            until,
            used,
        };
        if let Some(before) = inner.answers.insert(key, entry) {
            inner.order.remove(&before.used);
        }
        inner.order.insert(used, key);
        while inner.answers.len() > self.most {
            let Some((_, oldest)) = inner.order.pop_first() else {
                return;
            };
            inner.answers.remove(&oldest);
        }
    }

    /// Asks, unless somebody does already: then it is their answer.
    pub(crate) async fn ask(&self, key: Key, question: impl FnOnce() -> Asking<V>) -> V {
        let asking = self.join(key, question);
        let answer = asking.await;
        let mut inner = self.lock();
        // Another may have begun since; who is asked no more is of no use.
        inner.asking.retain(|_, asked| asked.upgrade().is_some());
        if inner.asking.get(&key).is_some_and(is_over) {
            inner.asking.remove(&key);
        }
        answer
    }

    fn join(&self, key: Key, question: impl FnOnce() -> Asking<V>) -> Shared<Asking<V>> {
        let mut inner = self.lock();
        let under_way = inner.asking.get(&key).and_then(WeakShared::upgrade);
        if let Some(asking) = under_way.filter(|asking| asking.peek().is_none()) {
            return asking;
        }
        let asking = question().shared();
        if let Some(weak) = asking.downgrade() {
            inner.asking.insert(key, weak);
        }
        asking
    }

    #[cfg(test)]
    fn len(&self) -> (usize, usize, usize) {
        let inner = self.lock();
        (inner.answers.len(), inner.order.len(), inner.asking.len())
    }
}

fn is_over<V: Clone>(asked: &WeakShared<Asking<V>>) -> bool {
    asked.upgrade().is_none_or(|asking| asking.peek().is_some())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::oneshot;

    use super::*;

    fn key(number: u8) -> Key {
        [number; 32]
    }

    #[test]
    fn an_answer_holds_for_its_time() {
        let remembered = Remembered::new(8);
        remembered.put(key(1), "yes", Duration::from_secs(10));
        let at = |seconds| remembered.get(&key(1), Duration::from_secs(seconds));
        assert_eq!(at(9), Some("yes"));
        assert_eq!(at(10), None);
        assert_eq!(remembered.len(), (0, 0, 0));
    }

    #[test]
    fn what_was_used_longest_ago_makes_room() {
        let remembered = Remembered::new(2);
        let (now, until) = (Duration::ZERO, Duration::from_secs(1));
        remembered.put(key(1), 1, until);
        remembered.put(key(2), 2, until);
        assert_eq!(remembered.get(&key(1), now), Some(1));
        remembered.put(key(3), 3, until);
        assert_eq!(remembered.get(&key(2), now), None);
        assert_eq!(remembered.get(&key(1), now), Some(1));
        assert_eq!(remembered.len(), (2, 2, 0));
        for number in 0..100 {
            remembered.put(key(number), 0, until);
        }
        assert_eq!(remembered.len(), (2, 2, 0));
    }

    #[tokio::test]
    async fn those_who_ask_the_same_are_told_together() {
        let remembered = Arc::new(Remembered::new(2));
        let asked = Arc::new(AtomicUsize::new(0));
        let (answer, waiting) = oneshot::channel::<u32>();
        let mut waiting = Some(waiting);
        let mut question = || -> Asking<u32> {
            asked.fetch_add(1, Ordering::Relaxed);
            let waiting = waiting.take().unwrap();
            Box::pin(async move { waiting.await.unwrap() })
        };
        let mut first = Box::pin(remembered.ask(key(1), &mut question));
        assert!(futures_util::poll!(&mut first).is_pending());
        let mut second = Box::pin(remembered.ask(key(1), || unreachable!()));
        assert!(futures_util::poll!(&mut second).is_pending());
        // Who goes away does not take the answer along.
        drop(first);
        answer.send(7).unwrap();
        assert_eq!(second.await, 7);
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        assert_eq!(remembered.len(), (0, 0, 0));
    }

    #[tokio::test]
    async fn a_question_that_everybody_left_is_asked_anew() {
        let remembered = Remembered::new(2);
        let mut left = Box::pin(remembered.ask(key(1), || Box::pin(std::future::pending())));
        assert!(futures_util::poll!(&mut left).is_pending());
        drop(left);
        let answer = remembered.ask(key(1), || Box::pin(std::future::ready(1)));
        assert_eq!(answer.await, 1);
    }
}
