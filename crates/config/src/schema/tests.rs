//! The tables against the facts (`testdata/`: what upstream v1.36.4 has) and
//! against each other.

use std::collections::BTreeSet;

use super::*;

const FIELD_FACTS: &str = include_str!("../../testdata/fields.tsv");
const FLAG_FACTS: &str = include_str!("../../testdata/flags.tsv");
const FLAG_DEFAULTS: &str = include_str!("../../testdata/flag-defaults.txt");

/// The lines of a sheet, without its head, as cells.
fn facts<const COLUMNS: usize>(sheet: &'static str) -> Vec<[&'static str; COLUMNS]> {
    let cells = |line: &'static str| {
        let cells: Vec<&str> = line.split('\t').collect();
        cells
            .try_into()
            .unwrap_or_else(|_| panic!("not {COLUMNS} cells: {line}"))
    };
    sheet.lines().skip(1).map(cells).collect()
}

fn is_sorted_and_unique<'a>(names: impl Iterator<Item = &'a str>) -> bool {
    names.is_sorted_by(|one, next| one < next)
}

#[test]
fn fields_are_those_of_the_facts_in_their_order() {
    let known = facts::<6>(FIELD_FACTS);
    let expected: Vec<&str> = known.iter().map(|[path, ..]| *path).collect();
    let paths: Vec<&str> = FIELDS.iter().map(|field| field.path).collect();
    assert_eq!(paths, expected);
    assert_eq!(paths.iter().collect::<BTreeSet<_>>().len(), 164);
}

#[test]
fn a_field_has_the_kind_of_its_type() {
    for [path, type_, ..] in facts::<6>(FIELD_FACTS) {
        let expected = match type_.trim_start_matches('*') {
            "bool" => Kind::Bool,
            "int32" => Kind::Int32,
            "int64" => Kind::Int64,
            "uint32" => Kind::Uint32,
            "float64" => Kind::Float64,
            "string" | "path" | "URL string" | "IP string" | "enum string" | "cgroup path"
            | "CIDR string" | "MIME string" | "cpu-list string" | "endpoint URL"
            | "glob string" | "quantity string" => Kind::String,
            "duration" => Kind::Duration,
            "duration string or integer nanoseconds" => Kind::DurationOrNanos,
            "quantity (string or integer)" => Kind::Quantity,
            "RFC3339 time" => Kind::Time,
            "[]string" | "[]string (IPs)" => Kind::Strings,
            "[]int32" => Kind::Int32s,
            "map[string]string" | "map[string]quantity string" | "map[string]duration string" => {
                Kind::StringMap
            }
            "map[string]bool" => Kind::BoolMap,
            "map[string][]string" => Kind::StringsMap,
            "map[string]quantity" => Kind::QuantityMap,
            "object" => Kind::Object,
            "[]object" | "[]object (core/v1 Taint)" => Kind::Objects,
            other => panic!("{path}: unknown type {other}"),
        };
        assert_eq!(field(path).unwrap().kind, expected, "{path}");
    }
}

#[test]
fn presence_and_default_follow_the_unset_rule() {
    for [path, type_, _, _, unset_rule, _] in facts::<6>(FIELD_FACTS) {
        let field = field(path).unwrap();
        let plain = matches!(field.presence, Presence::Plain | Presence::Printed);
        match unset_rule.split(';').next().unwrap() {
            "only absent/null counts as unset" | "absent/null or negative becomes -1" => {
                assert_eq!(field.presence, Presence::Optional, "{path}");
            }
            "zero value counts as unset" => {
                assert!(plain, "{path}");
                assert_ne!(field.default, Default::None, "{path}");
            }
            "no default applied" => {
                assert!(plain, "{path}");
                assert!(!matches!(field.default, Default::Json(_)), "{path}");
            }
            "absent/null counts as unset" | "nil counts as unset" => {
                assert_eq!(field.presence, Presence::Emptiable, "{path}");
            }
            other => panic!("{path}: unknown rule {other}"),
        }
        assert_eq!(
            type_.starts_with('*'),
            field.presence == Presence::Optional,
            "{path}"
        );
    }
}

