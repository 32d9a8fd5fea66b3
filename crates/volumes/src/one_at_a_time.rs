//! Directories of the machine that several pods may have: one pod at a time is given
//! one, so that the second finds the first there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;

/// Who is at which directory. What nobody is at, or waits for, is not kept. Clones are
/// the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct OneAtATime {
    /// Held for one access.
    places: Arc<Mutex<BTreeMap<PathBuf, Place>>>,
}

/// Held over awaits: whoever has it works on the disk.
type Place = Arc<tokio::sync::Mutex<()>>;

/// Somebody is at these directories, until it is dropped.
#[derive(Debug)]
pub(crate) struct Alone {
    places: OneAtATime,
    held: Vec<OwnedMutexGuard<()>>,
}

impl OneAtATime {
    /// Waits until nobody is at any of them. May be dropped. They are taken in their
    /// order, so that no two wait for each other.
    pub(crate) async fn at(&self, directories: BTreeSet<PathBuf>) -> Alone {
        let mut alone = Alone {
            places: self.clone(),
            held: Vec::new(),
        };
        for directory in directories {
            let place = self.with(|places| Arc::clone(places.entry(directory).or_default()));
            alone.held.push(place.lock_owned().await);
        }
        alone
    }

    fn with<T>(&self, access: impl FnOnce(&mut BTreeMap<PathBuf, Place>) -> T) -> T {
        let places = self.places.lock();
        access(&mut places.unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.held.clear();
        // Also what those have left who went away while they waited.
        let in_use = |place: &Place| Arc::strong_count(place) > 1;
        self.places
            .with(|places| places.retain(|_, place| in_use(place)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(names: &[&str]) -> BTreeSet<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    #[tokio::test]
    async fn who_comes_to_the_same_directory_waits_and_nothing_is_kept_in_the_end() {
        let places = OneAtATime::default();
        let first = places.at(paths(&["/a", "/b"])).await;
        let mut second = Box::pin(places.at(paths(&["/b", "/c"])));
        assert!(futures_util::poll!(&mut second).is_pending());
        drop(places.at(paths(&["/d"])).await);
        drop(places.at(paths(&[])).await);
        {
            let mut gone = Box::pin(places.at(paths(&["/a"])));
            assert!(futures_util::poll!(&mut gone).is_pending());
        }
        drop(first);
        let second = second.await;
        let kept = || places.with(|places| places.keys().cloned().collect::<BTreeSet<_>>());
        assert_eq!(kept(), paths(&["/b", "/c"]));
        drop(second);
        assert_eq!(kept(), paths(&[]));
    }
}
