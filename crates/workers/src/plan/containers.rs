//! What the containers of a pod need, once its sandbox is right.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use probes::Purpose;
use types::observed::{ContainerState, ObservedContainer, ObservedPod};

use super::resize::{self, Need, Resize};
use super::{
    BackingOff, Before, Given, Kill, Kind, Plan, PodKill, Rest, Start, is_ahead, restarts,
    restarts_on_failure, succeeded,
};
use crate::spec::container::of_ephemeral;
use crate::spec::hash::hash_text;
use crate::spec::labels::HASH;
use crate::spec::spec_of;

/// Before a container that ended is started again: with a sandbox its containers end first,
/// and nothing can be started in one that is about to end.
const SETTLES: Duration = Duration::from_secs(1);

/// What runtimes say of a container in which something was killed for want of memory.
const OUT_OF_MEMORY: &str = "OOMKilled";

/// What there is to do, gathered.
#[derive(Debug, Default)]
struct Actions {
    kill: Vec<Kill>,
    start: Vec<Start>,
    rest: Rest,
    resize: Resize,
    /// Something runs, or waits to be started again.
    keeps: bool,
    end_pod: bool,
}

pub(super) fn next(given: &Given<'_>, spec: &PodSpec) -> Plan {
    let mut actions = Actions::default();
    ephemeral(given, spec, &mut actions);
    let ephemeral = std::mem::take(&mut actions.start);
    let initialized = init(given, spec, &mut actions);
    if initialized && !actions.end_pod {
        let sidecars = std::mem::take(&mut actions.start);
        // Nor does a sidecar that waits keep a pod.
        actions.keeps = false;
        regular(given, spec, &mut actions);
        let actuated = given.memory.actuated.as_deref();
        actions.resize.pod_level = resize::pod_level(spec, actuated);
        if actions.keeps || !actions.start.is_empty() {
            actions.start.splice(0..0, sidecars);
        } else {
            actions.end_pod = true;
        }
    }
    let running = given.observed.is_running();
    if actions.end_pod {
        let grace = given.slot.own_grace();
        return if running {
            Plan::KillPod {
                grace,
                why: PodKill::NothingToRun,
            }
        } else {
            Plan::Rest(Rest::default())
        };
    }
    if !actions.kill.is_empty() {
        return Plan::Kill(actions.kill);
    }
    if !actions.resize.is_empty() && running {
        let retry_at = given.memory.retry_resize_at;
        match retry_at.filter(|until| is_ahead(given.now, *until)) {
            None => return Plan::Resize(actions.resize),
            // What cannot be resized now does not keep the rest from starting.
            Some(until) => actions.rest.wake(until),
        }
    }
    // They wait for nobody: they may be there to find out why nothing else starts.
    actions.start.splice(0..0, ephemeral);
    if actions.start.is_empty() {
        return Plan::Rest(actions.rest);
    }
    Plan::Start(actions.start, actions.rest)
}

/// Those that were added to the pod: each is started once, and keeps nothing.
fn ephemeral(given: &Given<'_>, spec: &PodSpec, actions: &mut Actions) {
    let all = spec.ephemeral_containers.iter().flatten();
    let new = all.filter(|one| given.observed.container(&one.name).is_none());
    for container in new {
        let container = of_ephemeral(container);
        start(given, &container, Kind::Ephemeral, None, actions);
    }
}

/// What the init containers need. Whether they are done with.
fn init(given: &Given<'_>, spec: &PodSpec, actions: &mut Actions) -> bool {
    let all = spec.init_containers.as_deref().unwrap_or_default();
    if all.is_empty() {
        return true;
    }
    let mut done = has_begun(given.observed, spec);
    // Of those that the pod is past, only sidecars are of interest.
    let mut past = done;
    // From the last: the newest that there is says how far the pod has come.
    for (index, container) in all.iter().enumerate().rev() {
        let sidecar = is_sidecar(container);
        let Some(newest) = in_sandbox(given.observed, &container.name) else {
            if past && sidecar {
                start(given, container, Kind::Init, None, actions);
            }
            continue;
        };
        if past && !sidecar {
            continue;
        }
        let passed = init_one(given, spec, (container, newest), actions);
        if actions.end_pod {
            return false;
        }
        if passed && !past {
            match all.get(index + 1) {
                None => done = true,
                Some(next) => start(given, next, Kind::Init, None, actions),
            }
        }
        past = true;
    }
    if !past {
        start(given, &all[0], Kind::Init, None, actions);
    }
    // Gathered from the last, and started from the first.
    actions.start.reverse();
    done
}

