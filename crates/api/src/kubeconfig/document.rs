//! YAML or JSON text, as the tree of values that upstream's decoder sees.

use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Error, options};

/// Text that is neither YAML nor JSON. It never quotes the text: there are keys in it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SyntaxError(String);

/// Reads the first document. An empty text is `null`.
pub(super) fn read(text: &[u8]) -> Result<Value, SyntaxError> {
    let options = options! {
        // go-yaml keeps the last of two equal keys, and knows YAML 1.1's booleans and octals.
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        strict_booleans: false,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    let mut text = text;
    match serde_saphyr::read_with_options::<_, Value>(&mut text, options).next() {
        None => Ok(Value::Null),
        Some(result) => result.map_err(|error| SyntaxError(describe(&error))),
    }
}

fn describe(error: &Error) -> String {
    let error = error.without_snippet();
    match error {
        // These repeat the value.
        Error::NonFiniteFloat { location, .. }
        | Error::SerdeInvalidType { location, .. }
        | Error::SerdeInvalidValue { location, .. } => format!(
            "a value that cannot be read, put it in quotes, at line {}, column {}",
            location.line(),
            location.column()
        ),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_is_read_as_upstream_reads_it() {
        let cases = [
            ("", json!(null)),
            ("# only a comment\n", json!(null)),
            ("a: b\n---\nc: d\n", json!({"a": "b"})),
            ("a: 1\na: 2\n", json!({"a": 2})),
            (
                "{\"a\": [1, \"b\", null, true]}",
                json!({"a": [1, "b", null, true]}),
            ),
            (
                "a: yes\nb: off\nc: \"yes\"\n",
                json!({"a": true, "b": false, "c": "yes"}),
            ),
            (
                "a: &x {k: v}\nb: *x\n",
                json!({"a": {"k": "v"}, "b": {"k": "v"}}),
            ),
            (
                "a: &x {k: v}\nb:\n  <<: *x\n  l: w\n",
                json!({"a": {"k": "v"}, "b": {"k": "v", "l": "w"}}),
            ),
            ("a: |\n  x\n  y\n", json!({"a": "x\ny\n"})),
            ("a: ~\nb:\n", json!({"a": null, "b": null})),
            ("\u{feff}a: b\n", json!({"a": "b"})),
            (
                "a: 2026-01-02\nb: 0x1F\nc: 1.5\n",
                json!({"a": "2026-01-02", "b": 31, "c": 1.5}),
            ),
            ("1: a\ntrue: b\n", json!({"1": "a", "true": "b"})),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text.as_bytes()).unwrap(), expected, "{text:?}");
        }
    }

    #[test]
    fn a_syntax_error_tells_the_place_and_quotes_nothing() {
        for text in [
            "users:\n- user:\n    token: 'hunter2\n",
            "token: hunter2\n\tx: y\n",
            "a: [hunter2\n",
            "a: hunter2: b\n",
            "a: 47e4711\n",
            "a: !!int hunter2\n",
            "a: !!float hunter2\n",
            "a: !!bool hunter2\n",
            "a: !!binary hunter2!\n",
            "a: \"hunter2\\q\"\n",
            "a: *hunter2\n",
            "- hunter2\na: b\n",
        ] {
            let message = read(text.as_bytes()).unwrap_err().to_string();
            assert!(message.contains("line "), "{text:?}: {message}");
            assert!(
                !message.contains("hunter2") && !message.contains("4711"),
                "{text:?}: {message}"
            );
            assert!(!message.contains('\n'), "{text:?}: {message}");
        }
        assert!(read(b"a: \xff\xfe\n").is_err());
    }
}
