//! Whether a pod's sandbox is the right one.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::PodSpec;
use types::observed::{ContainerState, ObservedPod};

use super::{Given, restarts_on_failure, succeeded};
use crate::spec::uses_host_network;

/// What a pod needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The newest one is right.
    Keep,
    Another {
        attempt: u32,
    },
    /// It has none that is right, and nothing to run in another.
    None,
}

pub(super) fn wanted(given: &Given<'_>, spec: &PodSpec) -> Wanted {
    let Given {
        observed, memory, ..
    } = given;
    let Some(attempt) = another(spec, observed) else {
        return Wanted::Keep;
    };
    // Whatever its containers have done: they do it all again.
    if given.restarting_all {
        return Wanted::Another { attempt };
    }
    let has_run = !observed.containers.is_empty();
    if !restarts_on_failure(spec) && attempt != 0 && has_run {
        return Wanted::None;
    }
    if is_done(spec, observed, &memory.replaced) {
        return Wanted::None;
    }
    Wanted::Another { attempt }
}

/// The attempt that the next sandbox is; `None` while the newest one is right.
fn another(spec: &PodSpec, observed: &ObservedPod) -> Option<u32> {
    let Some(newest) = observed.sandboxes.first() else {
        return Some(0);
    };
    let ready = observed.sandboxes.iter().filter(|sandbox| sandbox.ready);
    let on_host = uses_host_network(spec);
    let wrong = ready.count() > 1
        || !newest.ready
        || newest.host_network != on_host
        || (!on_host && newest.ips.is_empty());
    wrong.then_some(newest.attempt + 1)
}

/// Every container has done what it was to do, once. One that was ended for the sake of its
/// sandbox has not, however it ended.
fn is_done(spec: &PodSpec, observed: &ObservedPod, replaced: &BTreeSet<String>) -> bool {
    let pods = spec.restart_policy.as_deref();
    let mut containers = spec.containers.iter();
    let all_succeeded = containers.all(|container| {
        let policy = container.restart_policy.as_deref().or(pods);
        let newest = observed.container(&container.name);
        let done = |newest| succeeded(newest) && !replaced.contains(&newest.id);
        policy == Some("OnFailure") && newest.is_some_and(done)
    });
    let mut regular = spec.containers.iter();
    let initialized = regular.any(|container| {
        let newest = observed.container(&container.name);
        newest.is_some_and(|newest| newest.state != ContainerState::Unknown)
    });
    all_succeeded && initialized
}
