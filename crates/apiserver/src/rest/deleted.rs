//! Objects that go: at once, after their grace, or when nobody holds them any more.

use std::future::ready;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::objects::{Objects, refused};
use super::updated::is_over;
use super::written::Written;
use crate::failure::Failure;
use crate::kinds::Kind;
use crate::store::{Expect, Key, WriteError};

const ATTEMPTS: usize = 32;

/// Deletions that wait for the disk at one time.
const TOGETHER: usize = 64;

/// Namespaces that every cluster keeps; upstream's.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    pub grace_period_seconds: Option<i64>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub dry_run: bool,
}

impl DeleteOptions {
    /// Takes what is said in a `metav1.DeleteOptions`. The propagation policy is for owners
    /// of other objects, of which there are none here yet.
    pub fn read(&mut self, given: &Value) -> Result<(), Failure> {
        if let Some(seconds) = given["gracePeriodSeconds"].as_i64() {
            self.grace_period_seconds = Some(seconds);
        }
        let text = |field: &str| given["preconditions"][field].as_str().map(str::to_owned);
        self.uid = text("uid").or(self.uid.take());
        self.resource_version = text("resourceVersion").or(self.resource_version.take());
        for word in given["dryRun"].as_array().into_iter().flatten() {
            if word != "All" {
                return Err(Failure::bad_request(format!(
                    "dryRun: Unsupported value: {word}: supported values: \"All\""
                )));
            }
            self.dry_run = true;
        }
        Ok(())
    }

    /// Whether the object is the one that is meant.
    pub(crate) fn check(&self, kind: &Kind, name: &str, object: &Value) -> Result<(), Failure> {
        for (word, field, wanted, then) in [
            (
                "UID",
                "uid",
                &self.uid,
                "The object might have been deleted and then recreated",
            ),
            (
                "ResourceVersion",
                "resourceVersion",
                &self.resource_version,
                "The object might have been modified",
            ),
        ] {
            let record = object["metadata"][field].as_str().unwrap_or_default();
            if let Some(wanted) = wanted.as_ref().filter(|wanted| *wanted != record) {
                let cause = format!(
                    "the {word} in the precondition ({wanted}) does not match the {word} in record ({record}). {then}"
                );
                return Err(Failure::conflict_on(kind.kind, kind, name, cause));
            }
        }
        Ok(())
    }
}

/// What a deletion did.
#[derive(Clone, Debug)]
pub enum Deletion {
    Gone(Written),
    /// Somebody has to let go of it first: the node that runs it, or a finalizer.
    Marked(Written),
}

impl Objects {
    /// Deletes, or marks, several at one time: each waits for the disk, and those that wait together
    /// go there together. Who is gone already is passed over. In no order that a watch could rely
    /// on, so not for what a client asks for.
    pub async fn delete_all(&self, keys: Vec<Key>, options: &DeleteOptions) -> Result<(), Failure> {
        let deletions = keys.into_iter().map(|key| async move {
            match self.delete_with(&key, options).await {
                Err(failure) if failure.reason != "NotFound" => Err(failure),
                _ => Ok(()),
            }
        });
        let deletions: Vec<_> = deletions.collect();
        stream::iter(deletions)
            .buffer_unordered(TOGETHER)
            .try_for_each(|()| ready(Ok(())))
            .await
    }

