//! Control groups: there, whole, and made by node and runtime in the same way.

use cluster::preflight::{CgroupVersion, Cgroups, Outcome, checks};

use crate::doctor::finding::Finding;

#[derive(Clone, Debug)]
pub(in crate::doctor) struct Facts {
    pub(in crate::doctor) cgroups: Cgroups,
    /// Somebody has decided over version 1, by `failCgroupV1`.
    pub(in crate::doctor) is_told: bool,
    /// `cgroupDriver`.
    pub(in crate::doctor) configured: String,
    pub(in crate::doctor) runtime: RuntimeDriver,
    /// What sets `cgroupDriver` to the runtime's.
    pub(in crate::doctor) mend: Option<String>,
}

/// Who makes the groups of containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::doctor) enum RuntimeDriver {
    Unknown,
    /// It tells the node, which then does the same.
    Told(&'static str),
    /// It stands in the runtime's configuration only: the node goes by its own.
    Configured(&'static str),
}

impl RuntimeDriver {
    pub(in crate::doctor) fn name(self) -> Option<&'static str> {
        match self {
            Self::Unknown => None,
            Self::Told(name) | Self::Configured(name) => Some(name),
        }
    }
}

pub(in crate::doctor) fn judge(facts: &Facts) -> Vec<Finding> {
    let check = checks::cgroups(&facts.cgroups);
    let mut findings = Vec::new();
    // That version 1 is refused, or accepted, is a matter of the configuration.
    if check.outcome == Outcome::Error || !facts.is_told {
        findings.extend(Finding::of_preflight("/sys/fs/cgroup", &check));
    }
    let configured = &facts.configured;
    let mismatch = match facts.runtime {
        RuntimeDriver::Configured(runtime) if runtime != configured => Some(Finding::error(
            "cgroupDriver",
            format!(
                "the runtime uses {runtime}, and the node {configured}: two of them count the same containers apart"
            ),
        )),
        RuntimeDriver::Told(runtime) if runtime != configured => Some(Finding::warning(
            "cgroupDriver",
            format!(
                "it says {configured}, and the runtime {runtime}, which counts; let both say the same"
            ),
        )),
        _ => None,
    };
    findings.extend(mismatch.map(|finding| Finding {
        command: facts.mend.clone(),
        ..finding
    }));
    findings
}

pub(in crate::doctor) fn told(facts: &Facts) -> String {
    let version = match facts.cgroups.version {
        CgroupVersion::V1 => "version 1",
        CgroupVersion::V2 => "version 2",
        CgroupVersion::None => return "none".to_owned(),
    };
    let driver = facts.runtime.name().unwrap_or(&facts.configured);
    format!("{version}, driver {driver}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::checks::testing::summary;

    fn facts(version: CgroupVersion, runtime: RuntimeDriver) -> Facts {
        let names = [
            "cpu", "cpuacct", "cpuset", "devices", "freezer", "memory", "pids",
        ];
        Facts {
            cgroups: Cgroups {
                version,
                controllers: names.map(str::to_owned).into(),
            },
            is_told: true,
            configured: "cgroupfs".to_owned(),
            runtime,
            mend: Some("mend".to_owned()),
        }
    }

    #[test]
    fn drivers_must_be_the_same_where_the_runtime_does_not_tell() {
        use RuntimeDriver::{Configured, Told, Unknown};
        for (runtime, expected) in [
            (Unknown, ""),
            (Told("cgroupfs"), ""),
            (Configured("cgroupfs"), ""),
            (Told("systemd"), "warning cgroupDriver"),
            (Configured("systemd"), "error cgroupDriver"),
        ] {
            let found = summary(&judge(&facts(CgroupVersion::V2, runtime)));
            assert_eq!(found.is_empty(), expected.is_empty(), "{found:?}");
            if let Some(found) = found.first() {
                assert!(found.starts_with(expected), "{found}");
                assert!(found.ends_with("=> mend"), "{found}");
            }
        }
    }

    #[test]
    fn a_machine_without_them_is_told_of_and_one_with_the_old_ones_is_not() {
        let known = RuntimeDriver::Unknown;
        assert_eq!(judge(&facts(CgroupVersion::V1, known)), []);
        let undecided = Facts {
            is_told: false,
            ..facts(CgroupVersion::V1, known)
        };
        let found = summary(&judge(&undecided));
        assert!(found[0].starts_with("warning /sys/fs/cgroup: the machine uses"));
        assert_eq!(judge(&facts(CgroupVersion::None, known)).len(), 1);
        let mut lacking = facts(CgroupVersion::V2, known);
        lacking.cgroups.controllers.remove("memory");
        assert!(judge(&lacking)[0].cause.contains("memory"));
    }
}
