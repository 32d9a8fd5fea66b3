//! Which dead things go. Pure: what is listed and what is known of the pods go in,
//! ids and names come out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use seams::cri::{Container, ContainerState, PodSandbox, PodSandboxState};
use types::PodUid;

use super::labels::{self, CONTAINER_NAME};
use super::{Limits, Wanted, logs};

/// The dead of one container of one pod, newest first: they stand in for each other.
type Units<'a> = BTreeMap<(PodUid, &'a str), Vec<&'a Container>>;

/// The containers that go, oldest first.
pub fn containers(
    listed: &[Container],
    wanted: &Wanted,
    limits: &Limits,
    now: SystemTime,
) -> Vec<String> {
    let mut units = dead(listed, wanted, limits.least_age, now);
    let mut doomed = Vec::new();
    units.retain(|(uid, _), unit| {
        let is_gone = wanted.is_gone(uid);
        if is_gone {
            doomed.append(unit);
        }
        !is_gone
    });
    if let Some(most) = limits.per_container {
        shorten(&mut units, most, &mut doomed);
    }
    if let Some(most) = limits.in_all {
        shorten_all(units, most, &mut doomed);
    }
    doomed.sort_by_key(|container| (container.created_at, &container.id));
    let ids = doomed.into_iter().map(|container| container.id.clone());
    ids.collect()
}

/// What does not run, is old enough and is in nobody's hands. One that was made and
/// not yet started counts as dead, as it does upstream: it is the newest of its unit,
/// and while it is on its way its pod is busy.
fn dead<'a>(
    listed: &'a [Container],
    wanted: &Wanted,
    least_age: Duration,
    now: SystemTime,
) -> Units<'a> {
    let newest = nanoseconds(now).saturating_sub(least_age.as_nanos());
    let mut units = Units::new();
    for container in listed {
        let name = container.labels.get(CONTAINER_NAME);
        let (Some(uid), Some(name)) = (labels::owner(&container.labels), name) else {
            continue;
        };
        let is_young = u128::try_from(container.created_at).is_ok_and(|made| made > newest);
        let runs = container.state() == ContainerState::ContainerRunning;
        if !runs && !is_young && !wanted.busy.contains(&uid) {
            units.entry((uid, name)).or_default().push(container);
        }
    }
    for unit in units.values_mut() {
        newest_first(unit);
    }
    units
}

fn nanoseconds(time: SystemTime) -> u128 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos()
}

fn newest_first(containers: &mut [&Container]) {
    containers.sort_by(|one, other| (other.created_at, &other.id).cmp(&(one.created_at, &one.id)));
}

/// Leaves at most so many in each unit.
fn shorten<'a>(units: &mut Units<'a>, most: usize, doomed: &mut Vec<&'a Container>) {
    for unit in units.values_mut() {
        doomed.extend(unit.drain(most.min(unit.len())..));
    }
}

/// Leaves at most so many in all: first each unit gets an equal share, and at least
/// one; if that is still too much, the oldest go, whoever's they are.
fn shorten_all<'a>(mut units: Units<'a>, most: usize, doomed: &mut Vec<&'a Container>) {
    if units.values().map(Vec::len).sum::<usize>() <= most {
        return;
    }
    let share = (most / units.len()).max(1);
    shorten(&mut units, share, doomed);
    let mut rest: Vec<&Container> = units.into_values().flatten().collect();
    newest_first(&mut rest);
    doomed.extend(rest.drain(most.min(rest.len())..));
}

/// The sandboxes that go, oldest first: those that are not ready and have no
/// containers. The newest of a pod that is not gone stays, whatever it is like.
pub fn sandboxes(listed: &[PodSandbox], containers: &[Container], wanted: &Wanted) -> Vec<String> {
    let used: BTreeSet<&str> = containers
        .iter()
        .map(|container| container.pod_sandbox_id.as_str())
        .collect();
    let mut oldest_first: Vec<&PodSandbox> = listed.iter().collect();
    oldest_first.sort_by_key(|sandbox| (sandbox.created_at, &sandbox.id));
    // A later one of the same pod takes the place of an earlier one.
    let owned = |sandbox: &&PodSandbox| Some((labels::owner(&sandbox.labels)?, sandbox.id.clone()));
    let newest: BTreeMap<PodUid, String> = oldest_first.iter().filter_map(owned).collect();
    let goes = |sandbox: &&PodSandbox| {
        let Some(uid) = labels::owner(&sandbox.labels) else {
            return false;
        };
        let is_ready = sandbox.state() == PodSandboxState::SandboxReady;
        let is_newest = newest.get(&uid) == Some(&sandbox.id);
        let stays = is_ready || used.contains(sandbox.id.as_str()) || wanted.busy.contains(&uid);
        !stays && (!is_newest || wanted.is_gone(&uid))
    };
    let doomed = oldest_first.into_iter().filter(goes);
    doomed.map(|sandbox| sandbox.id.clone()).collect()
}

/// Of the names in `podLogsDir`, the directories of pods that are gone. What is not
/// named like a pod's directory was put there by somebody else, and stays.
pub fn log_directories(names: &[String], wanted: &Wanted) -> Vec<String> {
    let is_gone = |name: &&String| logs::owner(name).is_some_and(|uid| wanted.is_gone(&uid));
    names.iter().filter(is_gone).cloned().collect()
}

#[cfg(test)]
mod tests;
