//! Prometheus's text form, written straight from what was looked at: nothing is kept
//! between two scrapes, and nothing is put into numbers with a point that is a count.

use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

/// By which scrapers know the form.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
        }
    }
}

/// What a family is called, and what it is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Count(u64),
    Negative(i64),
    /// Seconds, by their billionths.
    Nanos(u64),
    /// Seconds, by their millionths.
    Micros(u64),
    /// Seconds, by their thousandths.
    Millis(u64),
}

/// Seconds since 1970, with all that is known of their parts.
pub(super) fn seconds_of(time: SystemTime) -> Value {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Value::Nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// A family that is being written. It begins with its first sample: one without any is
/// not there.
#[derive(Debug)]
pub(super) struct Family<'a> {
    out: &'a mut Vec<u8>,
    named: Named,
    begun: bool,
}

impl<'a> Family<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>, named: Named) -> Self {
        Self {
            out,
            named,
            begun: false,
        }
    }

    /// `labels` is what [`labels`] made.
    pub(super) fn put(
        &mut self,
        labels: &str,
        more: &[(&str, &str)],
        value: Value,
        at: Option<SystemTime>,
    ) {
        self.begin();
        self.out.extend_from_slice(self.named.name.as_bytes());
        if !labels.is_empty() || !more.is_empty() {
            self.out.push(b'{');
            self.out.extend_from_slice(labels.as_bytes());
            let mut first = labels.is_empty();
            for (name, value) in more {
                label(self.out, &mut first, name, value);
            }
            self.out.push(b'}');
        }
        self.out.push(b' ');
        number(self.out, value);
        let since = at.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        if let Some(since) = since {
            self.out.push(b' ');
            digits(
                self.out,
                u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            );
        }
        self.out.push(b'\n');
    }

    fn begin(&mut self) {
        if self.begun {
            return;
        }
        self.begun = true;
        let Named { name, help, kind } = self.named;
        let kind = kind.word();
        let head = [
            "# HELP ",
            name,
            " ",
            help,
            "\n# TYPE ",
            name,
            " ",
            kind,
            "\n",
        ];
        for word in head {
            self.out.extend_from_slice(word.as_bytes());
        }
    }
}

/// Labels that several families have in common, written once.
pub(super) fn labels(all: &[(&str, &str)]) -> String {
    let mut out = Vec::new();
    let mut first = true;
    for (name, value) in all {
        label(&mut out, &mut first, name, value);
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn label(out: &mut Vec<u8>, first: &mut bool, name: &str, value: &str) {
    if !std::mem::take(first) {
        out.push(b',');
    }
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"=\"");
    for byte in value.bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            byte => out.push(byte),
        }
    }
    out.push(b'"');
}

fn number(out: &mut Vec<u8>, value: Value) {
    let (whole, part, width) = match value {
        Value::Count(count) => (count, 0, 0),
        Value::Negative(value) => {
            // To memory nothing fails.
            let _ = write!(out, "{value}");
            return;
        }
        Value::Nanos(nanos) => (nanos / 1_000_000_000, nanos % 1_000_000_000, 9),
        Value::Micros(micros) => (micros / 1_000_000, micros % 1_000_000, 6),
        Value::Millis(millis) => (millis / 1000, millis % 1000, 3),
    };
    digits(out, whole);
    if part > 0 {
        let _ = write!(out, ".{part:0width$}");
    }
}

fn digits(out: &mut Vec<u8>, mut value: u64) {
    // The largest has twenty.
    let mut buffer = [0; 20];
    let mut place = buffer.len();
    loop {
        place -= 1;
        // Below ten it fits.
        buffer[place] = b'0' + u8::try_from(value % 10).unwrap_or_default();
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&buffer[place..]);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn written(write: impl FnOnce(&mut Family<'_>)) -> String {
        let mut out = Vec::new();
        let named = Named {
            name: "things_total",
            help: "How many.",
            kind: Kind::Counter,
        };
        write(&mut Family::new(&mut out, named));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_family_begins_with_its_first_sample() {
        assert_eq!(written(|_| {}), "");
        let at = UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
        let common = labels(&[("pod", "a"), ("id", "/x\"\\\n")]);
        let text = written(|family| {
            family.put("", &[], Value::Count(7), None);
            family.put(&common, &[], Value::Nanos(1_000_000_000), Some(at));
            family.put(
                &common,
                &[("cpu", "total")],
                Value::Nanos(1_020_000_003),
                None,
            );
            family.put("", &[("cpu", "0")], Value::Negative(-1), None);
        });
        let wanted = r#"# HELP things_total How many.
# TYPE things_total counter
things_total 7
things_total{pod="a",id="/x\"\\\n"} 1 1700000000123
things_total{pod="a",id="/x\"\\\n",cpu="total"} 1.020000003
things_total{cpu="0"} -1
"#;
        assert_eq!(text, wanted);
    }

    #[test]
    fn numbers_are_exact() {
        for (value, wanted) in [
            (Value::Count(0), "0"),
            (Value::Count(u64::MAX), "18446744073709551615"),
            (Value::Nanos(5), "0.000000005"),
            (Value::Micros(1_500_000), "1.500000"),
            (Value::Millis(1_001), "1.001"),
            (Value::Millis(2_000), "2"),
        ] {
            let mut out = Vec::new();
            number(&mut out, value);
            assert_eq!(String::from_utf8(out).unwrap(), wanted);
        }
    }
}
