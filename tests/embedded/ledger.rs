//! What writers were promised and what a watch was shown, against what is there after a kill.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;

pub(crate) type Revision = u64;

/// An object as somebody saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) uid: String,
    pub(crate) revision: Revision,
    pub(crate) value: String,
}

/// A write that was begun, and has no answer yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    Create { value: String },
    Update { value: String },
    Delete,
}

/// Whatever was made at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Made {
    Written(String, Seen),
    Deleted(String),
}

/// All that is known of one cluster's objects.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// What is there, by name: acknowledged, or found after a kill.
    there: BTreeMap<String, Seen>,
    begun: BTreeMap<String, Begun>,
    /// What was acknowledged or shown to a watch, ever.
    made: BTreeMap<Revision, Made>,
    pub(crate) acknowledged: usize,
    pub(crate) shown: usize,
    /// Of the writes that a kill left without an answer, those that were done all the same.
    pub(crate) done: usize,
    pub(crate) not_done: usize,
}

impl Ledger {
    pub(crate) fn get(&self, name: &str) -> Option<&Seen> {
        self.there.get(name)
    }

    /// To be said before it is asked for.
    pub(crate) fn begin(&mut self, name: &str, write: Begun) {
        self.begun.insert(name.to_owned(), write);
    }

    /// It was answered with this object.
    pub(crate) fn written(&mut self, name: &str, seen: Seen) -> Result<()> {
        self.begun.remove(name);
        self.acknowledged += 1;
        self.one_revision_one_write(&Made::Written(name.to_owned(), seen.clone()), seen.revision)?;
        self.there.insert(name.to_owned(), seen);
        Ok(())
    }

    /// It was answered that it is gone.
    pub(crate) fn deleted(&mut self, name: &str) {
        self.begun.remove(name);
        self.acknowledged += 1;
        self.there.remove(name);
    }

    /// A watch has shown it: as good as a promise.
    pub(crate) fn shown(&mut self, name: &str, seen: Seen, deleted: bool) -> Result<()> {
        self.shown += 1;
        let revision = seen.revision;
        let made = if deleted {
            Made::Deleted(name.to_owned())
        } else {
            Made::Written(name.to_owned(), seen)
        };
        self.one_revision_one_write(&made, revision)
    }

    fn one_revision_one_write(&mut self, made: &Made, revision: Revision) -> Result<()> {
        let known = self.made.entry(revision).or_insert_with(|| made.clone());
        ensure!(
            known == made,
            "revision {revision} was given twice: for {known:?} and for {made:?}"
        );
        Ok(())
    }

    /// Compares all that was promised with all that is there now, as of a revision, and goes on
    /// from what is there.
    pub(crate) fn settle(
        &mut self,
        mut found: BTreeMap<String, Seen>,
        revision: Revision,
    ) -> Result<()> {
        let last = self.made.last_key_value().map_or(0, |(last, _)| *last);
        ensure!(
            revision >= last,
            "the store is at {revision}, and had told of {last}"
        );
        for (name, begun) in std::mem::take(&mut self.begun) {
            let (before, after) = (self.there.get(&name).cloned(), found.get(&name).cloned());
            if before == after {
                self.not_done += 1;
                continue;
            }
            let done = match (&begun, &before, &after) {
                (Begun::Create { value }, None, Some(now)) => now.value == *value,
                (Begun::Update { value }, Some(before), Some(now)) => {
                    now.value == *value && now.uid == before.uid && now.revision > before.revision
                }
                (Begun::Delete, Some(_), None) => true,
                _ => false,
            };
            ensure!(
                done,
                "{name}: {before:?} with {begun:?} under way has become {after:?}"
            );
            self.done += 1;
            if let Some(now) = after {
                self.one_revision_one_write(
                    &Made::Written(name.clone(), now.clone()),
                    now.revision,
                )?;
                self.there.insert(name, now);
            } else {
                self.there.remove(&name);
            }
        }
        for (name, promised) in &self.there {
            let kept = found.remove(name);
            ensure!(
                kept.as_ref() == Some(promised),
                "{name} was promised as {promised:?}, and is {kept:?}"
            );
        }
        ensure!(
            found.is_empty(),
            "nobody made these, or all were deleted: {found:?}"
        );
        // What a watch has shown of an object is not newer than what is there.
        for (revision, made) in &self.made {
            let (name, as_it_is) = match made {
                Made::Written(name, seen) => (name, self.there.get(name) == Some(seen)),
                Made::Deleted(name) => (name, false),
            };
            let now = self.there.get(name);
            ensure!(
                as_it_is || now.is_none_or(|now| now.revision > *revision),
                "{made:?} was told of at {revision}, and now it is {now:?}"
            );
        }
        Ok(())
    }
}

