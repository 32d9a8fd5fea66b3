//! From what a watcher was told to what is compared: one [`Record`] for a
//! scenario on one node. Pure.

mod last;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;

use self::names::Names;
use super::words::Words;

/// One thing that a watcher was told, and when.
#[derive(Clone, Debug)]
pub(super) struct Sighting {
    pub(super) at: Duration,
    pub(super) gone: bool,
    pub(super) object: Value,
}

/// What was, and for how long; the last in a sequence lasts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Span {
    pub(super) what: String,
    pub(super) lasted: Option<Duration>,
}

/// What the cluster saw of one scenario on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Record {
    pub(super) pods: BTreeMap<String, PodStory>,
    /// How often, by what was said of whom.
    pub(super) events: BTreeMap<String, u64>,
    /// What containers printed, by pod and container.
    pub(super) prints: BTreeMap<String, String>,
    /// What the play waited for in vain.
    pub(super) failure: Option<String>,
}

/// The life of one pod object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct PodStory {
    /// By topic: `phase`, `container main`, `condition Ready`.
    pub(super) sequences: BTreeMap<String, Vec<Span>>,
    /// The messages that came with a state or a condition, by both.
    pub(super) messages: BTreeMap<String, BTreeSet<String>>,
    /// Every leaf of the last status, by its path.
    pub(super) last: BTreeMap<String, String>,
    pub(super) gone: bool,
    /// Containers whose last run was shorter than [`BRIEF`], by the runtime's clock.
    pub(super) brief: BTreeSet<String>,
    /// It stands for a static pod, which may have begun before it.
    pub(super) mirror: bool,
}

/// A busy agent may see no more of a shorter run than its end.
const BRIEF: SignedDuration = SignedDuration::from_secs(3);

/// Where a status has containers.
pub(super) const CONTAINERS: [&str; 3] = [
    "initContainerStatuses",
    "containerStatuses",
    "ephemeralContainerStatuses",
];

/// What is known of the place of the play.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) namespace: String,
    pub(super) node: String,
    pub(super) address: String,
}

/// Makes a record. `prints` and `failure` are as the play left them.
pub(super) fn record(
    place: &Place,
    pods: &[Sighting],
    events: &[Value],
    prints: &BTreeMap<String, String>,
    failure: Option<&str>,
) -> Record {
    let names = Names::of(pods);
    let words = Words::new(names.words(place, pods));
    let mut stories: BTreeMap<String, PodStory> = BTreeMap::new();
    for uid in names.uids() {
        let life: Vec<&Sighting> = pods
            .iter()
            .filter(|sighting| sighting.object["metadata"]["uid"] == uid)
            .collect();
        let name = words.normal(names.name(uid));
        stories.insert(name, pod_story(&words, &life));
    }
    let mut counts = BTreeMap::new();
    // What the control plane says of pods is its own affair.
    for event in events.iter().filter(|event| component(event) == "kubelet") {
        *counts.entry(event_key(&words, &names, event)).or_default() += event_count(event);
    }
    let normal_print = |(key, text): (&String, &String)| (words.normal(key), words.normal(text));
    Record {
        pods: stories,
        events: counts,
        prints: prints.iter().map(normal_print).collect(),
        failure: failure.map(|text| words.normal(text)),
    }
}

fn pod_story(words: &Words, life: &[&Sighting]) -> PodStory {
    let mut story = PodStory::default();
    let mut sequences: BTreeMap<String, Vec<(Duration, Option<String>)>> = BTreeMap::new();
    for sighting in life {
        let facts = facts(&sighting.object["status"]);
        // A condition that is not there any more has ended, too.
        for (topic, sequence) in &mut sequences {
            let there = facts.iter().any(|fact| fact.topic == *topic);
            if !there && sequence.last().is_some_and(|(_, last)| last.is_some()) {
                sequence.push((sighting.at, None));
            }
        }
        for fact in facts {
            if !fact.message.is_empty() {
                let key = format!("{} {}", fact.topic, fact.state);
                let message = words.normal(&fact.message);
                story.messages.entry(key).or_default().insert(message);
            }
            let sequence = sequences.entry(fact.topic).or_default();
            let state = Some(fact.state);
            if sequence.last().is_none_or(|(_, last)| *last != state) {
                sequence.push((sighting.at, state));
            }
        }
        story.gone |= sighting.gone;
    }
    story.sequences = sequences
        .into_iter()
        .map(|(topic, sequence)| (topic, spans(&sequence)))
        .collect();
    if let Some(sighting) = life.last() {
        let annotations = &sighting.object["metadata"]["annotations"];
        story.mirror = annotations["kubernetes.io/config.mirror"].is_string();
        story.brief = brief(&sighting.object["status"]);
        story.last = last::leaves(words, &sighting.object);
    }
    story
}

