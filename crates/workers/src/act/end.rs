//! Ends one container: its hook, its turn among the containers of its pod, and what is
//! then left of its grace for the program itself. And the other hook, after a start:
//! where that fails, its container ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::events::Severity;
use k8s_openapi::api::core::v1::{Container, LifecycleHandler, Pod, PodSpec};
use seams::cri;
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::grpc;
use crate::hooks::{Ran, Subject};
use crate::order::waits;
use crate::plan::Kind;
use crate::slot::Slot;
use crate::spec::spec_of;
use crate::task::Worker;

/// Nothing is ended in less: a runtime needs a moment to pass a signal on.
const LEAST: Duration = Duration::from_secs(2);

/// A hook that is still at work when its container has ended ends with it; so long it
/// is waited for to say so.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A container that is to end.
#[derive(Clone, Debug)]
pub(super) struct Doomed {
    pub(super) id: String,
    pub(super) kind: Kind,
    pub(super) container: Container,
    /// Of its pod.
    pub(super) ip: Option<String>,
    /// Whole seconds.
    pub(super) grace: Duration,
}

/// Why a container may not have ended.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(super) enum NotEnded {
    #[error("something else is wanted now")]
    Cut,
    #[error("failed to stop container: {0}")]
    Refused(String),
}

/// Why nothing comes of a start whose program runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotStarted {
    Cut,
    /// What its status says.
    Failed(String),
}

/// Who waits for whom, and who has ended.
#[derive(Debug, Default)]
pub(super) struct Order {
    waits: BTreeMap<String, Vec<String>>,
    ended: BTreeMap<String, CancellationToken>,
}

impl Order {
    pub(super) fn of(spec: &PodSpec, running: &BTreeSet<&str>) -> Self {
        let names = running.iter().map(|name| (*name).to_owned());
        Self {
            waits: waits(spec, running),
            ended: names.map(|name| (name, CancellationToken::new())).collect(),
        }
    }

    /// All that a container waits for have ended.
    async fn turn(&self, name: &str) {
        for before in self.waits.get(name).into_iter().flatten() {
            if let Some(ended) = self.ended.get(before) {
                ended.cancelled().await;
            }
        }
    }

    fn has_ended(&self, name: &str) {
        if let Some(ended) = self.ended.get(name) {
            ended.cancel();
        }
    }
}

impl Doomed {
    /// Its hook was begun before, and is not begun anew.
    pub(super) fn without_hook(mut self) -> Self {
        self.container.lifecycle = None;
        self
    }

    /// A container by its name. Of one that its pod does not have, the name is all
    /// that is known.
    pub(super) fn of(
        pod: &Pod,
        name: &str,
        id: &str,
        ip: Option<&String>,
        grace: Duration,
    ) -> Self {
        let spec = spec_of(pod);
        let init = spec.init_containers.iter().flatten();
        let init = init.map(|container| (Kind::Init, container));
        let regular = spec.containers.iter();
        let mut all = regular
            .map(|container| (Kind::Regular, container))
            .chain(init);
        let found = all.find(|(_, container)| container.name == name);
        let unknown = || {
            let container = Container {
                name: name.to_owned(),
                ..Container::default()
            };
            (Kind::of(&spec, name), container)
        };
        let found = found.map(|(kind, container)| (kind, container.clone()));
        let (kind, container) = found.unwrap_or_else(unknown);
        Self {
            id: id.to_owned(),
            kind,
            container,
            ip: ip.cloned(),
            grace,
        }
    }

    fn pre_stop(&self) -> Option<&LifecycleHandler> {
        self.container.lifecycle.as_ref()?.pre_stop.as_ref()
    }
}

impl Worker {
    /// Ends a container. If its pod is to end, or to end sooner, it is left as it is, and
    /// a hook that is at work is given up.
    pub(super) async fn end(
        &self,
        slot: &Slot,
        doomed: &Doomed,
        order: &Order,
    ) -> Result<(), NotEnded> {
        tokio::select! {
            // Its hook has to hear of it first.
            biased;
            ended = self.end_in_order(slot, doomed, order) => ended,
            () = self.cut(slot) => Err(NotEnded::Cut),
        }
    }

