//! Events about pods and their containers.

use api::events::{Recorder, Severity, about_node, about_pod};
use k8s_openapi::api::core::v1::{ObjectReference, Pod};

use crate::plan::Kind;

/// Tells people. Without an API server there is nobody to tell.
#[derive(Clone, Debug)]
pub struct Telling {
    pub recorder: Option<Recorder>,
}

impl Telling {
    pub fn normal(&self, pod: &Pod, reason: &str, message: impl Into<String>) {
        self.tell(about(pod, None), Severity::Normal, reason, message.into());
    }

    pub fn warning(&self, pod: &Pod, reason: &str, message: impl Into<String>) {
        self.tell(about(pod, None), Severity::Warning, reason, message.into());
    }

    /// About the node itself.
    pub fn node_warning(&self, node: &str, reason: &str, message: impl Into<String>) {
        let about = about_node(node);
        self.tell(about, Severity::Warning, reason, message.into());
    }

    pub fn container(
        &self,
        pod: &Pod,
        (kind, container): (Kind, &str),
        severity: Severity,
        reason: &str,
        message: impl Into<String>,
    ) {
        let about = about(pod, Some((kind, container)));
        self.tell(about, severity, reason, message.into());
    }

    fn tell(&self, about: ObjectReference, severity: Severity, reason: &str, message: String) {
        if let Some(recorder) = &self.recorder {
            recorder.record(about, severity, reason, message);
        }
    }
}

/// A pod, or a container of it.
pub fn about(pod: &Pod, container: Option<(Kind, &str)>) -> ObjectReference {
    let field_path = container.map(|(kind, name)| {
        let list = match kind {
            Kind::Init => "initContainers",
            Kind::Regular => "containers",
            Kind::Ephemeral => "ephemeralContainers",
        };
        format!("spec.{list}{{{name}}}")
    });
    about_pod(pod, field_path)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_is_about_a_pod_or_a_place_in_it() {
        let pod = json!({ "metadata": {
            "name": "web", "namespace": "shop", "uid": "u-1", "resourceVersion": "7",
        } });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let whole = about(&pod, None);
        assert_eq!(whole.field_path, None);
        assert_eq!(whole.uid.as_deref(), Some("u-1"));
        assert_eq!(whole.resource_version.as_deref(), Some("7"));
        for (kind, path) in [
            (Kind::Init, "spec.initContainers{a}"),
            (Kind::Regular, "spec.containers{a}"),
            (Kind::Ephemeral, "spec.ephemeralContainers{a}"),
        ] {
            let part = about(&pod, Some((kind, "a")));
            assert_eq!(part.field_path.as_deref(), Some(path));
        }
    }
}