/// One init container that there is. Whether the next may start.
fn init_one(
    given: &Given<'_>,
    spec: &PodSpec,
    (container, newest): (&Container, &ObservedContainer),
    actions: &mut Actions,
) -> bool {
    let again = |actions: &mut Actions| {
        start(given, container, Kind::Init, Some(newest), actions);
    };
    let unknown = |actions: &mut Actions| {
        let message = "Init container is in \"unknown\" state, try killing it before restart";
        kill(given, newest, Kind::Init, message.to_owned(), actions);
        again(actions);
    };
    match (newest.state, is_sidecar(container)) {
        // The runtime could not start it, or it is to run as long as the pod.
        (ContainerState::Created, _) | (ContainerState::Exited, true) => again(actions),
        (ContainerState::Running, false) => {
            resized(given, spec, (container, newest), Kind::Init, actions);
        }
        (ContainerState::Running, true) => {
            return sidecar(given, spec, (container, newest), actions);
        }
        (ContainerState::Exited, false) if has_initialized(newest) => return true,
        (ContainerState::Exited, false) if restarts(&given.slot.pod, container, newest) => {
            again(actions);
        }
        (ContainerState::Unknown, true) => unknown(actions),
        (ContainerState::Unknown, false) if retries(container, spec) => unknown(actions),
        (ContainerState::Exited | ContainerState::Unknown, false) => actions.end_pod = true,
    }
    false
}

/// One that runs as long as its pod. Whether the next may start: it has to have started
/// itself, by its probe if it has one.
fn sidecar(
    given: &Given<'_>,
    spec: &PodSpec,
    (container, newest): (&Container, &ObservedContainer),
    actions: &mut Actions,
) -> bool {
    let name = &container.name;
    let ill = given.memory.ill.get(&newest.id).copied();
    let has_started = given.memory.started.contains(&newest.id);
    let passed = container.startup_probe.is_none() || has_started;
    let replace = |message: String, why: Option<Purpose>, actions: &mut Actions| {
        let grace = grace(given, container, why);
        actions.kill.push(Kill {
            grace,
            ..killed(given, newest, Kind::Init, message)
        });
        start(given, container, Kind::Init, Some(newest), actions);
    };
    match ill {
        _ if passed && is_changed(container, newest) => {
            replace(
                format!("Init container {name} definition changed"),
                None,
                actions,
            );
        }
        Some(Purpose::Liveness) if passed => {
            let message = format!("Init container {name} failed liveness probe");
            replace(message, ill, actions);
        }
        Some(Purpose::Startup) if !passed => {
            let message = format!("Init container {name} failed startup probe");
            replace(message, ill, actions);
        }
        _ if passed => resized(given, spec, (container, newest), Kind::Init, actions),
        _ => {}
    }
    passed
}

/// A process of it may have been killed while the first one went on to a good end.
fn has_initialized(newest: &ObservedContainer) -> bool {
    newest.exit_code == 0 && newest.reason != OUT_OF_MEMORY
}

fn regular(given: &Given<'_>, spec: &PodSpec, actions: &mut Actions) {
    for container in &spec.containers {
        let name = &container.name;
        let Some(newest) = given.observed.container(name) else {
            start(given, container, Kind::Regular, None, actions);
            continue;
        };
        match newest.state {
            ContainerState::Running if is_changed(container, newest) => {
                let message = format!("Container {name} definition changed, will be restarted");
                kill(given, newest, Kind::Regular, message, actions);
                actions.keeps = true;
            }
            ContainerState::Running => {
                if let Some(purpose) = given.memory.ill.get(&newest.id) {
                    end_ill(given, spec, (container, newest), *purpose, actions);
                } else {
                    resized(given, spec, (container, newest), Kind::Regular, actions);
                    actions.keeps = true;
                }
            }
            ContainerState::Created => {
                start(given, container, Kind::Regular, Some(newest), actions);
            }
            ContainerState::Unknown => {
                let message = "Container is in \"unknown\" state, try killing it before restart";
                kill(given, newest, Kind::Regular, message.to_owned(), actions);
                actions.keeps = true;
            }
            ContainerState::Exited
                if is_replaced(given, container, newest)
                    || begins_with_sandbox(given, spec, container, newest)
                    || restarts(&given.slot.pod, container, newest) =>
            {
                start(given, container, Kind::Regular, Some(newest), actions);
            }
            ContainerState::Exited => {}
        }
    }
}

