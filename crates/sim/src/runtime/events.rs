//! Who hears of what becomes of containers.
//!
//! Each listener has a queue of its own. One that does not keep up is told so by
//! the end of its stream: what it missed it has to look up anyhow.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::stream;
use seams::RuntimeError;
use seams::cri::ContainerEventResponse;
use seams::runtime::{Code, ContainerEvents};

use super::Core;
use crate::faults::{RuntimeFault, unavailable};

/// About what containerd keeps for its listeners.
const QUEUE: usize = 1000;

const CALL: &str = "GetContainerEvents";

/// All who listen.
#[derive(Debug, Default)]
pub(super) struct Audience {
    listeners: Vec<Listener>,
    came: u64,
}

#[derive(Debug)]
struct Listener {
    number: u64,
    queue: VecDeque<ContainerEventResponse>,
    overrun: bool,
}

/// What a listener finds in its queue.
enum Heard {
    Event(Box<ContainerEventResponse>),
    Nothing,
    Overrun,
}

impl Audience {
    pub(super) fn is_empty(&self) -> bool {
        self.listeners.is_empty()
    }

    pub(super) fn tell(&mut self, event: &ContainerEventResponse) {
        for listener in self.listeners.iter_mut().filter(|one| !one.overrun) {
            if listener.queue.len() < QUEUE {
                listener.queue.push_back(event.clone());
            } else {
                listener.overrun = true;
                listener.queue = VecDeque::new();
            }
        }
    }

    fn join(&mut self) -> u64 {
        self.came += 1;
        self.listeners.push(Listener {
            number: self.came,
            queue: VecDeque::new(),
            overrun: false,
        });
        self.came
    }

    fn leave(&mut self, number: u64) {
        self.listeners.retain(|listener| listener.number != number);
    }

    fn hear(&mut self, number: u64) -> Heard {
        let listener = self.listeners.iter_mut().find(|one| one.number == number);
        match listener {
            Some(listener) if !listener.overrun => match listener.queue.pop_front() {
                Some(event) => Heard::Event(Box::new(event)),
                None => Heard::Nothing,
            },
            _ => Heard::Overrun,
        }
    }
}

/// A place in the audience, given up when it is dropped.
struct Seat {
    core: Arc<Core>,
    number: u64,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let (mut state, _) = self.core.look();
        state.audience.leave(self.number);
    }
}

/// What happens from now on.
pub(super) fn listen(core: &Arc<Core>) -> ContainerEvents {
    let number = {
        let (mut state, _) = core.look();
        state.audience.join()
    };
    let seat = Seat {
        core: Arc::clone(core),
        number,
    };
    Box::pin(stream::unfold(Some(seat), |seat| async move {
        let seat = seat?;
        match next(&seat).await {
            Ok(event) => Some((Ok(event), Some(seat))),
            Err(error) => Some((Err(error), None)),
        }
    }))
}

async fn next(seat: &Seat) -> Result<ContainerEventResponse, RuntimeError> {
    let core = &seat.core;
    let mut faults = core.faults.clone();
    let down = async {
        let down = faults.wait_for(|now| now.runtime == RuntimeFault::Down);
        // What it gives back is a lock, not to be held over a wait.
        let is_down = down.await.is_ok();
        if !is_down {
            // Nobody is left who could break it.
            std::future::pending::<()>().await;
        }
    };
    let heard = core.until(|state| match state.audience.hear(seat.number) {
        Heard::Event(event) => Some(Ok(*event)),
        Heard::Nothing => None,
        Heard::Overrun => Some(Err(overrun())),
    });
    tokio::select! {
        biased;
        () = down => Err(unavailable(CALL)),
        heard = heard => heard,
    }
}

fn overrun() -> RuntimeError {
    RuntimeError::new(
        CALL,
        Code::ResourceExhausted,
        format!("more than {QUEUE} events wait to be read; list the containers and ask anew"),
    )
}
