//! What probes find of a pod's containers, and what they are told of the pod.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, PodSpec, PodStatus};
use probes::{End, Findings, Place, Purpose, Verdict, View};
use status::{Input, Known, Probed};
use tokio::sync::watch;
use types::PodRef;
use types::observed::{ContainerState, ObservedContainer, ObservedPod};

use crate::foundations::Foundations;
use crate::plan::{Left, Plan};
use crate::slot::Slot;
use crate::spec::spec_of;
use crate::task::Worker;

/// A pod's side of its probes.
#[derive(Debug)]
pub(crate) struct Probing {
    pub(crate) place: Place,
    /// Something may have become of the pod since its probes were last told of it: who is
    /// not ready is asked at once.
    pub(crate) look_again: bool,
}

impl Probing {
    pub(crate) fn new(place: Place) -> Self {
        Self {
            place,
            look_again: true,
        }
    }
}

impl Worker {
    /// Takes up what was found.
    pub(crate) fn hear_probes(&mut self) {
        let findings = self.probing.place.findings();
        self.memory.ill = ill(&findings);
        self.known.probed = probed(&findings);
    }

    /// Tells what was just reported. A pod is probed from when its volumes are there until
    /// nothing of it runs; one that was to end before never was.
    pub(crate) fn tell_probes(&mut self, slot: &Slot, observed: &ObservedPod) {
        let ending = self.is_ending(slot);
        let place = &mut self.probing.place;
        if ending && !observed.is_running() {
            place.give_up();
            return;
        }
        let Some(said) = &self.previous else {
            return;
        };
        self.memory.started = started(said);
        let begins = self.memory.prepared && !ending;
        if !begins && !place.is_taken() {
            return;
        }
        let end = match (ending, slot.ending) {
            (false, _) => End::No,
            (true, None) => End::Own,
            (true, Some(_)) => End::Told,
        };
        match View::of(&slot.pod, said, end) {
            Some(view) => place.tell(view, std::mem::take(&mut self.probing.look_again)),
            // It may have had probes before it was edited.
            None => place.give_up(),
        }
    }

    /// Containers that another was to follow at once, and that have to wait for it after all
    /// or stay without: they are ones that ended, and that is told.
    pub(crate) fn forget_replaced(&mut self, next: &mut Plan, left: &[Left]) {
        let mut news = false;
        for one in left {
            self.memory.replaced.remove(&one.id);
            // That it waits is told a moment later, and its end with that.
            news |= !next.is_backing_off(&one.container);
        }
        let Plan::Rest(rest) = next else {
            return;
        };
        let nothing_comes = rest.until.is_none() && !self.memory.replaced.is_empty();
        if nothing_comes {
            self.memory.replaced.clear();
        }
        let now = self.on.now();
        if nothing_comes || news {
            rest.wake(now);
        } else if !self.memory.replaced.is_empty() && now < self.gap_until {
            // What is not told until then is told then.
            rest.wake(self.gap_until);
        }
    }

    /// What is needed to tell on while a step is under way.
    pub(crate) fn aside(&self, slot: &Slot, observed: &Arc<ObservedPod>) -> Option<Aside> {
        let findings = self.probing.place.follow()?;
        let told = slot.source.is_some() && slot.rejected.is_none() && !self.memory.cleaned;
        let hidden = self.hidden(slot, observed);
        told.then(|| Aside {
            on: Arc::clone(&self.on),
            pod: self.pod.clone(),
            slot: slot.clone(),
            observed: as_told(observed, &hidden),
            hidden,
            known: self.known.clone(),
            previous: self.previous.clone(),
            findings,
            said: None,
        })
    }

    /// Whether a container [has an end that is not told](Self::hides_end).
    pub(crate) fn seems_over(&self, slot: &Slot, observed: &ObservedPod) -> bool {
        !self.hidden(slot, observed).is_empty()
    }