/// All begin anew in a sandbox that is new, whatever their policy says of an end; only who
/// has succeeded, and is to run until then, has done so for good. Behind init containers
/// upstream asks the policy.
fn begins_with_sandbox(
    given: &Given<'_>,
    spec: &PodSpec,
    container: &Container,
    newest: &ObservedContainer,
) -> bool {
    let sandbox = given.observed.sandboxes.first();
    let is_older = sandbox.is_some_and(|sandbox| sandbox.id != newest.sandbox_id);
    let has_init = spec
        .init_containers
        .as_ref()
        .is_some_and(|init| !init.is_empty());
    let policy = container
        .restart_policy
        .as_deref()
        .or(spec.restart_policy.as_deref());
    is_older && !has_init && !(policy == Some("OnFailure") && succeeded(newest))
}

/// One that a probe has found ill: whether another follows it says its policy; its rules
/// about exit codes cannot, as there is none yet.
fn end_ill(
    given: &Given<'_>,
    spec: &PodSpec,
    (container, newest): (&Container, &ObservedContainer),
    purpose: Purpose,
    actions: &mut Actions,
) {
    let probe = match purpose {
        Purpose::Startup => "startup",
        Purpose::Readiness => "readiness",
        Purpose::Liveness => "liveness",
    };
    let mut message = format!("Container {} failed {probe} probe", container.name);
    let again = retries(container, spec);
    if again {
        message.push_str(", will be restarted");
        actions.keeps = true;
    }
    actions.kill.push(Kill {
        grace: grace(given, container, Some(purpose)),
        again,
        ..killed(given, newest, Kind::Regular, message)
    });
}

/// What a container is given to end: its probe may say something else than its pod.
fn grace(given: &Given<'_>, container: &Container, ill: Option<Purpose>) -> Duration {
    let probe = ill.and_then(|purpose| purpose.of(container));
    let own = probe.and_then(|probe| probe.termination_grace_period_seconds);
    let own = own.and_then(|seconds| u64::try_from(seconds).ok());
    own.map_or_else(|| given.slot.own_grace(), Duration::from_secs)
}

/// Sees to it that a container that runs has what it is allowed.
fn resized(
    given: &Given<'_>,
    spec: &PodSpec,
    (container, newest): (&Container, &ObservedContainer),
    kind: Kind,
    actions: &mut Actions,
) {
    let actuated = given.memory.actuated.as_deref();
    let need = actions.resize.container(spec, container, newest, actuated);
    if need == Need::Restart {
        let message = format!("Container {} resize requires restart", container.name);
        kill(given, newest, kind, message, actions);
    }
}

/// Starts a container, now or when it has waited long enough.
fn start(
    given: &Given<'_>,
    container: &Container,
    kind: Kind,
    newest: Option<&ObservedContainer>,
    actions: &mut Actions,
) {
    let newest = newest.or_else(|| given.observed.container(&container.name));
    let mut ended = newest
        .filter(|newest| newest.state == ContainerState::Exited)
        .map(finished);
    let replaced = newest.is_some_and(|newest| is_replaced(given, container, newest));
    let wait = ended.filter(|_| !replaced).and_then(|ended| {
        let (key, most) = (backoff_key(container), given.longest_backoff);
        let backoff = &given.memory.backoff;
        backoff.wait(&container.name, &key, ended, given.now, most)
    });
    if let Some((wait, until)) = wait {
        let rest = &mut actions.rest;
        rest.wake(until);
        rest.backing_off.push(BackingOff {
            container: container.name.clone(),
            kind,
            wait,
        });
        actions.keeps = true;
        return;
    }
    let looked_at = ended.filter(|_| !replaced).map(|ended| ended + SETTLES);
    let retry_at = given.memory.retry_container_at.get(&container.name);
    let retry_at = retry_at.into_iter().chain(&looked_at).max();
    if let Some(&until) = retry_at.filter(|until| is_ahead(given.now, **until)) {
        actions.rest.wake(until);
        actions.keeps = true;
        return;
    }
    if replaced {
        ended = newest.and_then(|newest| ended_before(given, newest));
    }
    actions.start.push(Start {
        container: container.name.clone(),
        kind,
        before: newest.map(|newest| Before {
            attempt: newest.attempt,
            ended,
            unstarted: (newest.state == ContainerState::Created).then(|| newest.id.clone()),
        }),
    });
}

