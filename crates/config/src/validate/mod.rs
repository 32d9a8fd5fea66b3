//! What is allowed: every rule looks at the resolved settings, and every fault
//! is found in one run.

mod evictions;
mod rules;
mod startup;

use std::ops::RangeInclusive;

use serde_json::Value;
use types::duration::GoDuration;

use crate::finding::{Class, Finding};
use crate::gates::FeatureGates;
use crate::schema;
use crate::settings::{Origin, Settings};

/// Enough for a person; a map with a million odd keys has more.
const MOST_FINDINGS: usize = 1000;

/// What is checked against the machine, when there is one to check against.
#[derive(Clone, Copy, Debug, Default)]
pub struct Machine {
    /// It has cgroup v1 (or a mixture), not v2 alone.
    pub cgroup_v1: bool,
    /// The kubelet has an API server to ask: `--kubeconfig` or
    /// `--bootstrap-kubeconfig` was given.
    pub has_api: bool,
}

/// Every fault of the settings. Without a machine only what the settings say
/// by themselves is judged.
pub fn validate(
    settings: &Settings,
    gates: &FeatureGates,
    machine: Option<Machine>,
) -> Vec<Finding> {
    let mut check = Check {
        settings,
        gates,
        machine,
        findings: Vec::new(),
    };
    rules::run(&mut check);
    startup::run(&mut check);
    evictions::run(&mut check);
    if check.is_full() {
        let message = "there are more problems than these";
        check.findings.push(Finding::new(Class::Value, "", message));
    }
    check.findings
}

/// A run of the rules.
struct Check<'a> {
    settings: &'a Settings,
    gates: &'a FeatureGates,
    machine: Option<Machine>,
    findings: Vec<Finding>,
}

impl Check<'_> {
    /// More findings than this help nobody.
    fn is_full(&self) -> bool {
        self.findings.len() >= MOST_FINDINGS
    }

    fn fault(&mut self, path: &str, message: impl Into<String>) {
        if self.is_full() {
            return;
        }
        let (spot, flag) = match self.settings.origin_of(path) {
            Some(Origin::File(spot) | Origin::DropIn(spot)) => (Some(spot.clone()), String::new()),
            Some(Origin::Flag(written)) => (None, format!(" (from {written})")),
            Some(Origin::Default | Origin::FlagsOnlyDefault) | None => (None, String::new()),
        };
        let message = message.into();
        let finding = Finding::new(Class::Value, path, format!("{message}{flag}"));
        self.findings.push(finding.at(spot));
    }

    /// "found X, and it must be …", in the words of the field's row.
    fn refuse(&mut self, path: &str) {
        let found = self
            .settings
            .value(path)
            .map_or_else(|| "nothing".to_owned(), Value::to_string);
        let found: String = found.chars().take(100).collect();
        let row = schema::field(path).map_or("", |field| field.allowed);
        self.fault(path, format!("found {found}, and it must be {row}"));
    }

    fn require(&mut self, path: &str, fits: bool) {
        if !fits {
            self.refuse(path);
        }
    }

    fn in_range(&mut self, path: &str, range: RangeInclusive<i64>) {
        self.require(path, range.contains(&self.settings.int(path)));
    }

    fn one_of(&mut self, path: &str, allowed: &[&str]) {
        self.require(path, allowed.contains(&self.settings.text(path)));
    }

    fn duration(&self, path: &str) -> GoDuration {
        self.settings.duration(path)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::defaults;

    /// The paths of the faults when these fields have these values, and the
    /// rest their defaults.
    pub(super) fn faults(given: &[(&str, Value)]) -> Vec<String> {
        faults_on(given, None)
    }

    pub(super) fn faults_on(given: &[(&str, Value)], machine: Option<Machine>) -> Vec<String> {
        let mut settings = Settings::default();
        for (path, value) in given {
            let field = schema::field(path).unwrap();
            settings.set(field, value.clone(), Origin::Default);
        }
        let wanted: Vec<(String, bool)> = settings
            .entries("featureGates")
            .map(|(name, value)| (name.to_owned(), value.as_bool().unwrap()))
            .collect();
        let wanted = wanted.iter().map(|(name, value)| (name.as_str(), *value));
        let gates = FeatureGates::resolve(wanted).unwrap();
        defaults::fill(&mut settings, &gates);
        let findings = validate(&settings, &gates, machine);
        findings.into_iter().map(|finding| finding.path).collect()
    }

    #[test]
    fn the_defaults_are_allowed() {
        assert_eq!(faults(&[]), Vec::<String>::new());
    }

    #[test]
    fn a_fault_says_what_was_found_and_what_is_allowed() {
        let mut settings = Settings::default();
        let field = schema::field("port").unwrap();
        let flag = Origin::Flag("--port=70000".to_owned());
        settings.set(field, json!(70000), flag);
        defaults::fill(&mut settings, &FeatureGates::default());
        let findings = validate(&settings, &FeatureGates::default(), None);
        let said = findings[0].to_string();
        assert!(
            said.starts_with("port: found 70000, and it must be "),
            "{said}"
        );
        assert!(said.ends_with("(from --port=70000)"), "{said}");
    }

    #[test]
    fn the_machine_is_judged_only_where_there_is_one() {
        let v1 = Some(Machine {
            cgroup_v1: true,
            has_api: true,
        });
        let v2 = Some(Machine {
            cgroup_v1: false,
            has_api: true,
        });
        assert_eq!(faults_on(&[], v1), ["failCgroupV1"]);
        assert_eq!(faults_on(&[], v2), Vec::<String>::new());
        let alone = Some(Machine {
            cgroup_v1: false,
            has_api: false,
        });
        let needs_api = ["authentication.webhook.enabled", "authorization.mode"];
        assert_eq!(faults_on(&[], alone), needs_api);
    }
}
