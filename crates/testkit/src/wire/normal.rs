//! Requests in which everything that another run, or another node, would have
//! otherwise is replaced by a word, and in which bytes are text. Pure.
//!
//! That is: uids, names of nodes and namespaces, ids, addresses of nodes, pods and
//! services, times, and what is random in names of files. All else stays.

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use serde_json::{Map, Value, json};

use crate::compare::words::replace_word;

/// When a static pod was first seen.
const SEEN: &str = "kubernetes.io/config.seen";

/// A volume that the API server adds to pods with a token, with five letters of
/// its own choice behind.
const TOKEN_VOLUME: &str = "kube-api-access-";

/// What is known of a pod on one node, and the words for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Words {
    /// Unlike anything else: replaced wherever they are.
    pub(super) unique: Vec<(String, String)>,
    /// Replaced where they are not part of a longer word or number.
    pub(super) bounded: Vec<(String, String)>,
}

impl Words {
    pub(super) fn request(&self, request: &Value) -> Value {
        match request {
            Value::Object(fields) => {
                let fields = fields.iter();
                let fields = fields.map(|(key, value)| (self.text(key), self.field(key, value)));
                Value::Object(fields.collect())
            }
            Value::Array(items) => {
                let items = items.iter();
                Value::Array(items.map(|item| self.request(item)).collect())
            }
            Value::String(text) => Value::String(self.text(text)),
            other => other.clone(),
        }
    }

    /// What a call is about may be named by what differs.
    pub(super) fn label(&self, label: &str) -> String {
        self.text(label)
    }

    fn field(&self, key: &str, value: &Value) -> Value {
        match key {
            "envs" => self.environment(value),
            SEEN => json!("TIME"),
            "dnsConfig" => self.resolver(value),
            "hostId" => first_user(value),
            _ => self.request(value),
        }
    }

    /// Its options are in the order that chance gives to upstream's map of them.
    fn resolver(&self, config: &Value) -> Value {
        let mut config = self.request(config);
        if let Some(Value::Array(options)) = config.get_mut("options") {
            options.sort_by_key(Value::to_string);
        }
        config
    }

    /// By name: their order means nothing. One that is there twice is told.
    fn environment(&self, variables: &Value) -> Value {
        let mut environment = Map::new();
        for variable in variables.as_array().into_iter().flatten() {
            let mut key = variable["key"].as_str().unwrap_or_default().to_owned();
            while environment.contains_key(&key) {
                key.push_str(" (again)");
            }
            let bytes = BASE64.decode(variable["value"].as_str().unwrap_or_default());
            let value = String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned();
            environment.insert(key, json!(self.text(&value)));
        }
        Value::Object(environment)
    }

    fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (from, to) in &self.unique {
            text = text.replace(from.as_str(), to);
        }
        for (from, to) in &self.bounded {
            text = replace_word(&text, from, to);
        }
        termination_file(&token_volume(&text))
    }
}

/// Pods with users of their own get any portion of ids that is free; that it is a
/// portion, and not the first one, which is the node's, stays to be seen.
fn first_user(id: &Value) -> Value {
    const PORTION: u64 = 65_536;
    match id.as_u64() {
        Some(number) if number > 0 && number.is_multiple_of(PORTION) => json!("CHANCE"),
        _ => id.clone(),
    }
}

/// `…/containers/NAME/0a1b2c3d`: a file of which nothing but its place counts.
fn termination_file(path: &str) -> String {
    let is_chance =
        |name: &str| name.len() == 8 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    match path.rsplit_once('/') {
        Some((place, name)) if place.contains("/containers/") && is_chance(name) => {
            format!("{place}/CHANCE")
        }
        _ => path.to_owned(),
    }
}

