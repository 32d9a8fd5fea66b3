//! Connections that requests share.
//!
//! A request takes the fullest connection that still has room, so that the others empty and can
//! be closed. When all are nearly full another one is opened, before the server's limit is
//! reached; only at the limit does a request wait for it.
//!
//! A connection whose time has come (new certificate, new CA, a server that goes away) is
//! *retired*: it takes no more requests, those on it end in peace, and then it closes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use seams::SharedClock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::dial::{Changes, DialError, Dialed, Dialer};
use super::link::{Capacity, Link, Returned, Sender, Tasks};

/// How long a watch goes on over a retired connection. It would hold the connection for up to an
/// hour; five seconds let a new connection be made first, and spread nothing: watches resume
/// where they were.
pub(super) const WATCH_GRACE: Duration = Duration::from_secs(5);
/// How long anything else may go on over a retired connection. The API server itself ends
/// requests after a minute; what is left after five has lost its other end.
pub(super) const RETIREMENT: Duration = Duration::from_secs(5 * 60);
/// How long a connection that is not needed is kept, as Go does.
const IDLE: Duration = Duration::from_secs(90);
/// How many HTTP/1.1 connections may lie idle, as upstream.
const MOST_IDLE: usize = 25;
/// After a connection that nobody waits for could not be made.
const SPARE_HOLD_OFF: Duration = Duration::from_secs(5);

/// Why a request got no connection.
#[derive(Debug)]
pub(super) enum NoConnection {
    Dial(Arc<DialError>),
    Closed,
}

/// Which connection a request wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    Any,
    /// One that is made now: those that were there have failed it.
    New,
}

#[derive(Debug)]
pub(super) struct Pool {
    dialer: Arc<Dialer>,
    tasks: Tasks,
    clock: SharedClock,
    // Held for choosing and counting, never while something is sent or dialed.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    members: Vec<Member>,
    dials: Vec<Pending>,
    next_id: u64,
    /// How many requests a connection has room for, as the last one told.
    room: Option<usize>,
    no_spare_before: Duration,
}

#[derive(Debug)]
struct Member {
    id: u64,
    epoch: u64,
    /// None once it is retired, and while an HTTP/1.1 request is out.
    link: Option<Link>,
    in_flight: usize,
    used: bool,
    idle_since: Duration,
    retired: Option<Duration>,
    /// Nobody runs it any more.
    ended: bool,
    end_watches: CancellationToken,
    cut: CancellationToken,
}

/// A connection that is being made, and for how many.
#[derive(Debug)]
struct Pending {
    id: u64,
    seats: usize,
    outcome: watch::Receiver<Option<DialOutcome>>,
}

type DialOutcome = Result<(), Arc<DialError>>;

/// A place on a connection.
pub(super) struct Lease {
    pub(super) sender: Sender,
    pub(super) ticket: Ticket,
    /// Nobody has sent anything over it before.
    pub(super) fresh: bool,
}

/// Counts one request for as long as it lives.
#[derive(Debug)]
pub(super) struct Ticket {
    pool: Arc<Pool>,
    id: u64,
    pub(super) end_watches: CancellationToken,
    pub(super) cut: CancellationToken,
    pub(super) returned: Returned,
}

impl Ticket {
    /// The connection takes no more requests.
    pub(super) fn retire_connection(&self) {
        let now = self.pool.clock.uptime();
        let mut state = self.pool.state();
        if let Some(member) = state.member(self.id) {
            member.retire(now);
        }
        self.pool.changes().wake.notify_one();
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.pool.finished(self.id, self.returned.take());
    }
}

impl Pool {
    pub(super) fn new(dialer: Arc<Dialer>, tasks: Tasks, clock: SharedClock) -> Arc<Self> {
        Arc::new(Self {
            dialer,
            tasks,
            clock,
            state: Mutex::default(),
        })
    }

    /// How many connections are open, retired ones included.
    pub(super) fn connections(&self) -> usize {
        self.state().members.len()
    }

    /// A place for one request.
    pub(super) async fn lease(self: &Arc<Self>, choice: Choice) -> Result<Lease, NoConnection> {
        let mut choice = choice;
        loop {
            let mut outcome = {
                let mut state = self.state();
                if self.tasks.ending.is_cancelled() {
                    return Err(NoConnection::Closed);
                }
                if choice == Choice::Any
                    && let Some(lease) = self.pick(&mut state)
                {
                    return Ok(lease);
                }
                self.join_dial(&mut state)
            };
            choice = Choice::Any;
            let outcome = outcome.wait_for(Option::is_some).await;
            match outcome.as_deref() {
                Ok(Some(Err(error))) => return Err(NoConnection::Dial(Arc::clone(error))),
                Ok(_) => {}
                Err(_) => return Err(NoConnection::Closed),
            }
        }
    }

