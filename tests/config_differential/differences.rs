//! Where our kubelet shall differ from upstream's in configuration, and why.
//! Each is checked: it must occur, and none other may.

use std::fmt::{self, Display};

/// Cases that differ for one reason.
pub(crate) struct Intended {
    pub(crate) reason: &'static str,
    /// What differs: "verdict", "exit code", or the path of a field in lower
    /// case.
    pub(crate) what: &'static str,
    /// Upstream accepts the configuration and then fails to start with it.
    /// That is checked as well, by starting it.
    pub(crate) found_at_start: bool,
    cases: &'static [&'static str],
}

impl Display for Intended {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.what, self.reason)
    }
}

const INTENDED: &[Intended] = &[
    Intended {
        reason: "flags that older kubelets had are warned about and ignored or mapped: command \
                 lines outlive the kubelet that they were written for",
        what: "verdict",
        found_at_start: false,
        cases: &[
            "a network plugin, a flag that is gone",
            "the pause image, a flag that is gone",
            "a remote container runtime, a flag that is gone",
            "switches of old logging that are gone",
            "a value in the next word of a flag that is gone",
            "privileged containers, a flag that is gone",
            "an old name of allowed sysctls",
        ],
    },
    Intended {
        reason: "gates that are gone are warned about and ignored: a file that was written for \
                 an older kubelet shall not end in a panic",
        what: "verdict",
        found_at_start: false,
        cases: &[
            "an old gate that is gone, by flag",
            "an old gate that is gone, in the file",
            "several old gates that are gone",
        ],
    },
    Intended {
        reason: "ours says at once what upstream finds when it starts",
        what: "verdict",
        found_at_start: true,
        cases: &[
            "a sync frequency of zero from a flag, which is found later",
            "a negative sync frequency, which is found later",
            "a log size that is none, which is found later",
            "a log size with a binary fraction, which is found later",
            "a map flag takes all after the first separator, which is found later",
            "a reserved share above 100 %, which is found later",
            "a soft eviction without its grace period, which is found later",
            "a sysctl that is none, which is found later",
            "an eviction threshold above 100 %, which is found later",
            "an eviction threshold that is null, which is found later",
            "an unknown authorization mode, which is found later",
            "an unknown eviction signal, which is found later",
            "an unknown policy of the CPU manager, which is found later",
            "an unknown policy of the memory manager, which is found later",
            "an unknown reserved resource, which is found later",
            "an empty authorization mode by flag, which is found later",
            "empty policies by flag, which are found later",
            "a reserved share of an unknown resource without the gate, which is found later",
            "a negative grace period of soft eviction, which is found later",
            "an eviction threshold of nothing, which is found later",
            "a negative reserved amount, which is found later",
            "an unknown option of the CPU manager, which is found later",
            "exit on lock contention without a lock file, which is found later",
        ],
    },
    Intended {
        reason: "ours says at once what upstream finds when it has an API server",
        what: "verdict",
        found_at_start: false,
        cases: &["an unknown strategy for config maps, which is found later"],
    },
];

/// What may, and must, differ in a case.
pub(crate) fn of(case: &str) -> Vec<&'static Intended> {
    INTENDED
        .iter()
        .filter(|intended| intended.cases.contains(&case))
        .collect()
}

/// The cases of every listed difference.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    INTENDED
        .iter()
        .flat_map(|intended| intended.cases.iter().copied())
}
