//! Of a recording of all that a runtime was asked, the calls that make, change and
//! end pods, one list for each pod. Pure.
//!
//! What is a matter of time is left out: a pull or an update that is asked for
//! again, a stop of what was stopped before, and lives of containers beyond those
//! that a spec counts.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde_json::Value;

/// What is compared.
const CALLS: [&str; 9] = [
    "RunPodSandbox",
    "StopPodSandbox",
    "CreateContainer",
    "StartContainer",
    "StopContainer",
    "UpdateContainerResources",
    "UpdatePodSandboxResources",
    "PullImage",
    // By hooks: no spec has a probe that is a command.
    "ExecSync",
];

/// One line of a recording.
#[derive(Clone, Debug)]
pub(super) struct Call {
    name: String,
    begun: Timestamp,
    took: Duration,
    request: Value,
    /// Of calls that make something.
    answer: Value,
}

/// One call for a pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Said {
    /// Which call about what: `CreateContainer main#0`.
    pub(super) label: String,
    pub(super) request: Value,
    begun: Timestamp,
    ended: Timestamp,
}

/// The calls for one pod, and what its ids stand for.
#[derive(Clone, Debug, Default)]
pub(super) struct PodCalls {
    pub(super) uid: String,
    pub(super) said: Vec<Said>,
    /// An id and what to call it.
    pub(super) ids: Vec<(String, String)>,
}

impl PodCalls {
    pub(super) fn sandboxes_are_stopped(&self) -> bool {
        let count = |call: &str| {
            let said = self.said.iter().map(|said| said.label.as_str());
            said.filter(|label| label.starts_with(call)).count()
        };
        count("RunPodSandbox") <= count("StopPodSandbox")
    }

    /// The id of its newest sandbox.
    pub(super) fn sandbox(&self) -> Option<&str> {
        let mut ids = self.ids.iter().rev();
        let sandbox = ids.find(|(_, word)| word.starts_with("sandbox"));
        sandbox.map(|(id, _)| id.as_str())
    }
}

/// Reads a recording. Its last line may be half written.
pub(super) fn calls(text: &str) -> Result<Vec<Call>> {
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let mut calls = Vec::new();
    for line in whole.lines() {
        if CALLS.iter().any(|call| line.contains(call)) {
            let line: Value = serde_json::from_str(line)
                .with_context(|| format!("a line of the recording is not JSON: {line}"))?;
            calls.extend(call(line)?);
        }
    }
    // They are written at their ends.
    calls.sort_by_key(|call| call.begun);
    Ok(calls)
}

fn call(mut line: Value) -> Result<Option<Call>> {
    let name = line["call"].as_str().unwrap_or_default().to_owned();
    if !CALLS.contains(&name.as_str()) {
        return Ok(None);
    }
    let begun = line["time"].as_str().unwrap_or_default();
    let took = line["duration_ms"].as_f64().unwrap_or_default();
    Ok(Some(Call {
        begun: begun.parse().with_context(|| format!("time {begun:?}"))?,
        took: Duration::from_secs_f64(took / 1000.0),
        request: line["request"].take(),
        answer: line["answer"].take(),
        name,
    }))
}

/// Which pod: namespace and name.
pub(super) type PodKey = (String, String);

/// Sorts calls by pods. `lives` says how many lives of each container count.
pub(super) fn by_pod(calls: &[Call], lives: impl Fn(&PodKey) -> u64) -> BTreeMap<PodKey, PodCalls> {
    let mut book = Book {
        lives,
        pods: BTreeMap::new(),
        owners: BTreeMap::new(),
    };
    for call in calls {
        book.take(call);
    }
    for pod in book.pods.values_mut() {
        pod.said = settled(std::mem::take(&mut pod.said));
    }
    book.pods
}

struct Book<L> {
    lives: L,
    pods: BTreeMap<PodKey, PodCalls>,
    /// An id, whose it is, and what to call it.
    owners: BTreeMap<String, (PodKey, String)>,
}

