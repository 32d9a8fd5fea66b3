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
    pub paths: &'static [&'static str],
    pub reason: &'static str,
    /// It shows now and then: a run without it does not make the line stale.
    pub sometimes: bool,
}

/// The list.
pub const EXPLAINED: &[Explained] = &[
    Explained {
        scenario: "deleted-while-pulling",
        paths: &[
            "pod p/container main",
            "pod p/last containerStatuses[main].containerID",
            "pod p/last containerStatuses[main].imageID",
            "pod p/last containerStatuses[main].state.terminated.*",
            "event Normal Pulled of Pod p *",
            "event Normal Created of Pod p *",
            "event Normal Started of Pod p *",
            "event Normal Killing of Pod p *",
        ],
        reason: "ours gives a pull up when its pod is deleted; upstream's goes on, and starts the container to end it",
        sometimes: false,
    },
    Explained {
        scenario: "deleted-while-pulling",
        paths: &[
            "pod p/phase",
            "pod p/condition Initialized",
            "pod p/condition ContainersReady",
            "pod p/condition Ready",
            "pod p/last phase",
            "pod p/last conditions[*].reason",
            "pod p/last conditions[*].message",
            "pod p/last containerStatuses[main].resources",
            "pod p/last containerStatuses[main].user.*",
        ],
        reason: "what follows from that: the container that upstream starts ends well, unless it is told to before it can hear",
        sometimes: true,
    },
    Explained {
        scenario: "static-pod-edited-back",
        paths: &["event Normal SandboxChanged *"],
        reason: "ours removes the sandbox of a pod that nobody wants when it has ended; upstream finds it, but if it was collected just then",
        sometimes: true,
    },
    Explained {
        scenario: "deadline",
        paths: &["event Normal DeadlineExceeded *"],
        reason: "ours says it once; upstream each time that it looks while the pod ends",
        sometimes: false,
    },
];

/// Each path by itself: one that explains nothing is stale, whatever its line's others do.
pub(super) fn paths(
    list: &'static [Explained],
) -> impl Iterator<Item = (&'static Explained, &'static str)> {
    let paths = |line: &'static Explained| line.paths.iter().map(move |path| (line, *path));
    list.iter().flat_map(paths)
}

/// Which of the [`paths`] explains a difference.
pub(super) fn explanation(scenario: &str, difference: &Difference) -> Option<usize> {
    explained_by(EXPLAINED, scenario, difference)
}

fn explained_by(
    list: &'static [Explained],
    scenario: &str,
    difference: &Difference,
) -> Option<usize> {
    paths(list).position(|(line, path)| {
        matches(line.scenario, scenario) && matches(path, &difference.path)
    })
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
        const LIST: &[Explained] = &[
            Explained {
                scenario: "plain",
                paths: &["pod p/object", "pod p/phase"],
                reason: "a test",
                sometimes: false,
            },
            Explained {
                scenario: "image-*",
                paths: &["pod */last containerStatuses[*].image"],
                reason: "a test",
                sometimes: false,
            },
        ];
        let cases = [
            ("plain", "pod p/phase", Some(1)),
            ("plain", "pod q/phase", None),
            ("other", "pod p/phase", None),
            (
                "image-x",
                "pod p/last containerStatuses[main].image",
                Some(2),
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
            let answer = explained_by(LIST, scenario, &difference);
            assert_eq!(answer, expected, "{scenario} {path}");
        }
    }

    #[test]
    fn every_line_has_a_reason_and_is_there_once() {
        for (index, (line, path)) in paths(EXPLAINED).enumerate() {
            assert!(line.reason.len() > 20, "{line:?}");
            let mut before = paths(EXPLAINED).take(index);
            let again = before.any(|(other, same)| other.scenario == line.scenario && same == path);
            assert!(!again, "{path} of {} is there twice", line.scenario);
        }
    }
}
