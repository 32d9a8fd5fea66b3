//! The machine's clock, compared with the API server's.

use cluster::preflight::{ClockSkew, checks};

use crate::doctor::finding::Finding;

#[derive(Clone, Debug)]
pub(in crate::doctor) struct Facts {
    /// `None` where the API server could not be asked.
    pub(in crate::doctor) skew: Option<ClockSkew>,
}

pub(in crate::doctor) fn judge(facts: &Facts) -> Vec<Finding> {
    let check = facts.skew.map(checks::clock);
    let finding = check.and_then(|check| Finding::of_preflight("clock", &check));
    let finding = finding.map(|finding| finding.mended_by("timedatectl set-ntp true"));
    finding.into_iter().collect()
}

pub(in crate::doctor) fn told(facts: &Facts) -> String {
    match facts.skew {
        None => "not compared with another".to_owned(),
        Some(skew) => format!("{} s from the API server's", skew.size().as_secs()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::doctor::finding::Severity;

    #[test]
    fn a_clock_may_be_off_by_little() {
        for (seconds, expected) in [
            (2, None),
            (60, Some(Severity::Warning)),
            (600, Some(Severity::Error)),
        ] {
            let skew = Some(ClockSkew::Ahead(Duration::from_secs(seconds)));
            let found = judge(&Facts { skew });
            let severity = found.first().map(|finding| finding.severity);
            assert_eq!(severity, expected, "{seconds}");
        }
        assert_eq!(judge(&Facts { skew: None }), []);
    }
}
