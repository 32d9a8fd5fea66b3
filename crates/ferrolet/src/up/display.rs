//! How people see what happens: a line for each step; on a terminal the nodes and pods
//! below them.

use std::time::Duration;

use jiff::Timestamp;

use super::scene::Scene;
use crate::kubelet::say;
use crate::log::Log;
use crate::output::printable;
use crate::screen::{Screen, size};

/// Where lines go.
pub(super) enum Display {
    /// To standard error, one after the other.
    Plain,
    /// Above the live view, which has the newest lines of the log, too.
    Live { screen: Screen, log: Log },
}

impl Display {
    pub(super) fn live(log: Log) -> Self {
        let screen = Screen::default();
        Self::Live { screen, log }
    }

    /// Something happened, so long after the start.
    pub(super) fn step(&mut self, elapsed: Duration, told: &str) {
        self.tell(&format!("{:7.2}s  {told}", elapsed.as_secs_f64()));
    }

    /// A line that stays.
    pub(super) fn tell(&mut self, line: &str) {
        let line = printable(line);
        match self {
            Self::Plain => say(&line),
            Self::Live { screen, .. } => screen.tell(&line),
        }
    }

    /// The scene as it is now, where there is a view of it.
    pub(super) fn draw(&mut self, scene: &Scene, now: Timestamp) {
        let Self::Live { screen, log } = self else {
            return;
        };
        let said = log.lines();
        let (_, rows) = size();
        let mut lines = scene.lines(now, rows.saturating_sub(said.len() + 1));
        if !said.is_empty() {
            lines.push(String::new());
            lines.extend(said.iter().map(|line| printable(line)));
        }
        screen.draw(&lines);
    }

    /// Whether pods are seen without being told of.
    pub(super) fn is_live(&self) -> bool {
        matches!(self, Self::Live { .. })
    }
}
