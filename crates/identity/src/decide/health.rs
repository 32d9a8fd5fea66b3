//! Whether the API server lives, as seen from certificate requests, and what to
//! do when there has been no valid certificate for too long.

use std::time::Duration;

/// How long the node goes on without a valid client certificate.
pub const PATIENCE: Duration = Duration::from_secs(5 * 60);

/// How an attempt to get a certificate failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The request's creation was answered with an HTTP error. `from_api` tells
    /// whether the body was a Kubernetes `Status`, or something else's (a proxy's).
    Refused { status: u16, from_api: bool },
    /// The request's creation was not answered: refused, timed out, cut off.
    Unanswered,
    /// The request was created and then denied, failed, deleted or not answered
    /// in time; or it was never sent. That tells nothing new of the server.
    NotIssued,
}

/// Whether the server is to be taken as alive after this; `None` if the attempt
/// tells nothing.
pub fn server_healthy(attempt: Attempt) -> Option<bool> {
    match attempt {
        // A TLS-terminating proxy may say 401 in the server's place.
        Attempt::Refused { status: 401, .. } => Some(true),
        Attempt::Refused { status, from_api } => Some(from_api && matches!(status, 403 | 404)),
        Attempt::Unanswered => Some(false),
        Attempt::NotIssued => None,
    }
}

/// What to do without a valid client certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Go on asking: it is too early, or the server is away.
    Wait,
    /// Ask anew with the bootstrap credentials, in the running process.
    Rebootstrap,
    /// Exit with code 1, so that whoever restarts the node can lay down new
    /// credentials.
    Exit,
}

/// What to do after `without` without a valid certificate. `rebootstrap_failing`
/// is for how long bootstrap credentials have been tried in vain; `None` if there
/// is no bootstrap kubeconfig. Upstream knows no second way and always exits.
pub fn remedy(without: Duration, healthy: bool, rebootstrap_failing: Option<Duration>) -> Remedy {
    if without <= PATIENCE || !healthy {
        return match rebootstrap_failing {
            Some(_) => Remedy::Rebootstrap,
            None => Remedy::Wait,
        };
    }
    match rebootstrap_failing {
        Some(failing) if failing <= PATIENCE => Remedy::Rebootstrap,
        _ => Remedy::Exit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_alive_if_it_answers_as_an_api_server_would() {
        let refused = |status, from_api| Attempt::Refused { status, from_api };
        let cases = [
            (refused(401, true), Some(true)),
            (refused(401, false), Some(true)),
            (refused(403, true), Some(true)),
            (refused(403, false), Some(false)),
            (refused(404, true), Some(true)),
            (refused(404, false), Some(false)),
            (refused(409, true), Some(false)),
            (refused(422, true), Some(false)),
            (refused(429, true), Some(false)),
            (refused(500, true), Some(false)),
            (refused(503, false), Some(false)),
            (Attempt::Unanswered, Some(false)),
            (Attempt::NotIssued, None),
        ];
        for (attempt, healthy) in cases {
            assert_eq!(server_healthy(attempt), healthy, "{attempt:?}");
        }
    }

    #[test]
    fn the_node_exits_only_when_a_living_server_gives_it_nothing_for_five_minutes() {
        let seconds = Duration::from_secs;
        let cases = [
            (299, true, None, Remedy::Wait),
            (300, true, None, Remedy::Wait),
            (301, true, None, Remedy::Exit),
            (9_999, false, None, Remedy::Wait),
            (10, true, Some(0), Remedy::Rebootstrap),
            (301, true, Some(300), Remedy::Rebootstrap),
            (301, true, Some(301), Remedy::Exit),
            (9_999, false, Some(9_999), Remedy::Rebootstrap),
        ];
        for (without, healthy, failing, expected) in cases {
            let found = remedy(seconds(without), healthy, failing.map(seconds));
            assert_eq!(found, expected, "{without} {healthy} {failing:?}");
        }
    }
}
