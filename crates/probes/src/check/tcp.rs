//! A connection: that there is somebody is all that is asked.

use std::io;
use std::time::Duration;

use k8s_openapi::api::core::v1::TCPSocketAction;
use seams::net::{Destination, DialError};

use super::{Answer, Means, Outcome, Subject, unknown};
use crate::web::{authority, dial_words, port};

impl Means {
    pub(super) async fn tcp(
        &self,
        action: &TCPSocketAction,
        subject: Subject<'_>,
        limit: Duration,
    ) -> Answer {
        let port = match port(&action.port, subject.container) {
            Ok(port) => port,
            Err(error) => return unknown(&error).into(),
        };
        let host = action.host.as_deref().filter(|host| !host.is_empty());
        let host = host.unwrap_or(subject.ip);
        let to = Destination { host, port };
        let dialled = seams::timeout(&*self.clock, limit, self.net.dial(to)).await;
        match dialled {
            Ok(Ok(_)) => Outcome::Success.into(),
            Ok(Err(error)) if is_timeout(&error) => timed_out(host, port),
            Ok(Err(error)) => Outcome::Failure(dial_words(&error)).into(),
            Err(_) => timed_out(host, port),
        }
    }
}

/// The kernel has given up before the probe did.
fn is_timeout(error: &DialError) -> bool {
    match error {
        DialError::Connect { cause, .. } => cause.kind() == io::ErrorKind::TimedOut,
        DialError::Lookup { .. } => false,
    }
}

fn timed_out(host: &str, port: u16) -> Answer {
    Answer::TimedOut(format!("dial tcp {}: i/o timeout", authority(host, port)))
}
