//! What should happen next with a pod: a pure function of what is wanted, what the
//! runtime has, what the worker remembers, and the time.
//!
//! A plan is one step. After it was carried out, the pod is looked at, and planned
//! anew: nothing is decided on what is thought to have happened.

mod containers;
mod reset;
pub mod resize;
mod sandbox;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use probes::Purpose;
use types::PodResources;
use types::observed::{ContainerState, ObservedContainer, ObservedPod};

use crate::backoff::Backoff;
use crate::slot::Slot;
use crate::spec::spec_of;

pub use containers::backoff_key;
pub(crate) use containers::{Left, is_sidecar, left_without_next};
pub use resize::Resize;

/// What a worker knows of its pod, and nobody could see in the runtime.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Memory {
    pub backoff: Backoff,
    /// What a container needs is there: its cgroup, its directories, its volumes.
    pub prepared: bool,
    /// It is over: all its containers are, or its time is.
    pub over: bool,
    /// Its volumes and its cgroup are gone, since it ended.
    pub cleaned: bool,
    /// Nothing of it is in the runtime, nor on the disk.
    pub removed: bool,
    /// After a failure of what is for the whole pod, when to try again; since 1970.
    pub retry_at: Option<Duration>,
    /// The same for containers that could not be started.
    pub retry_container_at: BTreeMap<String, Duration>,
    /// Containers that were ended so that another takes their place, by id.
    pub replaced: BTreeSet<String>,
    /// What its containers were given, by this agent or an earlier one.
    pub actuated: Option<Arc<PodResources>>,
    /// After a failure to give them something else.
    pub retry_resize_at: Option<Duration>,
    /// Containers, by id, that have started: so their status says.
    pub started: BTreeSet<String>,
    /// Containers, by id, that are to end: by which probe they were found ill.
    pub ill: BTreeMap<String, Purpose>,
}

/// What a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    pub slot: &'a Slot,
    pub observed: &'a ObservedPod,
    pub memory: &'a Memory,
    /// The end of one of its containers starts all of them again: so its status says.
    pub restarting_all: bool,
    /// Since 1970.
    pub now: Duration,
    /// `crashLoopBackOff.maxContainerRestartPeriod`.
    pub longest_backoff: Duration,
}

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// All is as it should be, or has to wait.
    Rest(Rest),
    /// Get what containers need.
    Prepare,
    /// Make a sandbox.
    Sandbox { attempt: u32 },
    /// Start these, one after the other; what has to wait is told of.
    Start(Vec<Start>, Rest),
    /// End these.
    Kill(Vec<Kill>),
    /// End these and remove them, one after the other: all begins anew, in the sandbox
    /// that there is.
    Reset(Vec<Reset>),
    /// Give containers that run what they are allowed.
    Resize(Resize),
    /// End everything of it.
    KillPod { grace: Duration, why: PodKill },
    /// It runs no more: take away what it had.
    Clean,
    /// It was deleted: remove what is left of it from the runtime and the disk.
    Remove,
    /// There is nothing left to do.
    Finish,
}

/// Nothing to do now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rest {
    /// When to look again, whatever happens; since 1970.
    pub until: Option<Duration>,
    /// Containers that wait before they are started again.
    pub backing_off: Vec<BackingOff>,
}

impl Rest {
    /// Not later than that.
    pub fn wake(&mut self, until: Duration) {
        self.until = Some(self.until.map_or(until, |before| before.min(until)));
    }
}

impl Plan {
    /// A container of that name waits for its time.
    pub(crate) fn is_backing_off(&self, container: &str) -> bool {
        let (Self::Rest(rest) | Self::Start(_, rest)) = self else {
            return false;
        };
        let mut waiting = rest.backing_off.iter();
        waiting.any(|one| one.container == container)
    }
}

/// A container that crashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackingOff {
    pub container: String,
    pub kind: Kind,
    pub wait: Duration,
}

/// Which list of the pod a container is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Init,
    Regular,
    /// Added to a pod that runs, to look into it.
    Ephemeral,
}

impl Kind {
    /// Which list has a container of that name. What none has counts as a regular one.
    pub fn of(spec: &PodSpec, name: &str) -> Self {
        let mut init = spec.init_containers.iter().flatten();
        let mut ephemeral = spec.ephemeral_containers.iter().flatten();
        if init.any(|one| one.name == name) {
            Self::Init
        } else if ephemeral.any(|one| one.name == name) {
            Self::Ephemeral
        } else {
            Self::Regular
        }
    }
}

/// A container to be started.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    pub container: String,
    pub kind: Kind,
    /// The one before it, if the runtime still has it.
    pub before: Option<Before>,
}

