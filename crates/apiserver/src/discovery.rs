//! What the server tells of itself and of its resources: `/version`, `/api`, `/apis` and
//! below, in the older form and in the aggregated one (`apidiscovery.k8s.io/v2`). Pure,
//! from the table of kinds.

use serde_json::{Value, json};

use crate::kinds::{KINDS, Kind, Subresource};

/// The release of Kubernetes whose API this is.
pub const VERSION: &str = "v1.36.4";

/// The media type that a client names when it wants all resources at once.
pub const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// `/version`. It says that this is no kube-apiserver.
pub fn version() -> Value {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": format!("{VERSION}+ferrolet"),
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("linux/{architecture}"),
    })
}

/// `/api`; `address` is where the server is reached.
pub fn core_versions(address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// `/apis`.
pub fn groups() -> Value {
    let groups: Vec<Value> = named_groups()
        .iter()
        .map(|group| group_entry(group))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`.
pub fn group(name: &str) -> Option<Value> {
    if !named_groups().contains(&name) {
        return None;
    }
    let mut entry = group_entry(name);
    entry["kind"] = "APIGroup".into();
    entry["apiVersion"] = "v1".into();
    Some(entry)
}

/// `/api/v1` (of the group without a name) and `/apis/GROUP/VERSION`.
pub fn resources(group: &str, version: &str) -> Option<Value> {
    let mut resources = Vec::new();
    for kind in kinds_of(group).filter(|kind| kind.version == version) {
        resources.push(resource(kind));
        resources.extend(kind.subresources.iter().map(|sub| subresource(kind, sub)));
    }
    let group_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    let list = json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources});
    (!resources.is_empty()).then_some(list)
}

/// `/api` in the aggregated form.
pub fn aggregated_core() -> Value {
    aggregated(&[""])
}

/// `/apis` in the aggregated form.
pub fn aggregated_groups() -> Value {
    aggregated(&named_groups())
}

/// `/`: what can be asked.
pub fn paths() -> Value {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for group in named_groups() {
        paths.push(format!("/apis/{group}"));
        paths.push(format!("/apis/{group}/v1"));
    }
    let others = ["/healthz", "/livez", "/openapi/v3", "/readyz", "/version"];
    paths.extend(others.map(str::to_owned));
    json!({"paths": paths})
}

/// In the order of the table, each once.
fn named_groups() -> Vec<&'static str> {
    let mut groups: Vec<&'static str> = KINDS
        .iter()
        .map(|kind| kind.group)
        .filter(|group| !group.is_empty())
        .collect();
    groups.dedup();
    groups
}

fn kinds_of(group: &str) -> impl Iterator<Item = &'static Kind> {
    KINDS
        .iter()
        .copied()
        .filter(move |kind| kind.group == group)
}

fn group_entry(name: &str) -> Value {
    let version = json!({"groupVersion": format!("{name}/v1"), "version": "v1"});
    json!({"name": name, "versions": [version], "preferredVersion": version})
}

fn resource(kind: &Kind) -> Value {
    let mut resource = json!({
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": kind.verbs,
    });
    if !kind.short_names.is_empty() {
        resource["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        resource["categories"] = json!(kind.categories);
    }
    resource
}

fn subresource(kind: &Kind, sub: &Subresource) -> Value {
    let mut resource = json!({
        "name": format!("{}/{}", kind.plural, sub.name),
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": sub.kind,
        "verbs": sub.verbs,
    });
    if sub.group != kind.group {
        resource["group"] = sub.group.into();
        resource["version"] = sub.version.into();
    }
    resource
}

fn aggregated(groups: &[&str]) -> Value {
    let items: Vec<Value> = groups.iter().map(|group| {
        let resources: Vec<Value> = kinds_of(group).map(aggregated_resource).collect();
        let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
        json!({"metadata": metadata, "versions": [{"version": "v1", "resources": resources, "freshness": "Current"}]})
    }).collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

/// A kind of the list's own group and version leaves them empty.
fn aggregated_resource(kind: &'static Kind) -> Value {
    let mut resource = json!({
        "resource": kind.plural,
        "responseKind": {"group": "", "version": "", "kind": kind.kind},
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": kind.verbs,
    });
    if !kind.short_names.is_empty() {
        resource["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        resource["categories"] = json!(kind.categories);
    }
    if !kind.subresources.is_empty() {
        let subresources: Vec<Value> = kind
            .subresources
            .iter()
            .map(|sub| {
                let (group, version) = if sub.group == kind.group {
                    ("", "")
                } else {
                    (sub.group, sub.version)
                };
                json!({
                    "subresource": sub.name,
                    "responseKind": {"group": group, "version": version, "kind": sub.kind},
                    "verbs": sub.verbs,
                })
            })
            .collect();
        resource["subresources"] = subresources.into();
    }
    resource
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_listed_by_group() {
        let core = resources("", "v1").unwrap();
        assert_eq!(core["groupVersion"], "v1");
        let find = |name: &str| {
            core["resources"]
                .as_array()
                .unwrap()
                .iter()
                .find(|resource| resource["name"] == name)
                .cloned()
                .unwrap()
        };
        let pods = find("pods");
        assert_eq!(
            (&pods["kind"], &pods["namespaced"]),
            (&json!("Pod"), &json!(true))
        );
        assert_eq!(pods["shortNames"], json!(["po"]));
        let eviction = find("pods/eviction");
        assert_eq!(
            (&eviction["group"], &eviction["version"], &eviction["kind"]),
            (&json!("policy"), &json!("v1"), &json!("Eviction"))
        );
        assert!(find("pods/status").get("group").is_none());
        assert_eq!(
            resources("coordination.k8s.io", "v1").unwrap()["groupVersion"],
            "coordination.k8s.io/v1"
        );
        assert!(resources("apps", "v1").is_none() && resources("", "v2").is_none());
        assert!(group("apps").is_none());
        assert_eq!(
            group("storage.k8s.io").unwrap()["preferredVersion"]["groupVersion"],
            "storage.k8s.io/v1"
        );
    }

    #[test]
    fn the_aggregated_form_has_the_same_resources() {
        let mut all = Vec::new();
        for list in [aggregated_core(), aggregated_groups()] {
            for item in list["items"].as_array().unwrap() {
                for resource in item["versions"][0]["resources"].as_array().unwrap() {
                    all.push(resource["resource"].as_str().unwrap().to_owned());
                }
            }
        }
        let table: Vec<&str> = KINDS.iter().map(|kind| kind.plural).collect();
        assert_eq!(all, table);
        assert_eq!(
            groups()["groups"].as_array().unwrap().len(),
            aggregated_groups()["items"].as_array().unwrap().len()
        );
    }
}
