//! What happens to a node in the chaos, from a seed: when its agent is killed,
//! and which pods come and go meanwhile. Equal seeds, equal scripts.

use std::time::Duration;

use fastrand::Rng;

/// Pods that come and go one by one, and Deployments with so many each.
const BARE: usize = 11;
const DEPLOYMENTS: usize = 3;
const REPLICAS: usize = 3;
/// Pods at most that the script has at one time.
pub(super) const PODS: usize = BARE + DEPLOYMENTS * REPLICAS;

/// Seconds from one kill to the next.
pub(super) const BETWEEN_KILLS: (f64, f64) = (0.1, 8.0);
/// Where it is about what is done in a moment: mounts, updates, unmounts.
pub(super) const BETWEEN_QUICK_KILLS: (f64, f64) = (0.1, 4.0);
/// The most of them that the agent is away.
const AWAY: f64 = 0.25;
/// Seconds between two turns.
const BETWEEN_TURNS: (f64, f64) = (0.2, 2.0);

/// One life of the agent, and the pause after its death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life {
    pub(super) lasts: Duration,
    pub(super) away: Duration,
}

/// When the agent is killed.
pub(super) fn lives(seed: u64, kills: usize, between: (f64, f64)) -> Vec<Life> {
    let mut rng = Rng::with_seed(seed);
    let mut life = || {
        let between = seconds(&mut rng, between);
        let away = between.mul_f64(AWAY * rng.f64());
        Life {
            lasts: between.saturating_sub(away),
            away,
        }
    };
    (0..kills).map(|_| life()).collect()
}

/// Pods that come and go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group {
    slot: usize,
    /// No name comes twice: what is left of the one before would be taken for it.
    generation: u32,
}

impl Group {
    pub(super) fn name(self) -> String {
        let kind = if self.is_bare() { "bare" } else { "deployed" };
        format!("{kind}-{}-{}", self.slot, self.generation)
    }

    pub(super) fn is_bare(self) -> bool {
        self.slot < BARE
    }

    pub(super) fn pods(self) -> usize {
        if self.is_bare() { 1 } else { REPLICAS }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Create,
    Delete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) after: Duration,
    pub(super) act: Act,
    pub(super) group: Group,
}

/// What comes and goes, without end.
#[derive(Debug)]
pub(super) struct Turns {
    rng: Rng,
    slots: [Slot; BARE + DEPLOYMENTS],
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    taken: bool,
    generation: u32,
}

impl Turns {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            // Not in step with the kills.
            rng: Rng::with_seed(seed.wrapping_add(1)),
            slots: Default::default(),
        }
    }

    /// What is there by now.
    pub(super) fn there(&self) -> impl Iterator<Item = Group> {
        let taken = self.slots.iter().enumerate().filter(|(_, it)| it.taken);
        taken.map(|(slot, it)| Group {
            slot,
            generation: it.generation,
        })
    }
}

impl Iterator for Turns {
    type Item = Turn;

    fn next(&mut self) -> Option<Turn> {
        let after = seconds(&mut self.rng, BETWEEN_TURNS);
        let slot = self.rng.usize(0..self.slots.len());
        let it = self.slots.get_mut(slot)?;
        it.taken = !it.taken;
        let act = if it.taken {
            it.generation += 1;
            Act::Create
        } else {
            Act::Delete
        };
        let group = Group {
            slot,
            generation: it.generation,
        };
        Some(Turn { after, act, group })
    }
}

fn seconds(rng: &mut Rng, (least, most): (f64, f64)) -> Duration {
    Duration::from_secs_f64(least + (most - least) * rng.f64())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn equal_seeds_make_equal_scripts_and_others_make_others() {
        let script = |seed| {
            (
                lives(seed, 20, BETWEEN_KILLS),
                Turns::new(seed).take(50).collect::<Vec<_>>(),
            )
        };
        assert_eq!(script(7), script(7));
        assert_ne!(script(7).0, script(8).0);
        assert_ne!(script(7).1, script(8).1);
    }

    #[test]
    fn kills_are_a_tenth_of_a_second_to_eight_seconds_apart() {
        for life in lives(3, 1000, BETWEEN_KILLS) {
            let between = life.lasts + life.away;
            assert!(between >= Duration::from_millis(99), "{life:?}");
            assert!(between <= Duration::from_secs(8), "{life:?}");
            assert!(life.away <= Duration::from_secs(2), "{life:?}");
        }
    }

    #[test]
    fn a_group_is_deleted_only_after_it_was_created_and_no_name_comes_twice() {
        let mut there = BTreeSet::new();
        let mut names = BTreeSet::new();
        let mut turns = Turns::new(5);
        for turn in turns.by_ref().take(1000) {
            let name = turn.group.name();
            match turn.act {
                Act::Create => assert!(names.insert(name.clone()) && there.insert(name)),
                Act::Delete => assert!(there.remove(&name), "{name}"),
            }
        }
        let left: BTreeSet<String> = turns.there().map(Group::name).collect();
        assert_eq!(left, there);
    }

    #[test]
    fn all_groups_together_are_the_pods_that_the_script_may_have() {
        let all = (0..BARE + DEPLOYMENTS).map(|slot| Group {
            slot,
            generation: 1,
        });
        assert_eq!(all.map(Group::pods).sum::<usize>(), PODS);
        assert_eq!(PODS, 20);
    }
}