#[test]
fn defaults_are_those_of_the_facts() {
    let is_zero = |default: &str| {
        let first_word = default.split(' ').next().unwrap();
        default.starts_with('(')
            || ["\"\"", "0", "0s", "false", "-", "{}", "see"].contains(&first_word)
    };
    for [path, _, default, ..] in facts::<6>(FIELD_FACTS) {
        match field(path).unwrap().default {
            Default::None => assert!(is_zero(default), "{path}: {default}"),
            Default::Json(json) => assert_eq!(json.replace('"', ""), default, "{path}"),
            Default::Depends(how) => assert!(!how.is_empty(), "{path}"),
        }
    }
}

#[test]
fn a_default_is_of_the_kind_of_its_field() {
    for field in FIELDS {
        let Default::Json(json) = field.default else {
            continue;
        };
        let is_text = json.len() > 2 && json.starts_with('"') && json.ends_with('"');
        let fits = match field.kind {
            Kind::Bool => json.parse::<bool>().is_ok(),
            Kind::Int32 => json.parse::<i32>().is_ok(),
            Kind::Int64 => json.parse::<i64>().is_ok(),
            Kind::Float64 => json.parse::<f64>().is_ok(),
            Kind::Strings => json.starts_with("[\"") && json.ends_with("\"]"),
            Kind::String | Kind::Duration | Kind::DurationOrNanos => is_text,
            _ => false,
        };
        assert!(fits, "{}: {json}", field.path);
    }
}

#[test]
fn only_these_defaults_depend_on_other_settings() {
    let depending: Vec<&str> = FIELDS
        .iter()
        .filter(|field| matches!(field.default, Default::Depends(_)))
        .map(|field| field.path)
        .collect();
    assert_eq!(
        depending,
        [
            "readOnlyPort",
            "tlsCertFile",
            "tlsPrivateKeyFile",
            "authentication.webhook.enabled",
            "authentication.anonymous.enabled",
            "authorization.mode",
            "imagePullCredentialsVerificationPolicy",
            "nodeStatusReportFrequency",
            "serializeImagePulls",
            "evictionHard",
            "crashLoopBackOff.maxContainerRestartPeriod",
        ]
    );
}

/// Upstream's type says `omitempty` of all other fields (and of objects it
/// does not matter).
#[test]
fn only_these_zeros_are_printed() {
    let printed: Vec<&str> = FIELDS
        .iter()
        .filter(|field| field.presence == Presence::Printed)
        .map(|field| field.path)
        .collect();
    assert_eq!(
        printed,
        [
            "logging.flushFrequency",
            "logging.verbosity",
            "logging.vmodule[].filePattern",
            "logging.vmodule[].verbosity",
            "shutdownGracePeriodByPodPriority[].priority",
            "shutdownGracePeriodByPodPriority[].shutdownGracePeriodSeconds",
            "reservedMemory[].numaNode",
            "reservedMemory[].limits",
            "registerWithTaints[].key",
            "registerWithTaints[].effect",
            "containerRuntimeEndpoint",
        ]
    );
}

#[test]
fn a_row_tells_a_person_what_to_do() {
    for field in FIELDS {
        assert!(field.about.ends_with('.'), "{}", field.path);
        assert!(!field.about.contains("  "), "{}", field.path);
        assert!(
            !field.allowed.ends_with('.') && !field.allowed.contains("  "),
            "{}",
            field.path
        );
    }
    for flag in FLAGS {
        assert_eq!(flag.field.is_some(), flag.about.is_empty(), "{}", flag.name);
    }
    for flag in REMOVED_FLAGS {
        assert!(flag.advice.ends_with('.'), "{}", flag.name);
        assert!(!flag.advice.contains("  "), "{}", flag.name);
    }
}

#[test]
fn a_nested_field_stands_below_an_object() {
    for field in FIELDS {
        let Some((parent, _)) = field.path.rsplit_once('.') else {
            continue;
        };
        let (parent, kind) = match parent.strip_suffix("[]") {
            Some(list) => (list, Kind::Objects),
            None => (parent, Kind::Object),
        };
        assert_eq!(
            super::field(parent).map(|field| field.kind),
            Some(kind),
            "{}",
            field.path
        );
    }
}

