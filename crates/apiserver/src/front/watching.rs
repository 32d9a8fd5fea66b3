//! Watches: objects as they come, change and go, one line of JSON each.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::StatusCode;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::answer::{self, Answer};
use super::desk::Desk;
use super::negotiate::Form;
use super::request::Asked;
use super::verbs::{list_options, metadata_only, revision, unfit_options};
use crate::clock::Clock;
use crate::failure::Failure;
use crate::faults::Fault;
use crate::kinds::Kind;
use crate::store::{Change, Listing, Revision, Selector, Stored, Watch};
use crate::tables;

/// Between two bookmarks; upstream's.
const BETWEEN_BOOKMARKS: Duration = Duration::from_secs(60);
/// The last one comes so long before the end; upstream's.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// Of a watch whose client names no time: one to two of these; upstream's.
const SHORTEST: u64 = 1800;
/// However long the client would like it: clocks end.
const LONGEST: u64 = 365 * 24 * 3600;
/// Lines that go out together.
const LINES: usize = 64;

pub(super) fn answer(
    desk: &Desk,
    kind: &'static Kind,
    asked: &Asked,
    fault: &Fault,
) -> Result<Answer, Failure> {
    let options = list_options(kind, asked)?;
    let query = &asked.query;
    let bookmarks = query.flag("allowWatchBookmarks");
    let initial = match query.get("sendInitialEvents") {
        None => {
            if options.version_match.is_some() {
                let cause = "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                return Err(unfit_options("resourceVersionMatch", cause));
            }
            None
        }
        Some(_) if query.text("resourceVersionMatch") != "NotOlderThan" => {
            let cause = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            return Err(unfit_options("resourceVersionMatch", cause));
        }
        Some(_) => Some(query.flag("sendInitialEvents")),
    };
    let from = revision(query)?;
    let store = desk.parts.objects.store();
    let selector = options.selector;
    let mut lines = Lines {
        kind,
        form: Shape::of(desk, asked)?,
        selector: selector.clone(),
        clock: desk.clock().clone(),
        seen: from.unwrap_or_default(),
    };
    let (mut first, mut first_end) = (VecDeque::new(), None);
    let mut waiting = VecDeque::new();
    let watch = match (initial, from) {
        (Some(true), _) | (None, None) => {
            if let Some(from) = from {
                desk.parts.objects.not_ahead(from)?;
            }
            let (Listing { items, revision }, watch) = store.list_and_watch(kind, selector);
            first = items.into();
            lines.seen = revision;
            first_end = (initial == Some(true) && bookmarks).then_some(revision);
            Some(watch)
        }
        (Some(false), None) => Some(store.list_and_watch(kind, selector).1),
        (Some(false) | None, Some(from)) => match store.watch_selected(kind, selector, from) {
            Ok(watch) => Some(watch),
            Err(compacted) => {
                let words = format!("too old resource version: {from} ({})", compacted.0);
                waiting.push_back(error(&Failure::expired(words)));
                None
            }
        },
    };
    let timeout = query
        .number::<u64>("timeoutSeconds")?
        .filter(|seconds| *seconds > 0);
    let timeout = timeout.unwrap_or_else(|| fastrand::u64(SHORTEST..2 * SHORTEST));
    let timeout = timeout.min(LONGEST);
    let now = Instant::now();
    let state = Streaming {
        first,
        first_end,
        waiting,
        watch,
        lines,
        end: now + Duration::from_secs(timeout),
        next_bookmark: bookmarks.then(|| now + first_bookmark(timeout)),
        left: fault.drop_after,
        shutdown: desk.parts.shutdown.clone(),
    };
    let stream = stream::unfold(state, async |mut state| {
        let chunk = state.next().await?;
        Some((Ok::<_, io::Error>(Frame::data(chunk)), state))
    });
    let mut answer = answer::json(StatusCode::OK, Bytes::new());
    *answer.body_mut() = StreamBody::new(stream).boxed_unsync();
    Ok(answer)
}

/// Spread, so that not all watches are told at the same moment.
fn first_bookmark(timeout: u64) -> Duration {
    let usual = BETWEEN_BOOKMARKS.mul_f64(0.5 + fastrand::f64() * 0.5);
    let last = Duration::from_secs(timeout).saturating_sub(LAST_BOOKMARK);
    if last.is_zero() {
        usual
    } else {
        usual.min(last)
    }
}

/// One watch under way.
struct Streaming {
    /// What there was at the beginning, and has not been told yet.
    first: VecDeque<Stored>,
    /// The revision of that, if its end is to be marked.
    first_end: Option<Revision>,
    waiting: VecDeque<Bytes>,
    /// None when there is nothing to come.
    watch: Option<Watch>,
    lines: Lines,
    end: Instant,
    next_bookmark: Option<Instant>,
    /// Changes until it is cut off, by a rule for tests.
    left: Option<usize>,
    shutdown: tokio_util::sync::CancellationToken,
}

