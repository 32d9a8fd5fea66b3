//! Discovery: what we have is told as upstream tells it.

use apiserver::discovery;
use serde_json::Value;

use super::{Differences, cases};

/// Of `theirs` only what we have too.
fn in_both<'a>(ours: &'a Value, theirs: &'a Value, key: &str) -> Vec<(&'a Value, Value)> {
    let list = |value: &'a Value| value.as_array().unwrap();
    let pairs = list(ours).iter().map(|resource| {
        let other = list(theirs)
            .iter()
            .find(|other| other[key] == resource[key]);
        (resource, other.cloned().unwrap_or_default())
    });
    pairs.collect()
}

#[test]
fn resources_are_told_as_upstream_tells_them() {
    let mut differences = Differences::default();
    for case in cases(include_str!("../../testdata/discovery.json")) {
        let (path, theirs) = (case["path"].as_str().unwrap(), &case["answer"]);
        match path {
            "/api aggregated" => {
                aggregated(&discovery::aggregated_core(), theirs, &mut differences);
            }
            "/apis aggregated" => {
                aggregated(&discovery::aggregated_groups(), theirs, &mut differences);
            }
            _ => {
                let mut parts = path.rsplit('/');
                let (version, group) = (parts.next().unwrap(), parts.next().unwrap());
                let group = if group == "api" { "" } else { group };
                let ours = discovery::resources(group, version).unwrap();
                for (ours, theirs) in in_both(&ours["resources"], &theirs["resources"], "name") {
                    differences.compare(&ours["name"], ours, &theirs);
                }
            }
        }
    }
    differences.finish();
}

fn aggregated(ours: &Value, theirs: &Value, differences: &mut Differences) {
    for group in ours["items"].as_array().unwrap() {
        let other = theirs["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(|other| other["metadata"] == group["metadata"]);
        let other = other.unwrap_or_else(|| panic!("{} is not upstream's", group["metadata"]));
        let resources = |group: &Value| {
            group["versions"]
                .as_array()
                .unwrap()
                .iter()
                .find(|version| version["version"] == "v1")
                .unwrap()["resources"]
                .clone()
        };
        let (mine, upstream) = (resources(group), resources(other));
        for (ours, mut theirs) in in_both(&mine, &upstream, "resource") {
            if let Some(Value::Array(list)) = theirs.get_mut("subresources") {
                let known = ours["subresources"].as_array().cloned().unwrap_or_default();
                list.retain(|sub| {
                    known
                        .iter()
                        .any(|other| other["subresource"] == sub["subresource"])
                });
            }
            differences.compare(&ours["resource"], ours, &theirs);
        }
    }
}
