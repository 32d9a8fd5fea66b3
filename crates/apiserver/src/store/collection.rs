//! What is in the store, by kind: objects, what became of them of late, and who watches.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::selector::{self, Pivot};
use super::watch::Change;
use super::{Compacted, FIRST, Key, Listing, Revision, Selector, Stored, Window};
use crate::kinds::Kind;

#[derive(Debug)]
pub(super) struct Collections {
    window: Window,
    revision: Revision,
    /// What came before this process is not known.
    first: Revision,
    by_kind: HashMap<(&'static str, &'static str), Collection>,
}

#[derive(Debug, Default)]
struct Collection {
    objects: BTreeMap<String, Stored>,
    history: VecDeque<(Instant, Arc<Change>)>,
    history_bytes: usize,
    /// Changes up to this one are no longer in the history.
    compacted: Revision,
    watchers: Watchers,
}

#[derive(Debug, Default)]
struct Watchers {
    broad: Vec<Watcher>,
    pivoted: HashMap<Pivot, Vec<Watcher>>,
    /// Watches since those that are gone were last looked for everywhere.
    added: usize,
}

#[derive(Debug)]
struct Watcher {
    selector: Selector,
    queue: mpsc::Sender<Arc<Change>>,
}

impl Collections {
    pub(super) fn new(window: Window) -> Self {
        Self {
            window,
            revision: FIRST,
            first: FIRST,
            by_kind: HashMap::new(),
        }
    }

    pub(super) fn revision(&self) -> Revision {
        self.revision
    }

    /// What the disk had.
    pub(super) fn restore(&mut self, revision: Revision, objects: Vec<Stored>) {
        (self.revision, self.first) = (revision, revision);
        for object in objects {
            let key = object.key();
            let collection = self.by_kind.entry(id(key.kind)).or_default();
            collection.objects.insert(key.place(), object);
        }
    }

    pub(super) fn get(&self, key: &Key) -> Option<Stored> {
        let collection = self.by_kind.get(&id(key.kind))?;
        collection.objects.get(&key.place()).cloned()
    }

    pub(super) fn list(&self, kind: &'static Kind, namespace: Option<&str>) -> Listing {
        let collection = self.by_kind.get(&id(kind));
        let items = collection.map(|collection| collection.list(kind, namespace));
        Listing {
            items: items.unwrap_or_default(),
            revision: self.revision,
        }
    }

    pub(super) fn list_at(
        &self,
        kind: &'static Kind,
        namespace: Option<&str>,
        revision: Revision,
    ) -> Result<Listing, Compacted> {
        self.check(kind, revision)?;
        let Some(collection) = self.by_kind.get(&id(kind)) else {
            return Ok(Listing {
                items: Vec::new(),
                revision,
            });
        };
        // Going back, the oldest change has the last word on what there was before it.
        let mut then: BTreeMap<String, Option<Stored>> = BTreeMap::new();
        for (_, change) in collection.history.iter().rev() {
            if change.revision <= revision {
                break;
            }
            then.insert(change.object.key().place(), change.previous.clone());
        }
        let untouched = collection.objects.iter();
        let untouched = untouched.filter(|(place, _)| !then.contains_key(*place));
        let mut objects: BTreeMap<&str, &Stored> = untouched
            .map(|(place, object)| (place.as_str(), object))
            .collect();
        for (place, object) in &then {
            if let Some(object) = object {
                objects.insert(place, object);
            }
        }
        let wanted = |object: &&Stored| namespace.is_none_or(|wanted| wanted == object.namespace());
        Ok(Listing {
            items: objects.into_values().filter(wanted).cloned().collect(),
            revision,
        })
    }

    fn check(&self, kind: &'static Kind, revision: Revision) -> Result<(), Compacted> {
        let compacted = self.by_kind.get(&id(kind)).map(|kept| kept.compacted);
        let oldest = compacted.unwrap_or_default().max(self.first);
        if revision < oldest {
            Err(Compacted(oldest))
        } else {
            Ok(())
        }
    }

