//! One file, judged without mercy: every problem in one run.

use std::path::Path;

use crate::decode::{Case, Decoded};
use crate::defaults;
use crate::finding::{Class, Finding};
use crate::gates::{FeatureGates, GateError};
use crate::load::{
    ReadFile, forget_split_streams, resolve_paths, retired_gates, spot_of, wanted_gates, weak_tls,
};
use crate::schema::{self, Stage};
use crate::settings::{Origin, Settings};
use crate::validate::validate;

/// Everything that is wrong with a configuration file, in the order of its
/// lines; notices (see [`Finding::is_error`]) for what only has no future.
pub fn check_file(name: &str, bytes: &[u8]) -> Vec<Finding> {
    let read = match ReadFile::parse_any(name, bytes) {
        Ok(read) => read,
        Err(finding) => return vec![finding],
    };
    let mut findings = read.check_header(Case::Exact);
    if !read.is_map() {
        return findings;
    }
    let Decoded {
        mut settings,
        findings: faults,
    } = read.decode(Case::Exact, Origin::File, true);
    findings.extend(
        faults
            .into_iter()
            .filter(|fault| fault.class != Class::Header),
    );
    findings.extend(read.duplicates());
    findings.extend(read.ignored());
    findings.extend(deprecated(&settings));
    findings.extend(gate_faults(&settings));
    findings.extend(weak_tls(&settings));
    findings.extend(forget_split_streams(&mut settings));

    // The file's own directory is where its relative paths start.
    resolve_paths(&mut settings, &Path::new("/").join(name));
    let gates = FeatureGates::resolve(wanted_gates(&settings)).unwrap_or_default();
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
    let wanted: Vec<(&str, bool)> = wanted_gates(settings).collect();
    let retired = retired_gates(settings).into_iter().map(|notice| Finding {
        // A kubelet of upstream's would not start with it.
        class: Class::Gate,
        ..notice
    });
    let faults = FeatureGates::faults(&wanted).into_iter().map(|error| {
        let (GateError::Unknown { name, .. }
        | GateError::Locked { name, .. }
        | GateError::Needs { name, .. }) = &error;
        let path = format!("featureGates.{name}");
        let spot = spot_of(settings, &path);
        Finding::new(Class::Gate, "featureGates", error.to_string()).at(spot)
    });
    retired.chain(faults).collect()
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
            "f:12:3: featureGates: there is no feature gate Nope",
            "f:13:3: featureGates: feature gate NodeSwap is locked to true",
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
    fn places_lead_into_maps_and_lists_and_a_bad_part_hides_no_other() {
        let found = said(
            "evictionHard:\n  foo.available: 1\n  memory.available: 100MB\nregisterWithTaints:\n- key: a\n  effect: Never\nsystemReserved:\n  cpus: \"1\"\npodLogsDir: logs\n",
        );
        for expected in [
            "f:4:18: evictionHard.foo.available: found a number 1",
            "f:5:3: evictionHard.memory.available: ",
            "f:8:3: registerWithTaints[0].effect: ",
            "f:10:3: systemReserved.cpus: ",
        ] {
            assert!(
                found.iter().any(|found| found.starts_with(expected)),
                "{expected} is not in {found:#?}"
            );
        }
        assert_eq!(found.len(), 4, "{found:#?}");
    }

    #[test]
    fn a_wrong_header_hides_nothing() {
        let found = check_file("f", b"kind: Pod\nport: 70000\n");
        let said: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 3, "{said:#?}");
        assert!(said[0].starts_with("f:1:1: apiVersion: it is missing; write apiVersion: "));
        assert!(said[1].starts_with("f:1:7: kind: found \"Pod\"; write kind: "));
        assert!(said[2].starts_with("f:2:1: port: "));
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
            ("- a\n", "f:1:1: found a list"),
        ] {
            let found = check_file("f", text.as_bytes());
            assert_eq!(found.len(), 1, "{text:?}: {found:?}");
            let said = found[0].to_string();
            assert!(said.starts_with(expected), "{text:?}: {said}");
        }
    }
}
