//! How far two clocks are apart: a certificate that is not valid yet is as good
//! as none.

use std::time::{Duration, SystemTime};

use jiff::fmt::rfc2822::DateTimeParser;

/// The machine's clock, compared with the API server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockSkew {
    Ahead(Duration),
    Behind(Duration),
}

impl ClockSkew {
    /// From the `Date` header of an answer that came at `now`. It counts whole
    /// seconds only.
    pub fn of_date_header(header: &str, now: SystemTime) -> Option<Self> {
        let server = DateTimeParser::new().parse_timestamp(header).ok()?;
        let server = SystemTime::from(server);
        Some(match now.duration_since(server) {
            Ok(ahead) => Self::Ahead(ahead),
            Err(behind) => Self::Behind(behind.duration()),
        })
    }

    pub fn size(self) -> Duration {
        match self {
            Self::Ahead(size) | Self::Behind(size) => size,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ahead(_) => "ahead of",
            Self::Behind(_) => "behind",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    #[test]
    fn the_date_of_an_answer_tells_how_far_the_clocks_are_apart() {
        let header = "Sun, 15 Nov 2026 06:00:00 GMT";
        let skew = |now| ClockSkew::of_date_header(header, at(now));
        let seconds = Duration::from_secs;
        assert_eq!(
            skew("2026-11-15T06:00:10Z"),
            Some(ClockSkew::Ahead(seconds(10)))
        );
        assert_eq!(
            skew("2026-11-15T05:00:00Z"),
            Some(ClockSkew::Behind(seconds(3600)))
        );
        let now = at("2026-11-15T05:00:00Z");
        assert_eq!(ClockSkew::of_date_header("yesterday", now), None);
    }
}