    async fn end_in_order(
        &self,
        slot: &Slot,
        doomed: &Doomed,
        order: &Order,
    ) -> Result<(), NotEnded> {
        let clock = &self.on.clock;
        let mut left = doomed.grace;
        let mut overdue = None;
        if let Some(handler) = doomed.pre_stop().filter(|_| !left.is_zero()) {
            let began = clock.uptime();
            let mut hook = Box::pin(self.pre_stop(slot, doomed, handler));
            tokio::select! {
                biased;
                ran = &mut hook => ran?,
                () = clock.sleep(left) => {
                    debug!(pod = %self.pod, container = doomed.container.name, "a preStop hook takes longer than the grace");
                    if handler.sleep.is_some() {
                        self.on.metrics.sleeps_cut.inc();
                    }
                    // One that only sleeps does not end with its container.
                    overdue = Some(hook).filter(|_| handler.sleep.is_none());
                }
            }
            left = less(left, clock.uptime().saturating_sub(began));
        }
        let name = &doomed.container.name;
        if !left.is_zero() {
            let began = clock.uptime();
            tokio::select! {
                biased;
                () = order.turn(name) => {}
                () = clock.sleep(left) => {}
            }
            left = less(left, clock.uptime().saturating_sub(began));
        }
        let stopped = CancellationToken::new();
        let stopping = async {
            let outcome = self.stop(&doomed.id, left).await;
            if outcome.is_ok() {
                order.has_ended(name);
            }
            stopped.cancel();
            outcome
        };
        let (outcome, ()) = tokio::join!(stopping, self.hear_out(overdue, &stopped));
        outcome.map_err(NotEnded::Refused)
    }

    /// A hook that took too long, until it ends, and not much longer than its container.
    async fn hear_out(
        &self,
        overdue: Option<impl Future<Output = Result<(), NotEnded>> + Unpin>,
        stopped: &CancellationToken,
    ) {
        let Some(hook) = overdue else { return };
        let patience = async {
            stopped.cancelled().await;
            self.on.clock.sleep(LAST_WORDS).await;
        };
        tokio::select! {
            biased;
            _ = hook => {}
            () = patience => {}
        }
    }

    /// What a container is given to do before it ends. That it failed is told, and no
    /// hindrance.
    ///
    /// One that is given up would have failed when its container ended under it, but
    /// for one that only sleeps.
    async fn pre_stop(
        &self,
        slot: &Slot,
        doomed: &Doomed,
        handler: &LifecycleHandler,
    ) -> Result<(), NotEnded> {
        let subject = Subject {
            pod: &slot.pod,
            container: &doomed.container,
            id: &doomed.id,
            ip: doomed.ip.as_deref(),
        };
        let ran = tokio::select! {
            biased;
            ran = self.on.hooks.run(handler, subject) => Some(ran),
            () = self.cut(slot) => None,
        };
        let name = doomed.container.name.as_str();
        match &ran {
            Some(Ok(ran)) => {
                self.note_plain_words(name, ran);
                return Ok(());
            }
            Some(Err(error)) => {
                warn!(pod = %self.pod, container = name, %error, "a preStop hook failed");
            }
            None if handler.sleep.is_some() => {
                self.on.metrics.sleeps_cut.inc();
                return Err(NotEnded::Cut);
            }
            None => warn!(pod = %self.pod, container = name, "a preStop hook was cut short"),
        }
        // Not what it said: there may be secrets in it.
        let message = "PreStopHook failed";
        let (telling, about) = (&self.on.telling, (doomed.kind, name));
        telling.container(
            &slot.pod,
            about,
            Severity::Warning,
            "FailedPreStopHook",
            message,
        );
        ran.map(|_| ()).ok_or(NotEnded::Cut)
    }

