//! From the bytes of a manifest, YAML or JSON, to pods. As upstream has it: fields
//! that are not known are ignored, values of the wrong type are not.

use std::fmt::Write as _;

use config::source::{Document, Node, Place, SyntaxError, TooDeep, Value, parse};
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value as Json;
use thiserror::Error;

/// The largest manifest, in bytes.
pub const MAX_SIZE: usize = 10 << 20;

/// Why bytes are no manifest of a pod.
#[derive(Debug, Error)]
pub enum DecodeError {
    #[error("it is larger than 10 MiB: a manifest holds one pod")]
    TooLarge,
    #[error("it is empty: write a Pod into it, or remove it")]
    Empty,
    #[error("{0}")]
    Syntax(#[from] SyntaxError),
    #[error("{0}")]
    TooDeep(#[from] TooDeep),
    #[error("it does not begin as a Pod does: set apiVersion: v1 and kind: Pod")]
    NoKind,
    #[error("it is a {api_version} {kind}: only a v1 {wanted} can be run from here")]
    WrongKind {
        api_version: String,
        kind: String,
        wanted: &'static str,
    },
    #[error("{place}: {path}: {cause}")]
    Malformed {
        place: Place,
        /// The field, as far as it can be told: `spec.containers[0].name`.
        path: String,
        cause: serde_json::Error,
    },
}

/// What was read, and what an operator should know of how.
#[derive(Debug)]
pub struct Decoded<T> {
    pub content: T,
    pub notices: Vec<String>,
}

/// Exactly one pod.
pub fn pod(bytes: &[u8]) -> Result<Decoded<Pod>, DecodeError> {
    let (document, json) = read(bytes)?;
    expect(&json, "Pod", "Pod")?;
    let content = typed(json, &document.root, "")?;
    Ok(Decoded {
        content,
        notices: notices(&document),
    })
}

/// One pod, or a list of them.
pub fn pods(bytes: &[u8]) -> Result<Decoded<Vec<Pod>>, DecodeError> {
    let (document, mut json) = read(bytes)?;
    let content = if expect(&json, "PodList", "Pod or PodList").is_ok() {
        let items = json.get_mut("items").map(Json::take).unwrap_or_default();
        let items = items.as_array().cloned().unwrap_or_default();
        let items = items.into_iter().enumerate();
        items
            .map(|(index, item)| typed(item, &document.root, &format!("items[{index}]")))
            .collect::<Result<_, _>>()?
    } else {
        expect(&json, "Pod", "Pod or PodList")?;
        vec![typed(json, &document.root, "")?]
    };
    Ok(Decoded {
        content,
        notices: notices(&document),
    })
}

fn read(bytes: &[u8]) -> Result<(Document, Json), DecodeError> {
    if bytes.len() > MAX_SIZE {
        return Err(DecodeError::TooLarge);
    }
    let document = parse(bytes)?;
    if document.root.value == Value::Null {
        return Err(DecodeError::Empty);
    }
    let json = document.root.to_json()?;
    Ok((document, json))
}

fn expect(json: &Json, kind: &str, wanted: &'static str) -> Result<(), DecodeError> {
    let word = |key: &str| json.get(key).and_then(Json::as_str).unwrap_or_default();
    let (api_version, found) = (word("apiVersion"), word("kind"));
    if api_version.is_empty() || found.is_empty() {
        return Err(DecodeError::NoKind);
    }
    if (api_version, found) == ("v1", kind) {
        return Ok(());
    }
    Err(DecodeError::WrongKind {
        api_version: api_version.to_owned(),
        kind: found.to_owned(),
        wanted,
    })
}

/// `at` is where the pod is in its document.
fn typed(mut json: Json, root: &Node, at: &str) -> Result<Pod, DecodeError> {
    if let Some(spec) = json.get_mut("spec") {
        write_out_quantities(spec);
    }
    parsed(&json).map_err(|cause| {
        let mut path = at.to_owned();
        path.push_str(&fault(&json));
        let path = path.trim_start_matches('.').to_owned();
        DecodeError::Malformed {
            place: place(root, &path),
            path: if path.is_empty() {
                "the pod".to_owned()
            } else {
                path
            },
            cause,
        }
    })
}

fn parsed(json: &Json) -> Result<Pod, serde_json::Error> {
    serde_json::from_value(json.clone())
}

/// A quantity may be written as a number (`cpu: 1`); our types want text.
fn write_out_quantities(json: &mut Json) {
    match json {
        Json::Array(values) => values.iter_mut().for_each(write_out_quantities),
        Json::Object(entries) => {
            for (key, value) in entries {
                match (key.as_str(), &mut *value) {
                    ("limits" | "requests" | "overhead", Json::Object(amounts)) => {
                        amounts.values_mut().for_each(write_out);
                    }
                    ("divisor" | "sizeLimit", Json::Number(_)) => write_out(value),
                    _ => write_out_quantities(value),
                }
            }
        }
        _ => {}
    }
}

fn write_out(amount: &mut Json) {
    if let Json::Number(number) = amount {
        *amount = Json::String(number.to_string());
    }
}

/// So many values are read again, all in all, in search of what is wrong with a manifest.
/// That is enough to find it in a pod of common size. In one that is very large the way to
/// it is cut short: others wait meanwhile.
const SEARCH: usize = 100_000;

/// How much work it is to read this once.
fn weight(json: &Json) -> usize {
    let held = match json {
        Json::Array(values) => values.iter().map(weight).sum(),
        Json::Object(entries) => entries.values().map(weight).sum(),
        // To copy it takes its time too.
        Json::String(text) => text.len() / 64,
        _ => 0,
    };
    held + 1
}

/// The way to the one value without which the rest can be read; as far as there is
/// one, and as it is found with so many tries.
fn fault(json: &Json) -> String {
    let mut tries = SEARCH / weight(json);
    let mut path = String::new();
    let mut pointer = String::new();
    loop {
        let found = json.pointer(&pointer).map(steps).unwrap_or_default();
        let without = |step: &Step| {
            let mut rest = json.clone();
            if let Some(parent) = rest.pointer_mut(&pointer) {
                step.remove_from(parent);
            }
            parsed(&rest).is_ok()
        };
        let mut found = found.into_iter().take(tries).enumerate();
        let Some((others, step)) = found.find(|(_, step)| without(step)) else {
            return path;
        };
        tries = tries.saturating_sub(others + 1);
        match step {
            Step::Key(key) => {
                path.push('.');
                path.push_str(&key);
                pointer.push('/');
                pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
            }
            Step::Index(index) => {
                // Writing to text does not fail.
                let _ = write!(path, "[{index}]");
                let _ = write!(pointer, "/{index}");
            }
        }
    }
}

/// From a value into one that it holds.
enum Step {
    Key(String),
    Index(usize),
}

impl Step {
    fn remove_from(&self, parent: &mut Json) {
        match (self, parent) {
            (Self::Key(key), Json::Object(entries)) => drop(entries.remove(key)),
            (Self::Index(index), Json::Array(values)) => drop(values.remove(*index)),
            _ => {}
        }
    }
}

fn steps(json: &Json) -> Vec<Step> {
    match json {
        Json::Object(entries) => entries.keys().cloned().map(Step::Key).collect(),
        Json::Array(values) => (0..values.len()).map(Step::Index).collect(),
        _ => Vec::new(),
    }
}

/// Where the value at the end of a path begins; as far as the path can be followed.
fn place(root: &Node, path: &str) -> Place {
    let mut node = root;
    for step in path.split(['.', '[', ']']).filter(|step| !step.is_empty()) {
        let next = match &node.value {
            Value::Map(entries) => entries.get(step),
            Value::List(values) => step.parse().ok().and_then(|index: usize| values.get(index)),
            _ => None,
        };
        let Some(next) = next else { break };
        node = next;
    }
    node.place
}

fn notices(document: &Document) -> Vec<String> {
    let twice = document.duplicates.iter();
    let twice = twice.map(|duplicate| format!("{duplicate}; the latter counts"));
    let ignored = document.ignored.iter();
    let ignored = ignored.map(|place| {
        format!("what begins at {place} is not read: one file holds one pod, put others into files of their own")
    });
    twice.chain(ignored).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, creationTimestamp: null}\nspec:\n  containers:\n  - name: web\n    image: nginx\n";

    #[test]
    fn a_pod_is_read_from_yaml_and_json_and_unknown_fields_are_ignored() {
        let json = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},
            "spec":{"containers":[{"name":"web","image":"nginx","colour":"red"}]}, "more": 1}"#;
        assert_eq!(
            pod(POD.as_bytes()).unwrap().content,
            pod(json.as_bytes()).unwrap().content
        );
    }

    #[test]
    fn quantities_may_be_numbers() {
        let text = format!(
            "{POD}    resources: {{limits: {{cpu: 1, memory: 64Mi}}, requests: {{cpu: 0.5}}}}\n"
        );
        let pod = pod(text.as_bytes()).unwrap().content;
        let resources = pod.spec.unwrap().containers.remove(0).resources.unwrap();
        let (limits, requests) = (resources.limits.unwrap(), resources.requests.unwrap());
        assert_eq!(
            (limits["cpu"].0.as_str(), limits["memory"].0.as_str()),
            ("1", "64Mi")
        );
        assert_eq!(requests["cpu"].0, "0.5");
    }

    #[test]
    fn what_is_no_pod_is_refused_with_what_to_do() {
        let large = vec![b' '; MAX_SIZE + 1];
        let bad_port =
            format!("{POD}    ports:\n    - containerPort: 80\n    - containerPort: web\n");
        let cases: [(&[u8], &str); 8] = [
            (b"", "it is empty: write a Pod into it, or remove it"),
            (
                b"# nothing\n",
                "it is empty: write a Pod into it, or remove it",
            ),
            (&large, "it is larger than 10 MiB: a manifest holds one pod"),
            (b"a:\n\tb: 1\n", "line 2, column 1: there is a tab"),
            (b"metadata: {name: a}\n", "set apiVersion: v1 and kind: Pod"),
            (b"text", "set apiVersion: v1 and kind: Pod"),
            (
                b"apiVersion: apps/v1\nkind: Deployment\n",
                "it is a apps/v1 Deployment: only a v1 Pod can be run from here",
            ),
            (
                bad_port.as_bytes(),
                "line 10, column 22: spec.containers[0].ports[1].containerPort: invalid type: string \"web\"",
            ),
        ];
        for (bytes, expected) in cases {
            let message = pod(bytes).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn the_search_for_a_fault_ends_early_where_it_would_take_long() {
        let containers = |count: usize, text: &str| {
            let good = format!("  - {{name: a, image: {text}}}\n").repeat(count);
            format!("apiVersion: v1\nkind: Pod\nspec:\n  containers:\n{good}  - {{name: 1}}\n")
        };
        let long = "x".repeat(1 << 20);
        for (text, path) in [
            (containers(50, "b"), "spec.containers[50].name"),
            (containers(1500, "b"), "spec.containers"),
            (containers(50, &long[..1 << 10]), "spec.containers[50].name"),
            (containers(5, &long), "the pod"),
        ] {
            let error = pod(text.as_bytes()).unwrap_err();
            let DecodeError::Malformed { path: found, .. } = error else {
                panic!("{error}");
            };
            assert_eq!(found, path);
        }
    }

    #[test]
    fn a_url_may_give_a_list() {
        let list = "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n- metadata: {name: b}\n  spec: {containers: [{name: 1}]}\n";
        let message = pods(list.as_bytes()).unwrap_err().to_string();
        assert!(
            message.starts_with("line 6, column 30: items[1].spec.containers[0].name: "),
            "{message}"
        );
        let names = |text: &str| -> Vec<String> {
            let pods = pods(text.as_bytes()).unwrap().content.into_iter();
            pods.map(|pod| pod.metadata.name.unwrap()).collect()
        };
        assert_eq!(names(&list.replace("name: 1", "name: c")), ["a", "b"]);
        assert_eq!(names(POD), ["web"]);
        assert!(names("apiVersion: v1\nkind: PodList\nitems: []\n").is_empty());
        assert!(pod(list.as_bytes()).is_err());
    }

    #[test]
    fn what_is_not_read_or_written_twice_is_told() {
        let text = format!("{POD}---\n{POD}");
        let notices = pod(text.as_bytes()).unwrap().notices;
        assert_eq!(notices.len(), 1);
        assert!(notices[0].contains("line 8"), "{notices:?}");
        let text = POD.replace("image: nginx\n", "image: a\n    image: b\n");
        let decoded = pod(text.as_bytes()).unwrap();
        assert!(
            decoded.notices[0].contains("spec.containers[0].image"),
            "{:?}",
            decoded.notices
        );
        assert_eq!(
            decoded.content.spec.unwrap().containers[0].image.as_deref(),
            Some("b")
        );
    }
}
