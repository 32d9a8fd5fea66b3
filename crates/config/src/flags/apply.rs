//! Laying flags over settings: the last word is theirs.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Parsed, Use};
use crate::schema::{self, Field, FlagKind};
use crate::settings::{MOST_PARTS, Origin, Parts, Settings};

/// Applies the flags that have a field. All uses of a flag are one change.
pub(crate) fn apply(settings: &mut Settings, uses: &[Use]) {
    let mut by_flag: BTreeMap<&str, Vec<&Use>> = BTreeMap::new();
    for one in uses {
        by_flag.entry(one.flag).or_default().push(one);
    }
    for (name, uses) in by_flag {
        let Some(flag) = schema::flag(name) else {
            continue;
        };
        if let Some(field) = flag.field.and_then(schema::field) {
            set(settings, field, flag.kind, &uses);
        }
    }
}

fn set(settings: &mut Settings, field: &'static Field, kind: FlagKind, uses: &[&Use]) {
    let mut folded = Folded::start(settings, field, kind);
    for one in uses {
        folded.take(one);
    }
    if let Some(value) = folded.value {
        settings.set_parts(field, value, Origin::Flag(written(uses)), folded.parts);
    }
}

/// All uses as the operator wrote them, as long as they can be read.
fn written(uses: &[&Use]) -> String {
    const MOST: usize = 4;
    let mut texts: Vec<&str> = uses.iter().map(|one| one.written.as_str()).collect();
    if texts.len() <= MOST {
        return texts.join(" ");
    }
    let more = texts.len() - MOST;
    texts.truncate(MOST);
    format!("{} and {more} more", texts.join(" "))
}

/// The value of a field while the uses of its flag are laid over it.
struct Folded {
    path: &'static str,
    kind: FlagKind,
    value: Option<Value>,
    parts: Parts,
}

impl Folded {
    /// The first use of a flag clears what files said, later ones add. But
    /// modules are never cleared, and gates that only a file names stay.
    fn start(settings: &Settings, field: &'static Field, kind: FlagKind) -> Self {
        let keeps = matches!(kind, FlagKind::Vmodule | FlagKind::MapStringBool);
        let old = settings.get(field.path).filter(|_| keeps);
        Self {
            path: field.path,
            kind,
            value: old.map(|old| old.value.clone()),
            parts: old.map(|old| old.parts.clone()).unwrap_or_default(),
        }
    }

    fn take(&mut self, one: &Use) {
        match &one.parsed {
            Parsed::Nothing => {}
            Parsed::One(value) => self.value = Some(value.clone()),
            Parsed::Many(items) => self.add_items(items, one),
            Parsed::Pairs(pairs) => self.add_pairs(pairs, one),
        }
    }

    fn add_items(&mut self, items: &[Value], one: &Use) {
        // Taints are replaced each time.
        let keeps = self.kind != FlagKind::Taints;
        let mut whole = match self.value.take() {
            Some(Value::Array(whole)) if keeps => whole,
            _ => Vec::new(),
        };
        for item in items {
            self.note(format!("{}[{}]", self.path, whole.len()), one);
            whole.push(item.clone());
        }
        self.value = Some(Value::Array(whole));
    }

    fn add_pairs(&mut self, pairs: &[(String, Value)], one: &Use) {
        let mut whole = match self.value.take() {
            Some(Value::Object(whole)) => whole,
            _ => Map::new(),
        };
        for (key, value) in pairs {
            self.note(format!("{}.{key}", self.path), one);
            if self.kind == FlagKind::Headers {
                let values = whole.entry(key.clone()).or_insert_with(|| json!([]));
                if let Value::Array(values) = values {
                    values.push(value.clone());
                }
            } else {
                whole.insert(key.clone(), value.clone());
            }
        }
        self.value = Some(Value::Object(whole));
    }

    fn note(&mut self, path: String, one: &Use) {
        if self.parts.len() < MOST_PARTS {
            self.parts.insert(path, Origin::Flag(one.written.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::CommandLine;

    /// The value of `path` when a file gave it `before` and these flags follow.
    fn after(path: &str, before: Value, words: &[&str]) -> Value {
        let mut settings = Settings::default();
        settings.set(schema::field(path).unwrap(), before, Origin::Default);
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        apply(&mut settings, &CommandLine::parse(&words).unwrap().uses);
        settings.value(path).unwrap().clone()
    }

    #[test]
    fn a_flag_beats_a_file_by_the_rules_of_its_kind() {
        for (path, before, words, expected) in [
            (
                "maxPods",
                json!(5),
                &["--max-pods=6", "--max-pods=7"][..],
                json!(7),
            ),
            (
                "clusterDNS",
                json!(["1.1.1.1"]),
                &["--cluster-dns=2.2.2.2", "--cluster-dns=3.3.3.3"],
                json!(["2.2.2.2", "3.3.3.3"]),
            ),
            (
                "systemReserved",
                json!({"cpu": "1"}),
                &["--system-reserved=memory=1Gi", "--system-reserved=pid=5"],
                json!({"memory": "1Gi", "pid": "5"}),
            ),
            (
                "featureGates",
                json!({"A": true, "B": true}),
                &["--feature-gates=B=false"],
                json!({"A": true, "B": false}),
            ),
            (
                "logging.vmodule",
                json!([{"filePattern": "a", "verbosity": 1}]),
                &["--vmodule=b=2"],
                json!([{"filePattern": "a", "verbosity": 1}, {"filePattern": "b", "verbosity": 2}]),
            ),
            (
                "registerWithTaints",
                json!([]),
                &[
                    "--register-with-taints=a=b:NoSchedule",
                    "--register-with-taints=c=d:NoExecute",
                ],
                json!([{"key": "c", "value": "d", "effect": "NoExecute"}]),
            ),
            (
                "staticPodURLHeader",
                json!({"x": ["old"]}),
                &["--manifest-url-header=a:1,a:2", "--manifest-url-header=b:3"],
                json!({"a": ["1", "2"], "b": ["3"]}),
            ),
            (
                "address",
                json!("1.1.1.1"),
                &["--address="],
                json!("1.1.1.1"),
            ),
        ] {
            assert_eq!(after(path, before, words), expected, "{words:?}");
        }
    }
}
