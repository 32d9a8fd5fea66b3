//! Of a container that starts again and again, the dead ones before the last are taken away
//! with each start: one that crashes often does not leave a heap of them, and of their logs, for
//! the pass of each minute.

use resources::garbage;
use tracing::debug;
use types::observed::{ContainerState, ObservedPod};

use crate::plan::Kind;
use crate::slot::Slot;
use crate::task::Worker;

impl Worker {
    /// Of the containers that were just started. What cannot be removed is left to the pass of
    /// each minute.
    pub(super) async fn remove_outlived(
        &self,
        slot: &Slot,
        observed: &ObservedPod,
        started: &[(Kind, String)],
    ) {
        let on = &self.on;
        for (kind, name) in started {
            for id in outlived(observed, name, kept(*kind, on.settings.dead_kept)) {
                let links = &on.settings.log_links;
                let removed = tokio::select! {
                    removed = garbage::remove_dead(&on.runtime, &on.storage, links, id) => removed,
                    () = self.cut(slot) => return,
                };
                if let Err(error) = removed {
                    debug!(pod = %self.pod, container = name, id, %error, "a dead container stays for now");
                }
            }
        }
    }
}

/// How many dead ones of a container stay, for those who ask how it ended: the newest at least.
fn kept(kind: Kind, limit: Option<usize>) -> usize {
    match kind {
        Kind::Init => 1,
        Kind::Regular | Kind::Ephemeral => limit.unwrap_or(1).max(1),
    }
}

fn outlived<'a>(
    observed: &'a ObservedPod,
    name: &str,
    kept: usize,
) -> impl Iterator<Item = &'a str> {
    let dead = observed.containers.iter().filter(move |container| {
        container.name == name && container.state == ContainerState::Exited
    });
    dead.skip(kept).map(|container| container.id.as_str())
}

#[cfg(test)]
mod tests {
    use types::observed::ObservedContainer;

    use super::*;

    #[test]
    fn the_newest_of_the_dead_stay_and_whoever_is_not_dead() {
        use ContainerState::{Created, Exited, Running, Unknown};
        let all = [
            ("5", "c", Running),
            ("4", "c", Exited),
            ("3", "other", Exited),
            ("2", "c", Exited),
            ("1", "c", Unknown),
            ("0", "c", Created),
            ("-1", "c", Exited),
        ];
        let containers = all.map(|(id, name, state)| ObservedContainer {
            id: id.to_owned(),
            name: name.to_owned(),
            state,
            ..ObservedContainer::default()
        });
        let observed = ObservedPod {
            containers: containers.to_vec(),
            ..ObservedPod::default()
        };
        for (name, kept, gone) in [
            ("c", 1, vec!["2", "-1"]),
            ("c", 2, vec!["-1"]),
            ("c", 3, vec![]),
            ("other", 1, vec![]),
        ] {
            let found: Vec<&str> = outlived(&observed, name, kept).collect();
            assert_eq!(found, gone, "{name} {kept}");
        }
    }

    #[test]
    fn one_stays_whatever_the_limit_and_of_an_init_container_no_more() {
        for (kind, limit, expected) in [
            (Kind::Regular, Some(1), 1),
            (Kind::Regular, Some(0), 1),
            (Kind::Regular, Some(3), 3),
            (Kind::Regular, None, 1),
            (Kind::Init, Some(3), 1),
        ] {
            assert_eq!(kept(kind, limit), expected, "{kind:?} {limit:?}");
        }
    }
}
