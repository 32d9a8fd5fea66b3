//! A container: what it was made of, and where it is in its story.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use seams::cri;
use seams::cri::ContainerState;

use super::details::Details;
use super::ids::Id;
use super::images::Image;
use super::labels::Labels;
use super::moment::Moment;
use super::sandbox::Sandbox;
use super::story::Story;

/// What a program ends with that was asked to, or killed.
const TERMINATED: u8 = 128 + 15;
const KILLED: u8 = 128 + 9;

/// What containerd says of a container that could not start.
const START_FAILED: u8 = 128;
const START_ERROR: &str = "StartError";

#[derive(Debug)]
pub(super) struct Container {
    pub(super) id: Id,
    pub(super) sandbox: Id,
    pub(super) made_of: MadeOf,
    pub(super) story: Arc<Story>,
    /// Wall time.
    created: i64,
    phase: Phase,
}

/// What is kept of a container's configuration: what can be asked for.
#[derive(Debug)]
pub(super) struct MadeOf {
    pub(super) name: Box<str>,
    pub(super) attempt: u32,
    pub(super) labels: Labels,
    pub(super) annotations: Labels,
    /// The whole path; empty if it has no log.
    pub(super) log_path: Box<str>,
    image: Arc<Image>,
    /// The name of the image as it was asked for.
    asked_image: cri::ImageSpec,
    pub(super) details: Details,
    stop_signal: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Created,
    /// Told to start, and not there yet.
    Starting {
        begins: Moment,
    },
    /// The end can come nearer, not go away.
    Running {
        began: Moment,
        end: Option<End>,
    },
    Exited {
        began: Moment,
        end: End,
    },
    /// Its sandbox was stopped while it was to start.
    Failed {
        at: Moment,
    },
}

/// How a container ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    at: Moment,
    code: u8,
    out_of_memory: bool,
}

/// What happened to a container as time went by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Happening {
    Started(Moment),
    Stopped(Moment),
}

impl MadeOf {
    pub(super) fn new(
        metadata: cri::ContainerMetadata,
        config: cri::ContainerConfig,
        image: Arc<Image>,
        sandbox: &Sandbox,
    ) -> Self {
        Self {
            name: metadata.name.into(),
            attempt: metadata.attempt,
            labels: config.labels.into(),
            annotations: config.annotations.into(),
            log_path: log_path(&sandbox.log_directory, &config.log_path).into(),
            image,
            asked_image: config.image.unwrap_or_default(),
            details: Details::new(config.mounts, config.linux.unwrap_or_default()),
            stop_signal: config.stop_signal,
        }
    }

    pub(super) fn metadata(&self) -> cri::ContainerMetadata {
        cri::ContainerMetadata {
            name: self.name.to_string(),
            attempt: self.attempt,
        }
    }
}

/// Both parts, or none.
fn log_path(directory: &str, path: &str) -> String {
    if directory.is_empty() || path.is_empty() {
        return String::new();
    }
    Path::new(directory).join(path).display().to_string()
}

impl Container {
    pub(super) fn new(id: Id, sandbox: &Sandbox, made_of: MadeOf, now: Moment) -> Self {
        Self {
            id,
            sandbox: Arc::clone(&sandbox.id),
            story: sandbox.stories.of(&made_of.name),
            made_of,
            created: now.wall,
            phase: Phase::Created,
        }
    }

    pub(super) fn state(&self) -> ContainerState {
        match self.phase {
            Phase::Created | Phase::Starting { .. } => ContainerState::ContainerCreated,
            Phase::Running { .. } => ContainerState::ContainerRunning,
            Phase::Exited { .. } | Phase::Failed { .. } => ContainerState::ContainerExited,
        }
    }