impl Streaming {
    /// What goes out next, or the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if !self.first.is_empty() {
                let count = self.first.len().min(LINES);
                let told = self.first.drain(..count);
                let lines = &mut self.lines;
                self.waiting
                    .extend(told.map(|object| lines.object("ADDED", &object)));
            } else if let Some(revision) = self.first_end.take() {
                self.waiting.push_back(self.lines.bookmark(revision, true));
            }
            if !self.waiting.is_empty() {
                return Some(self.gather());
            }
            let watch = self.watch.as_mut()?;
            if self.left == Some(0) {
                return None;
            }
            let until = self.next_bookmark.map_or(self.end, |at| at.min(self.end));
            let next = tokio::time::timeout_at(until, watch.next());
            match self.shutdown.run_until_cancelled(next).await? {
                Ok(change) => {
                    let change = change?;
                    if let Some(line) = self.lines.change(&change) {
                        self.waiting.push_back(line);
                        self.left = self.left.map(|left| left.saturating_sub(1));
                    }
                }
                Err(_) if until >= self.end => return None,
                Err(_) => self.mark(),
            }
        }
    }

    fn mark(&mut self) {
        let settled = self.watch.as_ref().and_then(Watch::settled);
        if let Some(revision) = settled {
            let line = self.lines.bookmark(revision.max(self.lines.seen), false);
            self.waiting.push_back(line);
        }
        let last = self.end.checked_sub(LAST_BOOKMARK).unwrap_or(self.end);
        let (now, usual) = (Instant::now(), Instant::now() + BETWEEN_BOOKMARKS);
        self.next_bookmark = if now < last {
            Some(usual.min(last))
        } else {
            None
        };
    }

    /// Several lines in one piece.
    fn gather(&mut self) -> Bytes {
        if self.waiting.len() == 1 {
            return self.waiting.pop_front().unwrap_or_default();
        }
        let count = self.waiting.len().min(LINES);
        let lines: Vec<Bytes> = self.waiting.drain(..count).collect();
        lines.concat().into()
    }
}

/// In which form objects are told.
enum Shape {
    Object,
    Metadata,
    /// The columns come with the first table only.
    Table(tables::IncludeObject, bool),
}

impl Shape {
    fn of(_desk: &Desk, asked: &Asked) -> Result<Self, Failure> {
        Ok(match asked.wanted.form {
            Form::Object => Self::Object,
            Form::Metadata => Self::Metadata,
            Form::Table => {
                let include = asked.query.text("includeObject");
                let include = tables::IncludeObject::parse(include).ok_or_else(|| {
                    Failure::bad_request(format!("unrecognized includeObject value: {include:?}"))
                })?;
                Self::Table(include, true)
            }
        })
    }
}

struct Lines {
    kind: &'static Kind,
    form: Shape,
    selector: Selector,
    clock: Clock,
    /// Up to here everything was told.
    seen: Revision,
}

impl Lines {
    /// What one who sees only what is selected sees of a change.
    fn change(&mut self, change: &Arc<Change>) -> Option<Bytes> {
        if change.revision <= self.seen {
            return None;
        }
        self.seen = change.revision;
        let is = !change.deleted && self.selector.matches(&change.object);
        let was = change
            .previous
            .as_ref()
            .is_some_and(|previous| self.selector.matches(previous));
        let word = match (was, is) {
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
            (false, false) => return None,
        };
        match &change.previous {
            // It left the selection, not the store: told as it was when last seen, at the
            // revision at which it left.
            Some(previous) if word == "DELETED" && !change.deleted => {
                let mut object = previous.value();
                object["metadata"]["resourceVersion"] = change.revision.to_string().into();
                Some(self.value("DELETED", object))
            }
            _ => Some(self.object(word, &change.object)),
        }
    }

    fn object(&mut self, word: &str, object: &Stored) -> Bytes {
        match self.form {
            Shape::Object => line(word, object.bytes()),
            _ => self.value(word, object.value()),
        }
    }

    fn value(&mut self, word: &str, object: Value) -> Bytes {
        let shown = match &mut self.form {
            Shape::Object => object,
            Shape::Metadata => metadata_only(&object),
            Shape::Table(include, headers) => {
                let options = tables::Options {
                    include: *include,
                    headers: std::mem::take(headers),
                    metadata: object["metadata"].clone(),
                };
                tables::render(self.kind, &[object], &options, self.clock.timestamp())
            }
        };
        line(word, shown.to_string().as_bytes())
    }

    fn bookmark(&mut self, revision: Revision, is_end_of_initial: bool) -> Bytes {
        self.seen = self.seen.max(revision);
        let mut object = json!({
            "kind": self.kind.kind,
            "apiVersion": self.kind.api_version(),
            "metadata": {"resourceVersion": revision.to_string()},
        });
        if is_end_of_initial {
            object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        self.value("BOOKMARK", object)
    }
}

fn error(failure: &Failure) -> Bytes {
    line("ERROR", failure.status().to_string().as_bytes())
}

fn line(word: &str, object: &[u8]) -> Bytes {
    let head = format!(r#"{{"type":"{word}","object":"#);
    [head.as_bytes(), object, b"}\n"].concat().into()
}
