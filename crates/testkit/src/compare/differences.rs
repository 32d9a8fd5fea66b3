//! What may differ between our agent and the upstream kubelet, scenario by
//! scenario, and why. Whatever is not in this list must be equal. A line that
//! explains nothing in a run of all scenarios is stale, and an error.

use super::rules::Difference;

/// One difference that is meant.
#[derive(Debug)]
pub struct Explained {
    /// A scenario's name; `*` stands for any part of it.
    pub scenario: &'static str,
    /// What differs, as a report names it; `*` stands for any part of it.
    pub path: &'static str,
    pub reason: &'static str,
}

/// The list.
pub const EXPLAINED: &[Explained] = &[
    Explained {
        scenario: "deleted-while-pulling",
        path: "*",
        reason: "ours gives a pull up when its pod is deleted; upstream's goes on, and starts the container to end it",
    },
    Explained {
        scenario: "deadline",
        path: "event Normal DeadlineExceeded *",
        reason: "ours says it once; upstream each time that it looks while the pod ends",
    },
];

/// Which line explains a difference.
pub(super) fn explanation(scenario: &str, difference: &Difference) -> Option<usize> {
    explained_by(EXPLAINED, scenario, difference)
}

fn explained_by(list: &[Explained], scenario: &str, difference: &Difference) -> Option<usize> {
    list.iter()
        .position(|line| matches(line.scenario, scenario) && matches(line.path, &difference.path))
}

/// `*` in a pattern stands for any text, also for none.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|tail| {
            (0..=tail.len())
                .filter(|&at| tail.is_char_boundary(at))
                .any(|at| matches(rest, &tail[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_explains_what_it_names_in_the_scenarios_it_names() {
        let list = [
            Explained {
                scenario: "plain",
                path: "pod p/phase",
                reason: "a test",
            },
            Explained {
                scenario: "image-*",
                path: "pod */last containerStatuses[*].image",
                reason: "a test",
            },
        ];
        let cases = [
            ("plain", "pod p/phase", Some(0)),
            ("plain", "pod q/phase", None),
            ("other", "pod p/phase", None),
            (
                "image-x",
                "pod p/last containerStatuses[main].image",
                Some(1),
            ),
            (
                "image-x",
                "pod p/last containerStatuses[main].imageID",
                None,
            ),
        ];
        for (scenario, path, expected) in cases {
            let difference = Difference {
                path: path.to_owned(),
                first: "a".to_owned(),
                second: "b".to_owned(),
            };
            let answer = explained_by(&list, scenario, &difference);
            assert_eq!(answer, expected, "{scenario} {path}");
        }
    }

    #[test]
    fn every_line_has_a_reason_and_is_there_once() {
        for (index, line) in EXPLAINED.iter().enumerate() {
            assert!(line.reason.len() > 20, "{line:?}");
            let again = EXPLAINED[..index]
                .iter()
                .any(|other| other.scenario == line.scenario && other.path == line.path);
            assert!(!again, "{line:?} is there twice");
        }
    }
}