impl<L: Fn(&PodKey) -> u64> Book<L> {
    fn take(&mut self, call: &Call) {
        let request = &call.request;
        match call.name.as_str() {
            "RunPodSandbox" => {
                let metadata = &request["config"]["metadata"];
                let word = format!("sandbox#{}", attempt(metadata));
                let key = pod_key(metadata);
                self.name(&key, metadata, &call.answer["podSandboxId"], &word);
                self.add(&key, call, &format!("#{}", attempt(metadata)));
            }
            "CreateContainer" => {
                let metadata = &request["config"]["metadata"];
                let word = format!("{}#{}", text(&metadata["name"]), attempt(metadata));
                let pod = &request["sandboxConfig"]["metadata"];
                let key = pod_key(pod);
                if attempt(metadata) < (self.lives)(&key) {
                    self.name(&key, pod, &call.answer["containerId"], &word);
                    self.add(&key, call, &format!(" {word}"));
                }
            }
            "PullImage" => {
                let key = pod_key(&request["sandboxConfig"]["metadata"]);
                self.add(
                    &key,
                    call,
                    &format!(" {}", text(&request["image"]["image"])),
                );
            }
            // By its id: what nobody has made is somebody else's.
            name => {
                let id = match name {
                    "StopPodSandbox" | "UpdatePodSandboxResources" => "podSandboxId",
                    _ => "containerId",
                };
                let owner = self.owners.get(text(&request[id])).cloned();
                if let Some((key, word)) = owner {
                    self.about(&key, call, &word);
                }
            }
        }
    }

    fn about(&mut self, key: &PodKey, call: &Call, word: &str) {
        let word = match word.strip_prefix("sandbox") {
            Some(attempt) => attempt.to_owned(),
            None => format!(" {word}"),
        };
        self.add(key, call, &word);
    }

    fn name(&mut self, key: &PodKey, metadata: &Value, id: &Value, word: &str) {
        let pod = self.pods.entry(key.clone()).or_default();
        text(&metadata["uid"]).clone_into(&mut pod.uid);
        if let Some(id) = id.as_str() {
            pod.ids.push((id.to_owned(), word.to_owned()));
            self.owners
                .insert(id.to_owned(), (key.clone(), word.to_owned()));
        }
    }

    /// Another one of the same is told with its number; the same one once.
    fn add(&mut self, key: &PodKey, call: &Call, about: &str) {
        let pod = self.pods.entry(key.clone()).or_default();
        let label = format!("{}{about}", call.name);
        let numbered = format!("{label} (");
        let of_the_same = |said: &&Said| said.label == label || said.label.starts_with(&numbered);
        let stops = call.name.starts_with("Stop");
        let mut before = pod.said.iter().filter(of_the_same);
        if before.any(|said| stops || said.request == call.request) {
            return;
        }
        let before = pod.said.iter().filter(of_the_same);
        let label = match before.count() {
            0 => label,
            count => format!("{label} ({})", count + 1),
        };
        pod.said.push(Said {
            label,
            request: call.request.clone(),
            begun: call.begun,
            ended: call.begun + call.took,
        });
    }
}

/// Containers that are stopped side by side have no order: they get that of their
/// names.
fn settled(said: Vec<Said>) -> Vec<Said> {
    let mut groups: Vec<Vec<Said>> = Vec::new();
    for said in said {
        let beside = groups.last().is_some_and(|group| {
            let is_stop = |said: &Said| said.label.starts_with("StopContainer");
            is_stop(&said)
                && group.iter().all(is_stop)
                && group.iter().any(|one| said.begun < one.ended)
        });
        match groups.last_mut() {
            Some(group) if beside => group.push(said),
            _ => groups.push(vec![said]),
        }
    }
    for group in &mut groups {
        group.sort_by(|one, other| one.label.cmp(&other.label));
    }
    groups.into_iter().flatten().collect()
}

fn pod_key(metadata: &Value) -> PodKey {
    let part = |field: &str| text(&metadata[field]).to_owned();
    (part("namespace"), part("name"))
}

