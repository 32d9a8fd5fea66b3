//! What may differ between what our agent and the upstream kubelet ask of a
//! runtime, spec by spec, and why. Whatever is not in this list must be equal. A
//! line that explains nothing in a run of all specs is stale, and an error.

use super::rules::Difference;
use crate::compare::differences::matches;

/// One difference that is meant, or known.
#[derive(Debug)]
pub struct Explained {
    /// A spec's name; `*` stands for any part of it.
    pub spec: &'static str,
    /// What differs, as a report names it; `*` stands for any part of it.
    pub path: &'static str,
    pub reason: &'static str,
    /// It shows now and then: a run without it does not make the line stale.
    pub sometimes: bool,
    /// Only numbers that are no further apart than that.
    pub apart: Option<u64>,
}

/// The list.
pub const EXPLAINED: &[Explained] = &[
    Explained {
        spec: "static-bare",
        path: "CreateContainer *.config.envs.*",
        reason: "static pods do not wait until the services are known, upstream's neither: which agent knows them sooner is chance",
        sometimes: true,
        apart: None,
    },
    Explained {
        spec: "sidecar*",
        path: "StopContainer *.timeout",
        reason: "a sidecar has what the others left of the grace, in whole seconds: on a busy machine they take longer, now on the one node and now on the other",
        sometimes: true,
        apart: Some(3),
    },
];

/// Which line explains a difference.
pub(super) fn explanation(spec: &str, difference: &Difference) -> Option<usize> {
    explained_by(EXPLAINED, spec, difference)
}

fn explained_by(list: &[Explained], spec: &str, difference: &Difference) -> Option<usize> {
    list.iter().position(|line| {
        let named = matches(line.spec, spec) && matches(line.path, &difference.path);
        named && line.apart.is_none_or(|most| is_near(difference, most))
    })
}

fn is_near(difference: &Difference, most: u64) -> bool {
    let number = |text: &str| text.parse::<i64>().ok();
    let both = number(&difference.first).zip(number(&difference.second));
    both.is_some_and(|(first, second)| first.abs_diff(second) <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_explains_what_it_names_in_the_specs_it_names() {
        let list = [Explained {
            spec: "resize-*",
            path: "CreateContainer *.annotations.*",
            reason: "a test",
            sometimes: false,
            apart: None,
        }];
        let cases = [
            (
                "resize-cpu",
                "CreateContainer main#0.config.annotations.a",
                Some(0),
            ),
            ("resize-cpu", "CreateContainer main#0.config.labels.a", None),
            ("plain", "CreateContainer main#0.config.annotations.a", None),
        ];
        for (spec, path, expected) in cases {
            let difference = Difference {
                path: path.to_owned(),
                first: "a".to_owned(),
                second: "b".to_owned(),
            };
            assert_eq!(
                explained_by(&list, spec, &difference),
                expected,
                "{spec} {path}"
            );
        }
    }

    #[test]
    fn every_line_has_a_reason_and_is_there_once() {
        for (index, line) in EXPLAINED.iter().enumerate() {
            assert!(line.reason.len() > 10, "{line:?}");
            let again = EXPLAINED[..index]
                .iter()
                .any(|before| before.spec == line.spec && before.path == line.path);
            assert!(!again, "{line:?}");
        }
    }

    #[test]
    fn numbers_that_may_be_near_each_other_may_not_be_far_apart() {
        let list = [Explained {
            spec: "sidecar*",
            path: "StopContainer *.timeout",
            reason: "a test",
            sometimes: true,
            apart: Some(3),
        }];
        for (first, second, explained) in [
            ("28", "27", true),
            ("27", "30", true),
            ("30", "2", false),
            ("30", "–", false),
        ] {
            let difference = Difference {
                path: "StopContainer near#0.timeout".to_owned(),
                first: first.to_owned(),
                second: second.to_owned(),
            };
            let found = explained_by(&list, "sidecars-two", &difference);
            assert_eq!(found.is_some(), explained, "{first} and {second}");
        }
    }
}
