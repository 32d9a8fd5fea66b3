//! One file, judged without mercy: every problem in one run.

use crate::decode::{Case, Decoded};
use crate::defaults;
use crate::finding::{Class, Finding};
use crate::gates::{self, FeatureGates};
use crate::load::ReadFile;
use crate::schema::{self, Stage};
use crate::settings::{Origin, Settings};
use crate::validate::validate;

/// Everything that is wrong with a configuration file, in the order of its
/// lines; notices (see [`Finding::is_error`]) for what only has no future.
pub fn check_file(name: &str, bytes: &[u8]) -> Vec<Finding> {
    let read = match ReadFile::parse(name, bytes, Case::Exact) {
        Ok(read) => read,
        Err(finding) => return vec![finding],
    };
    let Decoded {
        mut settings,
        mut findings,
    } = read.decode(Case::Exact, Origin::File);
    findings.extend(read.duplicates());
    findings.extend(read.ignored());
    findings.extend(deprecated(&settings));
    findings.extend(gate_faults(&settings));

    let wanted = settings
        .entries("featureGates")
        .filter_map(|(name, value)| Some((name, value.as_bool()?)));
    let gates = FeatureGates::resolve(wanted).unwrap_or_default();
    defaults::fill(&mut settings, &gates);
    defaults::fill_evictions(&mut settings);
    findings.extend(validate(&settings, &gates, None));
    // What has no place in the file comes last.
    findings.sort_by_key(|finding| {
        let place = finding.spot.as_ref().map(|spot| spot.place);
        (place.is_none(), place)
    });
    findings
}

fn gate_faults(settings: &Settings) -> Vec<Finding> {
    let origin = settings.get("featureGates").map(|setting| &setting.origin);
    let spot = match origin {
        Some(Origin::File(spot)) => Some(spot.clone()),
        _ => None,
    };
    let wanted: Vec<(&str, bool)> = settings
        .entries("featureGates")
        .filter_map(|(name, value)| Some((name, value.as_bool()?)))
        .collect();
    let retired = wanted
        .iter()
        .filter(|(name, _)| gates::retired(name))
        .map(|(name, _)| {
            Finding::new(
                Class::Gate,
                format!("featureGates.{name}"),
                "this feature gate is gone; a kubelet of upstream's would not start",
            )
            .advise(Some("leave it out".to_owned()))
        });
    let faults = FeatureGates::faults(&wanted);
    let faults = faults
        .iter()
        .map(|error| Finding::new(Class::Gate, "featureGates", error.to_string()));
    retired
        .chain(faults)
        .map(|finding| finding.at(spot.clone()))
        .collect()
}

fn deprecated(settings: &Settings) -> Vec<Finding> {
    settings
        .iter()
        .filter_map(|(path, setting)| {
            let Stage::Deprecated(became) = schema::field(path)?.stage else {
                return None;
            };
            let Origin::File(spot) = &setting.origin else {
                return None;
            };
            let finding = Finding::new(Class::Notice, path, format!("deprecated: {became}"));
            Some(finding.at(Some(spot.clone())))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Vec<String> {
        let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
        let text = format!("{head}{text}");
        let findings = check_file("f", text.as_bytes());
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_problem_is_found_in_one_run_with_its_place() {
        let found = said(
            "maxPodz: 5\nport: 70000\nsyncFrequency: 10\nmaxPods: 1\nmaxPods: 2\n\
             authentication:\n  webhook:\n    cacheTLL: 1s\nfeatureGates:\n  Nope: true\n  NodeSwap: false\n",
        );
        let expected = [
            "f:3:1: maxPodz: there is no such field; did you mean maxPods?",
            "f:4:1: port: found 70000, and it must be ",
            "f:5:16: syncFrequency: found a number 10, and it must be a duration such as 1m30s; write it with its unit, e.g. 10s",
            "f:7:1: maxPods: this key stands already in line 6",
            "f:10:5: authentication.webhook.cacheTLL: there is no such field; did you mean cacheTTL?",
            "f:11:1: featureGates: there is no feature gate Nope",
            "f:11:1: featureGates: feature gate NodeSwap is locked to true",
        ];
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for expected in expected {
            assert!(
                found.iter().any(|found| found.starts_with(expected)),
                "{expected} is not in {found:#?}"
            );
        }
    }

    #[test]
    fn a_good_file_has_no_problem() {
        assert_eq!(
            said("maxPods: 50\nsyncFrequency: 10s\n"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_file_that_is_none_is_one_problem() {
        for (text, expected) in [
            ("", "f: the file is empty"),
            ("a: [", "f:"),
            (
                "maxPods: 1\n",
                "f:1:1: kind: it is missing; write kind: KubeletConfiguration",
            ),
            ("kind: Pod\napiVersion: v1\n", "f:1:1: kind: found \"Pod\""),
            ("- a\n", "f:1:1: found a list"),
        ] {
            let found = check_file("f", text.as_bytes());
            assert_eq!(found.len(), 1, "{text:?}: {found:?}");
            let said = found[0].to_string();
            assert!(said.starts_with(expected), "{text:?}: {said}");
        }
    }
}