    /// Whether it has ended and another follows, though by its policy none would: as long as
    /// that one is not there its end is not told, as nobody could take it back.
    fn hides_end(&self, spec: &PodSpec, seen: &ObservedContainer) -> bool {
        if seen.state != ContainerState::Exited || !self.memory.replaced.contains(&seen.id) {
            return false;
        }
        let init = spec.init_containers.as_deref().unwrap_or_default();
        let mut all = spec.containers.iter().chain(init);
        let container = all.find(|container| container.name == seen.name);
        container.is_some_and(|one| !status::restarts(one, spec, seen.exit_code))
    }

    /// The ids of those whose end is not told: nobody is there to be asked, or to answer.
    fn hidden(&self, slot: &Slot, observed: &ObservedPod) -> Vec<String> {
        if self.memory.replaced.is_empty() {
            return Vec::new();
        }
        let spec = spec_of(&slot.pod);
        let all = observed.containers.iter();
        let hidden = all.filter(|seen| self.hides_end(&spec, seen));
        hidden.map(|seen| seen.id.clone()).collect()
    }
}

/// What is told meanwhile: that those run.
fn as_told(observed: &Arc<ObservedPod>, hidden: &[String]) -> Arc<ObservedPod> {
    if hidden.is_empty() {
        return Arc::clone(observed);
    }
    let mut told = ObservedPod::clone(observed);
    let all = told.containers.iter_mut();
    for container in all.filter(|one| hidden.contains(&one.id)) {
        container.state = ContainerState::Running;
        container.finished_at = 0;
        container.exit_code = 0;
    }
    Arc::new(told)
}

/// Somebody who tells what probes find while the worker is busy: how a container is does
/// not wait for the end of another.
#[derive(Debug)]
pub(crate) struct Aside {
    on: Arc<Foundations>,
    pod: PodRef,
    slot: Slot,
    observed: Arc<ObservedPod>,
    /// Containers, by id, that are told to run and do not: they are not ready.
    hidden: Vec<String>,
    known: Known,
    previous: Option<PodStatus>,
    findings: watch::Receiver<Findings>,
    /// What was said, if anything was.
    pub(crate) said: Option<PodStatus>,
}

/// Until it is dropped.
pub(crate) async fn keep_telling(aside: Option<&mut Aside>) -> Infallible {
    if let Some(aside) = aside {
        while aside.findings.changed().await.is_ok() {
            aside.tell();
        }
    }
    std::future::pending().await
}

impl Aside {
    /// All is as it was, but for what was found.
    fn tell(&mut self) {
        self.known.probed = probed(&self.findings.borrow_and_update());
        for id in &self.hidden {
            let found = self.known.probed.entry(id.clone()).or_default();
            found.ready = Some(false);
        }
        let node = self.on.node_facts();
        let empty = PodStatus::default();
        let api = self.slot.object().and_then(|pod| pod.status.as_ref());
        let input = Input {
            pod: &self.slot.pod,
            api: api.unwrap_or(&empty),
            previous: self.said.as_ref().or(self.previous.as_ref()),
            observed: &self.observed,
            known: &self.known,
            node: &node,
            now: Timestamp::try_from(self.on.clock.now()).unwrap_or_default(),
        };
        // What cannot be told now is told when the step is over.
        let Ok(status) = status::status(&input) else {
            return;
        };
        let on = &self.on;
        on.send_report(&self.pod, &self.slot, &self.observed, &status, false);
        self.said = Some(status);
    }
}

/// What the status makes of it.
fn probed(findings: &Findings) -> BTreeMap<String, Probed> {
    let said = |verdict: Option<Verdict>| verdict.map(|verdict| verdict == Verdict::Success);
    let all = findings.iter().map(|finding| {
        let probed = Probed {
            started: said(finding.startup),
            ready: said(finding.readiness),
        };
        (finding.id.to_string(), probed)
    });
    all.collect()
}

