//! The pods of a namespace as the API server tells of them, with the moment at
//! which each became Ready, at which its containers had ended for good, and at which it
//! was gone.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::lab::Kubectl;

/// Longer than any test looks.
const LASTS: &str = "timeoutSeconds=7200";
/// How many changes may wait for us: then the server waits.
const UNREAD: usize = 10_000;

/// Ends with this value.
#[derive(Debug)]
pub struct PodWatch {
    kubectl: Kubectl,
    namespace: String,
    stream: Stream,
    moments: Moments,
}

/// One watch, as long as the server keeps it.
#[derive(Debug)]
struct Stream {
    kubectl: Child,
    heard: Receiver<(Instant, Value)>,
}

/// When each pod came to a point for the first time.
#[derive(Debug, Default)]
struct Moments {
    begun: bool,
    /// All that were there when the watch began, or came since.
    there: BTreeSet<String>,
    /// Those that were there before the watch was begun anew, and were not told of since.
    missing: BTreeSet<String>,
    ready: BTreeMap<String, Instant>,
    ended: BTreeMap<String, Instant>,
    gone: BTreeMap<String, Instant>,
}

impl PodWatch {
    /// Answers when the watch stands: whatever happens from now on is seen as
    /// it happens.
    pub fn start(kubectl: &Kubectl, namespace: &str) -> Result<Self> {
        let mut watch = Self {
            kubectl: kubectl.clone(),
            namespace: namespace.to_owned(),
            stream: Stream::start(kubectl, namespace)?,
            moments: Moments::default(),
        };
        watch.listen("the watch to begin", Duration::from_secs(20), |moments| {
            (usize::from(moments.begun), 1)
        })?;
        Ok(watch)
    }

    /// Waits until so many pods have been Ready, and answers when: the
    /// earliest first.
    pub fn until_ready(&mut self, count: usize, timeout: Duration) -> Result<Vec<Instant>> {
        self.listen("pods to be Ready", timeout, |seen| {
            (seen.ready.len(), count)
        })?;
        Ok(in_order(&self.moments.ready))
    }

    /// Waits until so many pods are gone, and answers when: the earliest first.
    pub fn until_gone(&mut self, count: usize, timeout: Duration) -> Result<Vec<Instant>> {
        self.listen("pods to be gone", timeout, |seen| (seen.gone.len(), count))?;
        Ok(in_order(&self.moments.gone))
    }

    /// Waits until a pod has ended, well or not, and answers when.
    pub fn until_ended(&mut self, pod: &str, timeout: Duration) -> Result<Instant> {
        self.listen("a pod to have ended", timeout, |seen| {
            (usize::from(seen.ended.contains_key(pod)), 1)
        })?;
        let ended = self.moments.ended.get(pod);
        ended.copied().context("it has not ended")
    }

    fn listen(
        &mut self,
        what: &str,
        timeout: Duration,
        have_of_want: impl Fn(&Moments) -> (usize, usize),
    ) -> Result<()> {
        let deadline = Instant::now() + timeout;
        loop {
            let (have, want) = have_of_want(&self.moments);
            if have >= want {
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.stream.heard.recv_timeout(left) {
                Ok((at, event)) => self.moments.hear(at, &event),
                Err(RecvTimeoutError::Timeout) => {
                    bail!("timed out after {timeout:?} waiting for {what}: {have} of {want}")
                }
                // A busy server drops watches now and then, and clients begin anew.
                Err(RecvTimeoutError::Disconnected) => {
                    println!("the watch ended while waiting for {what}, it is begun anew");
                    self.stream = Stream::start(&self.kubectl, &self.namespace)?;
                    self.moments.begin_anew();
                }
            }
        }
    }
}

impl Stream {
    fn start(kubectl: &Kubectl, namespace: &str) -> Result<Self> {
        // The server marks where what was there before ends.
        let marked =
            "allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        let path = format!("/api/v1/namespaces/{namespace}/pods?watch=true&{LASTS}&{marked}");
        let mut kubectl = kubectl
            .command()
            .args(["get", "--raw", &path])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot run kubectl")?;
        let lines = kubectl.stdout.take().context("kubectl without output")?;
        let (tell, heard) = sync_channel(UNREAD);
        // It ends with kubectl's output, and so with the watch.
        thread::spawn(move || {
            for line in BufReader::new(lines).lines().map_while(Result::ok) {
                let Ok(event) = serde_json::from_str(&line) else {
                    continue;
                };
                if tell.send((Instant::now(), event)).is_err() {
                    return;
                }
            }
        });
        Ok(Self { kubectl, heard })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.kubectl.kill();
        let _ = self.kubectl.wait();
    }
}

impl Moments {
    fn hear(&mut self, at: Instant, event: &Value) {
        let pod = &event["object"];
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        match event["type"].as_str() {
            Some("BOOKMARK") => {
                self.begun = true;
                // What a watch that was begun anew does not have went in between.
                for missed in std::mem::take(&mut self.missing) {
                    self.gone.entry(missed).or_insert(at);
                }
            }
            Some("DELETED") => {
                self.there.remove(name);
                self.gone.entry(name.to_owned()).or_insert(at);
            }
            Some("ADDED" | "MODIFIED") => {
                self.there.insert(name.to_owned());
                self.missing.remove(name);
                if is_ready(pod) {
                    self.ready.entry(name.to_owned()).or_insert(at);
                }
                if has_ended(pod) {
                    self.ended.entry(name.to_owned()).or_insert(at);
                }
            }
            _ => {}
        }
    }