    /// What a container that was just started is given to do. It ends if that fails.
    pub(super) async fn post_start(
        &mut self,
        slot: &Slot,
        started: &Doomed,
    ) -> Result<(), NotStarted> {
        let lifecycle = started.container.lifecycle.as_ref();
        let Some(handler) = lifecycle.and_then(|lifecycle| lifecycle.post_start.as_ref()) else {
            return Ok(());
        };
        let subject = Subject {
            pod: &slot.pod,
            container: &started.container,
            id: &started.id,
            ip: started.ip.as_deref(),
        };
        let ran = tokio::select! {
            biased;
            ran = self.on.hooks.run(handler, subject) => Some(ran),
            () = self.cut(slot) => None,
        };
        let name = started.container.name.as_str();
        let failure = match ran {
            Some(Ok(ran)) => {
                self.note_plain_words(name, &ran);
                return Ok(());
            }
            Some(Err(error)) => {
                warn!(pod = %self.pod, container = name, %error, "a postStart hook failed");
                error.to_string()
            }
            None => return Err(NotStarted::Cut),
        };
        for (severity, reason, message) in [
            (
                Severity::Warning,
                "FailedPostStartHook",
                "PostStartHook failed",
            ),
            (Severity::Normal, "Killing", "FailedPostStartHook"),
        ] {
            let (telling, about) = (&self.on.telling, (started.kind, name));
            telling.container(&slot.pod, about, severity, reason, message);
        }
        match self.end(slot, started, &Order::default()).await {
            Err(NotEnded::Cut) => {
                self.hooked.insert(started.id.clone());
                return Err(NotStarted::Cut);
            }
            Err(error) => {
                warn!(pod = %self.pod, container = name, %error, "a container whose postStart hook failed is not ended");
            }
            Ok(()) => {}
        }
        Err(NotStarted::Failed(failure))
    }

    /// Upstream means to tell users, too, but its recorder drops what is about a whole pod.
    fn note_plain_words(&self, container: &str, ran: &Ran) {
        if let Some(host) = &ran.without_tls {
            self.on.metrics.plain_hooks.inc();
            warn!(pod = %self.pod, container, host, "request to HTTPS lifecycle hook got HTTP response, retry with HTTP succeeded");
        }
    }

    fn stop(
        &self,
        id: &str,
        grace: Duration,
    ) -> impl Future<Output = Result<(), String>> + Send + use<> {
        let runtime = Arc::clone(&self.on.runtime);
        let seconds = grace.max(LEAST).as_secs();
        let request = cri::StopContainerRequest {
            container_id: id.to_owned(),
            timeout: i64::try_from(seconds).unwrap_or(i64::MAX),
        };
        async move {
            match runtime.stop_container(request).await {
                Err(error) if !error.is_not_found() => Err(grpc(&error)),
                _ => Ok(()),
            }
        }
    }
}

/// Only whole seconds that were spent are taken off.
fn less(grace: Duration, spent: Duration) -> Duration {
    grace.saturating_sub(Duration::from_secs(spent.as_secs()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_grace_shrinks_by_whole_seconds() {
        for (grace, spent, left) in [(30, 0, 30), (30, 999, 30), (30, 2500, 28), (2, 9000, 0)] {
            let spent = Duration::from_millis(spent);
            let left = Duration::from_secs(left);
            assert_eq!(less(Duration::from_secs(grace), spent), left, "{spent:?}");
        }
    }

    #[test]
    fn a_container_is_found_in_either_list_or_known_by_its_name() {
        let hook = json!({ "preStop": { "sleep": { "seconds": 1 } } });
        let pod = json!({ "spec": {
            "initContainers": [{ "name": "side", "lifecycle": hook }],
            "containers": [{ "name": "main" }],
        } });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        for (name, kind, has_hook) in [
            ("main", Kind::Regular, false),
            ("side", Kind::Init, true),
            ("gone", Kind::Regular, false),
        ] {
            let doomed = Doomed::of(&pod, name, "id", None, LEAST);
            assert_eq!(doomed.kind, kind, "{name}");
            assert_eq!(doomed.container.name, name);
            assert_eq!(doomed.pre_stop().is_some(), has_hook, "{name}");
        }
    }

    #[tokio::test]
    async fn who_waits_for_two_waits_for_both() {
        let spec = json!({
            "initContainers": [{ "name": "side", "restartPolicy": "Always" }],
            "containers": [{ "name": "a" }, { "name": "b" }],
        });
        let spec: PodSpec = serde_json::from_value(spec).unwrap();
        let order = Order::of(&spec, &["a", "b", "side"].into());
        order.turn("a").await;
        let mut turn = Box::pin(order.turn("side"));
        for (name, waits) in [("a", true), ("b", false)] {
            assert!(futures_util::poll!(&mut turn).is_pending());
            order.has_ended(name);
            if waits {
                assert!(futures_util::poll!(&mut turn).is_pending(), "{name}");
            }
        }
        turn.await;
    }
}
