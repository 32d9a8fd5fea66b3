//! Where our kubelet shall differ from upstream's in configuration, and why.
//! Each is checked: it must occur, and none other may.

/// Cases that differ for one reason.
struct Intended {
    reason: &'static str,
    /// What differs: "verdict", "exit code", or the path of a field.
    kind: &'static str,
    cases: &'static [&'static str],
}

const INTENDED: &[Intended] = &[];

/// What may, and must, differ in a case.
pub(crate) fn of(case: &str) -> Vec<String> {
    INTENDED
        .iter()
        .filter(|intended| intended.cases.contains(&case))
        .map(|intended| intended.kind.to_owned())
        .collect()
}

/// The cases of every listed difference.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    INTENDED
        .iter()
        .flat_map(|intended| intended.cases.iter().copied())
}
