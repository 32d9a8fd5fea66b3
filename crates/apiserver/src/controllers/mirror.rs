//! Objects of one kind, as the store last told of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::FutureExt as _;
use serde::de::DeserializeOwned;
use tracing::warn;

use crate::kinds::Kind;
use crate::store::{Change, Selector, Store, Stored, Watch};

/// Namespace and name.
pub(crate) type Name = (String, String);

/// Only that it is there matters.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct Bare {}

/// Changes that are taken at one time.
const MOST: usize = 1000;

/// Kept up by a watch; when that ends, by a list.
#[derive(Debug)]
pub(crate) struct Mirror<T> {
    store: Store,
    kind: &'static Kind,
    objects: BTreeMap<Name, Arc<T>>,
    watch: Watch,
}

impl<T: DeserializeOwned> Mirror<T> {
    pub(crate) fn new(store: &Store, kind: &'static Kind) -> Self {
        let (listing, watch) = store.list_and_watch(kind, Selector::default());
        let mut mirror = Self {
            store: store.clone(),
            kind,
            objects: BTreeMap::new(),
            watch,
        };
        for stored in &listing.items {
            mirror.set(stored);
        }
        mirror
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<T>> {
        self.objects.get(&(namespace.to_owned(), name.to_owned()))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Name, &Arc<T>)> {
        self.objects.iter()
    }

    pub(crate) fn names(&self) -> Vec<Name> {
        self.objects.keys().cloned().collect()
    }

    /// Waits for a change, and takes it with all that wait behind it: the names of what
    /// may have changed. Nothing is lost when the wait is given up.
    pub(crate) async fn changed(&mut self) -> Vec<Name> {
        let Some(change) = self.watch.next().await else {
            // At once: a wait here would begin anew each time that another wait is over first,
            // and what is busy beside it would keep it from ever listing.
            return self.list();
        };
        let mut names = vec![self.take(&change)];
        while names.len() < MOST {
            match self.watch.next().now_or_never() {
                Some(Some(change)) => names.push(self.take(&change)),
                Some(None) | None => break,
            }
        }
        names
    }

    fn list(&mut self) -> Vec<Name> {
        let (listing, watch) = self.store.list_and_watch(self.kind, Selector::default());
        let mut names = self.names();
        self.objects.clear();
        self.watch = watch;
        for stored in &listing.items {
            names.push(self.set(stored));
        }
        names.sort();
        names.dedup();
        names
    }

    fn take(&mut self, change: &Change) -> Name {
        if change.deleted {
            let name = name_of(&change.object);
            self.objects.remove(&name);
            return name;
        }
        self.set(&change.object)
    }

    fn set(&mut self, stored: &Stored) -> Name {
        let name = name_of(stored);
        match stored.decode() {
            Ok(object) => {
                self.objects.insert(name.clone(), Arc::new(object));
            }
            Err(cause) => {
                // Validation lets nothing of the kind in; what is here anyway is left alone.
                warn!(kind = self.kind.kind, namespace = name.0, name = name.1, err = %cause, "an object cannot be read");
                self.objects.remove(&name);
            }
        }
        name
    }
}

fn name_of(stored: &Stored) -> Name {
    (stored.namespace().to_owned(), stored.name().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::task::JoinSet;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::kinds::{CONFIG_MAPS, NODES};
    use crate::store::{Key, Window};

    #[tokio::test(start_paused = true)]
    async fn one_that_fell_behind_catches_up_however_busy_another_is() {
        let window = Window {
            behind: 2,
            ..Window::default()
        };
        let (store, writer) = Store::open(None, window).unwrap();
        let shutdown = CancellationToken::new();
        let mut running = JoinSet::new();
        running.spawn(writer.run(shutdown.clone()));
        let mut late: Mirror<Bare> = Mirror::new(&store, &CONFIG_MAPS);
        let mut busy: Mirror<Bare> = Mirror::new(&store, &NODES);
        for name in ["a", "b", "c", "d"] {
            let key = Key::new(&CONFIG_MAPS, "x", name);
            store.create(key, json!({})).await.unwrap();
        }
        for round in 0..10 {
            let key = Key::global(&NODES, format!("n{round}"));
            store.create(key, json!({})).await.unwrap();
            tokio::select! {
                biased;
                _ = late.changed() => {}
                _ = busy.changed() => {}
            }
        }
        let names: Vec<_> = late.names().into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["a", "b", "c", "d"]);
        shutdown.cancel();
        running.join_all().await;
    }
}