fn spans(sequence: &[(Duration, Option<String>)]) -> Vec<Span> {
    let ends = sequence.iter().skip(1).map(|(at, _)| Some(*at));
    let spans = sequence.iter().zip(ends.chain([None]));
    spans
        .filter_map(|((start, what), end)| {
            Some(Span {
                what: what.clone()?,
                lasted: end.map(|end| end.saturating_sub(*start)),
            })
        })
        .collect()
}

/// The containers whose last run that has ended was brief.
fn brief(status: &Value) -> BTreeSet<String> {
    let containers = CONTAINERS.into_iter().flat_map(|list| items(&status[list]));
    let is_brief = |container: &&Value| {
        let mut runs = ["state", "lastState"]
            .into_iter()
            .filter_map(|state| run(&container[state]["terminated"]));
        runs.next().is_some_and(|run| run <= BRIEF)
    };
    containers
        .filter(is_brief)
        .map(|container| text(&container["name"]))
        .collect()
}

/// How long a run was that has ended; nothing for one that never began.
fn run(terminated: &Value) -> Option<SignedDuration> {
    let time = |field: &str| terminated[field].as_str()?.parse::<Timestamp>().ok();
    let started = time("startedAt")?;
    Some(time("finishedAt")?.duration_since(started))
}

/// What one status says of one topic.
struct Fact {
    topic: String,
    state: String,
    message: String,
}

fn facts(status: &Value) -> Vec<Fact> {
    let mut facts = vec![Fact {
        topic: "phase".to_owned(),
        state: text(&status["phase"]),
        message: String::new(),
    }];
    for list in CONTAINERS {
        for container in items(&status[list]) {
            facts.push(container_fact(container));
        }
    }
    for condition in items(&status["conditions"]) {
        let reason = text(&condition["reason"]);
        let separator = if reason.is_empty() { "" } else { ":" };
        facts.push(Fact {
            topic: format!("condition {}", text(&condition["type"])),
            state: format!("{}{separator}{reason}", text(&condition["status"])),
            message: text(&condition["message"]),
        });
    }
    facts
}

fn container_fact(container: &Value) -> Fact {
    let states = container["state"].as_object();
    let of = states.and_then(|states| states.values().next());
    Fact {
        topic: format!("container {}", text(&container["name"])),
        state: container_label(container),
        message: of.map(|of| text(&of["message"])).unwrap_or_default(),
    }
}

/// `waiting:CrashLoopBackOff restarts=1`, `terminated:Error:7 restarts=0`.
pub(super) fn container_label(container: &Value) -> String {
    let restarts = container["restartCount"].as_u64().unwrap_or_default();
    let states = container["state"].as_object();
    let Some((name, of)) = states.and_then(|states| states.iter().next()) else {
        return format!("no state restarts={restarts}");
    };
    let mut label = name.clone();
    for field in ["reason", "exitCode", "signal"] {
        let value = text(&of[field]);
        if !value.is_empty() {
            label = format!("{label}:{value}");
        }
    }
    format!("{label} restarts={restarts}")
}

/// What was said of whom.
fn event_key(words: &Words, names: &Names, event: &Value) -> String {
    let object = &event["involvedObject"];
    let uid = object["uid"].as_str().unwrap_or_default();
    let name = match names.known(uid) {
        Some(name) => name.to_owned(),
        None => text(&object["name"]),
    };
    let message = text(&event["message"]);
    let message = message
        .strip_prefix("(combined from similar events): ")
        .unwrap_or(&message);
    let key = format!(
        "{} {} of {} {} {}: {message}",
        text(&event["type"]),
        text(&event["reason"]),
        text(&object["kind"]),
        name,
        text(&object["fieldPath"]),
    );
    words.normal(&key)
}

/// Who said it.
fn component(event: &Value) -> String {
    let component = text(&event["source"]["component"]);
    if component.is_empty() {
        return text(&event["reportingComponent"]);
    }
    component
}

fn event_count(event: &Value) -> u64 {
    let series = event["series"]["count"].as_u64();
    series.or(event["count"].as_u64()).unwrap_or(1).max(1)
}

pub(super) fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