    /// Retires every connection.
    pub(super) fn reconnect(&self) {
        let now = self.clock.uptime();
        for member in &mut self.state().members {
            member.retire(now);
        }
        self.changes().wake.notify_one();
    }

    /// Does what is due now, and tells when something is due next.
    pub(super) fn tend(&self) -> Option<Duration> {
        let now = self.clock.uptime();
        let mut state = self.state();
        state.retire_stale(self.changes().epoch(), now);
        let mut due: Vec<Duration> = state.close_surplus(now).into_iter().collect();
        for member in &mut state.members {
            let Some(retired) = member.retired else {
                continue;
            };
            for (at, token) in [
                (retired + WATCH_GRACE, &member.end_watches),
                (retired + RETIREMENT, &member.cut),
            ] {
                if at > now {
                    due.push(at);
                } else {
                    token.cancel();
                }
            }
        }
        due.into_iter().min()
    }

    fn changes(&self) -> &Changes {
        &self.dialer.changes
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pick(self: &Arc<Self>, state: &mut State) -> Option<Lease> {
        let now = self.clock.uptime();
        state.retire_stale(self.changes().epoch(), now);
        let (index, crowded) = state.choose()?;
        if crowded && state.dials.is_empty() && now >= state.no_spare_before {
            self.start_dial(state, 0);
        }
        let member = state.members.get_mut(index)?;
        let sender = match member.link.take()? {
            Link::Http1(sender) => Sender::Http1(sender),
            Link::Http2(link) => {
                let sender = Sender::Http2(link.sender.clone());
                member.link = Some(Link::Http2(link));
                sender
            }
        };
        let fresh = !std::mem::replace(&mut member.used, true);
        member.in_flight += 1;
        Some(Lease {
            sender,
            ticket: Ticket {
                pool: Arc::clone(self),
                id: member.id,
                end_watches: member.end_watches.clone(),
                cut: member.cut.clone(),
                returned: None,
            },
            fresh,
        })
    }

    /// Takes a seat on a connection that is being made; starts one if all seats are taken.
    fn join_dial(self: &Arc<Self>, state: &mut State) -> watch::Receiver<Option<DialOutcome>> {
        // Before the first answer nobody knows how much room there will be: all wait for it.
        let room = state.room.unwrap_or(usize::MAX);
        if let Some(pending) = state.dials.iter_mut().find(|dial| dial.seats < room) {
            pending.seats += 1;
            return pending.outcome.clone();
        }
        self.start_dial(state, 1)
    }

    fn start_dial(
        self: &Arc<Self>,
        state: &mut State,
        seats: usize,
    ) -> watch::Receiver<Option<DialOutcome>> {
        let id = state.next_id;
        state.next_id += 1;
        let (told, outcome) = watch::channel(None);
        state.dials.push(Pending {
            id,
            seats,
            outcome: outcome.clone(),
        });
        let pool = Arc::clone(self);
        self.tasks.spawn(async move {
            let dialed = pool.dialer.dial(&pool.tasks).await;
            let outcome = pool.dialed(id, dialed);
            told.send_replace(Some(outcome));
        });
        outcome
    }

    fn dialed(self: &Arc<Self>, id: u64, dialed: Result<Dialed, DialError>) -> DialOutcome {
        let now = self.clock.uptime();
        let mut state = self.state();
        state.dials.retain(|dial| dial.id != id);
        let dialed = match dialed {
            Ok(dialed) => dialed,
            Err(error) => {
                tracing::debug!(%error, "no connection to the API server");
                state.no_spare_before = now + SPARE_HOLD_OFF;
                return Err(Arc::new(error));
            }
        };
        let serial = matches!(dialed.link, Link::Http1(_));
        state.room = Some(match &dialed.link {
            Link::Http2(link) => link.capacity().comfortable,
            Link::Http1(_) => 1,
        });
        state.members.push(Member {
            id,
            epoch: dialed.epoch,
            link: Some(dialed.link),
            in_flight: 0,
            used: false,
            idle_since: now,
            retired: None,
            ended: false,
            end_watches: CancellationToken::new(),
            cut: dialed.cut.clone(),
        });
        drop(state);
        let pool = Arc::downgrade(self);
        self.tasks.spawn(async move {
            let outcome = dialed.cut.run_until_cancelled(dialed.driver).await;
            if serial {
                // Nothing else runs it, and a request may be stuck on its way to it.
                dialed.cut.cancel();
            }
            if let Some(Err(error)) = outcome {
                tracing::debug!(%error, "a connection to the API server ended");
            }
            if let Some(pool) = Weak::upgrade(&pool) {
                pool.ended(id);
            }
        });
        // It may have been made with what is out of date by now.
        self.changes().wake.notify_one();
        Ok(())
    }

    fn ended(&self, id: u64) {
        let now = self.clock.uptime();
        let mut state = self.state();
        if let Some(member) = state.member(id) {
            member.ended = true;
            member.retire(now);
        }
        state.forget_ended();
        self.changes().wake.notify_one();
    }

    fn finished(&self, id: u64, returned: Returned) {
        let now = self.clock.uptime();
        let mut state = self.state();
        let mut idle = false;
        if let Some(member) = state.member(id) {
            member.in_flight = member.in_flight.saturating_sub(1);
            idle = member.in_flight == 0;
            member.idle_since = now;
            if let (Some(sender), None) = (returned, member.retired) {
                member.link = Some(Link::Http1(sender));
            }
        }
        state.forget_ended();
        if idle && state.members.len() > 1 {
            // There may be one too many now.
            self.changes().wake.notify_one();
        }
    }
}

impl State {
    fn member(&mut self, id: u64) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.id == id)
    }

    fn forget_ended(&mut self) {
        self.members
            .retain(|member| !member.ended || member.in_flight > 0);
    }

    /// Connections from before a change, and those that the server has closed.
    fn retire_stale(&mut self, epoch: u64, now: Duration) {
        for member in &mut self.members {
            if member.epoch < epoch || member.is_closed() {
                member.retire(now);
            }
        }
    }

    /// The connection for the next request, and whether it is time to open another one.
    fn choose(&self) -> Option<(usize, bool)> {
        let usable = || {
            self.members
                .iter()
                .enumerate()
                .filter_map(|(index, member)| Some((index, member.in_flight, member.capacity()?)))
        };
        let comfortable = usable()
            .filter(|(_, in_flight, capacity)| *in_flight < capacity.comfortable)
            .max_by_key(|(_, in_flight, _)| *in_flight);
        if let Some((index, ..)) = comfortable {
            return Some((index, false));
        }
        let crowded = usable()
            .filter(|(_, in_flight, capacity)| *in_flight < capacity.limit)
            .min_by_key(|(_, in_flight, _)| *in_flight);
        crowded.map(|(index, ..)| (index, true))
    }

    /// Retires what has lain idle and is not the last; tells when the next one is due.
    fn close_surplus(&mut self, now: Duration) -> Option<Duration> {
        let mut live = self
            .members
            .iter()
            .filter(|it| it.retired.is_none())
            .count();
        let mut idle: Vec<&mut Member> = self
            .members
            .iter_mut()
            .filter(|member| member.retired.is_none() && member.in_flight == 0)
            .collect();
        idle.sort_by_key(|member| member.idle_since);
        let mut many = idle.len();
        for member in idle {
            let due = member.idle_since + IDLE;
            if live < 2 {
                return None;
            }
            if due > now && many <= MOST_IDLE {
                return Some(due);
            }
            member.retire(now);
            live -= 1;
            many -= 1;
        }
        None
    }
}

impl Member {
    fn retire(&mut self, now: Duration) {
        if self.retired.is_none() {
            self.retired = Some(now);
            // Without a sender hyper closes the connection when its last stream has ended.
            self.link = None;
        }
    }

    fn is_closed(&self) -> bool {
        match &self.link {
            Some(Link::Http2(link)) => link.sender.is_closed(),
            Some(Link::Http1(sender)) => sender.is_closed(),
            None => false,
        }
    }

    /// None: it cannot take a request now.
    fn capacity(&self) -> Option<Capacity> {
        match self.link.as_ref()? {
            Link::Http2(link) => Some(link.capacity()),
            // One that has just been handed back is not ready yet, but will be: sending waits.
            Link::Http1(_) => Some(Capacity::ONE),
        }
    }
}
