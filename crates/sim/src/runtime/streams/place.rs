//! What was asked for, and waits for somebody to come for it.

use std::collections::BTreeMap;
use std::time::Duration;

use seams::cri::{AttachRequest, ExecRequest, PortForwardRequest};

use super::super::moment::Moment;
use super::super::refusal::Refusal;

/// As long, and as many, as other runtimes keep.
const KEPT: Duration = Duration::from_secs(60);
const MOST: usize = 1000;

/// What streams are for.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) enum Wanted {
    Exec(ExecRequest),
    Attach(AttachRequest),
    PortForward(PortForwardRequest),
}

impl Wanted {
    /// The beginning of its path.
    pub(super) fn path(&self) -> &'static str {
        match self {
            Self::Exec(_) => "exec",
            Self::Attach(_) => "attach",
            Self::PortForward(_) => "portforward",
        }
    }
}

/// The places, by their tokens.
#[derive(Debug, Default)]
pub(in super::super) struct Places(BTreeMap<Box<str>, Place>);

#[derive(Debug)]
struct Place {
    wanted: Wanted,
    /// In uptime.
    until: Duration,
}

impl Places {
    pub(in super::super) fn keep(
        &mut self,
        token: &str,
        wanted: Wanted,
        now: Moment,
    ) -> Result<(), Refusal> {
        self.0.retain(|_, place| place.until > now.uptime);
        if self.0.len() >= MOST {
            return Err(Refusal::TooManyStreams);
        }
        let until = now.uptime + KEPT;
        self.0.insert(token.into(), Place { wanted, until });
        Ok(())
    }

    /// A place is taken once.
    pub(in super::super) fn take(
        &mut self,
        path: &str,
        token: &str,
        now: Moment,
    ) -> Option<Wanted> {
        let place = self.0.get(token)?;
        if place.wanted.path() != path {
            return None;
        }
        let place = self.0.remove(token)?;
        (place.until > now.uptime).then_some(place.wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment {
            wall: 0,
            uptime: Duration::from_secs(seconds),
        }
    }

    fn wanted() -> Wanted {
        Wanted::Exec(ExecRequest::default())
    }

    #[test]
    fn a_place_is_taken_once_in_time_and_for_what_it_is() {
        let mut places = Places::default();
        places.keep("a", wanted(), at(0)).unwrap();
        assert_eq!(places.take("attach", "a", at(1)), None);
        assert_eq!(places.take("exec", "b", at(1)), None);
        assert_eq!(places.take("exec", "a", at(1)), Some(wanted()));
        assert_eq!(places.take("exec", "a", at(1)), None);
        places.keep("a", wanted(), at(0)).unwrap();
        assert_eq!(places.take("exec", "a", at(60)), None);
    }

    #[test]
    fn there_are_so_many_and_those_that_nobody_came_for_make_room() {
        let mut places = Places::default();
        for number in 0..MOST {
            let token = number.to_string();
            places.keep(&token, wanted(), at(0)).unwrap();
        }
        let refused = places.keep("one more", wanted(), at(59));
        assert_eq!(refused, Err(Refusal::TooManyStreams));
        places.keep("one more", wanted(), at(60)).unwrap();
        assert_eq!(places.0.len(), 1);
    }
}