    /// In the words of errors.
    pub(super) fn state_name(&self) -> &'static str {
        match self.phase {
            Phase::Starting { .. } => "CONTAINER_STARTING",
            _ => self.state().as_str_name(),
        }
    }

    pub(super) fn is_starting(&self) -> bool {
        matches!(self.phase, Phase::Starting { .. })
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running { .. })
    }

    /// How long it has run, or did run; nothing if it never did.
    pub(super) fn ran(&self, now: Moment) -> Option<Duration> {
        match self.phase {
            Phase::Created | Phase::Starting { .. } | Phase::Failed { .. } => None,
            Phase::Running { began, .. } => Some(now.since(began)),
            Phase::Exited { began, end } => Some(end.at.since(began)),
        }
    }

    pub(super) fn began(&self) -> Option<Moment> {
        match self.phase {
            Phase::Created | Phase::Starting { .. } | Phase::Failed { .. } => None,
            Phase::Running { began, .. } | Phase::Exited { began, .. } => Some(began),
        }
    }

    /// When it will change by itself.
    pub(super) fn next_change(&self) -> Option<Moment> {
        match self.phase {
            Phase::Starting { begins } => Some(begins),
            Phase::Running { end, .. } => end.map(|end| end.at),
            Phase::Created | Phase::Exited { .. } | Phase::Failed { .. } => None,
        }
    }

    /// One change that is due, if there is one.
    pub(super) fn settle(&mut self, now: Moment) -> Option<Happening> {
        let due = |moment: Moment| moment.uptime <= now.uptime;
        match self.phase {
            Phase::Starting { begins } if due(begins) => {
                let end = self.story.ending().map(|ending| End {
                    at: begins.plus(ending.after),
                    code: ending.code,
                    out_of_memory: ending.out_of_memory,
                });
                self.phase = Phase::Running { began: begins, end };
                Some(Happening::Started(begins))
            }
            Phase::Running {
                began,
                end: Some(end),
            } if due(end.at) => {
                self.phase = Phase::Exited { began, end };
                Some(Happening::Stopped(end.at))
            }
            _ => None,
        }
    }

    /// False if it was told before.
    pub(super) fn start(&mut self, now: Moment) -> bool {
        let fresh = self.phase == Phase::Created;
        if fresh {
            let begins = now.plus(self.story.start_delay);
            self.phase = Phase::Starting { begins };
        }
        fresh
    }

    /// Asks it to end, and kills it when the grace is over. One that does not run
    /// is left as it is.
    ///
    /// A program that was asked to obeys after its story's `stop-delay`: at once
    /// where that says nothing. A shell as the first process of a real container
    /// would ignore the signal, and be killed at the end of the grace.
    pub(super) fn stop(&mut self, grace: Duration, now: Moment) {
        let obeys = self.story.stop_delay;
        let (after, code) = if grace.is_zero() || obeys > grace {
            (grace, KILLED)
        } else {
            (obeys, TERMINATED)
        };
        let stopped = End {
            at: now.plus(after),
            code,
            out_of_memory: false,
        };
        if let Phase::Running { end, .. } = &mut self.phase {
            let earlier = end.filter(|end| end.at.uptime <= stopped.at.uptime);
            *end = Some(earlier.unwrap_or(stopped));
        }
    }

    /// Ends it at once, and a start that has not come to its end yet, too.
    pub(super) fn kill(&mut self, now: Moment) {
        if self.is_starting() {
            self.phase = Phase::Failed { at: now };
        }
        self.stop(Duration::ZERO, now);
    }

    /// When it ended, with what, and why.
    fn outcome(&self) -> (i64, u8, &'static str) {
        match self.phase {
            Phase::Created | Phase::Starting { .. } | Phase::Running { .. } => (0, 0, ""),
            Phase::Exited { end, .. } => (end.at.wall, end.code, end.reason()),
            Phase::Failed { at } => (at.wall, START_FAILED, START_ERROR),
        }
    }

    pub(super) fn to_cri(&self) -> cri::Container {
        let made_of = &self.made_of;
        cri::Container {
            id: self.id.to_string(),
            pod_sandbox_id: self.sandbox.to_string(),
            metadata: Some(made_of.metadata()),
            image: Some(made_of.asked_image.clone()),
            image_ref: made_of.image.id(),
            state: self.state().into(),
            created_at: self.created,
            labels: made_of.labels.to_map(),
            annotations: made_of.annotations.to_map(),
            image_id: made_of.image.id(),
        }
    }

    pub(super) fn status(&self) -> cri::ContainerStatus {
        let made_of = &self.made_of;
        let mut image = made_of.asked_image.clone();
        if let Some(tag) = made_of.image.repo_tag() {
            image.image = tag;
        }
        let (finished_at, exit_code, reason) = self.outcome();
        cri::ContainerStatus {
            id: self.id.to_string(),
            metadata: Some(made_of.metadata()),
            state: self.state().into(),
            created_at: self.created,
            started_at: self.began().map_or(0, |began| began.wall),
            finished_at,
            exit_code: i32::from(exit_code),
            image: Some(image),
            image_ref: made_of.image.repo_digest(),
            reason: reason.to_owned(),
            labels: made_of.labels.to_map(),
            annotations: made_of.annotations.to_map(),
            log_path: made_of.log_path.to_string(),
            image_id: made_of.image.id(),
            stop_signal: made_of.stop_signal,
            ..made_of.details.open()
        }
    }
}

impl End {
    fn reason(self) -> &'static str {
        match self {
            Self {
                out_of_memory: true,
                ..
            } => "OOMKilled",
            Self { code: 0, .. } => "Completed",
            Self { .. } => "Error",
        }
    }
}
