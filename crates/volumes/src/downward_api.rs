//! What is in a downwardAPI volume: what a pod is told of itself.

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, Pod};
use thiserror::Error;

use crate::field::field;
use crate::payload::{Payload, PayloadError, file};
use crate::resource_field::{Allocatable, resource_field};

/// Why a pod cannot be told something. The words are upstream's.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DownwardError {
    #[error("unsupported fieldPath: {path}")]
    UnsupportedField { path: String },
    #[error("fieldPath {path:?} does not support subscript")]
    NoSubscript { path: String },
    #[error("invalid key subscript in {path}: {problem}")]
    BadSubscript { path: String, problem: String },
    #[error("container {name} not found")]
    NoContainer { name: String },
    #[error("unsupported container resource : {resource}")]
    UnsupportedResource { resource: String },
    #[error("{problem}")]
    Quantity { problem: String },
}

/// The files that tell a pod of itself.
pub fn payload(
    items: &[DownwardAPIVolumeFile],
    pod: &Pod,
    allocatable: &Allocatable,
    default_mode: i32,
) -> Result<Payload, PayloadError> {
    let mut payload = Payload::new();
    let mut errors = Vec::new();
    for item in items {
        let content = match (&item.field_ref, &item.resource_field_ref) {
            (Some(selector), _) => field(pod, &selector.field_path),
            (None, Some(selector)) => resource_field(pod, selector, allocatable),
            (None, None) => Ok(String::new()),
        };
        match content {
            Ok(content) => {
                let mode = item.mode.unwrap_or(default_mode);
                payload.insert(item.path.clone(), file(content.into_bytes(), mode));
            }
            Err(error) => errors.push(error.into()),
        }
    }
    PayloadError::of(errors).map_or(Ok(payload), Err)
}

/// What the files say that may be something else while the pod runs: its labels, its
/// annotations, and what its containers may use.
pub(crate) fn changeable(
    items: &[DownwardAPIVolumeFile],
    pod: &Pod,
    allocatable: &Allocatable,
) -> Vec<String> {
    let said = items
        .iter()
        .filter_map(|item| match (&item.field_ref, &item.resource_field_ref) {
            (Some(selector), _) => {
                let path = selector.field_path.as_str();
                let stays = ["metadata.name", "metadata.namespace", "metadata.uid"];
                (!stays.contains(&path)).then(|| field(pod, path))
            }
            (None, Some(selector)) => Some(resource_field(pod, selector, allocatable)),
            (None, None) => None,
        });
    said.map(|said| said.unwrap_or_else(|problem| problem.to_string()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{files, from_json};
    use serde_json::json;

    #[test]
    fn each_item_is_a_file_of_its_mode_and_all_that_is_wrong_is_told() {
        let pod: Pod = from_json(json!({
            "metadata": {"name": "p", "labels": {"a": "b"}},
            "spec": {"containers": [{"name": "main"}]}
        }));
        let allocatable: Allocatable = [("cpu".to_owned(), "4".parse().unwrap())].into();
        let items = from_json::<Vec<DownwardAPIVolumeFile>>(json!([
            {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
            {"path": "deep/name", "mode": 0o400, "fieldRef": {"fieldPath": "metadata.name"}},
            {"path": "cpus", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"}}
        ]));
        let found = payload(&items, &pod, &allocatable, 0o644).unwrap();
        assert_eq!(
            found,
            files(vec![
                ("cpus", b"4", 0o644),
                ("deep/name", b"p", 0o400),
                ("labels", b"a=\"b\"", 0o644)
            ])
        );
        let items = from_json::<Vec<DownwardAPIVolumeFile>>(json!([
            {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}},
            {"path": "a", "fieldRef": {"fieldPath": "status.podIP"}},
            {"path": "b", "resourceFieldRef": {"containerName": "x", "resource": "limits.cpu"}}
        ]));
        let error = payload(&items, &pod, &allocatable, 0o644).unwrap_err();
        let wanted = "[unsupported fieldPath: status.podIP, container x not found]";
        assert_eq!(error.to_string(), wanted);
    }
}
