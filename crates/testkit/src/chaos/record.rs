//! Every container that the runtime told of, as `crictl events` wrote it down:
//! what a look now and then would miss is in it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::Deserialize;

/// An event as crictl prints it: as much of it as we read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    container_id: String,
    container_event_type: String,
    pod_sandbox_status: Option<Sandbox>,
    #[serde(default)]
    containers_statuses: Vec<Container>,
}

#[derive(Debug, Deserialize)]
struct Sandbox {
    metadata: PodMetadata,
}

#[derive(Debug, Deserialize)]
struct PodMetadata {
    namespace: String,
    name: String,
    uid: String,
}

#[derive(Debug, Deserialize)]
struct Container {
    id: String,
    metadata: Metadata,
    state: String,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    attempt: u32,
}

/// A container of one pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// Namespace, name and uid.
    pod: String,
    container: String,
}

/// What became of one attempt.
#[derive(Debug, Default)]
struct Attempt {
    ids: BTreeSet<String>,
    started: bool,
    /// Made, never started, and removed before another was made: an agent that died in
    /// between left them, and a next one cannot know how far it had come.
    removed: usize,
}

#[derive(Debug, Default)]
pub(super) struct Record {
    places: BTreeMap<Place, BTreeMap<u32, Attempt>>,
}

impl Record {
    /// Reads events, one JSON object after the other. The last may have been
    /// written in part.
    pub(super) fn read(text: &str) -> Result<Self> {
        let mut record = Self::default();
        for event in serde_json::Deserializer::from_str(text).into_iter::<Event>() {
            match event {
                Err(error) if error.is_eof() => break,
                event => record.note(&event.context("cannot understand crictl's events")?),
            }
        }
        Ok(record)
    }

    fn note(&mut self, event: &Event) {
        if event.container_event_type == "CONTAINER_DELETED_EVENT" {
            self.forget(&event.container_id);
        }
        let Some(sandbox) = &event.pod_sandbox_status else {
            return;
        };
        let PodMetadata {
            namespace,
            name,
            uid,
        } = &sandbox.metadata;
        for container in &event.containers_statuses {
            let place = Place {
                pod: format!("{namespace}/{name} ({uid})"),
                container: container.metadata.name.clone(),
            };
            let attempts = self.places.entry(place).or_default();
            let attempt = attempts.entry(container.metadata.attempt).or_default();
            attempt.ids.insert(container.id.clone());
            // The state alone does not tell: a start that failed has exited, too.
            attempt.started |= container.state == "CONTAINER_RUNNING"
                || (container.id == event.container_id
                    && event.container_event_type == "CONTAINER_STARTED_EVENT");
        }
    }

    /// That container is gone. One that was alone and never ran took nothing along.
    fn forget(&mut self, id: &str) {
        let attempts = self.places.values_mut().flat_map(BTreeMap::values_mut);
        for attempt in attempts.filter(|one| !one.started && one.ids.len() == 1) {
            attempt.removed += usize::from(attempt.ids.remove(id));
        }
    }

    pub(super) fn pods(&self) -> usize {
        let pods: BTreeSet<&String> = self.places.keys().map(|place| &place.pod).collect();
        pods.len()
    }

    pub(super) fn containers(&self) -> usize {
        let attempts = self.places.values().flat_map(BTreeMap::values);
        attempts.map(|one| one.ids.len() + one.removed).sum()
    }

    /// Containers that were made and never ran: their agent died between the
    /// two, and the next one made another.
    pub(super) fn made_in_vain(&self) -> usize {
        let attempts = self.places.values().flat_map(BTreeMap::values);
        let in_vain =
            |one: &Attempt| one.removed + usize::from(!one.started && !one.ids.is_empty());
        attempts.map(in_vain).sum()
    }

    /// What must never be: two containers for one attempt at a time, and a next attempt
    /// after one that ran, where no program ends by itself.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (Place { pod, container }, attempts) in &self.places {
            for (number, Attempt { ids, started, .. }) in attempts {
                if ids.len() > 1 {
                    faults.push(format!(
                        "{container} of {pod}: {} containers for attempt {number}: {ids:?}",
                        ids.len()
                    ));
                }
                if *started && attempts.keys().any(|other| other > number) {
                    faults.push(format!(
                        "{container} of {pod}: attempt {number} ran, and another was made after it"
                    ));
                }
            }
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CREATED: &str = "CONTAINER_CREATED_EVENT";
    const STARTED: &str = "CONTAINER_STARTED_EVENT";
    const STOPPED: &str = "CONTAINER_STOPPED_EVENT";
    const DELETED: &str = "CONTAINER_DELETED_EVENT";