#[test]
fn flags_are_those_of_the_facts() {
    let known = facts::<6>(FLAG_FACTS);
    assert_eq!(known.len(), FLAGS.len());
    assert!(is_sorted_and_unique(FLAGS.iter().map(|flag| flag.name)));
    for ([name, shorthand, type_, _, deprecated, config_field], flag) in known.iter().zip(FLAGS) {
        assert_eq!(name.trim_start_matches('-'), flag.name);
        assert_eq!(shorthand.chars().nth(1), flag.shorthand, "{name}");
        assert_eq!(*deprecated == "yes", flag.deprecated, "{name}");
        assert_eq!(*config_field, flag.field.unwrap_or_default(), "{name}");
        let expected = match (*type_, flag.name) {
            ("mapStringString", "cpu-manager-policy-options") => FlagKind::MapOnePair,
            ("mapStringString", "eviction-hard" | "eviction-soft") => FlagKind::MapLessThan,
            ("mapStringString", "node-labels") => FlagKind::Labels,
            ("mapStringString", _) => FlagKind::MapStringString,
            ("mapStringBool", _) => FlagKind::MapStringBool,
            ("colonSeparatedMultimapStringString", _) => FlagKind::Headers,
            ("bool", _) => FlagKind::Bool,
            ("int", _) => FlagKind::Int,
            ("int32", _) => FlagKind::Int32,
            ("int64", _) => FlagKind::Int64,
            ("Level", _) => FlagKind::Level,
            ("string", _) => FlagKind::String,
            ("strings", _) => FlagKind::Strings,
            ("duration", _) => FlagKind::Duration,
            ("ip", _) => FlagKind::Ip,
            ("quantity", _) => FlagKind::Quantity,
            ("reserved-memory", _) => FlagKind::ReservedMemory,
            ("[]v1.Taint", _) => FlagKind::Taints,
            ("pattern=N,...", _) => FlagKind::Vmodule,
            ("version (bool-like, no value = true)", _) => FlagKind::Version,
            (other, _) => panic!("{name}: unknown type {other}"),
        };
        assert_eq!(flag.kind, expected, "{name}");
    }
}

#[test]
fn flag_defaults_are_printed_as_upstream_prints_them() {
    let printed: Vec<String> = FLAGS
        .iter()
        .map(|flag| format!("--{}=\"{}\"", flag.name, flag.default))
        .collect();
    assert_eq!(printed, FLAG_DEFAULTS.lines().collect::<Vec<_>>());
    for ([name, _, _, default, ..], flag) in facts::<6>(FLAG_FACTS).iter().zip(FLAGS) {
        assert_eq!(default.trim_matches('"'), flag.default, "{name}");
    }
}

#[test]
fn fields_and_flags_name_each_other() {
    for [path, _, _, _, _, flag] in facts::<6>(FIELD_FACTS) {
        let expected = flag.strip_prefix("--");
        assert_eq!(field(path).unwrap().flag, expected, "{path}");
    }
    for field in FIELDS {
        if let Some(name) = field.flag {
            assert_eq!(flag(name).unwrap().field, Some(field.path));
        }
    }
    for flag in FLAGS {
        if let Some(path) = flag.field {
            assert_eq!(field(path).unwrap().flag, Some(flag.name));
        }
    }
}

#[test]
fn a_removed_flag_is_not_a_flag_and_maps_to_one() {
    assert!(is_sorted_and_unique(
        REMOVED_FLAGS.iter().map(|flag| flag.name)
    ));
    for removed in REMOVED_FLAGS {
        assert!(flag(removed.name).is_none(), "{}", removed.name);
        assert!(removed_flag(removed.name).is_some(), "{}", removed.name);
        assert!(removed.last.starts_with("1."), "{}", removed.name);
        if let Handling::MapTo(name) = removed.handling {
            let takes_value = flag(name).unwrap().kind != FlagKind::Bool;
            assert_eq!(removed.takes_value, takes_value, "{}", removed.name);
        }
    }
}

