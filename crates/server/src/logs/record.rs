//! One record of a container's log as CRI has it: `TIME STREAM TAGS CONTENT`.

use std::time::{Duration, SystemTime};

use memchr::memchr2;

/// Which of a container's outputs a record is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    Stdout,
    Stderr,
}

impl Output {
    pub(super) fn named(name: &[u8]) -> Option<Self> {
        match name {
            b"stdout" => Some(Self::Stdout),
            b"stderr" => Some(Self::Stderr),
            _ => None,
        }
    }
}

/// What stands before the content of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head<'a> {
    pub(super) stamp: Stamp<'a>,
    pub(super) output: Output,
    /// The line goes on in the next record of this output.
    pub(super) partial: bool,
    /// Bytes before the content.
    pub(super) length: usize,
}

/// What the beginning of a record tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beginning<'a> {
    Head(Head<'a>),
    /// So far it could be one.
    Short,
    Malformed,
}

/// More than a head takes: tags that nobody knows yet may stand in it, but not pages.
pub(super) const LONGEST_HEAD: usize = 1024;

pub(super) fn beginning(bytes: &[u8]) -> Beginning<'_> {
    let bytes = &bytes[..bytes.len().min(LONGEST_HEAD)];
    let unfinished = if bytes.len() < LONGEST_HEAD {
        Beginning::Short
    } else {
        Beginning::Malformed
    };
    let mut words = [&bytes[..0]; 3];
    let mut at = 0;
    for word in &mut words {
        match memchr2(b' ', b'\n', &bytes[at..]) {
            None => return unfinished,
            Some(end) if bytes[at + end] == b'\n' => return Beginning::Malformed,
            Some(end) => {
                *word = &bytes[at..at + end];
                at += end + 1;
            }
        }
    }
    let [stamp, output, tags] = words;
    let (Some(stamp), Some(output)) = (Stamp::read(stamp), Output::named(output)) else {
        return Beginning::Malformed;
    };
    Beginning::Head(Head {
        stamp,
        output,
        partial: tags.split(|byte| *byte == b':').next() == Some(b"P"),
        length: at,
    })
}

/// A moment as RFC 3339 writes it, with any number of digits behind the seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp<'a> {
    /// `2016-10-06T00:17:09`.
    date_and_time: &'a [u8],
    /// Digits.
    fraction: &'a [u8],
    /// `Z`, or `+01:00`.
    zone: &'a [u8],
}

/// Bytes of a stamp in its longest form, and a space.
pub(super) const LONGEST_STAMP: usize = 36;

const SECONDS_LENGTH: usize = 19;

const NANOS_LENGTH: usize = 9;

impl<'a> Stamp<'a> {
    pub(super) fn read(text: &'a [u8]) -> Option<Self> {
        let (date_and_time, rest) = text.split_at_checked(SECONDS_LENGTH)?;
        let in_range = plausible(date_and_time);
        let (fraction, zone) = match rest {
            [b'.' | b',', digits @ ..] => {
                let length = digits.iter().take_while(|byte| byte.is_ascii_digit());
                digits.split_at(length.count())
            }
            zone => (&zone[..0], zone),
        };
        let has_digits = !fraction.is_empty() || matches!(rest, [b'Z' | b'+' | b'-', ..]);
        (in_range && has_digits && (zone == b"Z" || offset(zone).is_some())).then_some(Self {
            date_and_time,
            fraction,
            zone,
        })
    }

    /// With nine digits and a space behind it.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.date_and_time);
        out.push(b'.');
        let digits = self.fraction.len().min(NANOS_LENGTH);
        out.extend_from_slice(&self.fraction[..digits]);
        out.extend_from_slice(&b"000000000"[digits..]);
        if self.zone == b"Z" || offset(self.zone) == Some(0) {
            out.push(b'Z');
        } else {
            out.extend_from_slice(self.zone);
        }
        out.push(b' ');
    }

    /// Whether it is before another moment.
    pub(super) fn is_before(&self, since: Moment) -> bool {
        self.moment() < since
    }

    pub(super) fn moment(&self) -> Moment {
        let text = self.date_and_time;
        let days = days_since_1970(
            i64::from(number(&text[..4])),
            i64::from(number(&text[5..7])),
            i64::from(number(&text[8..10])),
        );
        let of_day = number(&text[11..13]) * 3600 + number(&text[14..16]) * 60;
        let of_day = i64::from(of_day + number(&text[17..19]));
        let digits = self.fraction.len().min(NANOS_LENGTH);
        let scale = (digits..NANOS_LENGTH).fold(1, |scale, _| scale * 10);
        Moment {
            seconds: days * 86_400 + of_day - offset(self.zone).unwrap_or_default(),
            nanos: number(&self.fraction[..digits]) * scale,
        }
    }
}

/// A point in time; the first of two is the lesser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment {
    /// Since 1970.
    pub(super) seconds: i64,
    pub(super) nanos: u32,
}

impl Moment {
    /// So long before a time.
    pub(super) fn before(now: SystemTime, seconds: i64) -> Self {
        let since = now.duration_since(SystemTime::UNIX_EPOCH);
        let since = since.unwrap_or(Duration::ZERO);
        Self {
            seconds: since.as_secs().cast_signed().saturating_sub(seconds),
            nanos: since.subsec_nanos(),
        }
    }
}

fn number(digits: &[u8]) -> u32 {
    digits
        .iter()
        .fold(0, |number, digit| number * 10 + u32::from(digit - b'0'))
}

