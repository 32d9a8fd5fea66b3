//! Puts a tree together from its parts, in the order in which they are met.

use std::fmt::Write;

use super::document::Duplicate;
use super::tree::{Entry, List, Map, Node, Place, Value};

/// A tree that is being built: the containers that are still open, and the finished root.
#[derive(Default)]
pub(super) struct Builder {
    open: Vec<Open>,
    root: Option<Node>,
}

struct Open {
    place: Place,
    content: Content,
}

enum Content {
    List(List),
    /// The key whose value is awaited, once it is known.
    Map(Map, Option<(String, Place)>),
}

/// A key that was set a second time in its map.
pub(super) struct Replaced {
    pub(super) key: String,
    pub(super) first: Place,
    pub(super) second: Place,
}

impl Builder {
    /// How many containers are open.
    pub(super) fn depth(&self) -> usize {
        self.open.len()
    }

    /// Whether the next part is a key.
    pub(super) fn awaits_key(&self) -> bool {
        matches!(
            self.open.last().map(|open| &open.content),
            Some(Content::Map(_, None))
        )
    }

    /// Whether the innermost open container is a map.
    pub(super) fn in_map(&self) -> bool {
        matches!(
            self.open.last().map(|open| &open.content),
            Some(Content::Map(..))
        )
    }

    /// Where the innermost open container starts.
    pub(super) fn place(&self) -> Place {
        self.open.last().map_or(Place::START, |open| open.place)
    }

    /// Begins a list or a map; what it already holds stays in it.
    pub(super) fn open(&mut self, container: Value, place: Place) {
        let content = match container {
            Value::Map(map) => Content::Map(map, None),
            Value::List(list) => Content::List(list),
            _ => Content::List(List::new()),
        };
        self.open.push(Open { place, content });
    }

    /// Names the next value of a map.
    pub(super) fn key(&mut self, key: String, place: Place) {
        if let Some(Content::Map(_, awaited)) = self.content() {
            *awaited = Some((key, place));
        }
    }

    /// Takes back the name of the next value.
    pub(super) fn forget_key(&mut self) {
        if let Some(Content::Map(_, awaited)) = self.content() {
            *awaited = None;
        }
    }

    /// Takes out the map that an earlier value of the awaited key is, if it is one.
    pub(super) fn take_earlier_map(&mut self) -> Option<Map> {
        let Some(Content::Map(map, Some((key, _)))) = self.content() else {
            return None;
        };
        match map.get_mut(key) {
            Some(Node {
                value: Value::Map(earlier),
                ..
            }) => Some(std::mem::take(earlier)),
            _ => None,
        }
    }

    /// Adds a finished value where one is awaited.
    pub(super) fn attach(&mut self, node: Node) -> Option<Replaced> {
        match self.content() {
            None => self.root = Some(node),
            Some(Content::List(list)) => list.push(node),
            Some(Content::Map(_, awaited)) => {
                let (key, key_place) = awaited.take()?;
                return self.insert(key, Entry { key_place, node });
            }
        }
        None
    }

    /// Sets a key of the innermost map.
    pub(super) fn insert(&mut self, key: String, entry: Entry) -> Option<Replaced> {
        let Some(Content::Map(map, _)) = self.content() else {
            return None;
        };
        let second = entry.key_place;
        let earlier = map.entry(&key).map(|entry| entry.key_place);
        let replaced = earlier.map(|first| Replaced {
            key: key.clone(),
            first,
            second,
        });
        map.insert(key, entry);
        replaced
    }

    /// Ends the innermost container and hands it over, to be attached.
    pub(super) fn close(&mut self) -> Option<Node> {
        let Open { place, content } = self.open.pop()?;
        let value = match content {
            Content::List(list) => Value::List(list),
            Content::Map(map, _) => Value::Map(map),
        };
        Some(Node::new(value, place))
    }

    /// Ends the innermost container and attaches it.
    pub(super) fn shut(&mut self) -> Option<Replaced> {
        let node = self.close()?;
        self.attach(node)
    }

    /// Describes a key of the innermost map that was set twice.
    pub(super) fn duplicate(&self, replaced: Replaced) -> Duplicate {
        let mut path = String::new();
        for open in &self.open {
            match &open.content {
                Content::List(list) => drop(write!(path, "[{}]", list.len())),
                Content::Map(_, Some((key, _))) => push_segment(&mut path, key),
                Content::Map(_, None) => {}
            }
        }
        push_segment(&mut path, &replaced.key);
        Duplicate {
            path,
            key: replaced.key,
            first: replaced.first,
            second: replaced.second,
        }
    }

    /// The finished tree; null if there was nothing to build.
    pub(super) fn finish(self) -> Node {
        self.root.unwrap_or(Node::new(Value::Null, Place::START))
    }

    fn content(&mut self) -> Option<&mut Content> {
        self.open.last_mut().map(|open| &mut open.content)
    }
}

fn push_segment(path: &mut String, key: &str) {
    /// Longer keys are cut in a path, which is for reading.
    const LONGEST: usize = 100;

    if !path.is_empty() {
        path.push('.');
    }
    match key.char_indices().nth(LONGEST) {
        Some((cut, _)) => {
            path.push_str(key.get(..cut).unwrap_or_default());
            path.push('…');
        }
        None => path.push_str(key),
    }
}
