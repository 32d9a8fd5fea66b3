//! The JSON format: one object a line, its keys in a fixed order.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;

use super::quote::push_formatted;
use super::record::{Record, Severity, Value};

/// The whole line, with its line break.
pub(super) fn line(record: &Record, time: Timestamp) -> String {
    let mut line = String::with_capacity(160);
    push_formatted(&mut line, format_args!("{{\"ts\":{}", unix_millis(time)));
    push_key(&mut line, "caller");
    push_string(
        &mut line,
        &format!("{}:{}", short_path(record.file), record.line),
    );
    push_key(&mut line, "msg");
    push_string(&mut line, &record.message);
    if record.severity != Severity::Error {
        push_key(&mut line, "v");
        push_formatted(&mut line, format_args!("{}", shown_verbosity(record)));
    }
    // The error of an error line comes last, wherever it was given.
    let trails = |key: &str| record.severity == Severity::Error && key == "err";
    let (last, others) = record
        .pairs
        .iter()
        .partition::<Vec<_>, _>(|(key, _)| trails(key));
    for (key, value) in others.into_iter().chain(last) {
        push_key(&mut line, key);
        push_value(&mut line, value);
    }
    line.push_str("}\n");
    line
}

/// klog has no verbosity for warnings: as JSON they are info lines of `v` 0.
fn shown_verbosity(record: &Record) -> u32 {
    if record.severity == Severity::Warning {
        0
    } else {
        record.verbosity
    }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "the format is a float: upstream loses the last nanoseconds in the same way"
)]
fn unix_millis(time: Timestamp) -> f64 {
    time.as_nanosecond() as f64 / 1_000_000.0
}

/// The file with the directory it lies in.
fn short_path(path: &str) -> &str {
    let start = path.rmatch_indices('/').nth(1).map_or(0, |(at, _)| at + 1);
    path.get(start..).unwrap_or(path)
}

fn push_key(line: &mut String, key: &str) {
    line.push(',');
    push_string(line, key);
    line.push(':');
}

fn push_value(line: &mut String, value: &Value) {
    match value {
        Value::Text(text) => push_string(line, text),
        Value::Bare(bare) => line.push_str(bare),
        Value::Float(number) if number.is_nan() => line.push_str("\"NaN\""),
        Value::Float(number) if number.is_infinite() => {
            line.push_str(if *number > 0.0 {
                "\"+Inf\""
            } else {
                "\"-Inf\""
            });
        }
        Value::Float(number) => push_formatted(line, format_args!("{number}")),
        Value::Bytes(bytes) => push_string(line, &STANDARD.encode(bytes)),
    }
}

fn push_string(line: &mut String, text: &str) {
    line.push('"');
    for c in text.chars() {
        match c {
            '"' => line.push_str("\\\""),
            '\\' => line.push_str("\\\\"),
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push_str("\\t"),
            '\0'..='\u{1f}' => push_formatted(line, format_args!("\\u{:04x}", u32::from(c))),
            c => line.push(c),
        }
    }
    line.push('"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(severity: Severity, verbosity: u32, pairs: &[(&'static str, Value)]) -> Record {
        let (file, message) = (
            "crates/ferrolet/src/cli/run.rs",
            "command failed".to_owned(),
        );
        Record {
            severity,
            verbosity,
            file,
            line: 72,
            message,
            pairs: pairs.to_vec(),
        }
    }

    fn printed(record: &Record) -> String {
        line(
            record,
            Timestamp::from_nanosecond(1_794_723_332_253_229_500).unwrap(),
        )
    }

    #[test]
    fn an_info_line_has_its_verbosity_before_the_pairs() {
        let pairs = [
            ("pod", Value::Text("ns/name".into())),
            ("n", Value::Bare("5".into())),
            ("err", Value::Text("x".into())),
            ("f", Value::Float(1e21)),
            ("g", Value::Float(1e-7)),
            ("h", Value::Float(f64::NEG_INFINITY)),
            ("b", Value::Bytes(b"a\xff\xc3\xa9\n".to_vec())),
        ];
        assert_eq!(
            printed(&record(Severity::Info, 2, &pairs)),
            "{\"ts\":1794723332253.2295,\"caller\":\"cli/run.rs:72\",\"msg\":\"command failed\",\"v\":2,\
             \"pod\":\"ns/name\",\"n\":5,\"err\":\"x\",\"f\":1000000000000000000000,\"g\":0.0000001,\
             \"h\":\"-Inf\",\"b\":\"Yf/DqQo=\"}\n"
        );
    }

    #[test]
    fn an_error_line_has_no_verbosity_and_ends_with_its_error() {
        let pairs = [
            ("err", Value::Text("bad \"x\"".into())),
            ("k", Value::Text("v".into())),
        ];
        assert_eq!(
            printed(&record(Severity::Error, 0, &pairs)),
            "{\"ts\":1794723332253.2295,\"caller\":\"cli/run.rs:72\",\"msg\":\"command failed\",\
             \"k\":\"v\",\"err\":\"bad \\\"x\\\"\"}\n"
        );
    }

    #[test]
    fn a_warning_is_an_info_line() {
        assert!(printed(&record(Severity::Warning, 3, &[])).ends_with("\"v\":0}\n"));
    }

    #[test]
    fn strings_are_escaped_as_upstream_does() {
        let mut out = String::new();
        push_string(
            &mut out,
            "\u{8}\u{c}\u{b}\u{7}\u{7f}\u{1f} \u{2028} <&> / \u{e9} \r\n\t\\\" \u{80}",
        );
        assert_eq!(
            out,
            "\"\\u0008\\u000c\\u000b\\u0007\u{7f}\\u001f \u{2028} <&> / \u{e9} \\r\\n\\t\\\\\\\" \u{80}\""
        );
    }

    #[test]
    fn a_caller_is_a_file_and_its_directory() {
        for (path, short) in [
            ("a/b/c.rs", "b/c.rs"),
            ("b/c.rs", "b/c.rs"),
            ("c.rs", "c.rs"),
        ] {
            assert_eq!(short_path(path), short);
        }
    }

    proptest! {
        #[test]
        fn any_line_is_json_that_gives_its_texts_back(message in any::<String>(), value in any::<String>()) {
            let mut record = record(Severity::Info, 0, &[("key", Value::Text(value.clone()))]);
            record.message.clone_from(&message);
            let json: serde_json::Value = serde_json::from_str(&printed(&record)).unwrap();
            prop_assert_eq!(json["msg"].as_str(), Some(message.as_str()));
            prop_assert_eq!(json["key"].as_str(), Some(value.as_str()));
        }
    }
}
