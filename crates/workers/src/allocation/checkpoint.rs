//! The files `allocated_pods_state` and `actuated_pods_state`, byte by byte as upstream
//! writes them: a node can change its agent, and change back.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ResourceClaim, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;
use types::{PodResources, PodUid};

/// The resources of all pods of a node.
pub type Entries = BTreeMap<PodUid, PodResources>;

/// In the root directory.
pub const ALLOCATED: &str = "allocated_pods_state";
pub const ACTUATED: &str = "actuated_pods_state";

/// As upstream makes them: nobody else is to read what runs here.
pub const MODE: u32 = 0o600;

/// What is wrong with such a file.
#[derive(Debug, Error)]
pub enum Broken {
    #[error("it is no JSON of this kind: {0}")]
    Json(#[from] serde_json::Error),
    #[error("checkpoint is corrupted: the checksum is {found}, and {expected} stands in it")]
    Checksum { expected: u64, found: u64 },
}

/// What a file with these entries has in it.
pub fn encode(entries: &Entries) -> Result<Vec<u8>, serde_json::Error> {
    let entries = entries.iter();
    let data = Data {
        entries: entries
            .map(|(uid, resources)| (uid.to_string(), Record::of(resources)))
            .collect(),
    };
    let data = go_json(&data)?;
    let checksum = checksum(&data);
    Ok(go_json(&Checkpoint { data, checksum })?.into_bytes())
}

/// The entries of a file.
pub fn decode(content: &[u8]) -> Result<Entries, Broken> {
    let Checkpoint { data, checksum } = serde_json::from_slice(content)?;
    let found = self::checksum(&data);
    if checksum != found {
        return Err(Broken::Checksum {
            expected: checksum,
            found,
        });
    }
    let data: Data = serde_json::from_str(&data)?;
    let entries = data.entries.into_iter();
    Ok(entries
        .map(|(uid, record)| (PodUid::new(&uid), record.resources()))
        .collect())
}

/// Go's JSON is fit for HTML. None of these letters means anything outside of texts.
pub(super) fn go_json(value: &impl Serialize) -> Result<String, serde_json::Error> {
    let json = serde_json::to_string(value)?;
    let escape =
        |text: String, letter: char| text.replace(letter, &format!("\\u{:04x}", u32::from(letter)));
    let letters = ['&', '<', '>', '\u{2028}', '\u{2029}'];
    Ok(letters.into_iter().fold(json, escape))
}

/// FNV-1a over Go's picture of a text.
fn checksum(data: &str) -> u64 {
    let picture = "(string)".bytes().chain(data.bytes());
    let sum = picture.fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    u64::from(sum)
}

#[derive(Serialize, Deserialize)]
struct Checkpoint {
    data: String,
    checksum: u64,
}

#[derive(Serialize, Deserialize)]
struct Data {
    #[serde(
        default,
        deserialize_with = "or_nothing",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    entries: BTreeMap<String, Record>,
}

#[derive(Serialize, Deserialize)]
struct Record {
    #[serde(
        rename = "ContainerResources",
        default,
        deserialize_with = "or_nothing"
    )]
    containers: BTreeMap<String, Requirements>,
    #[serde(rename = "PodLevelResources", default)]
    pod: Option<Requirements>,
}

impl Record {
    fn of(resources: &PodResources) -> Self {
        let containers = resources.containers.iter();
        Self {
            containers: containers
                .map(|(name, own)| (name.clone(), Requirements::of(own)))
                .collect(),
            pod: resources.pod.as_ref().map(Requirements::of),
        }
    }

    fn resources(self) -> PodResources {
        let containers = self.containers.into_iter();
        PodResources {
            containers: containers
                .map(|(name, own)| (name, own.resources()))
                .collect(),
            pod: self.pod.map(Requirements::resources),
        }
    }
}

/// The API's type, with its fields in Go's order.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Requirements {
    #[serde(default, skip_serializing_if = "is_nothing")]
    limits: Option<BTreeMap<String, Quantity>>,
    #[serde(default, skip_serializing_if = "is_nothing")]
    requests: Option<BTreeMap<String, Quantity>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    claims: Option<Vec<ResourceClaim>>,
}

impl Requirements {
    pub(super) fn of(resources: &ResourceRequirements) -> Self {
        Self {
            limits: resources.limits.clone(),
            requests: resources.requests.clone(),
            claims: resources.claims.clone(),
        }
    }

    fn resources(self) -> ResourceRequirements {
        ResourceRequirements {
            limits: self.limits,
            requests: self.requests,
            claims: self.claims,
        }
    }
}

#[expect(clippy::ref_option, reason = "serde passes the field as it is")]
fn is_nothing(amounts: &Option<BTreeMap<String, Quantity>>) -> bool {
    amounts.as_ref().is_none_or(BTreeMap::is_empty)
}

/// Go writes `null` for a map that was never made.
fn or_nothing<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn one() -> Entries {
        let resources = json!({ "requests": { "cpu": "100m" } });
        let resources = serde_json::from_value(resources).unwrap();
        let resources = PodResources {
            containers: BTreeMap::from([("c".to_owned(), resources)]),
            pod: None,
        };
        BTreeMap::from([(PodUid::new("u"), resources)])
    }

    #[test]
    fn a_file_is_upstreams() {
        // Computed in Go as upstream computes it: FNV over a dump of the value.
        let written = r#"{"data":"{\"entries\":{\"u\":{\"ContainerResources\":{\"c\":{\"requests\":{\"cpu\":\"100m\"}}},\"PodLevelResources\":null}}}","checksum":3602342290}"#;
        assert_eq!(String::from_utf8(encode(&one()).unwrap()).unwrap(), written);
        assert_eq!(decode(written.as_bytes()).unwrap(), one());
        let empty = encode(&Entries::new()).unwrap();
        let written = r#"{"data":"{}","checksum":694314937}"#;
        assert_eq!(String::from_utf8(empty).unwrap(), written);
    }

    #[test]
    fn limits_come_before_requests_and_what_html_would_take_is_escaped() {
        let resources = json!({ "requests": { "cpu": "1" }, "limits": { "a<b": "2" } });
        let resources: ResourceRequirements = serde_json::from_value(resources).unwrap();
        let json = go_json(&Requirements::of(&resources)).unwrap();
        assert_eq!(
            json,
            r#"{"limits":{"a\u003cb":"2"},"requests":{"cpu":"1"}}"#
        );
    }

    #[test]
    fn what_is_not_whole_is_refused_and_so_is_a_checksum_of_zero() {
        let good = String::from_utf8(encode(&one()).unwrap()).unwrap();
        for (bad, says) in [
            (good.replace("100m", "200m"), "corrupted"),
            (good.replace("3602342290", "0"), "corrupted"),
            (good[..good.len() - 4].to_owned(), "no JSON"),
            (String::new(), "no JSON"),
            ("{}".to_owned(), "no JSON"),
        ] {
            let error = decode(bad.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(says), "{bad:?}: {error}");
        }
    }

    #[test]
    fn what_upstream_leaves_empty_is_read() {
        let data = r#"{"entries":{"u":{"ContainerResources":null,"PodLevelResources":{"limits":{"cpu":"1"}}}}}"#;
        let file = json!({ "data": data, "checksum": checksum(data) }).to_string();
        let entries = decode(file.as_bytes()).unwrap();
        let resources = &entries[&PodUid::new("u")];
        assert!(resources.containers.is_empty());
        assert!(resources.pod.is_some());
    }
}