/// What is not set is 0.
fn attempt(metadata: &Value) -> u64 {
    metadata["attempt"].as_u64().unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Lines of a recording, a second apart, each call lasting so many.
    fn recording(lines: &[(&str, Value, Value, u32)]) -> String {
        let mut text = String::new();
        for (second, (name, request, answer, took)) in lines.iter().enumerate() {
            let line = json!({
                "time": format!("2026-01-01T00:00:{second:02}.000000Z"), "call": name,
                "request": request, "answer": answer, "code": "OK",
                "duration_ms": f64::from(*took) * 1000.0,
            });
            text = format!("{text}{line}\n");
        }
        text
    }

    fn labels(text: &str, lives: u64) -> Vec<String> {
        let calls = calls(text).unwrap();
        let pods = by_pod(&calls, |_| lives);
        assert_eq!(pods.len(), 1, "{pods:?}");
        let (key, pod) = pods.iter().next().unwrap();
        assert_eq!(*key, ("ns".to_owned(), "p".to_owned()));
        assert_eq!(pod.uid, "u1");
        pod.said.iter().map(|said| said.label.clone()).collect()
    }

    fn metadata() -> Value {
        json!({"name": "p", "namespace": "ns", "uid": "u1"})
    }

    fn sandbox() -> (&'static str, Value, Value, u32) {
        let request = json!({"config": {"metadata": metadata()}});
        ("RunPodSandbox", request, json!({"podSandboxId": "s1"}), 0)
    }

    fn create(name: &str, attempt: u64, id: &str) -> (&'static str, Value, Value, u32) {
        let request = json!({
            "podSandboxId": "s1", "sandboxConfig": {"metadata": metadata()},
            "config": {"metadata": {"name": name, "attempt": attempt}},
        });
        ("CreateContainer", request, json!({"containerId": id}), 0)
    }

    fn of(name: &'static str, id: &str, took: u32) -> (&'static str, Value, Value, u32) {
        let request = match name {
            "StopPodSandbox" => json!({"podSandboxId": id}),
            _ => json!({"containerId": id}),
        };
        (name, request, Value::Null, took)
    }

    fn update(quota: &str) -> (&'static str, Value, Value, u32) {
        let request = json!({"containerId": "c1", "linux": {"cpuQuota": quota}});
        ("UpdateContainerResources", request, Value::Null, 0)
    }

    #[test]
    fn a_pod_has_its_calls_under_what_they_are_about() {
        let text = recording(&[
            ("Version", json!({}), Value::Null, 0),
            sandbox(),
            create("main", 0, "c1"),
            of("StartContainer", "c1", 0),
            update("1"),
            update("1"),
            update("2"),
            of("StopContainer", "c1", 0),
            of("StopContainer", "c1", 0),
            of("StopContainer", "of another", 0),
            of("StopPodSandbox", "s1", 0),
            of("StopPodSandbox", "s1", 0),
        ]);
        let expected = [
            "RunPodSandbox#0",
            "CreateContainer main#0",
            "StartContainer main#0",
            "UpdateContainerResources main#0",
            "UpdateContainerResources main#0 (2)",
            "StopContainer main#0",
            "StopPodSandbox#0",
        ];
        assert_eq!(labels(&text, 1), expected);
        let half = format!("{text}{{\"time\":\"2026-01-01T00:00:59Z\",\"call\":\"StopCont");
        assert_eq!(labels(&half, 1), expected);
    }

    #[test]
    fn only_the_lives_that_count_are_told() {
        let text = recording(&[
            sandbox(),
            create("main", 0, "c1"),
            create("main", 1, "c2"),
            of("StartContainer", "c2", 0),
            create("main", 2, "c3"),
            of("StartContainer", "c3", 0),
        ]);
        let told = labels(&text, 2);
        assert_eq!(
            told.last().map(String::as_str),
            Some("StartContainer main#1")
        );
        assert_eq!(told.len(), 4);
    }

    #[test]
    fn a_pull_that_is_tried_again_counts_once() {
        let pull = |image: &str| {
            let request =
                json!({"image": {"image": image}, "sandboxConfig": {"metadata": metadata()}});
            ("PullImage", request, Value::Null, 0)
        };
        let text = recording(&[sandbox(), pull("a"), pull("b"), pull("a")]);
        assert_eq!(
            labels(&text, 1),
            ["RunPodSandbox#0", "PullImage a", "PullImage b"]
        );
    }

    #[test]
    fn stops_beside_each_other_have_no_order_and_others_have() {
        let stops = |took: u32| {
            let text = recording(&[
                sandbox(),
                create("a", 0, "c1"),
                create("b", 0, "c2"),
                of("StopContainer", "c2", took),
                of("StopContainer", "c1", took),
            ]);
            labels(&text, 1)[3..].to_vec()
        };
        assert_eq!(stops(2), ["StopContainer a#0", "StopContainer b#0"]);
        assert_eq!(stops(1), ["StopContainer b#0", "StopContainer a#0"]);
    }

    #[test]
    fn it_is_known_whether_all_sandboxes_of_a_pod_are_stopped() {
        let stopped = |lines: &[_]| {
            let calls = calls(&recording(lines)).unwrap();
            let pods = by_pod(&calls, |_| 1);
            let pod = pods.values().next().unwrap();
            assert_eq!(pod.sandbox(), Some("s1"));
            pod.sandboxes_are_stopped()
        };
        assert!(!stopped(&[sandbox()]));
        assert!(stopped(&[sandbox(), of("StopPodSandbox", "s1", 0)]));
    }
}
