//! Room for a bounded number of connections. When it is full, who has been doing nothing
//! for the longest makes room, strangers first: a crowd of idle connections keeps nobody
//! out. A stranger who does not take an answer that is whole does nothing, either.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// Of each head, for everybody: what an ordinary request needs is not counted.
const ALLOWANCE: usize = 16 << 10;

#[derive(Clone, Debug)]
pub(crate) struct Seats(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    most: usize,
    /// Bytes of requests' heads, beyond the allowance of each, and how many there may be.
    heads: AtomicUsize,
    most_heads: usize,
    /// A mutex: seats are taken and left under it, and nobody waits while holding it.
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    seats: BTreeMap<u64, Arc<Seat>>,
    last: u64,
}

/// One connection, as far as it may have to make room.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    busy: AtomicBool,
    /// Its answer is known to the last byte, and may not be sent yet.
    answered: AtomicBool,
    /// It goes on as something else than HTTP, and is busy to its end.
    kept: AtomicBool,
    /// Bytes of the head that is under way.
    head: AtomicUsize,
    /// As much of all heads' room is its: that of its largest, for the room that one was
    /// read into stays with the connection.
    charged: AtomicUsize,
    /// Has proven to be somebody.
    known: AtomicBool,
    /// Since when it is busy or idle; milliseconds of the clock's uptime.
    since: AtomicU64,
    /// It is to make room.
    leave: CancellationToken,
}

/// Left when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    number: u64,
    seat: Arc<Seat>,
    seats: Seats,
}

