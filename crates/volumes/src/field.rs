//! Fields of a pod as text, for files and variables: as upstream writes them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use k8s_openapi::api::core::v1::Pod;
use types::names::validate_label_key;

use crate::downward_api::DownwardError;

/// A field of a pod's metadata, by its path.
pub fn field(pod: &Pod, path: &str) -> Result<String, DownwardError> {
    let metadata = &pod.metadata;
    if let Some((map, key)) = subscripted(path) {
        let (values, checked) = match map {
            "metadata.annotations" => (&metadata.annotations, key.to_lowercase()),
            "metadata.labels" => (&metadata.labels, key.to_owned()),
            _ => {
                let path = path.to_owned();
                return Err(DownwardError::NoSubscript { path });
            }
        };
        validate_label_key(&checked).map_err(|problem| DownwardError::BadSubscript {
            path: path.to_owned(),
            problem: problem.to_string(),
        })?;
        let value = values.as_ref().and_then(|values| values.get(key));
        return Ok(value.cloned().unwrap_or_default());
    }
    match path {
        "metadata.annotations" => Ok(lines(metadata.annotations.as_ref())),
        "metadata.labels" => Ok(lines(metadata.labels.as_ref())),
        "metadata.name" => Ok(metadata.name.clone().unwrap_or_default()),
        "metadata.namespace" => Ok(metadata.namespace.clone().unwrap_or_default()),
        "metadata.uid" => Ok(metadata.uid.clone().unwrap_or_default()),
        _ => Err(DownwardError::UnsupportedField {
            path: path.to_owned(),
        }),
    }
}

/// `metadata.labels['key']` as the two.
fn subscripted(path: &str) -> Option<(&str, &str)> {
    let (map, key) = path.strip_suffix("']")?.split_once("['")?;
    (!map.is_empty()).then_some((map, key))
}

/// `key="value"`, a line for each, sorted, without an end of line at the end.
fn lines(values: Option<&BTreeMap<String, String>>) -> String {
    let values = values.into_iter().flatten();
    let lines = values.map(|(key, value)| format!("{key}={}", quoted(value)));
    lines.collect::<Vec<_>>().join("\n")
}

/// In double quotes, with Go's escapes.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        let escape = match character {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\x07' => "\\a",
            '\x08' => "\\b",
            '\x0c' => "\\f",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\x0b' => "\\v",
            _ => {
                push(&mut quoted, character);
                continue;
            }
        };
        quoted.push_str(escape);
    }
    quoted.push('"');
    quoted
}

fn push(quoted: &mut String, character: char) {
    let code = u32::from(character);
    // Writing to a text cannot fail.
    let _ = match code {
        _ if is_printable(character) => write!(quoted, "{character}"),
        0..0x20 | 0x7f => write!(quoted, "\\x{code:02x}"),
        0..0x1_0000 => write!(quoted, "\\u{code:04x}"),
        _ => write!(quoted, "\\U{code:08x}"),
    };
}

/// Whether Go prints it as it is, which is what Rust does behind a first letter.
fn is_printable(character: char) -> bool {
    let text = format!("a{character}");
    text.escape_debug().eq(text.chars())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::from_json;
    use serde_json::json;

    #[test]
    fn fields_are_written_as_upstream_writes_them() {
        let pod: Pod = from_json(json!({"metadata": {
            "name": "p", "namespace": "ns", "uid": "1-2",
            "labels": {"b": "two", "a": "one", "example.com/Key": "v"},
            "annotations": {
                "plain": "text", "Upper.io/Key": "x",
                "odd": "a \"quote\" \\ and\na line\tand \u{1}\u{7f}\u{200b}é\u{301}\u{e0001}"
            },
        }}));
        let cases = [
            ("metadata.name", Ok("p")),
            ("metadata.namespace", Ok("ns")),
            ("metadata.uid", Ok("1-2")),
            (
                "metadata.labels",
                Ok("a=\"one\"\nb=\"two\"\nexample.com/Key=\"v\""),
            ),
            (
                "metadata.annotations",
                Ok(
                    "Upper.io/Key=\"x\"\nodd=\"a \\\"quote\\\" \\\\ and\\na line\\tand \\x01\\x7f\\u200bé\u{301}\\U000e0001\"\nplain=\"text\"",
                ),
            ),
            ("metadata.labels['a']", Ok("one")),
            ("metadata.labels['example.com/Key']", Ok("v")),
            ("metadata.labels['absent']", Ok("")),
            ("metadata.annotations['Upper.io/Key']", Ok("x")),
            ("spec.nodeName", Err("unsupported fieldPath: spec.nodeName")),
            (
                "metadata.labels[a]",
                Err("unsupported fieldPath: metadata.labels[a]"),
            ),
            ("['a']", Err("unsupported fieldPath: ['a']")),
            (
                "metadata.name['a']",
                Err("fieldPath \"metadata.name['a']\" does not support subscript"),
            ),
        ];
        for (path, wanted) in cases {
            let found = field(&pod, path).map_err(|error| error.to_string());
            assert_eq!(
                found,
                wanted.map(str::to_owned).map_err(str::to_owned),
                "{path}"
            );
        }
        let error = field(&pod, "metadata.labels['a b']")
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("invalid key subscript in metadata.labels['a b']: "),
            "{error}"
        );
    }

    #[test]
    fn a_pod_without_labels_has_an_empty_text() {
        assert_eq!(field(&Pod::default(), "metadata.labels").unwrap(), "");
    }
}