fn kill(
    given: &Given<'_>,
    newest: &ObservedContainer,
    kind: Kind,
    message: String,
    actions: &mut Actions,
) {
    let killed = killed(given, newest, kind, message);
    actions.kill.push(killed);
}

/// In its pod's time, and for another to follow.
fn killed(given: &Given<'_>, newest: &ObservedContainer, kind: Kind, message: String) -> Kill {
    Kill {
        id: newest.id.clone(),
        container: newest.name.clone(),
        kind,
        message,
        grace: given.slot.own_grace(),
        again: true,
    }
}

/// Since 1970.
fn finished(container: &ObservedContainer) -> Duration {
    Duration::from_nanos(u64::try_from(container.finished_at).unwrap_or_default())
}

/// A change of these makes another container of it.
pub fn backoff_key(container: &Container) -> String {
    let image = container.image.as_deref().unwrap_or_default();
    format!("{image} {:?}", container.resources)
}

/// It was ended for another to take its place, whatever the pod's policy. Not if that one
/// would come too soon after the one before: then it is as if it had ended by itself.
fn is_replaced(given: &Given<'_>, container: &Container, newest: &ObservedContainer) -> bool {
    let (key, most) = (backoff_key(container), given.longest_backoff);
    let backoff = &given.memory.backoff;
    let wait = ended_before(given, newest).and_then(|ended| {
        // By the time at which it ended: what is so then stays so.
        backoff.wait(&container.name, &key, ended, finished(newest), most)
    });
    given.memory.replaced.contains(&newest.id) && wait.is_none()
}

/// A container that was ended for another to take its place, and whose end is its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) container: String,
    pub(crate) id: String,
}

/// Those that [are not replaced](is_replaced) after all.
pub(crate) fn left_without_next(given: &Given<'_>) -> Vec<Left> {
    if given.memory.replaced.is_empty() {
        return Vec::new();
    }
    let spec = spec_of(&given.slot.pod);
    let all = spec
        .containers
        .iter()
        .chain(spec.init_containers.iter().flatten());
    let left = all.filter_map(|container| {
        let newest = given.observed.container(&container.name)?;
        let left = newest.state == ContainerState::Exited
            && given.memory.replaced.contains(&newest.id)
            && !is_replaced(given, container, newest);
        left.then(|| Left {
            container: newest.name.clone(),
            id: newest.id.clone(),
        })
    });
    left.collect()
}

/// When the container before this one ended, if the runtime still has it.
fn ended_before(given: &Given<'_>, newest: &ObservedContainer) -> Option<Duration> {
    let mut others = given.observed.containers.iter();
    let before = others.find(|one| {
        one.name == newest.name && one.id != newest.id && one.state == ContainerState::Exited
    });
    before.map(finished)
}

/// Started from another image than the one that the pod names now.
fn is_changed(container: &Container, newest: &ObservedContainer) -> bool {
    let hash = newest.annotations.get(HASH);
    hash.is_some_and(|hash| *hash != hash_text(container))
}

/// Whether a container of which nobody knows how it ended is tried again: its own policy
/// counts, its rules about exit codes do not.
fn retries(container: &Container, spec: &PodSpec) -> bool {
    let own = container.restart_policy.as_deref();
    own.map_or_else(|| restarts_on_failure(spec), |policy| policy != "Never")
}

pub(crate) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// The newest container of a name in the sandbox of now: those of former ones say
/// nothing of how far the pod has come.
fn in_sandbox<'a>(observed: &'a ObservedPod, name: &str) -> Option<&'a ObservedContainer> {
    let sandbox = observed.sandboxes.first()?;
    let mut containers = observed.containers.iter();
    containers.find(|container| container.name == name && container.sandbox_id == sandbox.id)
}

/// A regular container was there, in the sandbox of now.
fn has_begun(observed: &ObservedPod, spec: &PodSpec) -> bool {
    spec.containers.iter().any(|container| {
        let newest = in_sandbox(observed, &container.name);
        newest.is_some_and(|newest| match newest.state {
            ContainerState::Created | ContainerState::Running => true,
            ContainerState::Exited => newest.started_at != 0,
            ContainerState::Unknown => false,
        })
    })
}
