//! klog's text format:
//! `I1115 06:15:29.852339    5928 run.rs:72] "message" key="value"`.

use jiff::Zoned;

use super::quote::{push_formatted, push_quoted, push_quoted_ascii};
use super::record::{Record, Severity, Value};
use super::verbosity::base_name;

/// The whole line, with its line break.
pub(super) fn line(record: &Record, time: &Zoned, pid: u32) -> String {
    let mut line = String::with_capacity(128);
    push_header(&mut line, record, time, pid);
    push_quoted(&mut line, &record.message);
    // The error of an error line comes first, wherever it was given.
    let leads = |key: &str| record.severity == Severity::Error && key == "err";
    let (first, others) = record
        .pairs
        .iter()
        .partition::<Vec<_>, _>(|(key, _)| leads(key));
    for (key, value) in first.into_iter().chain(others) {
        line.push(' ');
        line.push_str(key);
        line.push('=');
        push_value(&mut line, value);
    }
    line.push('\n');
    line
}

fn push_header(line: &mut String, record: &Record, time: &Zoned, pid: u32) {
    let letter = match record.severity {
        Severity::Info => 'I',
        Severity::Warning => 'W',
        Severity::Error => 'E',
    };
    push_formatted(
        line,
        format_args!(
            "{letter}{:02}{:02} {:02}:{:02}:{:02}.{:06} {pid:>7} {}:{}] ",
            time.month(),
            time.day(),
            time.hour(),
            time.minute(),
            time.second(),
            time.subsec_nanosecond() / 1000,
            base_name(record.file),
            record.line,
        ),
    );
}

fn push_value(line: &mut String, value: &Value) {
    match value {
        Value::Text(text) if text.contains('\n') => push_block(line, text),
        Value::Text(text) => push_quoted(line, text),
        Value::Bare(bare) => line.push_str(bare),
        Value::Float(number) => push_float(line, *number),
        Value::Bytes(bytes) => push_quoted_ascii(line, bytes),
    }
}

/// Several lines stand as they are, indented by a tab, between `<` and `>`. A
/// line break at the end of the text is not shown.
fn push_block(line: &mut String, text: &str) {
    line.push_str("<\n");
    for text_line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        push_formatted(line, format_args!("\t{text_line}\n"));
    }
    line.push_str(" >");
}

/// A number as Go's JSON has it: with an exponent only if it is very large or
/// very small.
fn push_float(line: &mut String, number: f64) {
    let magnitude = number.abs();
    if !number.is_finite() {
        push_formatted(line, format_args!("\"{number}\""));
    } else if magnitude >= 1e21 {
        line.push_str(&format!("{number:e}").replace('e', "e+"));
    } else if magnitude < 1e-6 && magnitude > 0.0 {
        push_formatted(line, format_args!("{number:e}"));
    } else {
        push_formatted(line, format_args!("{number}"));
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use jiff::tz::{Offset, TimeZone};

    use super::*;

    fn record(severity: Severity, message: &str) -> Record {
        let file = "crates/ferrolet/src/run.rs";
        Record {
            severity,
            verbosity: 0,
            file,
            line: 72,
            message: message.to_owned(),
            pairs: Vec::new(),
        }
    }

    fn printed(record: &Record) -> String {
        let time: Timestamp = "2026-11-15T06:15:29.852339999Z".parse().unwrap();
        line(record, &time.to_zoned(TimeZone::UTC), 5928)
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn a_line_has_the_header_the_quoted_message_and_the_pairs() {
        let mut record = record(Severity::Error, "command failed");
        record.add("path", text("/etc/x"));
        record.add("err", text("kubelet config file \"/srv/x\" was empty"));
        assert_eq!(
            printed(&record),
            "E1115 06:15:29.852339    5928 run.rs:72] \"command failed\" \
             err=\"kubelet config file \\\"/srv/x\\\" was empty\" path=\"/etc/x\"\n"
        );
    }

    #[test]
    fn an_info_line_keeps_the_order_of_its_pairs() {
        let mut record = record(Severity::Info, "Warning: setting GA feature gate.");
        record.add("featureGate", text("CustomCPUCFSQuotaPeriod"));
        record.add("value", Value::Bare("false".into()));
        record.add("error", text("x"));
        assert_eq!(
            printed(&record),
            "I1115 06:15:29.852339    5928 run.rs:72] \"Warning: setting GA feature gate.\" \
             featureGate=\"CustomCPUCFSQuotaPeriod\" value=false err=\"x\"\n"
        );
    }

    #[test]
    fn the_header_has_local_time_and_room_for_seven_digits_of_pid() {
        let time: Timestamp = "2026-01-02T23:04:05.000006Z".parse().unwrap();
        let zone = TimeZone::fixed(Offset::constant(2));
        for (pid, expected) in [
            (1, "W0103 01:04:05.000006       1 run.rs:72] \"\"\n"),
            (4_194_304, "W0103 01:04:05.000006 4194304 run.rs:72] \"\"\n"),
        ] {
            let record = record(Severity::Warning, "");
            assert_eq!(line(&record, &time.to_zoned(zone.clone()), pid), expected);
        }
    }

    #[test]
    fn of_pairs_with_one_key_the_last_is_printed() {
        let mut record = record(Severity::Info, "dup");
        for (key, number) in [("a", "1"), ("b", "2"), ("a", "3"), ("b", "2")] {
            record.add(key, Value::Bare(number.into()));
        }
        assert!(printed(&record).ends_with("] \"dup\" b=2 a=3\n"));
    }

    #[test]
    fn values_print_as_klog_prints_them() {
        for (value, expected) in [
            (text("a\"b\tc"), r#""a\"b\tc""#),
            (text("a\nb"), "<\n\ta\n\tb\n >"),
            (text("a\n"), "<\n\ta\n >"),
            (text("\n"), "<\n\t\n >"),
            (text("a\n\nb\n"), "<\n\ta\n\t\n\tb\n >"),
            (Value::Bare("-5".into()), "-5"),
            (Value::Float(1.5), "1.5"),
            (Value::Float(100.0), "100"),
            (Value::Float(0.0), "0"),
            (Value::Float(1e20), "100000000000000000000"),
            (Value::Float(1e21), "1e+21"),
            (Value::Float(-2.5e22), "-2.5e+22"),
            (Value::Float(1e-6), "0.000001"),
            (Value::Float(1e-7), "1e-7"),
            (Value::Float(f64::NAN), "\"NaN\""),
            (
                Value::Bytes(b"a\xff\xc3\xa9\n".to_vec()),
                r#""a\xff\u00e9\n""#,
            ),
        ] {
            let mut out = String::new();
            push_value(&mut out, &value);
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn a_message_stays_on_its_line() {
        let line = printed(&record(
            Severity::Info,
            "msg with\nbreak \0 \u{e9} \u{a0} \u{1f600}",
        ));
        assert!(line.ends_with("] \"msg with\\nbreak \\x00 \u{e9} \\u00a0 \u{1f600}\"\n"));
    }
}