/// A container that another follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Before {
    pub attempt: u32,
    /// Since 1970, if it has ended by itself; if it was ended for another to take its
    /// place, the one before it.
    pub ended: Option<Duration>,
    /// Its id, if it was made and not started. It may still come to run: an earlier
    /// agent may have asked for that. So it goes before another comes.
    pub unstarted: Option<String>,
}

/// A container to be ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kill {
    pub id: String,
    pub container: String,
    pub kind: Kind,
    /// What users are told.
    pub message: String,
    pub grace: Duration,
    /// Another takes its place at once, whatever the pod's policy.
    pub again: bool,
}

/// A container that goes, for the pod to begin anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reset {
    pub id: String,
    pub container: String,
    pub kind: Kind,
    /// It has to be ended first.
    pub kill: bool,
}

/// Why all of a pod is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodKill {
    /// It is to end, or it is over.
    Ending,
    /// Its sandbox is no use any more; another will be made.
    SandboxChanged,
    /// Nothing of it is to run.
    NothingToRun,
    /// It runs, and not in the cgroup that this node has for it.
    OutsideItsCgroup,
}

/// What should happen next.
pub fn plan(given: &Given<'_>) -> Plan {
    let Given { slot, memory, .. } = given;
    let ending = slot.ending.is_some() || slot.rejected.is_some() || memory.over;
    let next = if ending { end(given) } else { go_on(given) };
    if let Some(until) = memory.retry_at.filter(|until| is_ahead(given.now, *until))
        && !matches!(next, Plan::Rest(_) | Plan::Finish)
    {
        return Plan::Rest(Rest {
            until: Some(until),
            ..Rest::default()
        });
    }
    next
}

/// Whether a time that was set for a retry is still to come. One that is further away
/// than any pause was set by a clock that has been put back since.
fn is_ahead(now: Duration, until: Duration) -> bool {
    const LONGEST_PAUSE: Duration = Duration::from_secs(600);
    let left = until.saturating_sub(now);
    !left.is_zero() && left <= LONGEST_PAUSE
}

/// A pod that is to end.
fn end(given: &Given<'_>) -> Plan {
    let Given {
        slot,
        observed,
        memory,
        ..
    } = given;
    if observed.is_running() {
        let grace = slot
            .ending
            .map_or_else(|| slot.own_grace(), |end| end.grace);
        return Plan::KillPod {
            grace,
            why: PodKill::Ending,
        };
    }
    if !memory.cleaned {
        return Plan::Clean;
    }
    let for_good = slot.ending.is_some_and(|ending| ending.for_good);
    if for_good && !memory.removed {
        return Plan::Remove;
    }
    Plan::Finish
}

/// A pod that is to run.
fn go_on(given: &Given<'_>) -> Plan {
    let Given { slot, observed, .. } = given;
    let spec = spec_of(&slot.pod);
    let wanted = sandbox::wanted(given, &spec);
    let next = match wanted {
        sandbox::Wanted::Keep if given.restarting_all => reset::all(&spec, observed),
        sandbox::Wanted::Keep => containers::next(given, &spec),
        _ if observed.is_running() => Plan::KillPod {
            grace: slot.own_grace(),
            why: match wanted {
                sandbox::Wanted::Another { .. } => PodKill::SandboxChanged,
                _ => PodKill::NothingToRun,
            },
        },
        sandbox::Wanted::Another { attempt } => Plan::Sandbox { attempt },
        sandbox::Wanted::None => Plan::Rest(Rest::default()),
    };
    let needs = match next {
        // Nor is anybody ended for another to come while that one could not.
        Plan::Sandbox { .. } | Plan::Start(..) | Plan::Kill(_) | Plan::Reset(_) => true,
        Plan::KillPod { why, .. } => why == PodKill::SandboxChanged,
        // An earlier agent started it; its volumes are to be kept fresh.
        Plan::Rest(_) => observed.is_running(),
        _ => false,
    };
    if needs && !given.memory.prepared {
        return Plan::Prepare;
    }
    next
}

/// Whether a pod starts anything again that failed.
fn restarts_on_failure(spec: &PodSpec) -> bool {
    spec.restart_policy.as_deref() != Some("Never")
}

/// Whether a container that ended is to be started again.
fn restarts(pod: &Pod, container: &Container, observed: &ObservedContainer) -> bool {
    // As the status has it: else one of the two would wait for the other.
    status::restarts(container, &spec_of(pod), observed.exit_code)
}

fn succeeded(observed: &ObservedContainer) -> bool {
    observed.state == ContainerState::Exited && observed.exit_code == 0
}
