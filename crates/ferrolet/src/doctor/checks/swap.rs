//! Swap, and whether the agent bears it.

use crate::doctor::finding::Finding;

#[derive(Clone, Debug)]
pub(in crate::doctor) struct Facts {
    /// Devices and files in use.
    pub(in crate::doctor) swaps: Vec<String>,
    /// `failSwapOn`.
    pub(in crate::doctor) refused: bool,
    /// An agent runs all the same.
    pub(in crate::doctor) agent_runs: bool,
}

pub(in crate::doctor) fn judge(facts: &Facts) -> Vec<Finding> {
    if facts.swaps.is_empty() || !facts.refused {
        return Vec::new();
    }
    let object = facts.swaps.join(", ");
    let cause = "swap is in use, and failSwapOn says not to start with it; switch it off, also in /etc/fstab, or set failSwapOn: false and memorySwap";
    // One that runs began before the swap, or does not look.
    let finding = if facts.agent_runs {
        Finding::warning(object, cause)
    } else {
        Finding::error(object, cause)
    };
    vec![finding.mended_by("swapoff --all")]
}

pub(in crate::doctor) fn told(facts: &Facts) -> String {
    if facts.swaps.is_empty() {
        return "none".to_owned();
    }
    let verdict = if facts.refused { "refused" } else { "accepted" };
    format!(
        "in use, and {verdict} by failSwapOn: {}",
        facts.swaps.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::checks::testing::summary;

    #[test]
    fn swap_is_an_error_where_the_agent_would_not_start_with_it() {
        for (swaps, refused, agent_runs, expected) in [
            (0, true, false, ""),
            (1, false, false, ""),
            (1, true, false, "error /dev/sda2: swap is in use"),
            (1, true, true, "warning /dev/sda2: swap is in use"),
        ] {
            let facts = Facts {
                swaps: vec!["/dev/sda2".to_owned(); swaps],
                refused,
                agent_runs,
            };
            let accepted = told(&facts).contains("accepted");
            assert_eq!(accepted, swaps > 0 && !refused, "{facts:?}");
            let found = summary(&judge(&facts));
            assert_eq!(found.is_empty(), expected.is_empty(), "{facts:?}");
            if let Some(found) = found.first() {
                assert!(found.starts_with(expected), "{found}");
                assert!(found.ends_with("=> swapoff --all"), "{found}");
            }
        }
    }
}
