//! The tree itself. A document may nest thousands of levels deep, so nothing here recurses: lists
//! and maps drop, copy, compare and print their content with work lists (see `walk.rs`).

use std::fmt;
use std::mem;
use std::ops::{Deref, DerefMut};

use indexmap::IndexMap;

use super::number::Number;
use super::walk::{Container, copy, equal, write_json, write_leaf};

/// Where something stands in its file; line and column count from 1, the column in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Place {
    pub line: u32,
    pub column: u32,
}

impl Place {
    /// The place of a value that comes from no file.
    pub const UNKNOWN: Self = Self { line: 0, column: 0 };

    /// The first character of a file.
    pub const START: Self = Self { line: 1, column: 1 };

    /// Whether there is a file behind this place.
    pub fn is_known(self) -> bool {
        self != Self::UNKNOWN
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_known() {
            write!(formatter, "line {}, column {}", self.line, self.column)
        } else {
            formatter.write_str("an unknown place")
        }
    }
}

/// A value and the place where it starts.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub value: Value,
    pub place: Place,
}

impl Node {
    /// A value that starts at a place.
    pub fn new(value: Value, place: Place) -> Self {
        Self { value, place }
    }
}

/// A value as JSON knows it.
#[derive(Clone, PartialEq, Default)]
pub enum Value {
    #[default]
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    List(List),
    Map(Map),
}

impl Value {
    /// What a message to an operator calls a value of this kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::String(_) => "a string",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }

    fn holds_values(&self) -> bool {
        match self {
            Self::List(list) => !list.is_empty(),
            Self::Map(map) => !map.is_empty(),
            _ => false,
        }
    }
}

/// Values in their order.
#[derive(Default)]
pub struct List(Vec<Node>);

impl List {
    /// A list without values.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value at the end.
    pub fn push(&mut self, node: Node) {
        self.0.push(node);
    }
}

impl Deref for List {
    type Target = [Node];

    fn deref(&self) -> &[Node] {
        &self.0
    }
}

impl DerefMut for List {
    fn deref_mut(&mut self) -> &mut [Node] {
        &mut self.0
    }
}

impl From<Vec<Node>> for List {
    fn from(nodes: Vec<Node>) -> Self {
        Self(nodes)
    }
}

impl FromIterator<Node> for List {
    fn from_iter<I: IntoIterator<Item = Node>>(nodes: I) -> Self {
        Self(nodes.into_iter().collect())
    }
}

impl IntoIterator for List {
    type Item = Node;
    type IntoIter = std::vec::IntoIter<Node>;

    fn into_iter(mut self) -> Self::IntoIter {
        mem::take(&mut self.0).into_iter()
    }
}

impl<'a> IntoIterator for &'a List {
    type Item = &'a Node;
    type IntoIter = std::slice::Iter<'a, Node>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// A value in a map, and where its key starts.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub key_place: Place,
    pub node: Node,
}

/// Values by their keys, in the order in which the keys were first written.
#[derive(Default)]
pub struct Map(Box<IndexMap<String, Entry>>);

impl Map {
    /// A map without keys.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.0.get(key).map(|entry| &entry.node)
    }

    /// The value of a key, to change it.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.0.get_mut(key).map(|entry| &mut entry.node)
    }

    /// The value of a key with the key's place.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.0.get(key)
    }

    /// Sets a key and hands back what it held before. A key that is set again keeps its position.
    pub fn insert(&mut self, key: String, entry: Entry) -> Option<Entry> {
        self.0.insert(key, entry)
    }

    /// Takes a key out; the order of the others stays.
    pub fn remove(&mut self, key: &str) -> Option<Entry> {
        self.0.shift_remove(key)
    }

    /// The entry at a position in the order.
    pub(super) fn at(&self, index: usize) -> Option<(&str, &Entry)> {
        let (key, entry) = self.0.get_index(index)?;
        Some((key, entry))
    }

    /// The keys with their entries, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Entry)> {
        self.0.iter().map(|(key, entry)| (key.as_str(), entry))
    }
}

impl IntoIterator for Map {
    type Item = (String, Entry);
    type IntoIter = indexmap::map::IntoIter<String, Entry>;

    fn into_iter(mut self) -> Self::IntoIter {
        mem::take(&mut *self.0).into_iter()
    }
}

