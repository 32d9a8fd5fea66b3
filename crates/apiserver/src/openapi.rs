//! Schemas of the objects (`/openapi/v3`), made of the same table by which requests are
//! read: enough for kubectl to validate on the server, to apply, and to explain (without
//! descriptions). `/openapi/v2` is not there: kubectl asks for it only when this is not.

mod components;

use serde_json::{Map, Value, json};

use crate::discovery::VERSION;
use crate::kinds::{KINDS, Kind};
use crate::patch;
use crate::schema;

/// Raised when documents change that the table has no part in.
const FORM: &str = "1";

/// `/openapi/v3`: which documents there are. A client keeps one as long as its hash.
pub fn index() -> Value {
    let hash = hash();
    let paths: Map<String, Value> = group_versions()
        .into_iter()
        .map(|(group, version)| {
            let path = api_path(group, version);
            let url = format!("/openapi/v3/{path}?hash={hash}");
            (path, json!({"serverRelativeURL": url}))
        })
        .collect();
    json!({"paths": paths})
}

/// Of what the documents are made of.
fn hash() -> String {
    use std::fmt::Write as _;
    let text = format!("{FORM} {VERSION} {}", schema::TABLE);
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    digest.as_ref().iter().fold(String::new(), |mut hex, byte| {
        // Writing to text does not fail.
        let _ = write!(hex, "{byte:02X}");
        hex
    })
}

/// `/openapi/v3/api/v1` and `/openapi/v3/apis/GROUP/VERSION`.
pub fn document(group: &str, version: &str) -> Option<Value> {
    if !group_versions().contains(&(group, version)) {
        return None;
    }
    let kinds = || {
        KINDS
            .iter()
            .copied()
            .filter(|kind| kind.group == group && kind.version == version)
    };
    let mut paths = Map::new();
    let mut roots = Vec::new();
    for kind in kinds() {
        roots.push(kind.kind);
        roots.extend(kind.subresources.iter().map(|sub| sub.kind));
        add_paths(kind, &mut paths);
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": VERSION},
        "paths": paths,
        "components": {"schemas": components::schemas(&roots)},
    }))
}

fn group_versions() -> Vec<(&'static str, &'static str)> {
    let mut all: Vec<_> = KINDS
        .iter()
        .map(|kind| (kind.group, kind.version))
        .collect();
    all.dedup();
    all
}

fn api_path(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

fn add_paths(kind: &Kind, paths: &mut Map<String, Value>) {
    let scope = if kind.namespaced {
        "namespaces/{namespace}/"
    } else {
        ""
    };
    let collection = format!(
        "/{}/{scope}{}",
        api_path(kind.group, kind.version),
        kind.plural
    );
    let item = format!("{collection}/{{name}}");
    let mut on_collection = Map::new();
    let mut on_item = Map::new();
    for verb in kind.verbs {
        let (method, place) = match *verb {
            "list" => ("get", &mut on_collection),
            "create" => ("post", &mut on_collection),
            "deletecollection" => ("delete", &mut on_collection),
            "get" => ("get", &mut on_item),
            "update" => ("put", &mut on_item),
            "patch" => ("patch", &mut on_item),
            "delete" => ("delete", &mut on_item),
            _ => continue,
        };
        place.insert(method.to_owned(), operation(kind, verb));
    }
    paths.insert(collection, Value::Object(on_collection));
    if !on_item.is_empty() {
        paths.insert(item, Value::Object(on_item));
    }
}

fn operation(kind: &Kind, verb: &str) -> Value {
    let action = match verb {
        "create" => "post",
        "update" => "put",
        other => other,
    };
    let schema =
        json!({"$ref": format!("#/components/schemas/{}", components::name_of_kind(kind.kind))});
    let mut operation = json!({
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": schema}}}},
    });
    let writes = matches!(verb, "create" | "update" | "patch");
    if writes {
        let names = ["dryRun", "fieldManager", "fieldValidation"];
        operation["parameters"] = names.map(parameter).to_vec().into();
        let types: &[&str] = if verb == "patch" {
            &patch::MEDIA_TYPES
        } else {
            &["application/json"]
        };
        let body = if verb == "patch" {
            json!({"type": "object"})
        } else {
            schema
        };
        let content: Map<String, Value> = types
            .iter()
            .map(|name| ((*name).to_owned(), json!({"schema": body})))
            .collect();
        operation["requestBody"] = json!({"content": content, "required": true});
    }
    operation
}

fn parameter(name: &str) -> Value {
    json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_has_a_document_that_the_index_names() {
        let index = index();
        let paths = index["paths"].as_object().unwrap();
        assert_eq!(
            paths["api/v1"]["serverRelativeURL"],
            format!("/openapi/v3/api/v1?hash={}", hash())
        );
        assert!(paths.contains_key("apis/coordination.k8s.io/v1"));
        for (group, version) in group_versions() {
            assert!(document(group, version).is_some(), "{group}");
        }
        assert!(document("apps", "v1").is_none());
    }

    #[test]
    fn kubectl_finds_that_fields_are_validated_here() {
        let document = document("", "v1").unwrap();
        let patch = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
        assert_eq!(
            patch["x-kubernetes-group-version-kind"],
            json!({"group": "", "version": "v1", "kind": "Pod"})
        );
        let names: Vec<&Value> = patch["parameters"]
            .as_array()
            .unwrap()
            .iter()
            .map(|parameter| &parameter["name"])
            .collect();
        assert!(names.contains(&&json!("fieldValidation")));
        assert!(
            patch["requestBody"]["content"]
                .get("application/strategic-merge-patch+json")
                .is_some()
        );
    }

    #[test]
    fn every_reference_has_its_schema() {
        fn references(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::Object(fields) => {
                    if let Some(Value::String(name)) = fields.get("$ref") {
                        found.push(name.clone());
                    }
                    fields.values().for_each(|value| references(value, found));
                }
                Value::Array(items) => items.iter().for_each(|value| references(value, found)),
                _ => {}
            }
        }
        for (group, version) in group_versions() {
            let document = document(group, version).unwrap();
            let mut found = Vec::new();
            references(&document, &mut found);
            for name in found {
                let name = name.trim_start_matches("#/components/schemas/");
                assert!(
                    document["components"]["schemas"].get(name).is_some(),
                    "{group}: {name}"
                );
            }
        }
    }

    #[test]
    fn schemas_tell_how_lists_are_merged() {
        let document = document("", "v1").unwrap();
        let schemas = &document["components"]["schemas"];
        let pod = &schemas["io.k8s.api.core.v1.Pod"];
        assert_eq!(
            pod["x-kubernetes-group-version-kind"],
            json!([{"group": "", "version": "v1", "kind": "Pod"}])
        );
        assert_eq!(
            pod["properties"]["metadata"]["allOf"][0]["$ref"],
            "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
        );
        let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
        assert_eq!(
            (
                &containers["x-kubernetes-patch-merge-key"],
                &containers["x-kubernetes-patch-strategy"]
            ),
            (&json!("name"), &json!("merge"))
        );
        assert_eq!(
            schemas["io.k8s.api.core.v1.PodSpec"]["required"],
            json!(["containers"])
        );
    }
}
