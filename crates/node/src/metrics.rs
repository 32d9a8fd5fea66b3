//! Figures about a node's start, under upstream's names.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use types::figures;
use types::figures::Family;

figures! {
    struct Start {
        total: Gauge = Family::gauge(
            "kubelet_node_startup_duration_seconds",
            "[ALPHA] Seconds from the machine's start to the node being ready, if this agent made the node",
        ),
        before_agent: Gauge = Family::gauge(
            "kubelet_node_startup_pre_kubelet_duration_seconds",
            "[ALPHA] Seconds from the machine's start to the agent's",
        ),
        before_attempt: Gauge = Family::gauge(
            "kubelet_node_startup_pre_registration_duration_seconds",
            "[ALPHA] Seconds from the agent's start to the first attempt to register the node",
        ),
        attempts: Gauge = Family::gauge(
            "kubelet_node_startup_registration_duration_seconds",
            "[ALPHA] Seconds from the first attempt to register the node to its success",
        ),
        until_ready: Gauge = Family::gauge(
            "kubelet_node_startup_post_registration_duration_seconds",
            "[ALPHA] Seconds from the node's registration to its being ready",
        ),
    }
}

/// How a node comes into being: what has happened, and when. Clones tell the same.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    start: Arc<Start>,
    course: Arc<Mutex<Course>>,
}

/// By the wall clock.
#[derive(Debug, Default)]
struct Course {
    booted: Option<SystemTime>,
    began: Option<SystemTime>,
    attempted: Option<SystemTime>,
    registered: Option<SystemTime>,
    ready: bool,
}

impl Metrics {
    /// `booted` is when the machine was started, if that is known; `began` when the
    /// agent was.
    pub fn new(figures: &figures::Board, booted: Option<SystemTime>, began: SystemTime) -> Self {
        let metrics = Self::default();
        figures.hang(metrics.start.clone());
        let mut course = metrics.course();
        course.booted = booted;
        course.began = Some(began);
        drop(course);
        metrics
    }

    /// The first attempt counts.
    pub(crate) fn attempt(&self, now: SystemTime) {
        self.course().attempted.get_or_insert(now);
    }

    /// The node was not there before.
    pub(crate) fn registered(&self, now: SystemTime) {
        let mut course = self.course();
        let (Some(began), Some(attempted), None) =
            (course.began, course.attempted, course.registered)
        else {
            return;
        };
        course.registered = Some(now);
        if let Some(booted) = course.booted {
            self.start.before_agent.set(seconds(booted, began));
        }
        self.start.before_attempt.set(seconds(began, attempted));
        self.start.attempts.set(seconds(attempted, now));
    }

    /// Said more than once, the first time counts.
    pub(crate) fn ready(&self, now: SystemTime) {
        let mut course = self.course();
        let (Some(registered), false) = (course.registered, course.ready) else {
            return;
        };
        course.ready = true;
        self.start.until_ready.set(seconds(registered, now));
        if let Some(booted) = course.booted {
            self.start.total.set(seconds(booted, now));
        }
    }

    /// A mutex: a few words are changed under it, a handful of times.
    fn course(&self) -> MutexGuard<'_, Course> {
        self.course.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn seconds(from: SystemTime, until: SystemTime) -> f64 {
    let passed: Duration = until.duration_since(from).unwrap_or_default();
    passed.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(existing: bool) -> Vec<String> {
        let board = figures::Board::default();
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let metrics = Metrics::new(&board, Some(at(10)), at(30));
        metrics.attempt(at(32));
        metrics.attempt(at(33));
        if !existing {
            metrics.registered(at(36));
        }
        metrics.ready(at(40));
        metrics.ready(at(50));
        let text = board.page().finish();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let values = lines.filter_map(|line| line.split(' ').nth(1));
        values.map(str::to_owned).collect()
    }

    #[test]
    fn a_new_nodes_start_is_measured_and_an_old_ones_is_not() {
        // In the order of their names: total, after, before the agent, before, between.
        assert_eq!(figures(false), ["30", "4", "20", "2", "4"]);
        assert_eq!(figures(true), ["0", "0", "0", "0", "0"]);
    }
}
