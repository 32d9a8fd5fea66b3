//! What the API server tells a watcher of pods and events, kept by namespace.
//! One watch for all plays: they wait on it, and records are made of it.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::process::Child;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::api::Api;
use super::story::Sighting;

/// Longer than any run.
const WATCH: &str = "watch=true&timeoutSeconds=14400";

/// What was told of one namespace.
#[derive(Debug, Default)]
pub(super) struct Reel {
    pub(super) pods: Vec<Sighting>,
    /// By uid, as last told.
    events: HashMap<String, Value>,
    changed: Option<Instant>,
}

impl Reel {
    pub(super) fn events(&self) -> impl Iterator<Item = &Value> {
        self.events.values()
    }
}

#[derive(Debug, Default)]
struct Reels {
    by_namespace: HashMap<String, Reel>,
    /// Why nothing more will come.
    ended: Option<String>,
}

#[derive(Debug)]
pub(super) struct Tape {
    shared: Arc<Shared>,
    watches: Vec<(Child, JoinHandle<()>)>,
}

#[derive(Debug)]
struct Shared {
    start: Instant,
    /// Namespaces whose names begin otherwise are others' affairs.
    prefix: String,
    reels: Mutex<Reels>,
    told: Condvar,
}

impl Tape {
    pub(super) fn start(api: &Api, prefix: &str) -> Result<Self> {
        let shared = Arc::new(Shared {
            start: Instant::now(),
            prefix: prefix.to_owned(),
            reels: Mutex::default(),
            told: Condvar::new(),
        });
        let mut tape = Self {
            shared,
            watches: Vec::new(),
        };
        for (path, keep) in [
            ("/api/v1/pods", Shared::keep_pod as Keep),
            ("/api/v1/events", Shared::keep_event),
        ] {
            let mut watch = api.follow(&format!("{path}?{WATCH}"))?;
            let lines = watch.stdout.take().context("curl without output")?;
            let shared = Arc::clone(&tape.shared);
            let reader = std::thread::spawn(move || shared.read(path, lines, keep));
            tape.watches.push((watch, reader));
        }
        Ok(tape)
    }

    /// Waits until `reached` says yes of a namespace, and answers whether it did
    /// within `timeout`.
    pub(super) fn wait(
        &self,
        namespace: &str,
        timeout: Duration,
        mut reached: impl FnMut(&Reel) -> bool,
    ) -> Result<bool> {
        let deadline = Instant::now() + timeout;
        let mut reels = self.shared.lock();
        loop {
            if reached(reels.by_namespace.entry(namespace.to_owned()).or_default()) {
                return Ok(true);
            }
            if let Some(why) = &reels.ended {
                bail!("nothing more is heard of the cluster: {why}");
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            let told = self.shared.told.wait_timeout(reels, left);
            reels = told.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until nothing was told of a namespace for `quiet`, or `most` has
    /// passed.
    pub(super) fn settle(&self, namespace: &str, quiet: Duration, most: Duration) -> Result<()> {
        let deadline = Instant::now() + most;
        let begun = Instant::now();
        loop {
            let mut changed = begun;
            self.wait(namespace, Duration::ZERO, |reel| {
                changed = reel.changed.unwrap_or(begun);
                true
            })?;
            let until = (changed + quiet).min(deadline);
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left);
        }
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        for (mut watch, reader) in self.watches.drain(..) {
            let _ = watch.kill();
            let _ = watch.wait();
            let _ = reader.join();
        }
    }
}

type Keep = fn(&mut Reel, Sighting);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Reels> {
        self.reels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, path: &str, lines: impl Read, keep: Keep) {
        let mut why = "the watch has ended".to_owned();
        for line in BufReader::new(lines).lines() {
            let told = match line {
                Ok(line) => serde_json::from_str::<Value>(&line).map_err(anyhow::Error::from),
                Err(error) => Err(error.into()),
            };
            match told {
                Ok(told) if told["type"] == "ERROR" => why = told["object"].to_string(),
                Ok(told) => self.take(told, keep),
                Err(error) => {
                    why = error.to_string();
                    break;
                }
            }
        }
        self.lock().ended = Some(format!("{path}: {why}"));
        self.told.notify_all();
    }

    fn take(&self, mut told: Value, keep: Keep) {
        let object = told["object"].take();
        let Some(namespace) = object["metadata"]["namespace"].as_str() else {
            return;
        };
        if !namespace.starts_with(&self.prefix) {
            return;
        }
        let mut reels = self.lock();
        let reel = reels.by_namespace.entry(namespace.to_owned()).or_default();
        reel.changed = Some(Instant::now());
        let at = self.start.elapsed();
        let gone = told["type"] == "DELETED";
        keep(reel, Sighting { at, gone, object });
        drop(reels);
        self.told.notify_all();
    }

    fn keep_pod(reel: &mut Reel, sighting: Sighting) {
        reel.pods.push(sighting);
    }

    /// An event that expires, or goes with its namespace, was said all the same.
    fn keep_event(reel: &mut Reel, sighting: Sighting) {
        if let Some(uid) = sighting.object["metadata"]["uid"].as_str()
            && !sighting.gone
        {
            reel.events.insert(uid.to_owned(), sighting.object);
        }
    }
}
