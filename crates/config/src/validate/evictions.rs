//! Eviction thresholds: signals, values, and what belongs together.

use types::duration::GoDuration;
use types::quantity::Quantity;

use super::Check;
use super::startup::{cut, meant};

const SIGNALS: [&str; 9] = [
    "allocatableMemory.available",
    "containerfs.available",
    "containerfs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "pid.available",
];

pub(super) fn run(check: &mut Check<'_>) {
    for path in ["evictionHard", "evictionSoft"] {
        entries(check, path, |text| threshold(text, false));
    }
    entries(check, "evictionMinimumReclaim", |text| {
        threshold(text, true)
    });
    entries(check, "evictionSoftGracePeriod", |text| {
        let period: GoDuration = text.parse().map_err(|error| format!("{error}"))?;
        if period.is_negative() {
            return Err(format!(
                "found {}, and a time cannot be negative",
                cut(text)
            ));
        }
        Ok(())
    });
    let settings = check.settings;
    let grace = settings.value("evictionSoftGracePeriod");
    for (signal, value) in settings.entries("evictionSoft") {
        if check.is_full() {
            return;
        }
        let dropped = ["0%", "100%"].contains(&value.as_str().unwrap_or_default());
        if !dropped && grace.and_then(|periods| periods.get(signal)).is_none() {
            check.fault(
                &format!("evictionSoft.{signal}"),
                format!(
                    "it needs evictionSoftGracePeriod.{}: how long to wait",
                    cut(signal)
                ),
            );
        }
    }
}

fn entries(check: &mut Check<'_>, path: &str, judge: impl Fn(&str) -> Result<(), String>) {
    for (signal, value) in check.settings.entries(path) {
        if check.is_full() {
            return;
        }
        let at = format!("{path}.{signal}");
        if !SIGNALS.contains(&signal) {
            let meant = meant(check, signal, SIGNALS.into_iter());
            check.fault(&at, format!("there is no such signal{meant}"));
        }
        if let Err(reason) = judge(value.as_str().unwrap_or_default()) {
            check.fault(&at, reason);
        }
    }
}

/// A quantity, or a share of what there is.
fn threshold(text: &str, zero_fits: bool) -> Result<(), String> {
    if let Some(share) = text.strip_suffix('%') {
        return match share.parse::<f64>() {
            Ok(share) if (0.0..=100.0).contains(&share) => Ok(()),
            _ => Err(format!(
                "found {:?}, and a share must be from 0% to 100%",
                cut(text)
            )),
        };
    }
    let quantity: Quantity = text.parse().map_err(|error| format!("{error}"))?;
    match quantity.sign() {
        1 => Ok(()),
        0 if zero_fits => Ok(()),
        _ => Err(format!(
            "found {}, and a threshold must be more than nothing",
            cut(text)
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::faults;
    use super::*;

    #[test]
    fn a_threshold_is_a_quantity_or_a_share() {
        for good in ["100Mi", "1", "5%", "0%", "100%", "12.5%"] {
            assert!(threshold(good, false).is_ok(), "{good}");
        }
        for bad in ["", "0", "-1Mi", "101%", "-1%", "%", "abc", "NaN%"] {
            assert!(threshold(bad, false).is_err(), "{bad}");
        }
        assert!(threshold("0", true).is_ok());
    }

    #[test]
    fn signals_are_known_and_soft_ones_have_a_grace_period() {
        let hard = ("evictionHard", json!({"memory.availble": "1Gi"}));
        assert_eq!(faults(&[hard]), ["evictionHard.memory.availble"]);
        let soft = ("evictionSoft", json!({"memory.available": "1Gi"}));
        assert_eq!(
            faults(std::slice::from_ref(&soft)),
            ["evictionSoft.memory.available"]
        );
        let grace = (
            "evictionSoftGracePeriod",
            json!({"memory.available": "30s"}),
        );
        assert_eq!(faults(&[soft, grace]), Vec::<String>::new());
        let grace = (
            "evictionSoftGracePeriod",
            json!({"memory.available": "soon"}),
        );
        assert_eq!(
            faults(&[grace]),
            ["evictionSoftGracePeriod.memory.available"]
        );
    }
}
