//! What unset fields turn into.

use serde_json::{Value, json};

use crate::gates::FeatureGates;
use crate::schema::{self, Default, Field};
use crate::settings::{Origin, Parts, Settings, leaves};

/// Hard eviction thresholds of a kubelet that has a configuration file.
const EVICTION_HARD: [(&str, &str); 5] = [
    ("imagefs.available", "15%"),
    ("imagefs.inodesFree", "5%"),
    ("memory.available", "100Mi"),
    ("nodefs.available", "10%"),
    ("nodefs.inodesFree", "5%"),
];

/// Fills every field that counts as unset.
pub(crate) fn fill(settings: &mut Settings, gates: &FeatureGates) {
    // Those that look at whether others were given come before the others are.
    for (path, value) in dependent(settings, gates) {
        set_if_unset(settings, path, value);
    }
    for field in leaves() {
        if let Default::Json(text) = field.default
            && settings.is_unset(field)
            && let Ok(value) = serde_json::from_str(text)
        {
            settings.set(field, value, Origin::Default);
        }
    }
    // Every negative number means the same: no limit but the node's.
    if settings.int("podPidsLimit") < -1 {
        set(settings, "podPidsLimit", json!(-1), Origin::Default);
    }
}

fn dependent(settings: &Settings, gates: &FeatureGates) -> Vec<(&'static str, Value)> {
    let mut found = vec![
        ("authentication.anonymous.enabled", json!(false)),
        ("authentication.webhook.enabled", json!(true)),
        ("authorization.mode", json!("Webhook")),
        (
            "serializeImagePulls",
            json!(settings.int("maxParallelImagePulls") < 2),
        ),
    ];
    let update = settings.duration("nodeStatusUpdateFrequency");
    let report = if update.is_zero() {
        "5m0s".to_owned()
    } else {
        update.to_string()
    };
    found.push(("nodeStatusReportFrequency", json!(report)));
    if gates.enabled("KubeletCrashLoopBackOffMax") {
        let path = "crashLoopBackOff.maxContainerRestartPeriod";
        found.push((path, json!("5m0s")));
    }
    if gates.enabled("KubeletEnsureSecretPulledImages") {
        let path = "imagePullCredentialsVerificationPolicy";
        found.push((path, json!("NeverVerifyPreloadedImages")));
    }
    found
}

/// What only a kubelet with a `--config` file gets, after [`fill`].
pub(crate) fn fill_evictions(settings: &mut Settings) {
    let given = settings.value("evictionHard").is_some();
    if given && !settings.bool("mergeDefaultEvictionSettings") {
        return;
    }
    let mut signals: serde_json::Map<String, Value> = EVICTION_HARD
        .iter()
        .map(|&(signal, threshold)| (signal.to_owned(), json!(threshold)))
        .collect();
    let mut parts: Parts = signals
        .keys()
        .map(|signal| (format!("evictionHard.{signal}"), Origin::Default))
        .collect();
    let mut origin = Origin::Default;
    if let Some(old) = settings.get("evictionHard") {
        origin = old.origin.clone();
        parts.extend(old.parts.clone());
        let given = settings.entries("evictionHard");
        signals.extend(given.map(|(signal, threshold)| (signal.to_owned(), threshold.clone())));
    }
    if let Some(field) = schema::field("evictionHard") {
        settings.set_parts(field, Value::Object(signals), origin, parts);
    }
}

/// What a kubelet without a `--config` file has had since before there were
/// such files, after [`fill`].
pub(crate) fn fill_flags_only(settings: &mut Settings) {
    for (path, value) in [
        ("authentication.anonymous.enabled", json!(true)),
        ("authentication.webhook.enabled", json!(false)),
        ("authorization.mode", json!("AlwaysAllow")),
        ("readOnlyPort", json!(10255)),
    ] {
        set(settings, path, value, Origin::FlagsOnlyDefault);
    }
}

fn set_if_unset(settings: &mut Settings, path: &str, value: Value) {
    if schema::field(path).is_some_and(|field| settings.is_unset(field)) {
        set(settings, path, value, Origin::Default);
    }
}

/// Every path in this file has a row: a test sees to it.
fn set(settings: &mut Settings, path: &str, value: Value, origin: Origin) {
    let field: Option<&'static Field> = schema::field(path);
    debug_assert!(field.is_some(), "no row for {path}");
    if let Some(field) = field {
        settings.set(field, value, origin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(path: &str, value: Value) -> Settings {
        let mut settings = Settings::default();
        set(&mut settings, path, value, Origin::Default);
        fill(&mut settings, &FeatureGates::default());
        settings
    }

    #[test]
    fn zero_counts_as_unset_where_the_table_says_so() {
        assert_eq!(with("maxPods", json!(0)).int("maxPods"), 110);
        assert_eq!(
            with("syncFrequency", json!("0s")).text("syncFrequency"),
            "1m0s"
        );
        assert_eq!(with("healthzPort", json!(0)).int("healthzPort"), 0);
        assert_eq!(with("registryPullQPS", json!(0)).int("registryPullQPS"), 0);
    }

    #[test]
    fn some_defaults_look_at_other_fields() {
        let settings = with("nodeStatusUpdateFrequency", json!("7s"));
        assert_eq!(settings.text("nodeStatusReportFrequency"), "7s");
        let settings = with("maxPods", json!(1));
        assert_eq!(settings.text("nodeStatusReportFrequency"), "5m0s");
        assert_eq!(settings.text("nodeStatusUpdateFrequency"), "10s");
        assert!(settings.bool("serializeImagePulls"));
        assert!(!with("maxParallelImagePulls", json!(2)).bool("serializeImagePulls"));
        assert_eq!(with("podPidsLimit", json!(-5)).int("podPidsLimit"), -1);
    }

    #[test]
    fn evictions_have_defaults_unless_they_are_given() {
        let mut settings = Settings::default();
        fill(&mut settings, &FeatureGates::default());
        fill_evictions(&mut settings);
        assert_eq!(settings.entries("evictionHard").count(), 5);

        let mut settings = with("evictionHard", json!({ "memory.available": "1Gi" }));
        fill_evictions(&mut settings);
        assert_eq!(settings.entries("evictionHard").count(), 1);

        let field = schema::field("mergeDefaultEvictionSettings").unwrap();
        settings.set(field, json!(true), Origin::Default);
        fill_evictions(&mut settings);
        let merged: Vec<_> = settings.entries("evictionHard").collect();
        assert_eq!(merged.len(), 5);
        assert!(merged.contains(&("memory.available", &json!("1Gi"))));
    }

    #[test]
    fn the_flags_only_defaults_differ() {
        let mut settings = Settings::default();
        fill(&mut settings, &FeatureGates::default());
        assert_eq!(settings.text("authorization.mode"), "Webhook");
        fill_flags_only(&mut settings);
        assert_eq!(settings.text("authorization.mode"), "AlwaysAllow");
        assert_eq!(settings.int("readOnlyPort"), 10255);
    }
}