/// Ends when others are ill than were.
pub(crate) async fn ill_otherwise(
    findings: Option<watch::Receiver<Findings>>,
    before: &BTreeMap<String, Purpose>,
) {
    if let Some(mut findings) = findings
        && findings.wait_for(|now| ill(now) != *before).await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

/// What is to be done about it.
fn ill(findings: &Findings) -> BTreeMap<String, Purpose> {
    let all = findings.iter().filter_map(|finding| {
        let found = [
            (Purpose::Liveness, finding.liveness),
            (Purpose::Startup, finding.startup),
        ];
        let mut found = found.into_iter();
        let (purpose, _) = found.find(|(_, verdict)| *verdict == Some(Verdict::Failure))?;
        Some((finding.id.to_string(), purpose))
    });
    all.collect()
}

/// The ids of containers that have started.
fn started(status: &PodStatus) -> std::collections::BTreeSet<String> {
    let lists = [&status.container_statuses, &status.init_container_statuses];
    let all = lists.into_iter().flatten().flatten();
    let started = all.filter(|one: &&ContainerStatus| one.started == Some(true));
    let ids = started.filter_map(|one| one.container_id.as_deref());
    let bare = ids.map(|id| id.split_once("://").map_or(id, |(_, id)| id));
    bare.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use Verdict::{Failure, Success, Unknown};

    fn finding(
        startup: Option<Verdict>,
        readiness: Option<Verdict>,
        liveness: Option<Verdict>,
    ) -> Findings {
        vec![probes::Finding {
            id: Arc::from("c-1"),
            startup,
            readiness,
            liveness,
        }]
    }

    #[test]
    fn what_is_found_is_told_and_what_is_not_is_left_to_what_was_said_before() {
        for (startup, readiness, wanted) in [
            (None, None, (None, None)),
            (Some(Unknown), Some(Failure), (Some(false), Some(false))),
            (Some(Success), Some(Success), (Some(true), Some(true))),
            (Some(Failure), None, (Some(false), None)),
        ] {
            let found = probed(&finding(startup, readiness, None));
            let Probed { started, ready } = found["c-1"];
            assert_eq!((started, ready), wanted);
        }
    }

    #[test]
    fn only_a_verdict_about_life_or_start_ends_a_container() {
        for (startup, readiness, liveness, wanted) in [
            (None, Some(Failure), Some(Success), None),
            (Some(Unknown), Some(Failure), None, None),
            (Some(Success), None, Some(Failure), Some(Purpose::Liveness)),
            (Some(Failure), None, Some(Success), Some(Purpose::Startup)),
            (Some(Failure), None, Some(Failure), Some(Purpose::Liveness)),
        ] {
            let found = ill(&finding(startup, readiness, liveness));
            assert_eq!(found.get("c-1").copied(), wanted);
        }
    }

    #[tokio::test]
    async fn who_waits_for_something_hears_of_who_falls_ill_and_of_nothing_else() {
        let (told, findings) = watch::channel(finding(None, None, Some(Success)));
        let nobody = BTreeMap::new();
        let mut waiting = Box::pin(ill_otherwise(Some(findings.clone()), &nobody));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        told.send_replace(finding(None, Some(Failure), Some(Success)));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        told.send_replace(finding(None, Some(Failure), Some(Failure)));
        waiting.await;
        let ill = BTreeMap::from([("c-1".to_owned(), Purpose::Liveness)]);
        for (findings, before) in [(Some(findings), ill), (None, nobody.clone())] {
            let mut waiting = Box::pin(ill_otherwise(findings, &before));
            assert!(
                futures_util::poll!(&mut waiting).is_pending(),
                "it is known"
            );
        }
    }

    #[test]
    fn who_has_started_is_read_off_the_status() {
        let one = |id: &str, started: Option<bool>| {
            json!({
                "name": id, "containerID": format!("containerd://{id}"), "started": started,
                "image": "", "imageID": "", "ready": false, "restartCount": 0,
            })
        };
        let status = json!({
            "initContainerStatuses": [one("a", Some(true)), one("b", Some(false))],
            "containerStatuses": [one("c", None), one("d", Some(true))],
        });
        let status: PodStatus = serde_json::from_value(status).unwrap();
        let found = started(&status);
        assert_eq!(found.iter().collect::<Vec<_>>(), ["a", "d"]);
    }
}