    /// What was after a revision, and what comes.
    #[expect(clippy::type_complexity, reason = "two halves of one stream")]
    pub(super) fn watch(
        &mut self,
        kind: &'static Kind,
        selector: Selector,
        after: Revision,
    ) -> Result<(Vec<Arc<Change>>, mpsc::Receiver<Arc<Change>>), Compacted> {
        self.check(kind, after)?;
        let history = self.by_kind.get(&id(kind)).map(|kept| &kept.history);
        let newer = history.into_iter().flatten().map(|(_, change)| change);
        let newer = newer.skip_while(|change| change.revision <= after);
        let backlog = newer
            .filter(|change| change.concerns(&selector))
            .cloned()
            .collect();
        Ok((backlog, self.follow(kind, selector)))
    }

    pub(super) fn follow(
        &mut self,
        kind: &'static Kind,
        selector: Selector,
    ) -> mpsc::Receiver<Arc<Change>> {
        let (queue, live) = mpsc::channel(self.window.behind);
        let collection = self.by_kind.entry(id(kind)).or_default();
        collection.watchers.add(Watcher { selector, queue });
        live
    }

    /// Shows changes to everybody, in order.
    pub(super) fn apply(&mut self, changes: Vec<Change>) {
        let now = Instant::now();
        for change in changes {
            self.revision = change.revision;
            let kind = change.object.kind();
            let collection = self.by_kind.entry(id(kind)).or_default();
            collection.apply(now, Arc::new(change), &self.window);
        }
    }
}

impl Collection {
    fn list(&self, kind: &Kind, namespace: Option<&str>) -> Vec<Stored> {
        match namespace {
            Some(namespace) if kind.namespaced => {
                let from = format!("{namespace}/");
                let rest = self.objects.range(from.clone()..);
                let inside = rest.take_while(|(place, _)| place.starts_with(&from));
                inside.map(|(_, object)| object.clone()).collect()
            }
            _ => self.objects.values().cloned().collect(),
        }
    }

    fn apply(&mut self, now: Instant, change: Arc<Change>, window: &Window) {
        let place = change.object.key().place();
        if change.deleted {
            self.objects.remove(&place)
        } else {
            self.objects.insert(place, change.object.clone())
        };
        self.watchers.tell(&change);
        self.history_bytes += change.object.bytes().len();
        self.history.push_back((now, change));
        while let Some((at, oldest)) = self.history.front() {
            let too_much = self.history.len() > window.changes || self.history_bytes > window.bytes;
            if !too_much && now.duration_since(*at) <= window.age {
                break;
            }
            self.compacted = oldest.revision;
            self.history_bytes -= oldest.object.bytes().len();
            self.history.pop_front();
        }
    }
}

impl Watchers {
    fn add(&mut self, watcher: Watcher) {
        self.added += 1;
        if self.added > self.pivoted.len().max(64) {
            // A value that never comes again would keep its dead watches for ever.
            self.added = 0;
            self.pivoted.retain(|_, same| {
                same.retain(Watcher::is_there);
                !same.is_empty()
            });
        }
        self.broad.retain(Watcher::is_there);
        match watcher.selector.pivot() {
            None => self.broad.push(watcher),
            Some(pivot) => {
                let same = self.pivoted.entry(pivot).or_default();
                same.retain(Watcher::is_there);
                same.push(watcher);
            }
        }
    }

    fn tell(&mut self, change: &Arc<Change>) {
        self.broad.retain(|watcher| watcher.hears(change));
        let mut pivots: Vec<Pivot> = selector::pivots(&change.object).collect();
        for pivot in change.previous.iter().flat_map(selector::pivots) {
            if !pivots.contains(&pivot) {
                pivots.push(pivot);
            }
        }
        for pivot in pivots {
            if let Entry::Occupied(mut same) = self.pivoted.entry(pivot) {
                same.get_mut().retain(|watcher| watcher.hears(change));
                if same.get().is_empty() {
                    same.remove();
                }
            }
        }
    }
}

impl Watcher {
    /// Whether it is still to be told of changes. Who has no room left is let go.
    fn hears(&self, change: &Arc<Change>) -> bool {
        if change.concerns(&self.selector) {
            self.queue.try_send(Arc::clone(change)).is_ok()
        } else {
            self.is_there()
        }
    }

    fn is_there(&self) -> bool {
        !self.queue.is_closed()
    }
}

fn id(kind: &Kind) -> (&'static str, &'static str) {
    (kind.group, kind.plural)
}
