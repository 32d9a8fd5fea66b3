//! What containers print: lines as a function of time, and their files.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::future::Future;
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::time::Duration;

use time::OffsetDateTime;
use tracing::warn;

use super::Core;
use super::container::Container;
use super::ids::Id;
use super::moment::Moment;
use super::story::Log;

/// Where the lines of containers go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Logs {
    /// Nowhere: whoever wants them asks for them.
    #[default]
    None,
    /// Into the files that containers are told at their creation.
    Files,
}

/// One line, and when it was printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    pub at: std::time::SystemTime,
    pub text: String,
}

/// How often due lines are written.
const EACH: Duration = Duration::from_secs(1);

/// Of one container, before others have their turn: what a rate can bring in a
/// few seconds.
const AT_ONCE: u64 = 50_000;

impl Log {
    /// How many lines there are after so long.
    pub(super) fn due(&self, ran: Duration) -> u64 {
        match self {
            Self::Silent => 0,
            Self::Text(text) => u64::try_from(text.lines().count()).unwrap_or(u64::MAX),
            Self::Lines { count, per } => {
                let passed = ran.as_nanos().saturating_mul(u128::from(*count)) / per.as_nanos();
                // The first comes with the start.
                u64::try_from(passed + 1).unwrap_or(u64::MAX)
            }
        }
    }

    /// A line, and how long after the start it is printed.
    pub(super) fn line(&self, number: u64) -> (Duration, String) {
        match self {
            Self::Silent => (Duration::ZERO, String::new()),
            Self::Text(text) => {
                let place = usize::try_from(number).unwrap_or(usize::MAX);
                let line = text.lines().nth(place).unwrap_or_default();
                (Duration::ZERO, line.to_owned())
            }
            Self::Lines { count, per } => {
                let nanos = (u128::from(number) * per.as_nanos()).div_ceil(u128::from(*count));
                let after = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
                (after, format!("simulated line {}", number + 1))
            }
        }
    }
}

/// The lines of a container from the given one on, as many as there are.
fn lines(container: &Container, from: u64, most: u64, now: Moment) -> Vec<(Moment, String)> {
    let (Some(began), Some(ran)) = (container.began(), container.ran(now)) else {
        return Vec::new();
    };
    let log = &container.story.log;
    let until = log.due(ran).min(from.saturating_add(most));
    let line = |number| {
        let (after, text) = log.line(number);
        (began.plus(after), text)
    };
    (from..until).map(line).collect()
}

/// How many lines there are by now.
pub(super) fn count(container: &Container, now: Moment) -> u64 {
    let ran = container.ran(now);
    ran.map_or(0, |ran| container.story.log.due(ran))
}

/// How long it is until there is this line; `None`: there will be none.
pub(super) fn until_line(container: &Container, number: u64, now: Moment) -> Option<Duration> {
    let log = &container.story.log;
    match log {
        Log::Lines { .. } => {
            let (after, _) = log.line(number);
            container.ran(now).map(|ran| after.saturating_sub(ran))
        }
        Log::Silent | Log::Text(_) => None,
    }
}

pub(super) fn to_lines(container: &Container, from: u64, most: u64, now: Moment) -> Vec<LogLine> {
    let lines = lines(container, from, most, now).into_iter();
    let public = lines.map(|(at, text)| LogLine {
        at: at.system_time(),
        text,
    });
    public.collect()
}

/// A line as CRI wants it in a file.
pub(super) fn written(at: Moment, text: &str) -> String {
    // Both ends of 64 bits are within the calendar.
    let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(at.wall));
    let at = at.unwrap_or(OffsetDateTime::UNIX_EPOCH);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:09}Z stdout F {text}\n",
        at.year(),
        u8::from(at.month()),
        at.day(),
        at.hour(),
        at.minute(),
        at.second(),
        at.nanosecond(),
    )
}

/// The file is opened anew for each write, and so nothing is written to one that
/// was moved away.
fn append(path: &Path, text: &str) -> io::Result<()> {
    open(path)?.write_all(text.as_bytes())
}

/// Makes it, and the directories on the way.
pub(super) fn open(path: &Path) -> io::Result<File> {
    if let Some(directory) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(directory)?;
    }
    OpenOptions::new().append(true).create(true).open(path)
}

/// How far the logs are written.
#[derive(Debug, Default)]
struct Progress(BTreeMap<Id, Written>);

#[derive(Clone, Copy, Debug, Default)]
struct Written {
    lines: u64,
    exists: bool,
    /// Said once, and tried again all the same.
    failed: bool,
}

/// What is to be added to one log.
struct Addition {
    id: Id,
    path: Box<str>,
    lines: Vec<(Moment, String)>,
}

impl Progress {
    /// Also forgets containers that are gone.
    fn due<'a>(
        &mut self,
        containers: impl Iterator<Item = &'a Container>,
        now: Moment,
    ) -> Vec<Addition> {
        let mut kept = BTreeMap::new();
        let mut additions = Vec::new();
        for container in containers {
            let path = &container.made_of.log_path;
            if container.began().is_none() || path.is_empty() {
                continue;
            }
            let so_far = self.0.get(&container.id).copied().unwrap_or_default();
            kept.insert(Id::clone(&container.id), so_far);
            let lines = lines(container, so_far.lines, AT_ONCE, now);
            if !lines.is_empty() || !so_far.exists {
                additions.push(Addition {
                    id: Id::clone(&container.id),
                    path: path.clone(),
                    lines,
                });
            }
        }
        self.0 = kept;
        additions
    }

    fn write(&mut self, addition: &Addition) {
        let text: String = addition
            .lines
            .iter()
            .map(|(at, text)| written(*at, text))
            .collect();
        let so_far = self.0.entry(Id::clone(&addition.id)).or_default();
        match append(Path::new(&*addition.path), &text) {
            Ok(()) => {
                so_far.lines += u64::try_from(addition.lines.len()).unwrap_or_default();
                so_far.exists = true;
                so_far.failed = false;
            }
            Err(error) if !so_far.failed => {
                so_far.failed = true;
                warn!(container = %addition.id, path = %addition.path, %error, "cannot write the log of a simulated container; will try again each second");
            }
            Err(_) => {}
        }
    }
}

/// Writes what is due, until it is told to end, and once more then.
pub(super) async fn keep(core: &Core, shutdown: impl Future<Output = ()>) {
    tokio::pin!(shutdown);
    let mut progress = Progress::default();
    let mut last = false;
    loop {
        let (additions, wait) = {
            let (state, now) = core.look();
            let next = state.next_change();
            let wait = next.map_or(EACH, |next| next.saturating_sub(now.uptime).min(EACH));
            (progress.due(state.containers(), now), wait)
        };
        for addition in &additions {
            progress.write(addition);
        }
        if last {
            return;
        }
        tokio::select! {
            biased;
            () = &mut shutdown => last = true,
            // What ends is written at once: somebody may want to read why. A ring
            // that is missed costs a second.
            () = core.changed.notified() => {}
            () = core.clock.sleep(wait) => {}
        }
    }
}
