//! What goes when the end of one container starts all of its pod again.

use k8s_openapi::api::core::v1::{Container, PodSpec};
use types::observed::{ContainerState, ObservedContainer, ObservedPod};

use super::{Kind, Plan, Reset};

/// Everything that the runtime has of the pod's containers, but for those that were added
/// to look into it. Those whose end is the reason go last: if the rest does not work out,
/// the reason is still there.
pub(super) fn all(spec: &PodSpec, observed: &ObservedPod) -> Plan {
    let init = spec.init_containers.as_deref().unwrap_or_default();
    let lists = [
        (Kind::Regular, spec.containers.as_slice()),
        (Kind::Init, init),
    ];
    let known = lists.into_iter().flat_map(|(kind, list)| {
        let pairs = list.iter().flat_map(|container| of(container, observed));
        pairs.map(move |(seen, is_reason)| (reset(seen, kind), is_reason))
    });
    let (reasons, others): (Vec<_>, Vec<_>) = known.partition(|(_, is_reason)| *is_reason);
    let ordered = others.into_iter().chain(reasons);
    Plan::Reset(ordered.map(|(reset, _)| reset).collect())
}

/// All that there is of one container, and whether its end is the reason.
fn of<'a>(
    container: &'a Container,
    observed: &'a ObservedPod,
) -> impl Iterator<Item = (&'a ObservedContainer, bool)> {
    let seen = observed.containers.iter();
    let seen = seen.filter(|one| one.name == container.name);
    seen.map(|one| {
        let exited = one.state == ContainerState::Exited;
        (
            one,
            exited && status::restarts_all(container, one.exit_code),
        )
    })
}

fn reset(seen: &ObservedContainer, kind: Kind) -> Reset {
    Reset {
        id: seen.id.clone(),
        container: seen.name.clone(),
        kind,
        kill: seen.state != ContainerState::Exited,
    }
}
