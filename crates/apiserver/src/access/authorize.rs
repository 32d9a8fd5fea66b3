//! Whether a user may do what they ask: one pure function of the user, the request and
//! the index of who refers to what.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use http::StatusCode;
use serde_json::json;

use super::node_rules::{self, object_name};
use super::references::References;
use super::rules::GRANTS;
use super::user::{MASTERS, User};
use crate::failure::Failure;
use crate::front::Attributes;

/// What was decided, and why; the reason may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub allowed: bool,
    pub reason: String,
}

/// Decides from the rules and from an index that somebody keeps up to date.
///
/// Behind a plain lock: looking up is a few hashes, and so is a change.
#[derive(Clone, Default)]
pub struct Authorizer {
    references: Arc<RwLock<References>>,
}

impl Authorizer {
    pub fn decide(&self, user: &User, asked: &Attributes) -> Decision {
        let references = self
            .references
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        decide(user, asked, &references)
    }

    /// Nothing, or the answer that says what is not allowed.
    pub fn check(&self, user: &User, asked: &Attributes) -> Result<(), Failure> {
        let decision = self.decide(user, asked);
        if decision.allowed {
            return Ok(());
        }
        Err(forbidden(user, asked, &decision.reason))
    }

    /// Changes the index.
    pub(crate) fn update(&self, change: impl FnOnce(&mut References)) {
        let mut references = self
            .references
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        change(&mut references);
    }
}

impl fmt::Debug for Authorizer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Authorizer").finish_non_exhaustive()
    }
}

pub(crate) fn decide(user: &User, asked: &Attributes, references: &References) -> Decision {
    let allowed = || Decision {
        allowed: true,
        reason: String::new(),
    };
    if user.is_in(MASTERS) {
        return allowed();
    }
    let mut reason = String::new();
    if let Some(node) = user.node() {
        match node_rules::authorize(node, asked, references) {
            Ok(()) => return allowed(),
            Err(cause) => reason = cause,
        }
    }
    let mut grants = GRANTS.iter().filter(|grant| grant.is_for(user));
    let named = with_name(asked);
    if grants.any(|grant| grant.allows(&named)) {
        return allowed();
    }
    Decision {
        allowed: false,
        reason,
    }
}

fn with_name(asked: &Attributes) -> Attributes {
    Attributes {
        name: object_name(asked).to_owned(),
        ..asked.clone()
    }
}

/// In upstream's words.
fn forbidden(user: &User, asked: &Attributes, reason: &str) -> Failure {
    let Attributes {
        verb,
        group,
        resource,
        subresource,
        namespace,
        path,
        ..
    } = asked;
    let user = &user.name;
    let sentence = if resource.is_empty() {
        format!("User {user:?} cannot {verb} path {path:?}")
    } else {
        let what = match subresource.as_str() {
            "" => resource.clone(),
            subresource => format!("{resource}/{subresource}"),
        };
        let place = match namespace.as_str() {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace {namespace:?}"),
        };
        format!("User {user:?} cannot {verb} resource {what:?} in API group {group:?} {place}")
    };
    // What could be taken for markup is not sent.
    let sentence = sentence
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    let sentence = match reason {
        "" => sentence,
        reason => format!("{sentence}: {reason}"),
    };
    let name = object_name(asked);
    let qualified = match group.as_str() {
        "" => resource.clone(),
        group => format!("{resource}.{group}"),
    };
    let message = match (resource.as_str(), name) {
        ("", _) => format!("forbidden: {sentence}"),
        (_, "") => format!("{qualified} is forbidden: {sentence}"),
        (_, name) => format!("{qualified} {name:?} is forbidden: {sentence}"),
    };
    let mut details = json!({});
    for (key, value) in [("name", name), ("group", group), ("kind", resource)] {
        if !value.is_empty() {
            details[key] = value.into();
        }
    }
    Failure::new(StatusCode::FORBIDDEN, "Forbidden", message).with_details(details)
}

#[cfg(test)]
mod tests;
