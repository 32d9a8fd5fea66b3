//! The connection that a request came over, for those who answer: where it comes from, and
//! what goes on after the answer.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::ending::AtEnd;
use crate::seats::{Place, Seat, Seats};

/// Among the extensions of every request.
#[derive(Clone, Debug)]
pub struct Line(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    peer: SocketAddr,
    /// Given on to what goes on over an upgraded connection.
    place: Mutex<Option<Place>>,
    seat: Arc<Seat>,
    seats: Seats,
    /// The end of what is being answered.
    end: Mutex<Option<Arc<AtEnd>>>,
    tasks: TaskTracker,
    ending: CancellationToken,
}

impl Line {
    pub(crate) fn new(
        peer: SocketAddr,
        place: Place,
        tasks: TaskTracker,
        ending: CancellationToken,
    ) -> Self {
        let seat = Arc::clone(place.seat());
        let seats = place.seats().clone();
        Self(Arc::new(Inner {
            peer,
            place: Mutex::new(Some(place)),
            seat,
            seats,
            end: Mutex::new(None),
            tasks,
            ending,
        }))
    }

    /// A connection of its own, for tests of what goes on over it.
    #[cfg(test)]
    pub(crate) fn of_test(peer: SocketAddr, tasks: &TaskTracker) -> Self {
        let place = Seats::new(1, usize::MAX).take(Duration::ZERO);
        let place = place.unwrap();
        Self::new(peer, place, tasks.clone(), CancellationToken::new())
    }

    /// Who is at the other end.
    pub fn peer(&self) -> SocketAddr {
        self.0.peer
    }

    pub(crate) fn seat(&self) -> &Seat {
        &self.0.seat
    }

    /// A request is there as a whole.
    pub(crate) fn begins(&self, now: Duration) {
        self.0.seat.head_is_over();
        self.0.seat.mark(true, now);
    }

    /// What is to be done at the end of the answer; of one that goes on over an upgraded
    /// connection, at the end of that.
    pub(crate) fn answers(&self, end: Arc<AtEnd>) {
        let held = self.0.end.lock();
        *held.unwrap_or_else(PoisonError::into_inner) = Some(end);
    }

    /// The answer was found: its body holds the end now.
    pub(crate) fn answered(&self) -> Option<Arc<AtEnd>> {
        let held = self.0.end.lock();
        held.unwrap_or_else(PoisonError::into_inner).take()
    }

    /// What was read, for [`super::metered`].
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        self.0.seats.read(&self.0.seat, bytes)
    }

    /// What goes on over the connection once it has been upgraded: it is ended with the
    /// server, and counts as a connection until then.
    pub fn carry_on(&self, work: impl Future<Output = ()> + Send + 'static) {
        let place = self.0.place.lock();
        let place = place.unwrap_or_else(PoisonError::into_inner).take();
        self.0.seat.keep();
        self.0.seats.release(&self.0.seat);
        let end = self.answered();
        let ending = self.0.ending.clone();
        self.0.tasks.spawn(async move {
            ending.run_until_cancelled(work).await;
            drop((place, end));
        });
    }
}