/// Whether there is such a date and such a time.
fn plausible(text: &[u8]) -> bool {
    let shape = b"0000-00-00T00:00:00";
    let fits = |(byte, wanted): (&u8, &u8)| match wanted {
        b'0' => byte.is_ascii_digit(),
        _ => byte == wanted,
    };
    if !text.iter().zip(shape).all(fits) {
        return false;
    }
    let (year, month, day) = (
        number(&text[..4]),
        number(&text[5..7]),
        number(&text[8..10]),
    );
    let longest = match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        1..=12 => 31,
        _ => return false,
    };
    (1..=longest).contains(&day)
        && number(&text[11..13]) < 24
        && number(&text[14..16]) < 60
        && number(&text[17..19]) < 60
}

/// Seconds east of Greenwich.
fn offset(zone: &[u8]) -> Option<i64> {
    let (sign, hours, minutes) = match zone {
        b"Z" => return Some(0),
        [sign @ (b'+' | b'-'), a, b, b':', c, d] => (sign, [*a, *b], [*c, *d]),
        _ => return None,
    };
    let digits = hours.iter().chain(&minutes).all(u8::is_ascii_digit);
    if !digits || number(&hours) > 24 || number(&minutes) > 59 {
        return None;
    }
    let seconds = i64::from(number(&hours) * 3600 + number(&minutes) * 60);
    Some(if *sign == b'-' { -seconds } else { seconds })
}

/// By the Gregorian calendar, which repeats itself every 400 years.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March here, so that a leap day is the last of its year.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let month = (month + 9) % 12;
    let of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> Option<String> {
        let mut out = Vec::new();
        Stamp::read(text.as_bytes())?.write(&mut out);
        Some(String::from_utf8(out).unwrap())
    }

    #[test]
    fn stamps_are_written_with_nine_digits_in_their_own_zone() {
        for (text, wanted) in [
            (
                "2016-10-06T00:17:09.669794202Z",
                "2016-10-06T00:17:09.669794202Z ",
            ),
            ("2016-10-06T00:17:09.6Z", "2016-10-06T00:17:09.600000000Z "),
            ("2016-10-06T00:17:09Z", "2016-10-06T00:17:09.000000000Z "),
            (
                "2016-10-06T00:17:09.1234567891+01:30",
                "2016-10-06T00:17:09.123456789+01:30 ",
            ),
            (
                "2016-02-29T23:59:59+00:00",
                "2016-02-29T23:59:59.000000000Z ",
            ),
        ] {
            assert_eq!(written(text).as_deref(), Some(wanted));
            assert!(wanted.len() <= LONGEST_STAMP);
        }
    }

    #[test]
    fn what_is_no_moment_is_no_stamp() {
        for text in [
            "",
            "Z",
            "2016-10-06T00:17:09",
            "2016-10-06T00:17:09.Z",
            "2016-10-06T00:17:09.1",
            "2016-10-06 00:17:09Z",
            "2016-13-06T00:17:09Z",
            "2015-02-29T00:17:09Z",
            "2016-10-06T24:17:09Z",
            "2016-10-06T00:17:60Z",
            "2016-10-06T00:17:09+1:00",
            "2016-10-06T00:17:09+25:00",
            "x016-10-06T00:17:09Z",
            "2016-10-06T00:17:09Zz",
        ] {
            assert_eq!(written(text), None, "{text}");
        }
    }

    #[test]
    fn moments_are_in_order_whatever_their_zone() {
        let moment = |text: &str| Stamp::read(text.as_bytes()).unwrap().moment();
        let seconds = |text: &str| moment(text).seconds;
        assert_eq!(seconds("1970-01-01T00:00:00Z"), 0);
        assert_eq!(seconds("2016-10-06T00:17:09Z"), 1_475_713_029);
        assert_eq!(seconds("2000-02-29T12:00:00Z"), 951_825_600);
        assert_eq!(seconds("1969-12-31T23:59:59Z"), -1);
        assert_eq!(
            moment("2016-10-06T01:17:09.5+01:00"),
            moment("2016-10-05T23:17:09.500-01:00")
        );
        assert!(moment("2016-10-06T00:17:09.09Z") < moment("2016-10-06T00:17:09.1Z"));
    }

    #[test]
    fn a_head_is_three_words_and_a_space() {
        let head = |text: &'static str| match beginning(text.as_bytes()) {
            Beginning::Head(head) => Ok((head.output, head.partial, &text[head.length..])),
            other => Err(other),
        };
        let time = "2016-10-06T00:17:09Z";
        assert_eq!(
            head("2016-10-06T00:17:09Z stdout F a b\n"),
            Ok((Output::Stdout, false, "a b\n"))
        );
        assert_eq!(
            head("2016-10-06T00:17:09Z stderr P:x "),
            Ok((Output::Stderr, true, ""))
        );
        assert_eq!(
            head("2016-10-06T00:17:09Z stdout x:P b"),
            Ok((Output::Stdout, false, "b"))
        );
        for short in ["", time, "2016-10-06T00:17:09Z stdout F"] {
            assert_eq!(beginning(short.as_bytes()), Beginning::Short, "{short}");
        }
        let endless = "x".repeat(LONGEST_HEAD);
        for malformed in [
            "\n",
            "2016-10-06T00:17:09Z stdout F\n",
            "2016-10-06T00:17:09Z stdin F a\n",
            "yesterday stdout F a\n",
            &endless,
        ] {
            assert_eq!(
                beginning(malformed.as_bytes()),
                Beginning::Malformed,
                "{malformed}"
            );
        }
    }
}