#[test]
fn gates_are_sorted_unique_and_need_gates_that_exist() {
    assert!(is_sorted_and_unique(GATES.iter().map(|gate| gate.name)));
    for gate in GATES {
        for need in gate.needs {
            let needed = super::gate(need).unwrap();
            assert!(
                !gate.default || needed.default,
                "{} is on without {need}",
                gate.name
            );
        }
        if gate.stage == GateStage::Alpha {
            assert!(!gate.default && !gate.locked, "{}", gate.name);
        }
    }
    for field in FIELDS {
        if let Stage::Gated(name) = field.stage {
            assert!(gate(name).is_some(), "{}", field.path);
        }
    }
}

#[test]
fn retired_gates_are_sorted_unique_and_gone() {
    assert!(is_sorted_and_unique(RETIRED_GATES.iter().copied()));
    for name in RETIRED_GATES {
        assert!(gate(name).is_none(), "{name}");
    }
    assert!(is_retired_gate("RotateKubeletClientCertificate"));
    assert!(!is_retired_gate("RotateKubeletServerCertificate"));
}

#[test]
fn children_are_the_fields_one_step_below() {
    let names = |path| children(path).map(|field| field.path).collect::<Vec<_>>();
    assert_eq!(
        names("authentication"),
        [
            "authentication.x509",
            "authentication.webhook",
            "authentication.anonymous"
        ]
    );
    let vmodule = [
        "logging.vmodule[].filePattern",
        "logging.vmodule[].verbosity",
    ];
    assert_eq!(names("logging.vmodule"), vmodule);
    assert_eq!(names("logging.vmodule[]"), vmodule);
    assert_eq!(names("tls"), [""; 0]);
    assert_eq!(
        names("").len(),
        FIELDS.iter().filter(|f| !f.path.contains('.')).count()
    );
}

#[test]
fn a_mistyped_flag_finds_the_one_that_was_meant() {
    for (typed, meant) in [
        ("max_pods", Some("max-pods")),
        ("maxPods", Some("max-pods")),
        ("MAX-PODS", Some("max-pods")),
        ("max-pod", Some("max-pods")),
        ("mxa-pods", Some("max-pods")),
        ("prot", Some("port")),
        ("kube-config", Some("kubeconfig")),
        ("boostrap-kubeconfig", Some("bootstrap-kubeconfig")),
        ("cgroups-driver", Some("cgroup-driver")),
        ("feature-gate", Some("feature-gates")),
        ("resolve-conf", Some("resolv-conf")),
        ("image-gc-high-treshold", Some("image-gc-high-threshold")),
        // Words are missing or too many.
        ("runtime-endpoint", Some("container-runtime-endpoint")),
        ("labels", Some("node-labels")),
        ("kubelet-cert-dir", Some("cert-dir")),
        (
            "image-gc-high-threshold-percent",
            Some("image-gc-high-threshold"),
        ),
        // Too far, too short, or more than one could be meant.
        ("reserved", None),
        ("frobnicate", None),
        ("x", None),
        ("", None),
    ] {
        assert_eq!(
            nearest(typed, FLAGS.iter().map(|flag| flag.name)),
            meant,
            "{typed}"
        );
    }
}

#[test]
fn a_mistyped_field_or_gate_finds_the_one_that_was_meant() {
    for (typed, meant) in [
        ("MAXPODS", Some("maxPods")),
        ("max-pods", Some("maxPods")),
        ("clusterDns", Some("clusterDNS")),
        ("evictionhard", Some("evictionHard")),
        ("featuregates", Some("featureGates")),
        ("serverTlsBootstrap", Some("serverTLSBootstrap")),
        ("staticPodsPath", Some("staticPodPath")),
        ("podsLimit", None),
    ] {
        assert_eq!(
            nearest(typed, children("").map(|field| field.path)),
            meant,
            "{typed}"
        );
    }
    for (typed, meant) in [
        ("memoryqos", Some("MemoryQoS")),
        ("EventedPleg", Some("EventedPLEG")),
        (
            "RotateKubeletServerCertificates",
            Some("RotateKubeletServerCertificate"),
        ),
        ("GracefulShutdown", None),
    ] {
        assert_eq!(
            nearest(typed, GATES.iter().map(|gate| gate.name)),
            meant,
            "{typed}"
        );
    }
}
