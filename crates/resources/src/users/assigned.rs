//! Who has which portion.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;
use types::PodUid;

use super::{IdRange, Pool};

/// The portions of a pool, and whose they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Assigned {
    pool: Pool,
    /// Numbers of portions, counted from the first of the pool.
    taken: BTreeSet<u32>,
    by_pod: BTreeMap<PodUid, u32>,
}

/// All portions are taken.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("could not find an empty slot to allocate a user namespace")]
pub struct NotAssigned;

/// Why a pod cannot have the ids that are recorded as its own.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Unfit {
    #[error("wrong user namespace length {0}")]
    Length(u32),
    #[error("wrong user namespace offset specified {0}")]
    Start(u32),
    #[error("different user namespace range already used by pod {:?}", .0.as_str())]
    Other(PodUid),
    #[error("id {0} is out of range")]
    Outside(u32),
    #[error("range picked for pod {:?} already taken", .0.as_str())]
    Taken(PodUid),
}

impl Assigned {
    pub(super) fn new(pool: Pool) -> Self {
        Self {
            pool,
            taken: BTreeSet::new(),
            by_pod: BTreeMap::new(),
        }
    }

    /// Takes note of what a pod has.
    pub(super) fn record(&mut self, uid: &PodUid, range: IdRange) -> Result<(), Unfit> {
        let Pool {
            portion,
            first,
            portions,
            ..
        } = self.pool;
        if range.length != portion {
            return Err(Unfit::Length(range.length));
        }
        if !range.first.is_multiple_of(portion) {
            return Err(Unfit::Start(range.first));
        }
        let number = (range.first / portion).checked_sub(first);
        let number = number.filter(|number| *number < portions);
        match (self.by_pod.get(uid), number) {
            (Some(known), Some(number)) if *known == number => Ok(()),
            (Some(_), _) => Err(Unfit::Other(uid.clone())),
            (None, None) => Err(Unfit::Outside(range.first)),
            (None, Some(number)) if self.taken.contains(&number) => Err(Unfit::Taken(uid.clone())),
            (None, Some(number)) => {
                self.take(uid, number);
                Ok(())
            }
        }
    }

    /// A free portion, the first one from a random one on: `random` is from 0 to
    /// below 1. Ids that were just given back are so not the next to be given.
    pub(super) fn assign(&mut self, uid: &PodUid, random: f64) -> Result<IdRange, NotAssigned> {
        let Pool {
            portion,
            first,
            mappable,
            ..
        } = self.pool;
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "any number will do"
        )]
        let start = ((f64::from(mappable) * random) as u32).min(mappable.saturating_sub(1));
        let mut numbers = (start..mappable).chain(0..start);
        let number = numbers.find(|number| !self.taken.contains(number));
        let number = number.ok_or(NotAssigned)?;
        // No pool reaches beyond the last id; if one did, nobody would get the first ids.
        let id = first.checked_add(number);
        let id = id.and_then(|number| number.checked_mul(portion));
        let id = id.ok_or(NotAssigned)?;
        self.take(uid, number);
        Ok(IdRange {
            first: id,
            length: portion,
        })
    }

    pub(super) fn release(&mut self, uid: &PodUid) {
        if let Some(number) = self.by_pod.remove(uid) {
            self.taken.remove(&number);
        }
    }

    fn take(&mut self, uid: &PodUid, number: u32) {
        self.taken.insert(number);
        self.by_pod.insert(uid.clone(), number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: u32 = 65_536;

    fn uid(name: &str) -> PodUid {
        PodUid::new(name)
    }

    fn range(number: u32) -> IdRange {
        IdRange {
            first: number * LENGTH,
            length: LENGTH,
        }
    }

    fn assigned(portions: u32) -> Assigned {
        Assigned::new(Pool {
            portion: LENGTH,
            first: 2,
            portions,
            mappable: portions,
        })
    }

    #[test]
    fn no_two_pods_have_the_same_and_what_is_given_back_can_be_given_again() {
        let mut assigned = assigned(3);
        assert_eq!(assigned.assign(&uid("a"), 0.5), Ok(range(3)));
        assert_eq!(assigned.assign(&uid("b"), 0.5), Ok(range(4)));
        assert_eq!(assigned.assign(&uid("c"), 0.999), Ok(range(2)));
        assert_eq!(assigned.assign(&uid("d"), 0.0), Err(NotAssigned));
        assigned.release(&uid("b"));
        assigned.release(&uid("b"));
        assert_eq!(assigned.assign(&uid("d"), 0.0), Ok(range(4)));
    }

    #[test]
    fn what_a_pod_has_is_its_own_however_often_it_is_noted() {
        let mut assigned = assigned(3);
        for _ in 0..2 {
            assert_eq!(assigned.record(&uid("a"), range(3)), Ok(()));
        }
        assert_eq!(assigned.assign(&uid("b"), 0.4), Ok(range(4)));
        let short = IdRange {
            length: 5,
            ..range(2)
        };
        let askew = IdRange {
            first: 5,
            ..range(2)
        };
        for (pod, range, text) in [
            ("c", short, "wrong user namespace length 5"),
            ("c", askew, "wrong user namespace offset specified 5"),
            (
                "a",
                range(2),
                "different user namespace range already used by pod \"a\"",
            ),
            ("c", range(1), "id 65536 is out of range"),
            ("c", range(5), "id 327680 is out of range"),
            ("c", range(3), "range picked for pod \"c\" already taken"),
        ] {
            let error = assigned.record(&uid(pod), range).unwrap_err();
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn the_last_ids_that_are_given_end_where_the_kernel_can_still_map_them() {
        let pool = Pool::new(None, LENGTH, 1).unwrap();
        let mut assigned = Assigned::new(pool);
        let last = assigned.assign(&uid("a"), 0.999_999_9).unwrap();
        assert_eq!(last, range(65_534));
        // One that another agent has given to a pod is no hindrance to others.
        assert_eq!(assigned.record(&uid("b"), range(65_535)), Ok(()));
        assert_eq!(assigned.assign(&uid("c"), 0.999_999_9), Ok(range(1)));
    }

    #[test]
    fn ids_beyond_those_of_a_machine_are_not_given() {
        let mut assigned = Assigned::new(Pool {
            portion: LENGTH,
            first: 65_536,
            portions: 1,
            mappable: 1,
        });
        assert_eq!(assigned.assign(&uid("a"), 0.0), Err(NotAssigned));
    }
}
