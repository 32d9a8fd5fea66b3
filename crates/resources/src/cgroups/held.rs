//! What a cgroup has, read back from its files.

use crate::linux::{MAX_SHARES, MIN_SHARES, NO_QUOTA};

/// The figures of a group that a resize may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub cpu_shares: u64,
    /// Microseconds in a period; [`NO_QUOTA`] for no limit.
    pub cpu_quota: i64,
    pub cpu_period: u64,
    /// Bytes. Version 2 has -1 for no limit, version 1 a number beyond all machines.
    pub memory: i64,
}

impl Held {
    pub(super) fn version_1(
        shares: Option<&str>,
        quota: Option<&str>,
        period: Option<&str>,
        memory: Option<&str>,
    ) -> Option<Self> {
        Some(Self {
            cpu_shares: shares?.parse().ok()?,
            cpu_quota: quota?.parse().ok()?,
            cpu_period: period?.parse().ok()?,
            memory: memory?.parse().ok()?,
        })
    }

    pub(super) fn version_2(
        weight: Option<&str>,
        cpu: Option<&str>,
        memory: Option<&str>,
    ) -> Option<Self> {
        let (quota, period) = cpu?.split_once(' ')?;
        let unless_max = |text: &str, none: i64| match text {
            "max" => Some(none),
            number => number.parse().ok(),
        };
        Some(Self {
            cpu_shares: shares_of_weight(weight?.parse().ok()?),
            cpu_quota: unless_max(quota, NO_QUOTA)?,
            cpu_period: period.parse().ok()?,
            memory: unless_max(memory?, -1)?,
        })
    }
}

/// The way back from [`crate::linux::weight`], which does not always end where it began.
fn shares_of_weight(weight: u64) -> u64 {
    let above = weight.saturating_sub(1).min(9999);
    above * (MAX_SHARES - MIN_SHARES) / 9999 + MIN_SHARES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_read() {
        let of_1 = Held::version_1(Some("512"), Some("-1"), Some("100000"), Some("4096"));
        let expected = Held {
            cpu_shares: 512,
            cpu_quota: NO_QUOTA,
            cpu_period: 100_000,
            memory: 4096,
        };
        assert_eq!(of_1, Some(expected));
        let of_2 = Held::version_2(Some("20"), Some("50000 100000"), Some("max"));
        let expected = Held {
            cpu_shares: 500,
            cpu_quota: 50_000,
            cpu_period: 100_000,
            memory: -1,
        };
        assert_eq!(of_2, Some(expected));
        let unlimited = Held::version_2(Some("1"), Some("max 100000"), Some("5"));
        let unlimited = unlimited.unwrap();
        assert_eq!((unlimited.cpu_shares, unlimited.cpu_quota), (2, NO_QUOTA));
        assert_eq!(Held::version_2(None, Some("max 1"), Some("1")), None);
        assert_eq!(
            Held::version_1(Some("x"), Some("1"), Some("1"), Some("1")),
            None
        );
    }
}
