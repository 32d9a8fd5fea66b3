//! The tables `testdata/{field,flag}-values.tsv`: for every field and every
//! flag a value that a kubelet accepts and one that it refuses. The test of
//! this crate holds our judgement against them, and the differential test
//! upstream's (`tests/config_differential/rows.rs`): both include this file.
//!
//! A line has five cells: the name, the good and the bad value, and what else
//! must be given along with each of them, as `name: value; name: value`.
//! Values are YAML in flow style for a field, and what follows `--name=` for a
//! flag. A flag that takes any text has `-` for a bad value.

#![allow(clippy::panic, reason = "a slip in a table must end the test")]

/// A field or flag, and its value as text.
pub(crate) type Given = (&'static str, &'static str);

#[derive(Debug)]
pub(crate) struct Row {
    /// The good value, last, after what must be given along with it.
    pub(crate) good: Vec<Given>,
    /// The bad value, likewise.
    pub(crate) bad: Option<Vec<Given>>,
}

pub(crate) fn fields() -> Vec<Row> {
    rows(include_str!("../../testdata/field-values.tsv"))
}

pub(crate) fn flags() -> Vec<Row> {
    rows(include_str!("../../testdata/flag-values.tsv"))
}

fn rows(table: &'static str) -> Vec<Row> {
    table.lines().skip(1).map(row).collect()
}

fn row(line: &'static str) -> Row {
    let cells: Vec<&str> = line.split('\t').collect();
    let [name, good, bad, with_good, with_bad] = cells[..] else {
        panic!("not five cells: {line}");
    };
    let given = |with, value| along_with(with).chain([(name, value)]).collect();
    Row {
        good: given(with_good, good),
        bad: (bad != "-").then(|| given(with_bad, bad)),
    }
}

fn along_with(cell: &'static str) -> impl Iterator<Item = Given> {
    let pairs = cell.split(';').filter(|pair| !pair.is_empty());
    pairs.map(move |pair| {
        let Some((name, value)) = pair.split_once(':') else {
            panic!("not `name: value; name: value`: {cell}");
        };
        (name.trim(), value.trim())
    })
}

/// The words of a command line that gives these flags.
pub(crate) fn command_line(given: &[Given]) -> Vec<String> {
    let words = given.iter().map(|(name, text)| format!("--{name}={text}"));
    words.collect()
}

/// A configuration file that gives these fields.
pub(crate) fn file(given: &[Given]) -> String {
    let head = [
        ("apiVersion", "kubelet.config.k8s.io/v1beta1"),
        ("kind", "KubeletConfiguration"),
    ];
    let mut root = Object::default();
    for (path, text) in head.iter().chain(given) {
        root.put(path, text);
    }
    root.0
        .iter()
        .map(|(name, value)| entry(name, value) + "\n")
        .collect()
}

/// Fields by name, in the order in which they were given.
#[derive(Default)]
struct Object(Vec<(&'static str, Value)>);

enum Value {
    Text(&'static str),
    Object(Object),
}

impl Object {
    fn put(&mut self, path: &'static str, text: &'static str) {
        let Some((name, rest)) = path.split_once('.') else {
            return self.put_text(path, text);
        };
        // An object that was given as empty is the one that is filled now.
        let empty = |value: &Value| matches!(value, Value::Text("{}"));
        self.0
            .retain(|(known, value)| *known != name || !empty(value));
        let found = self.0.iter().position(|(known, _)| *known == name);
        let index = found.unwrap_or_else(|| {
            self.0.push((name, Value::Object(Object::default())));
            self.0.len() - 1
        });
        match &mut self.0[index].1 {
            Value::Object(object) => object.put(rest, text),
            Value::Text(text) => panic!("{name} is {text}, and {path} is given, too"),
        }
    }

    fn put_text(&mut self, name: &'static str, text: &'static str) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, Value::Object(_))) if text == "{}" => {}
            Some((_, Value::Object(_))) => panic!("{name} is {text}, and fields in it are given"),
            Some((_, value)) => *value = Value::Text(text),
            None => self.0.push((name, Value::Text(text))),
        }
    }

    fn to_flow(&self) -> String {
        let entries: Vec<_> = self.0.iter().map(|(name, it)| entry(name, it)).collect();
        format!("{{{}}}", entries.join(", "))
    }
}

/// `name[]` is a list, and what is given is its only item.
fn entry(name: &str, value: &Value) -> String {
    let text = match value {
        Value::Text(text) => (*text).to_owned(),
        Value::Object(object) => object.to_flow(),
    };
    match name.strip_suffix("[]") {
        Some(name) => format!("{name}: [{text}]"),
        None => format!("{name}: {text}"),
    }
}