impl Drop for List {
    fn drop(&mut self) {
        if self.0.iter().any(|node| node.value.holds_values()) {
            dismantle(mem::take(&mut self.0));
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        if self.0.values().any(|entry| entry.node.value.holds_values()) {
            dismantle(self.0.drain(..).map(|(_, entry)| entry.node).collect());
        }
    }
}

/// Drops nodes one by one: each is emptied before it goes.
fn dismantle(mut nodes: Vec<Node>) {
    while let Some(mut node) = nodes.pop() {
        match &mut node.value {
            Value::List(list) => nodes.append(&mut list.0),
            Value::Map(map) => nodes.extend(map.0.drain(..).map(|(_, entry)| entry.node)),
            _ => {}
        }
    }
}

impl Clone for List {
    fn clone(&self) -> Self {
        match copy(Container::List(self)) {
            Value::List(list) => list,
            _ => Self::new(),
        }
    }
}

impl Clone for Map {
    fn clone(&self) -> Self {
        match copy(Container::Map(self)) {
            Value::Map(map) => map,
            _ => Self::new(),
        }
    }
}

impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        equal(Container::List(self), Container::List(other))
    }
}

impl PartialEq for Map {
    /// As for any map, the order of the keys does not matter.
    fn eq(&self, other: &Self) -> bool {
        equal(Container::Map(self), Container::Map(other))
    }
}

impl fmt::Display for Value {
    /// Prints one line of JSON, keys in the order of the file.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Container::of(self) {
            Some(container) => write_json(formatter, container),
            None => write_leaf(formatter, self),
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

impl fmt::Debug for List {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_json(formatter, Container::List(self))
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_json(formatter, Container::Map(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPTH: usize = 100_000;

    fn string(text: &str) -> Node {
        Node::new(Value::String(text.to_owned()), Place::START)
    }

    fn entry(node: Node) -> Entry {
        Entry {
            key_place: Place::START,
            node,
        }
    }

    fn deep(leaf: Node) -> Node {
        (0..DEPTH).fold(leaf, |node, level| {
            let value = if level % 2 == 0 {
                Value::List(List::from(vec![node]))
            } else {
                let mut map = Map::new();
                map.insert("key".to_owned(), entry(node));
                Value::Map(map)
            };
            Node::new(value, Place::START)
        })
    }

    #[test]
    fn deep_trees_are_copied_compared_printed_and_dropped_without_the_stack() {
        let tree = deep(string("leaf"));
        let copy = tree.clone();
        assert!(tree == copy);
        assert!(tree != deep(string("other leaf")));
        assert!(tree.value.to_string().ends_with(&"]}".repeat(DEPTH / 2)));
    }

    #[test]
    fn a_map_keeps_the_order_in_which_keys_were_first_set() {
        let mut map = Map::new();
        for (key, text) in [("b", "1"), ("a", "2"), ("c", "3"), ("b", "4")] {
            map.insert(key.to_owned(), entry(string(text)));
        }
        assert_eq!(format!("{map:?}"), r#"{"b":"4","a":"2","c":"3"}"#);
        assert!(map.remove("a").is_some());
        assert!(map.remove("a").is_none());
        assert_eq!(format!("{map:?}"), r#"{"b":"4","c":"3"}"#);
        assert_eq!(map.get("c"), Some(&string("3")));
        assert_eq!(map.len(), 2);
    }

    #[test]
    fn maps_are_equal_in_any_order_and_lists_only_in_theirs() {
        let map = |keys: [&str; 2]| {
            let mut map = Map::new();
            for key in keys {
                map.insert(key.to_owned(), entry(string(key)));
            }
            Value::Map(map)
        };
        assert_eq!(map(["a", "b"]), map(["b", "a"]));
        assert_ne!(map(["a", "b"]), map(["a", "c"]));
        let list = |texts: [&str; 2]| Value::List(texts.into_iter().map(string).collect());
        assert_eq!(list(["a", "b"]), list(["a", "b"]));
        assert_ne!(list(["a", "b"]), list(["b", "a"]));
        assert_ne!(list(["a", "b"]), map(["a", "b"]));
    }

    #[test]
    fn a_value_prints_as_one_line_of_json() {
        let mut inner = Map::new();
        inner.insert(
            "x\"y".to_owned(),
            entry(Node::new(Value::Null, Place::START)),
        );
        inner.insert(
            "e".to_owned(),
            entry(Node::new(Value::Map(Map::new()), Place::START)),
        );
        let list = List::from(vec![
            string("a\nb"),
            Node::new(Value::Map(inner), Place::START),
            Node::new(Value::List(List::new()), Place::START),
            Node::new(Value::Bool(true), Place::START),
            Node::new(Value::Number(Number::Float(1.5)), Place::START),
        ]);
        assert_eq!(
            Value::List(list).to_string(),
            r#"["a\nb",{"x\"y":null,"e":{}},[],true,1.5]"#
        );
    }
}
