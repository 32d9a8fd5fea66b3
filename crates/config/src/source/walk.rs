//! Going through a tree of any depth without recursion: copying, comparing and printing it.

use std::convert::Infallible;
use std::fmt;

use super::builder::Builder;
use super::tree::{List, Map, Node, Place, Value};

/// A list or a map that is being walked.
#[derive(Clone, Copy)]
pub(super) enum Container<'a> {
    List(&'a List),
    Map(&'a Map),
}

impl<'a> Container<'a> {
    pub(super) fn of(value: &'a Value) -> Option<Self> {
        match value {
            Value::List(list) => Some(Self::List(list)),
            Value::Map(map) => Some(Self::Map(map)),
            _ => None,
        }
    }

    fn child(self, index: usize) -> Option<(Option<(&'a str, Place)>, &'a Node)> {
        match self {
            Self::List(list) => Some((None, list.get(index)?)),
            Self::Map(map) => {
                let (key, entry) = map.at(index)?;
                Some((Some((key, entry.key_place)), &entry.node))
            }
        }
    }
}

/// A step of a walk, in the order of the file.
enum Step<'a> {
    Open(Container<'a>, Place),
    Key(&'a str, Place),
    Leaf(&'a Node),
    Close(Container<'a>),
}

/// Walks through a container, from its opening to its closing.
fn walk<'a, E>(
    root: Container<'a>,
    mut visit: impl FnMut(Step<'a>) -> Result<(), E>,
) -> Result<(), E> {
    visit(Step::Open(root, Place::UNKNOWN))?;
    let mut open = vec![(root, 0)];
    while let Some((container, next)) = open.last_mut() {
        let Some((key, node)) = container.child(*next) else {
            visit(Step::Close(*container))?;
            open.pop();
            continue;
        };
        *next += 1;
        if let Some((key, place)) = key {
            visit(Step::Key(key, place))?;
        }
        if let Some(container) = Container::of(&node.value) {
            visit(Step::Open(container, node.place))?;
            open.push((container, 0));
        } else {
            visit(Step::Leaf(node))?;
        }
    }
    Ok(())
}

/// Copies a container.
pub(super) fn copy(root: Container<'_>) -> Value {
    let mut builder = Builder::default();
    let Ok(()) = walk::<Infallible>(root, |step| {
        match step {
            Step::Open(Container::List(_), place) => builder.open(Value::List(List::new()), place),
            Step::Open(Container::Map(_), place) => builder.open(Value::Map(Map::new()), place),
            Step::Key(key, place) => builder.key(key.to_owned(), place),
            // A leaf holds no other values, so this clone does not recurse.
            Step::Leaf(node) => drop(builder.attach(node.clone())),
            Step::Close(_) => drop(builder.shut()),
        }
        Ok(())
    });
    builder.finish().value
}

/// Compares two containers, places included.
pub(super) fn equal<'a>(left: Container<'a>, right: Container<'a>) -> bool {
    let mut pairs = vec![(left, right)];
    while let Some(pair) = pairs.pop() {
        let mut later = |left: &'a Node, right: &'a Node| {
            match (Container::of(&left.value), Container::of(&right.value)) {
                (Some(left), Some(right)) => pairs.push((left, right)),
                (None, None) if left.value == right.value => {}
                _ => return false,
            }
            left.place == right.place
        };
        let same = match pair {
            (Container::List(left), Container::List(right)) => {
                left.len() == right.len()
                    && left
                        .iter()
                        .zip(right)
                        .all(|(left, right)| later(left, right))
            }
            (Container::Map(left), Container::Map(right)) => {
                left.len() == right.len()
                    && left.iter().all(|(key, left)| {
                        right.entry(key).is_some_and(|right| {
                            left.key_place == right.key_place && later(&left.node, &right.node)
                        })
                    })
            }
            _ => false,
        };
        if !same {
            return false;
        }
    }
    true
}

/// Prints a container as one line of JSON.
pub(super) fn write_json(formatter: &mut fmt::Formatter<'_>, root: Container<'_>) -> fmt::Result {
    // Whether the next key or value follows one of its own container, and so needs a comma.
    let mut follows = false;
    walk(root, |step| {
        if follows && !matches!(step, Step::Close(_)) {
            formatter.write_str(",")?;
        }
        follows = matches!(step, Step::Leaf(_) | Step::Close(_));
        match step {
            Step::Open(Container::List(_), _) => formatter.write_str("["),
            Step::Open(Container::Map(_), _) => formatter.write_str("{"),
            Step::Key(key, _) => {
                write_string(formatter, key)?;
                formatter.write_str(":")
            }
            Step::Leaf(node) => write_leaf(formatter, &node.value),
            Step::Close(Container::List(_)) => formatter.write_str("]"),
            Step::Close(Container::Map(_)) => formatter.write_str("}"),
        }
    })
}

/// Prints a value that holds no others.
pub(super) fn write_leaf(formatter: &mut fmt::Formatter<'_>, value: &Value) -> fmt::Result {
    match value {
        Value::Bool(bool) => write!(formatter, "{bool}"),
        Value::Number(number) => write!(formatter, "{number}"),
        Value::String(text) => write_string(formatter, text),
        Value::Null | Value::List(_) | Value::Map(_) => formatter.write_str("null"),
    }
}

fn write_string(formatter: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let quoted = serde_json::to_string(text).map_err(|_| fmt::Error)?;
    formatter.write_str(&quoted)
}
