//! Field labels: by which fields an object can be selected, as upstream's strategies
//! tell them.

use serde_json::Value;

use super::Kind;

/// A selectable field and where its value is.
type Field = (&'static str, &'static [&'static str]);

const PODS: &[Field] = &[
    ("spec.nodeName", &["spec", "nodeName"]),
    ("spec.restartPolicy", &["spec", "restartPolicy"]),
    ("spec.schedulerName", &["spec", "schedulerName"]),
    ("spec.serviceAccountName", &["spec", "serviceAccountName"]),
    ("spec.hostNetwork", &["spec", "hostNetwork"]),
    ("status.phase", &["status", "phase"]),
    ("status.podIP", &["status", "podIP"]),
    ("status.nominatedNodeName", &["status", "nominatedNodeName"]),
];

const EVENTS: &[Field] = &[
    ("involvedObject.kind", &["involvedObject", "kind"]),
    ("involvedObject.namespace", &["involvedObject", "namespace"]),
    ("involvedObject.name", &["involvedObject", "name"]),
    ("involvedObject.uid", &["involvedObject", "uid"]),
    (
        "involvedObject.apiVersion",
        &["involvedObject", "apiVersion"],
    ),
    (
        "involvedObject.resourceVersion",
        &["involvedObject", "resourceVersion"],
    ),
    ("involvedObject.fieldPath", &["involvedObject", "fieldPath"]),
    ("reason", &["reason"]),
    ("reportingComponent", &["reportingComponent"]),
    ("source", &["source", "component"]),
    ("type", &["type"]),
];

fn table(kind: &Kind) -> &'static [Field] {
    match (kind.group, kind.plural) {
        ("", "pods") => PODS,
        ("", "events") => EVENTS,
        ("", "nodes") => &[("spec.unschedulable", &["spec", "unschedulable"])],
        ("", "namespaces") => &[("status.phase", &["status", "phase"])],
        // Upstream knows `name` as an older word for `metadata.name` of these.
        ("", "secrets") => &[("type", &["type"])],
        ("", "services") => &[
            ("spec.clusterIP", &["spec", "clusterIP"]),
            ("spec.type", &["spec", "type"]),
        ],
        ("certificates.k8s.io", _) => &[("spec.signerName", &["spec", "signerName"])],
        _ => &[],
    }
}

pub(super) fn of(kind: &Kind, object: &Value) -> Vec<(&'static str, String)> {
    let value_of = |(name, path): &Field| (*name, read(object, path, name));
    table(kind).iter().map(value_of).collect()
}

pub(super) fn known(kind: &Kind, field: &str) -> bool {
    matches!(field, "metadata.name" | "metadata.namespace")
        && (kind.namespaced || field == "metadata.name")
        || table(kind).iter().any(|(name, _)| *name == field)
}

fn read(object: &Value, path: &[&str], name: &str) -> String {
    let found = path.iter().try_fold(object, |value, key| value.get(key));
    match found {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(truth)) => truth.to_string(),
        // Booleans that are left out are false, and are selected as that word.
        _ if matches!(name, "spec.unschedulable" | "spec.hostNetwork") => "false".to_owned(),
        // A reporter that says nothing of itself is known by its source.
        _ if name == "reportingComponent" => read(object, &["source", "component"], ""),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{EVENTS, NODES, PODS};

    #[test]
    fn fields_are_read_and_what_is_left_out_has_upstreams_word() {
        let pod = json!({"spec": {"nodeName": "a"}, "status": {"phase": "Running"}});
        let fields = PODS.selectable(&pod);
        for (name, value) in [
            ("spec.nodeName", "a"),
            ("status.phase", "Running"),
            ("spec.hostNetwork", "false"),
            ("status.podIP", ""),
        ] {
            assert!(fields.contains(&(name, value.to_owned())), "{name}");
        }
        let node = NODES.selectable(&json!({"spec": {"unschedulable": true}}));
        assert_eq!(node, [("spec.unschedulable", "true".to_owned())]);
        let event = EVENTS.selectable(&json!({"source": {"component": "kubelet"}}));
        assert!(event.contains(&("reportingComponent", "kubelet".to_owned())));
    }

    #[test]
    fn what_cannot_be_selected_is_not_known() {
        assert!(PODS.selects_by("metadata.namespace"));
        assert!(!NODES.selects_by("metadata.namespace"));
        assert!(!PODS.selects_by("spec.hostname"));
    }
}