    fn begin_anew(&mut self) {
        self.missing.append(&mut self.there);
    }
}

/// Whether a pod says that it is Ready.
pub fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .filter(|condition| condition["type"] == "Ready")
        .any(|condition| condition["status"] == "True")
}

fn has_ended(pod: &Value) -> bool {
    let phase = pod["status"]["phase"].as_str();
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn in_order(moments: &BTreeMap<String, Instant>) -> Vec<Instant> {
    let mut order: Vec<Instant> = moments.values().copied().collect();
    order.sort();
    order
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(kind: &str, name: &str, ready: &str) -> Value {
        json!({ "type": kind, "object": {
            "metadata": { "name": name },
            "status": { "conditions": [
                { "type": "PodScheduled", "status": "True" },
                { "type": "Ready", "status": ready },
            ]},
        }})
    }

    #[test]
    fn a_pod_counts_from_the_first_time_that_it_is_ready_or_gone() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut moments = Moments::default();
        let told = [
            (1, "ADDED", "b", "False"),
            (2, "MODIFIED", "b", "True"),
            (3, "MODIFIED", "a", "True"),
            (4, "MODIFIED", "b", "False"),
            (5, "MODIFIED", "b", "True"),
            (6, "DELETED", "b", "True"),
        ];
        for (second, kind, name, ready) in told {
            moments.hear(at(second), &event(kind, name, ready));
        }
        assert_eq!(in_order(&moments.ready), [at(2), at(3)]);
        assert_eq!(in_order(&moments.gone), [at(6)]);
    }

    #[test]
    fn a_pod_has_ended_with_the_first_event_that_says_so() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut moments = Moments::default();
        for (second, phase) in [(1, "Running"), (2, "Failed"), (3, "Failed")] {
            let pod = json!({ "metadata": { "name": "a" }, "status": { "phase": phase } });
            moments.hear(at(second), &json!({ "type": "MODIFIED", "object": pod }));
        }
        assert_eq!(in_order(&moments.ended), [at(2)]);
    }

    #[test]
    fn who_is_not_there_when_a_watch_is_begun_anew_went_in_between() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mark = json!({ "type": "BOOKMARK", "object": {} });
        let mut moments = Moments::default();
        for name in ["a", "b", "c"] {
            moments.hear(at(1), &event("ADDED", name, "True"));
        }
        moments.hear(at(2), &mark);
        moments.hear(at(3), &event("DELETED", "c", "True"));
        moments.begin_anew();
        moments.hear(at(4), &event("ADDED", "a", "True"));
        moments.hear(at(5), &mark);
        assert_eq!(in_order(&moments.gone), [at(3), at(5)]);
        moments.hear(at(6), &event("DELETED", "a", "True"));
        assert_eq!(in_order(&moments.gone), [at(3), at(5), at(6)]);
        assert_eq!(in_order(&moments.ready), [at(1); 3]);
    }

    #[test]
    fn a_watch_has_begun_with_the_servers_mark() {
        let mut moments = Moments::default();
        moments.hear(Instant::now(), &event("ADDED", "a", "False"));
        assert!(!moments.begun);
        moments.hear(Instant::now(), &json!({ "type": "BOOKMARK", "object": {} }));
        assert!(moments.begun);
    }
}
