//! What a container prints, as if it were in its file: any part of it can be read, and
//! nothing of it is kept.

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::Path;
use std::sync::Arc;

use seams::host::{FileFacts, FileId, FileRead, OpenFile};

use super::container::Container;
use super::logs::written;
use super::moment::Moment;
use super::story::Log;
use super::{Core, Runtime};

/// What a line has beside its text: `2027-01-15T08:00:00.000000000Z stdout F `, and its
/// end.
const FRAME: u64 = 41;

/// `simulated line `.
const BEFORE_NUMBER: u64 = 15;

/// The log of one container.
struct Printed {
    core: Arc<Core>,
    container: Box<str>,
}

impl fmt::Debug for Printed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Printed")
            .field("container", &self.container)
            .finish_non_exhaustive()
    }
}

impl Runtime {
    /// The log that is at a path, if a container that has begun was told to have it there.
    pub(crate) fn printed_at(&self, path: &Path) -> Option<Arc<dyn OpenFile>> {
        let (state, _) = self.core.look();
        let mut containers = state.containers();
        let found = containers.find(|container| {
            Path::new(&*container.made_of.log_path) == path && container.began().is_some()
        })?;
        Some(Arc::new(Printed {
            core: Arc::clone(&self.core),
            container: (*found.id).into(),
        }))
    }
}

impl Printed {
    fn look<T>(&self, seen: impl FnOnce(&Container, Moment, u64) -> T) -> io::Result<T> {
        let (state, now) = self.core.look();
        let container = state.container(&self.container);
        let container = container.map_err(|_| io::ErrorKind::NotFound)?;
        let (began, ran) = (container.began(), container.ran(now));
        let (began, ran) = began.zip(ran).ok_or(io::ErrorKind::NotFound)?;
        Ok(seen(container, began, container.story.log.due(ran)))
    }
}

impl OpenFile for Printed {
    fn facts(&self) -> io::Result<FileFacts> {
        let mut hasher = DefaultHasher::new();
        self.container.hash(&mut hasher);
        let id = FileId {
            device: 0,
            inode: hasher.finish(),
        };
        self.look(|container, began, lines| FileFacts {
            id,
            size: container.story.log.bytes(lines),
            modified: began.system_time(),
        })
    }

    fn read_at(&self, at: u64, most: usize) -> FileRead<'_> {
        let read =
            self.look(|container, began, lines| read(&container.story.log, began, lines, at, most));
        Box::pin(std::future::ready(read))
    }
}

fn read(log: &Log, began: Moment, lines: u64, at: u64, most: usize) -> Vec<u8> {
    let first = line_at(log, lines, at);
    let before = usize::try_from(at - log.bytes(first)).unwrap_or(usize::MAX);
    let mut text = Vec::new();
    for number in first..lines {
        if text.len() >= most.saturating_add(before) {
            break;
        }
        let (after, line) = log.line(number);
        text.extend(written(began.plus(after), &line).into_bytes());
    }
    text.drain(..before.min(text.len()));
    text.truncate(most);
    text
}

/// The line in which a byte is; the one behind the last, if it is in none.
fn line_at(log: &Log, lines: u64, at: u64) -> u64 {
    let (mut low, mut high) = (0, lines);
    while low < high {
        let middle = low + (high - low) / 2;
        if log.bytes(middle + 1) <= at {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

impl Log {
    /// Of the first so many lines, as they are in a file.
    fn bytes(&self, lines: u64) -> u64 {
        match self {
            Self::Silent => 0,
            Self::Text(text) => {
                let lines = usize::try_from(lines).unwrap_or(usize::MAX);
                let shown = text.lines().take(lines);
                shown.map(|line| FRAME + line.len() as u64).sum()
            }
            Self::Lines { .. } => lines * (FRAME + BEFORE_NUMBER) + digits_up_to(lines),
        }
    }
}

/// Of all numbers from 1 on.
fn digits_up_to(last: u64) -> u64 {
    let (mut total, mut first, mut digits) = (0, 1_u64, 1);
    while first <= last {
        let next = first.saturating_mul(10);
        total += digits * (last.min(next - 1) - first + 1);
        first = next;
        digits += 1;
    }
    total
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn any_part_is_what_it_is_in_the_whole() {
        let began = Moment {
            wall: 1_800_000_000_000_000_000,
            uptime: Duration::ZERO,
        };
        let logs = [
            Log::Silent,
            Log::Text("hello\n\nworld".into()),
            Log::Lines {
                count: 3,
                per: Duration::from_secs(1),
            },
        ];
        for log in logs {
            for lines in [0, 1, 3, 9, 10, 11, 120] {
                let lines = match &log {
                    Log::Silent => 0,
                    Log::Text(text) => lines.min(text.lines().count() as u64),
                    Log::Lines { .. } => lines,
                };
                let line = |number| {
                    let (after, text) = log.line(number);
                    written(began.plus(after), &text)
                };
                let whole: String = (0..lines).map(line).collect();
                assert_eq!(log.bytes(lines), whole.len() as u64);
                for at in 0..=whole.len() {
                    let rest = &whole.as_bytes()[at..];
                    for most in [1, 60, 1000] {
                        let wanted = &rest[..rest.len().min(most)];
                        let found = read(&log, began, lines, at as u64, most);
                        assert_eq!(found, wanted, "{log:?} {lines} {at} {most}");
                    }
                }
                assert!(read(&log, began, lines, whole.len() as u64 + 9, 9).is_empty());
            }
        }
    }
}
