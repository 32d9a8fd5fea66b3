//! A GET: any answer below 400 is well.

use std::time::Duration;

use k8s_openapi::api::core::v1::HTTPGetAction;

use super::{Answer, Means, Outcome, Subject, unknown};
use crate::web::{Asker, Get, GetError, Heard, NoAnswer};

impl Means {
    pub(super) async fn get(
        &self,
        action: &HTTPGetAction,
        subject: Subject<'_>,
        limit: Duration,
    ) -> Answer {
        let get = Get::of(action, subject.container, subject.ip, Asker::Probe);
        let get = match get {
            Ok(get) => get,
            // Upstream finds it out when it sends it.
            Err(error @ GetError::Unsendable { .. }) => {
                return Outcome::Failure(error.to_string()).into();
            }
            Err(error) => return unknown(&error).into(),
        };
        match self.web.get_within(&get, &*self.clock, limit).await {
            Ok(heard) => outcome(&heard).into(),
            Err(error) if error.is_timeout() => Answer::TimedOut(error.to_string()),
            // Upstream knows that it failed, and yet counts it as nothing.
            Err(NoAnswer::Half(half)) => Answer::Is(Outcome::Errored {
                state: "failure",
                cause: half.to_string(),
            }),
            Err(error) => Outcome::Failure(error.to_string()).into(),
        }
    }
}

fn outcome(heard: &Heard) -> Outcome {
    match heard.status.as_u16() {
        200..300 => Outcome::Success,
        // It points where nobody goes: to another host.
        300..400 => {
            let body = String::from_utf8_lossy(&heard.body);
            Outcome::Warning(format!("Probe terminated redirects, Response body: {body}"))
        }
        // Not what it said: there may be secrets in it.
        code => Outcome::Failure(format!("HTTP probe failed with statuscode: {code}")),
    }
}