impl Seats {
    /// `most` connections, with so many bytes of heads over all of them, beyond the allowance
    /// of each.
    pub(crate) fn new(most: usize, most_heads: usize) -> Self {
        Self(Arc::new(Shared {
            most,
            heads: AtomicUsize::new(0),
            most_heads,
            taken: Mutex::default(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        let taken = self.0.taken.lock();
        taken.unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: all are busy.
    pub(crate) fn take(&self, now: Duration) -> Option<Place> {
        let mut taken = self.lock();
        if taken.seats.len() >= self.0.most {
            let movable = taken.seats.iter().filter(|(_, seat)| seat.may_move());
            let longest = movable.min_by_key(|(_, seat)| {
                let known = seat.known.load(Ordering::Relaxed);
                (known, seat.since.load(Ordering::Relaxed))
            });
            let number = *longest?.0;
            if let Some(seat) = taken.seats.remove(&number) {
                seat.leave.cancel();
            }
        }
        taken.last += 1;
        let number = taken.last;
        let seat = Arc::new(Seat::default());
        seat.mark(false, now);
        taken.seats.insert(number, Arc::clone(&seat));
        drop(taken);
        Some(Place {
            number,
            seat,
            seats: self.clone(),
        })
    }

    #[cfg(test)]
    pub(crate) fn taken(&self) -> usize {
        self.lock().seats.len()
    }
}

impl Seat {
    /// From now on.
    pub(crate) fn mark(&self, busy: bool, now: Duration) {
        let millis = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        self.since.store(millis, Ordering::Relaxed);
        self.answered.store(false, Ordering::Relaxed);
        self.busy.store(busy, Ordering::Relaxed);
    }

    /// Nothing is added to the answer any more.
    pub(crate) fn answered(&self) {
        self.answered.store(true, Ordering::Relaxed);
    }

    /// All that there was to send is sent: it is idle, if the answer was in it.
    pub(crate) fn sent(&self, now: impl FnOnce() -> Duration) {
        if self.answered.load(Ordering::Relaxed) {
            self.mark(false, now());
        }
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed) || self.kept.load(Ordering::Relaxed)
    }

    /// Its answer is whole, and a stranger leaves it lying.
    pub(crate) fn is_left_lying(&self) -> bool {
        let is = |what: &AtomicBool| what.load(Ordering::Relaxed);
        is(&self.busy) && is(&self.answered) && !is(&self.kept) && !is(&self.known)
    }

    fn may_move(&self) -> bool {
        !self.is_busy() || self.is_left_lying()
    }

    pub(crate) fn keep(&self) {
        self.kept.store(true, Ordering::Relaxed);
    }

    /// For how long it has been what it is.
    pub(crate) fn lasts(&self, now: Duration) -> Duration {
        let since = Duration::from_millis(self.since.load(Ordering::Relaxed));
        now.saturating_sub(since)
    }

    /// A part of a request is there, and no more.
    pub(crate) fn is_asking(&self) -> bool {
        !self.is_busy() && self.head.load(Ordering::Relaxed) > 0
    }

    /// The head is there as a whole.
    pub(crate) fn head_is_over(&self) {
        self.head.store(0, Ordering::Relaxed);
    }

    fn charged(&self) -> usize {
        self.charged.load(Ordering::Relaxed)
    }

    pub(crate) fn known(&self) {
        self.known.store(true, Ordering::Relaxed);
    }

    pub(crate) async fn asked_to_leave(&self) {
        self.leave.cancelled().await;
    }
}

impl Seats {
    /// So much more of a head has come in; whether its sender may go on. Where there is no
    /// room for it, the largest head goes, a stranger's first: whoever fills the room pays,
    /// not whoever comes next.
    pub(crate) fn read(&self, seat: &Seat, bytes: usize) -> bool {
        if seat.is_busy() {
            return true;
        }
        if seat.leave.is_cancelled() {
            return false;
        }
        let head = seat.head.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let owed = head.saturating_sub(ALLOWANCE);
        let more = owed.saturating_sub(seat.charged());
        if more == 0 {
            return true;
        }
        seat.charged.fetch_add(more, Ordering::Relaxed);
        let before = self.0.heads.fetch_add(more, Ordering::Relaxed);
        before + more <= self.0.most_heads || self.make_room(seat)
    }

    /// `false`: it is the reader that has to go.
    fn make_room(&self, reader: &Seat) -> bool {
        let taken = self.lock();
        while self.0.heads.load(Ordering::Relaxed) > self.0.most_heads {
            let charged = taken.seats.values().filter(|seat| seat.charged() > 0);
            let largest = charged.min_by_key(|seat| {
                let known = seat.known.load(Ordering::Relaxed);
                (known, Reverse(seat.charged()))
            });
            // Without one the reader has been asked to leave by now.
            let Some(largest) = largest.filter(|seat| !std::ptr::eq(Arc::as_ptr(seat), reader))
            else {
                return false;
            };
            largest.leave.cancel();
            self.release(largest);
        }
        true
    }

    /// What it has read heads into is gone.
    pub(crate) fn release(&self, seat: &Seat) {
        let bytes = seat.charged.swap(0, Ordering::Relaxed);
        self.0.heads.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Place {
    pub(crate) fn seat(&self) -> &Arc<Seat> {
        &self.seat
    }

    pub(crate) fn seats(&self) -> &Seats {
        &self.seats
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.seats.release(&self.seat);
        self.seats.lock().seats.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn who_is_idle_for_the_longest_makes_room_strangers_first() {
        let seats = Seats::new(3, 0);
        let places: Vec<Place> = (0..3)
            .map(|second| seats.take(at(second)).unwrap())
            .collect();
        places[0].seat().known();
        let fourth = seats.take(at(3)).unwrap();
        let left = |place: &Place| place.seat().leave.is_cancelled();
        assert_eq!(
            places.iter().map(left).collect::<Vec<_>>(),
            [false, true, false]
        );
        places[2].seat().mark(true, at(3));
        fourth.seat().mark(true, at(3));
        let fifth = seats.take(at(4)).unwrap();
        assert!(left(&places[0]));
        fifth.seat().mark(true, at(4));
        // Nobody is idle.
        assert!(seats.take(at(5)).is_none());
        assert_eq!(seats.taken(), 3);
        drop((places, fourth, fifth));
        assert_eq!(seats.taken(), 0);
    }

    #[test]
    fn a_stranger_who_leaves_an_answer_lying_keeps_nobody_out() {
        let seats = Seats::new(4, 0);
        let places: Vec<Place> = (0..4)
            .map(|second| seats.take(at(second)).unwrap())
            .collect();
        let [asking, reader, stranger, stream] = [0, 1, 2, 3].map(|index| places[index].seat());
        for seat in [asking, reader, stranger, stream] {
            seat.mark(true, at(4));
        }
        reader.known();
        reader.answered();
        stranger.answered();
        stream.answered();
        stream.keep();
        assert!(stranger.is_left_lying() && !reader.is_left_lying());
        let fifth = seats.take(at(5)).unwrap();
        assert!(stranger.leave.is_cancelled());
        fifth.seat().mark(true, at(5));
        // Somebody is waiting for an answer, somebody has shown who they are, and the last one
        // is no answer at all.
        assert!(seats.take(at(6)).is_none());
        assert!(!asking.leave.is_cancelled() && !reader.leave.is_cancelled());
    }

    #[test]
    fn whoever_fills_the_room_for_heads_makes_room_strangers_first() {
        let seats = Seats::new(9, 100);
        let [greedy, friend, small, late] = [0; 4].map(|second| seats.take(at(second)).unwrap());
        let read = |place: &Place, bytes| seats.read(place.seat(), bytes);
        let left = |place: &Place| place.seat().leave.is_cancelled();
        friend.seat().known();
        assert!(read(&friend, ALLOWANCE + 50));
        assert!(read(&greedy, ALLOWANCE + 40));
        assert!(read(&small, ALLOWANCE + 10));
        // What everybody needs is there, however full it is.
        assert!(read(&late, ALLOWANCE));
        assert!(!left(&greedy) && !left(&friend));
        assert!(read(&late, 1));
        assert!(left(&greedy) && !left(&friend) && !left(&small));
        assert!(!read(&greedy, 1));
        // The largest of strangers is the one who reads.
        assert!(read(&late, 39));
        assert!(!read(&late, 1));
        assert!(!left(&friend) && !left(&small));
        drop((late, greedy));
        assert!(read(&small, 20));
        assert!(seats.0.heads.load(Ordering::Relaxed) == 80);
    }

    #[test]
    fn a_connection_pays_for_its_largest_head_to_its_end() {
        let seats = Seats::new(3, 100);
        let [first, second] = [0; 2].map(|second| seats.take(at(second)).unwrap());
        assert!(seats.read(first.seat(), ALLOWANCE + 60));
        assert!(first.seat().is_asking());
        first.seat().head_is_over();
        first.seat().mark(true, at(2));
        assert!(!first.seat().is_asking());
        // What comes now is no head.
        assert!(seats.read(first.seat(), 10 * ALLOWANCE));
        first.seat().mark(false, at(3));
        let heads = || seats.0.heads.load(Ordering::Relaxed);
        assert_eq!(heads(), 60);
        // The next one of the same size costs nothing more.
        assert!(seats.read(first.seat(), ALLOWANCE + 60));
        assert_eq!(heads(), 60);
        first.seat().head_is_over();
        assert!(seats.read(second.seat(), ALLOWANCE + 41));
        assert!(first.seat().leave.is_cancelled());
        // A connection that goes on as something else has given its room back.
        seats.release(second.seat());
        assert_eq!(heads(), 0);
    }
}
