//! How many dead containers are kept, and how long.

use std::time::Duration;

use config::flags::{self, CommandLine};
use types::duration::GoDuration;

const IN_ALL: &str = "maximum-dead-containers";
const PER_CONTAINER: &str = "maximum-dead-containers-per-container";
const LEAST_AGE: &str = "minimum-container-ttl-duration";

/// What is kept of the dead. Without a number, any number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// On the node.
    pub in_all: Option<usize>,
    /// Of one container of one pod.
    pub per_container: Option<usize>,
    /// Nothing goes that was made less than this ago.
    pub least_age: Duration,
}

/// The defaults of the flags.
impl Default for Limits {
    fn default() -> Self {
        Self {
            in_all: None,
            per_container: Some(1),
            least_age: Duration::ZERO,
        }
    }
}

/// A limit that cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitsError {
    #[error("invalid --minimum-container-ttl-duration {0}: give a duration that is not negative")]
    LeastAge(String),
}

impl Limits {
    /// No configuration file has them: they are flags only.
    pub fn from_flags(line: &CommandLine) -> Result<Self, LimitsError> {
        let mut limits = Self::default();
        for (flag, value) in flags::values(line) {
            match flag {
                IN_ALL => limits.in_all = number(&value),
                PER_CONTAINER => limits.per_container = number(&value),
                LEAST_AGE => limits.least_age = age(value)?,
                _ => {}
            }
        }
        Ok(limits)
    }
}

/// Negative: any number.
fn number(value: &str) -> Option<usize> {
    value.parse().ok()
}

fn age(value: String) -> Result<Duration, LimitsError> {
    let read: Option<GoDuration> = value.parse().ok();
    let age = read.and_then(GoDuration::to_std);
    age.ok_or(LimitsError::LeastAge(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Limits, LimitsError> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Limits::from_flags(&CommandLine::parse(&words).unwrap())
    }

    #[test]
    fn without_flags_the_limits_are_the_defaults_of_the_flags() {
        assert_eq!(read(&[]), Ok(Limits::default()));
    }

    #[test]
    fn flags_set_the_limits_and_a_negative_number_is_none() {
        let words = [
            "--maximum-dead-containers=10",
            "--maximum-dead-containers-per-container=-1",
            "--minimum-container-ttl-duration=1m30s",
        ];
        let wanted = Limits {
            in_all: Some(10),
            per_container: None,
            least_age: Duration::from_secs(90),
        };
        assert_eq!(read(&words), Ok(wanted));
        let none = read(&["--maximum-dead-containers-per-container=0"]);
        assert_eq!(none.unwrap().per_container, Some(0));
    }

    #[test]
    fn a_negative_age_is_refused_and_the_flag_is_named() {
        let error = read(&["--minimum-container-ttl-duration=-1s"]).unwrap_err();
        let wanted =
            "invalid --minimum-container-ttl-duration -1s: give a duration that is not negative";
        assert_eq!(error.to_string(), wanted);
    }
}