fn token_volume(text: &str) -> String {
    const LETTERS: usize = 5;
    let Some((before, after)) = text.split_once(TOKEN_VOLUME) else {
        return text.to_owned();
    };
    let rest = after.get(LETTERS..).unwrap_or_default();
    format!("{before}{TOKEN_VOLUME}CHANCE{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Words {
        let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());
        Words {
            unique: vec![pair("0f3a-77", "UID"), pair("wire-a-12", "NAMESPACE")],
            bounded: vec![pair("10.1.0.1", "POD_IP")],
        }
    }

    #[test]
    fn names_ids_and_addresses_become_words_also_in_the_middle_of_paths() {
        let request = json!({
            "logDirectory": "/var/log/pods/wire-a-12_p_0f3a-77",
            "linux": {"cgroupParent": "/kubepods/pod0f3a-77"},
            "dnsConfig": {"searches": ["wire-a-12.svc.cluster.local"]},
            "labels": {"of wire-a-12": "10.1.0.1,10.1.0.12"},
            "attempt": 3,
        });
        let expected = json!({
            "logDirectory": "/var/log/pods/NAMESPACE_p_UID",
            "linux": {"cgroupParent": "/kubepods/podUID"},
            "dnsConfig": {"searches": ["NAMESPACE.svc.cluster.local"]},
            "labels": {"of NAMESPACE": "POD_IP,10.1.0.12"},
            "attempt": 3,
        });
        assert_eq!(words().request(&request), expected);
    }

    #[test]
    fn variables_are_a_map_of_texts_and_one_that_is_there_twice_shows() {
        let request = json!({"envs": [
            {"key": "B", "value": BASE64.encode("b")},
            {"key": "A", "value": BASE64.encode("pod 0f3a-77")},
            {"key": "B", "value": BASE64.encode("other")},
            {"key": "EMPTY"},
        ]});
        let expected =
            json!({"envs": {"A": "pod UID", "B": "b", "B (again)": "other", "EMPTY": ""}});
        assert_eq!(words().request(&request), expected);
    }

    #[test]
    fn of_a_resolver_only_the_options_have_no_order() {
        let request = json!({"dnsConfig": {"options": ["b", "a"], "servers": ["2", "1"]}});
        let expected = json!({"dnsConfig": {"options": ["a", "b"], "servers": ["2", "1"]}});
        assert_eq!(words().request(&request), expected);
        let none = json!({"dnsConfig": {"servers": ["1"]}});
        assert_eq!(words().request(&none), none);
    }

    #[test]
    fn what_is_chance_in_names_of_files_is_left_out() {
        let place = "/var/lib/kubelet/pods/0f3a-77";
        let cases = [
            (
                format!("{place}/containers/main/0a1b2c3d"),
                "/containers/main/CHANCE",
            ),
            (
                format!("{place}/containers/main/log"),
                "/containers/main/log",
            ),
            (format!("{place}/volumes/0a1b2c3d"), "/volumes/0a1b2c3d"),
            (
                format!("{place}/kube-api-access-x7k2p/a"),
                "/kube-api-access-CHANCE/a",
            ),
        ];
        for (path, expected) in cases {
            let normal = words().request(&json!(path));
            let expected = format!("/var/lib/kubelet/pods/UID{expected}");
            assert_eq!(normal, json!(expected));
        }
    }

    #[test]
    fn which_portion_of_users_a_pod_has_is_chance_and_that_it_has_one_is_not() {
        let normal = |id: u64| words().request(&json!({ "hostId": id, "length": id }));
        for (id, expected) in [
            (0, json!(0)),
            (65_536, json!("CHANCE")),
            (655_360, json!("CHANCE")),
            (65_537, json!(65_537)),
        ] {
            assert_eq!(normal(id), json!({ "hostId": expected, "length": id }));
        }
    }

    #[test]
    fn times_are_a_word_and_hashes_stay_as_they_are() {
        const HASH: &str = "io.kubernetes.container.hash";
        let request = json!({"annotations": {HASH: "1a2b", SEEN: "2026-01-01T00:00:00Z"}});
        let normal = words().request(&request);
        assert_eq!(normal["annotations"], json!({HASH: "1a2b", SEEN: "TIME"}));
    }
}
