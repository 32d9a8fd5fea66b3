//! Faults by rule, for tests of clients: answers that are late, wrong, old, or cut off.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;

use crate::failure::Failure;
use crate::front::Attributes;

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    Latency(Duration),
    /// An answer of this code instead of the real one.
    Error(u16),
    /// `409 Conflict`, as if somebody else had written between.
    Conflict,
    /// A watch ends after so many changes.
    DropWatch(usize),
    /// A list is as it was so many revisions ago.
    StaleList(u64),
}

/// Which requests are met by a fault; what is empty is any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meets {
    pub verb: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub meets: Meets,
    pub effect: Effect,
    /// How often, before it is over; `None` means always.
    pub times: Option<usize>,
    /// Of the requests that it could meet.
    pub share: f64,
}

impl Rule {
    /// Meets every request of a verb on a resource.
    pub fn new(verb: &str, resource: &str, effect: Effect) -> Self {
        let meets = Meets {
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            ..Meets::default()
        };
        Self {
            meets,
            effect,
            times: None,
            share: 1.0,
        }
    }

    #[must_use]
    pub fn times(self, times: usize) -> Self {
        Self {
            times: Some(times),
            ..self
        }
    }
}

/// The rules that hold now; all clones are the same. A plain lock: held for a look at
/// a short list.
#[derive(Clone, Default)]
pub struct Faults(Arc<Mutex<Vec<Rule>>>);

/// What one request meets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fault {
    pub delay: Option<Duration>,
    pub failure: Option<Failure>,
    pub drop_after: Option<usize>,
    pub stale: Option<u64>,
}

impl Faults {
    pub fn set(&self, rules: Vec<Rule>) {
        *self.rules() = rules;
    }

    pub fn add(&self, rule: Rule) {
        self.rules().push(rule);
    }

    /// The rules that are not over: a test can tell what nobody met.
    pub fn left(&self) -> Vec<Rule> {
        self.rules().clone()
    }

    pub fn clear(&self) {
        self.rules().clear();
    }

    pub(crate) fn meet(&self, asked: &Attributes) -> Fault {
        let mut fault = Fault::default();
        let mut rules = self.rules();
        for rule in rules.iter_mut() {
            if rule.times == Some(0) || !rule.meets.covers(asked) {
                continue;
            }
            if rule.share < 1.0 && fastrand::f64() >= rule.share {
                continue;
            }
            rule.times = rule.times.map(|times| times - 1);
            rule.effect.add_to(&mut fault, asked);
        }
        rules.retain(|rule| rule.times != Some(0));
        fault
    }

    fn rules(&self) -> std::sync::MutexGuard<'_, Vec<Rule>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("Faults")
            .field(&self.rules().len())
            .finish()
    }
}

impl Meets {
    fn covers(&self, asked: &Attributes) -> bool {
        let fits = |wanted: &str, own: &str| wanted.is_empty() || wanted == own;
        fits(&self.verb, &asked.verb)
            && fits(&self.resource, &asked.resource)
            && fits(&self.subresource, &asked.subresource)
            && fits(&self.namespace, &asked.namespace)
            && fits(&self.name, &asked.name)
    }
}

impl Effect {
    fn add_to(&self, fault: &mut Fault, asked: &Attributes) {
        match self {
            Self::Latency(delay) => fault.delay = Some(*delay),
            Self::Error(code) => fault.failure = Some(injected(*code)),
            Self::Conflict => {
                let message = format!(
                    "Operation cannot be fulfilled on {} \"{}\": the object has been modified; please apply your changes to the latest version and try again",
                    asked.resource, asked.name
                );
                fault.failure = Some(Failure::new(StatusCode::CONFLICT, "Conflict", message));
            }
            Self::DropWatch(changes) => fault.drop_after = Some(*changes),
            Self::StaleList(revisions) => fault.stale = Some(*revisions),
        }
    }
}

fn injected(code: u16) -> Failure {
    let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let reason = match code {
        StatusCode::UNAUTHORIZED => "Unauthorized",
        StatusCode::FORBIDDEN => "Forbidden",
        StatusCode::NOT_FOUND => "NotFound",
        StatusCode::TOO_MANY_REQUESTS => "TooManyRequests",
        StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailable",
        StatusCode::GATEWAY_TIMEOUT => "Timeout",
        _ => "InternalError",
    };
    let mut failure = Failure::new(code, reason, "a fault that was asked for");
    if code == StatusCode::TOO_MANY_REQUESTS {
        failure.retry_after = Some(1);
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(verb: &str, resource: &str) -> Attributes {
        Attributes {
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            ..Attributes::default()
        }
    }

    #[test]
    fn a_rule_meets_what_it_names_as_often_as_it_says() {
        let faults = Faults::default();
        faults.add(Rule::new("update", "leases", Effect::Error(503)).times(2));
        assert_eq!(faults.meet(&asked("get", "leases")), Fault::default());
        assert_eq!(faults.left().len(), 1);
        for _ in 0..2 {
            let met = faults.meet(&asked("update", "leases"));
            assert_eq!(met.failure.unwrap().code, 503);
        }
        assert_eq!(faults.meet(&asked("update", "leases")), Fault::default());
        assert_eq!(faults.left(), []);
    }

    #[test]
    fn several_rules_add_up() {
        let faults = Faults::default();
        let second = Duration::from_secs(1);
        faults.set(vec![
            Rule::new("", "pods", Effect::Latency(second)),
            Rule::new("list", "", Effect::StaleList(3)),
        ]);
        let met = faults.meet(&asked("list", "pods"));
        assert_eq!((met.delay, met.stale), (Some(second), Some(3)));
        faults.clear();
        assert_eq!(faults.meet(&asked("list", "pods")), Fault::default());
    }
}