impl Seen {
    pub(crate) fn of(object: &ConfigMap) -> Self {
        let revision = object.metadata.resource_version.as_deref();
        let data = object.data.as_ref();
        Self {
            uid: object.metadata.uid.clone().unwrap_or_default(),
            // One that is not a number is lower than every promise, and told of as such.
            revision: revision.and_then(|text| text.parse().ok()).unwrap_or(0),
            value: data
                .and_then(|data| data.get("value").cloned())
                .unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(revision: Revision, value: &str) -> Seen {
        Seen {
            uid: "u".to_owned(),
            revision,
            value: value.to_owned(),
        }
    }

    fn promised() -> Ledger {
        let mut ledger = Ledger::default();
        ledger.begin("a", Begun::Create { value: "1".into() });
        ledger.written("a", seen(5, "1")).unwrap();
        ledger
    }

    fn found(entries: &[(&str, Seen)]) -> BTreeMap<String, Seen> {
        let owned = |(name, seen): &(&str, Seen)| ((*name).to_owned(), seen.clone());
        entries.iter().map(owned).collect()
    }

    #[test]
    fn what_was_promised_has_to_be_there_as_it_was() {
        let (kept, old) = (seen(5, "1"), seen(4, "0"));
        assert!(promised().settle(found(&[("a", kept.clone())]), 5).is_ok());
        assert!(promised().settle(found(&[]), 5).is_err());
        assert!(promised().settle(found(&[("a", old)]), 5).is_err());
        let another = found(&[("a", kept.clone()), ("b", seen(3, ""))]);
        assert!(promised().settle(another, 5).is_err());
        // A store that has gone back will give revisions again.
        assert!(promised().settle(found(&[("a", kept)]), 4).is_err());
    }

    #[test]
    fn what_was_under_way_is_done_or_not() {
        let begun = || {
            let mut ledger = promised();
            ledger.begin("a", Begun::Update { value: "2".into() });
            ledger
        };
        for (now, right) in [
            (seen(5, "1"), true),
            (seen(6, "2"), true),
            (seen(6, "3"), false),
            (seen(5, "2"), false),
        ] {
            let settled = begun().settle(found(&[("a", now.clone())]), 6);
            assert_eq!(settled.is_ok(), right, "{now:?}");
        }
        assert!(begun().settle(found(&[]), 6).is_err());
        let mut ledger = promised();
        ledger.begin("a", Begun::Delete);
        assert!(ledger.settle(found(&[]), 6).is_ok());
        assert!(ledger.get("a").is_none());
    }

    #[test]
    fn a_revision_is_given_once_and_what_was_shown_stays() {
        let mut ledger = promised();
        assert!(ledger.shown("a", seen(5, "1"), false).is_ok());
        assert!(ledger.shown("b", seen(5, "1"), false).is_err());
        let mut ledger = promised();
        ledger.begin("a", Begun::Update { value: "2".into() });
        ledger.shown("a", seen(6, "2"), false).unwrap();
        assert!(ledger.settle(found(&[("a", seen(5, "1"))]), 6).is_err());
        let mut ledger = promised();
        ledger.begin("a", Begun::Delete);
        ledger.shown("a", seen(6, "1"), true).unwrap();
        assert!(ledger.settle(found(&[("a", seen(5, "1"))]), 6).is_err());
    }
}