    /// Event, pod, id, attempt, state.
    type Told<'a> = (&'a str, &'a str, &'a str, u32, &'a str);

    fn record(told: &[Told<'_>]) -> Record {
        let events = told.iter().map(|(kind, pod, id, attempt, state)| {
            let event = json!({
                "containerId": id,
                "containerEventType": kind,
                "createdAt": "1",
                "podSandboxStatus": { "id": "s", "metadata": {
                    "namespace": "n", "name": pod, "uid": "u", "attempt": 0,
                }},
                "containersStatuses": if *kind == DELETED { json!([]) } else { json!([{
                    "id": id, "metadata": { "name": "main", "attempt": attempt }, "state": state,
                }]) },
            });
            serde_json::to_string_pretty(&event).unwrap()
        });
        Record::read(&events.collect::<Vec<_>>().join("\n")).unwrap()
    }

    #[test]
    fn an_agent_is_at_fault_for_a_second_container_and_for_a_restart_only() {
        let cases: [(&str, &[Told<'_>], usize); 8] = [
            (
                "a container lives and ends with its pod",
                &[
                    (CREATED, "a", "1", 0, "CONTAINER_CREATED"),
                    (STARTED, "a", "1", 0, "CONTAINER_RUNNING"),
                    (STOPPED, "a", "1", 0, "CONTAINER_EXITED"),
                ],
                0,
            ),
            (
                "two pods have one each",
                &[
                    (CREATED, "a", "1", 0, "CONTAINER_CREATED"),
                    (CREATED, "b", "2", 0, "CONTAINER_CREATED"),
                ],
                0,
            ),
            (
                "one that never ran is made again",
                &[
                    (CREATED, "a", "1", 0, "CONTAINER_CREATED"),
                    (STOPPED, "a", "1", 0, "CONTAINER_EXITED"),
                    (CREATED, "a", "2", 1, "CONTAINER_CREATED"),
                    (STARTED, "a", "2", 1, "CONTAINER_RUNNING"),
                ],
                0,
            ),
            (
                "two for one attempt",
                &[
                    (CREATED, "a", "1", 0, "CONTAINER_CREATED"),
                    (CREATED, "a", "2", 0, "CONTAINER_CREATED"),
                ],
                1,
            ),
            (
                "one that never ran is removed before another takes its place",
                &[
                    (CREATED, "a", "1", 0, "CONTAINER_CREATED"),
                    (DELETED, "a", "1", 0, ""),
                    (CREATED, "a", "2", 0, "CONTAINER_CREATED"),
                    (STARTED, "a", "2", 0, "CONTAINER_RUNNING"),
                ],
                0,
            ),
            (
                "it is removed after another was made",
                &[
                    (CREATED, "a", "1", 0, "CONTAINER_CREATED"),
                    (CREATED, "a", "2", 0, "CONTAINER_CREATED"),
                    (DELETED, "a", "1", 0, ""),
                    (STARTED, "a", "2", 0, "CONTAINER_RUNNING"),
                ],
                1,
            ),
            (
                "one that ran is removed, and made again",
                &[
                    (STARTED, "a", "1", 0, "CONTAINER_RUNNING"),
                    (DELETED, "a", "1", 0, ""),
                    (CREATED, "a", "2", 0, "CONTAINER_CREATED"),
                ],
                1,
            ),
            (
                "one that ran is started again",
                &[
                    (STARTED, "a", "1", 3, "CONTAINER_RUNNING"),
                    (CREATED, "a", "2", 4, "CONTAINER_CREATED"),
                ],
                1,
            ),
        ];
        for (what, told, expected) in cases {
            let faults = record(told).faults();
            assert_eq!(faults.len(), expected, "{what}: {faults:?}");
        }
    }

    #[test]
    fn what_was_made_is_counted() {
        let record = record(&[
            (CREATED, "a", "1", 0, "CONTAINER_CREATED"),
            (CREATED, "a", "2", 1, "CONTAINER_CREATED"),
            (STARTED, "a", "2", 1, "CONTAINER_RUNNING"),
            (STARTED, "b", "3", 0, "CONTAINER_RUNNING"),
        ]);
        assert_eq!(
            (record.pods(), record.containers(), record.made_in_vain()),
            (2, 3, 1)
        );
    }

    #[test]
    fn a_record_may_end_in_the_middle_of_an_event_and_nowhere_else() {
        let whole = r#"{"containerId": "1", "containerEventType": "x", "podSandboxStatus": null}"#;
        assert!(Record::read(&format!("{whole}\n{{\"containerId\": \"2")).is_ok());
        assert!(Record::read(&format!("FATA[0000] no runtime\n{whole}")).is_err());
    }
}