    pub async fn delete_with(
        &self,
        key: &Key,
        options: &DeleteOptions,
    ) -> Result<Deletion, Failure> {
        let mut attempts = ATTEMPTS;
        let mut marked_here = false;
        let mut meant = None;
        loop {
            let current = self.get(key)?;
            let before = current.value();
            let uid = &before["metadata"]["uid"];
            if meant.get_or_insert_with(|| uid.clone()) != uid {
                // The one that was asked for is gone; another has its name now, and stays.
                return Err(Failure::not_found(key.kind, &key.name));
            }
            if !marked_here {
                options.check(key.kind, &key.name, &before)?;
            }
            if key.kind.kind == "Namespace" && IMMORTAL.contains(&key.name.as_str()) {
                let cause = "this namespace may not be deleted";
                return Err(Failure::forbidden(key.kind, &key.name, cause));
            }
            let mut object = before.clone();
            mark(key.kind, &mut object, options, self.clock.timestamp());
            let gone = is_over(&object);
            if !gone && object == before {
                return Ok(Deletion::Marked(Written::Stored(current)));
            }
            if options.dry_run {
                let written = Written::Dry(object);
                return Ok(if gone {
                    Deletion::Gone(written)
                } else {
                    Deletion::Marked(written)
                });
            }
            let expect = Expect::At(current.revision());
            if gone && key.kind.kind == "Pod" && object != before {
                // Those who watch it see that it is to go before it goes; upstream's.
                match self.store.update(key.clone(), expect, object).await {
                    Ok(_) => marked_here = true,
                    Err(WriteError::Changed(_)) if attempts > 0 => attempts -= 1,
                    Err(error) => return Err(refused(key, error)),
                }
                continue;
            }
            let stored = if gone {
                self.store.delete(key.clone(), expect).await
            } else {
                self.store.update(key.clone(), expect, object).await
            };
            attempts = attempts.saturating_sub(1);
            match stored {
                Err(WriteError::Changed(_)) if attempts > 0 => {}
                Err(error) => return Err(refused(key, error)),
                Ok(stored) if gone => return Ok(Deletion::Gone(Written::Stored(stored))),
                Ok(stored) => return Ok(Deletion::Marked(Written::Stored(stored))),
            }
        }
    }
}

/// The object as one that is to go. Upstream's rules: grace only shrinks.
fn mark(kind: &Kind, object: &mut Value, options: &DeleteOptions, now: Timestamp) {
    let wanted = options.grace_period_seconds;
    let wanted = wanted.map(|seconds| if seconds < 0 { 1 } else { seconds });
    let begun = object["metadata"]["deletionTimestamp"].as_str();
    let begun = begun.and_then(|text| text.parse::<Timestamp>().ok());
    if let Some(end) = begun {
        let left = object["metadata"]["deletionGracePeriodSeconds"].as_i64();
        let left = left.unwrap_or_default();
        let Some(wanted) = wanted.filter(|wanted| *wanted < left) else {
            return;
        };
        let less = SignedDuration::from_secs(left - wanted);
        let end = end.checked_sub(less).unwrap_or(Timestamp::MIN);
        let (end, grace) = if end < now {
            // The rest of it has passed, but somebody still has to say that it is over.
            (now, wanted.min(1))
        } else {
            (end, wanted)
        };
        set_end(object, end, grace);
        return;
    }
    if kind.kind == "Namespace" {
        object["metadata"]["deletionTimestamp"] = written(now).into();
        object["status"]["phase"] = json!("Terminating");
        return;
    }
    let grace = match kind.kind {
        "Pod" => pod_grace(object, wanted),
        _ => 0,
    };
    // Whatever was asked for, it ends at a moment that can be written down.
    let grace = grace.min(Timestamp::MAX.duration_since(now).as_secs());
    let end = now.checked_add(SignedDuration::from_secs(grace));
    set_end(object, end.unwrap_or(Timestamp::MAX), grace);
    if let Some(generation) = object["metadata"]["generation"].as_i64() {
        object["metadata"]["generation"] = generation.saturating_add(1).into();
    }
}

fn set_end(object: &mut Value, end: Timestamp, grace: i64) {
    object["metadata"]["deletionTimestamp"] = written(end).into();
    object["metadata"]["deletionGracePeriodSeconds"] = grace.into();
}

fn written(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Nobody has to end what nobody runs.
fn pod_grace(pod: &Value, wanted: Option<i64>) -> i64 {
    let bound = pod["spec"]["nodeName"]
        .as_str()
        .is_some_and(|node| !node.is_empty());
    let ended = matches!(
        pod["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed")
    );
    if !bound || ended {
        return 0;
    }
    let own = pod["spec"]["terminationGracePeriodSeconds"].as_i64();
    let grace = wanted.or(own).unwrap_or_default();
    if grace < 0 { 1 } else { grace }
}
