//! Laying flags over settings: the last word is theirs.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{Parsed, Use};
use crate::schema::{self, Field, FlagKind};
use crate::settings::{Origin, Settings};

/// Applies the flags that have a field, in their order.
pub(crate) fn apply(settings: &mut Settings, uses: &[Use]) {
    let mut seen = BTreeSet::new();
    for one in uses {
        let Some(flag) = schema::flag(one.flag) else {
            continue;
        };
        let Some(field) = flag.field.and_then(schema::field) else {
            continue;
        };
        let first = seen.insert(flag.name);
        let value = match &one.parsed {
            Parsed::Nothing => continue,
            Parsed::One(value) => value.clone(),
            Parsed::Many(items) => list(settings, field, flag.kind, first, items),
            Parsed::Pairs(pairs) => map(settings, field, flag.kind, first, pairs),
        };
        settings.set(field, value, Origin::Flag(one.written.clone()));
    }
}

/// The first use clears what files said, later ones add; but taints are
/// replaced each time, and modules are never cleared.
fn list(settings: &Settings, field: &Field, kind: FlagKind, first: bool, items: &[Value]) -> Value {
    let keeps = match kind {
        FlagKind::Taints => false,
        FlagKind::Vmodule => true,
        _ => !first,
    };
    let mut whole = if keeps {
        settings.list(field.path).to_vec()
    } else {
        Vec::new()
    };
    whole.extend_from_slice(items);
    Value::Array(whole)
}

/// The first use clears what files said, later ones add; but gates that only a
/// file names stay.
fn map(
    settings: &Settings,
    field: &Field,
    kind: FlagKind,
    first: bool,
    pairs: &[(String, Value)],
) -> Value {
    let keeps = !first || kind == FlagKind::MapStringBool;
    let mut whole: Map<String, Value> = if keeps {
        settings
            .entries(field.path)
            .map(|(key, value)| (key.to_owned(), value.clone()))
            .collect()
    } else {
        Map::new()
    };
    for (key, value) in pairs {
        if kind == FlagKind::Headers {
            let values = whole.entry(key.clone()).or_insert_with(|| json!([]));
            if let Value::Array(values) = values {
                values.push(value.clone());
            }
        } else {
            whole.insert(key.clone(), value.clone());
        }
    }
    Value::Object(whole)
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
