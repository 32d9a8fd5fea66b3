//! A container's log, read from its file in blocks for one client, at the client's
//! pace: what is not taken is not read.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use seams::cri::{ContainerState as CriState, ContainerStatusRequest};
use seams::host::{Below, OpenFile};
use seams::{Clock, SharedClock, SharedHost, SharedRuntime};
use types::observed::ContainerState;
use types::{PodBook, PodUid};

use super::printer::{Course, Printer, Shown};
use super::rotated::{Aside, Content, Stamp, put_aside};
use super::tail;
use super::wakes::{Follower, Wakes};

/// What may have escaped notice is found after so long; upstream's, too.
const LOOK: Duration = Duration::from_secs(1);

/// However fast a log is written, it is read no more often than this: many lines cost
/// as much as one.
const PACE: Duration = Duration::from_millis(20);

/// A file that got another name is read so much longer: the runtime may still write to
/// it when the next one is there.
const SETTLE: Duration = Duration::from_millis(200);

/// One run of a container.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) pod: PodUid,
    /// As the API has it.
    pub(super) id: String,
}

/// What reading needs of a node.
#[derive(Clone, Debug)]
pub(super) struct Sources {
    pub(super) book: PodBook,
    pub(super) host: SharedHost,
    pub(super) runtime: SharedRuntime,
    pub(super) clock: SharedClock,
    pub(super) wakes: Arc<Wakes>,
}

/// What is wanted of a log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) shown: Shown,
    /// So many lines from its end.
    pub(super) tail: Option<u64>,
    pub(super) follow: bool,
}

/// A log that is being read. What goes wrong is told at the end of what is shown: who
/// reads has been told that all is well by then.
#[derive(Debug)]
pub(super) struct Reader {
    sources: Sources,
    run: Run,
    wanted: Wanted,
    state: State,
}

#[derive(Debug)]
enum State {
    Unopened,
    Open(Box<Log>),
    Over,
}

#[derive(Debug)]
struct Log {
    path: PathBuf,
    content: Content,
    /// It was opened as one that had been put aside.
    is_aside: bool,
    /// When the newest was put aside that is older than this, or is this: those that come
    /// later follow it.
    since: Option<Stamp>,
    printer: Printer,
    following: Option<Following>,
}

#[derive(Debug)]
struct Following {
    follower: Follower,
    /// The container has ended: what is there is all.
    ended: bool,
    /// When the runtime was last asked whether it has.
    asked: Option<Duration>,
    /// When it last was told of more.
    woken: Duration,
    /// Since when the name is not this file's.
    moved: Option<Duration>,
    /// Since when it is another's.
    replaced: Option<Duration>,
}

/// What is done at the end of a file.
enum Next {
    Read,
    End,
}

impl Reader {
    pub(super) fn new(sources: Sources, run: Run, wanted: Wanted) -> Self {
        Self {
            sources,
            run,
            wanted,
            state: State::Unopened,
        }
    }

    /// What is shown next; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let mut out = Vec::new();
            let more = match &mut self.state {
                State::Over => return None,
                State::Unopened => {
                    let opened = open(&self.sources, &self.run, self.wanted).await;
                    opened.map(|log| {
                        self.state = State::Open(Box::new(log));
                        true
                    })
                }
                State::Open(log) => log.read(&self.sources, &self.run, &mut out).await,
            };
            match more {
                Ok(true) => {}
                Ok(false) => self.state = State::Over,
                Err(problem) => {
                    out.extend(problem.into_bytes());
                    self.state = State::Over;
                }
            }
            if !out.is_empty() {
                return Some(out);
            }
            // Much may be passed over before there is something to show.
            tokio::task::yield_now().await;
        }
    }
}

async fn open(sources: &Sources, run: &Run, wanted: Wanted) -> Result<Log, String> {
    let path = path(sources, run).await?;
    let file = file_at(sources, &path).await?;
    let file = file.ok_or_else(|| {
        let (quoted, name) = (quoted(&path), path.display());
        format!(
            "failed to try resolving symlinks in path {quoted}: lstat {name}: no such file or directory"
        )
    })?;
    let at = match wanted.tail {
        None => 0,
        Some(lines) => tail::start(&*file, lines).await.map_err(|cause| {
            let name = quoted(&path);
            format!("failed to tail {lines} lines of log file {name}: {cause}")
        })?,
    };
    let following = wanted.follow.then(|| Following {
        follower: sources.wakes.follow(&path),
        ended: false,
        asked: None,
        woken: Duration::ZERO,
        moved: None,
        replaced: None,
    });
    // After the file was opened: what is put aside by now is not newer.
    let since = if wanted.follow {
        aside_of(sources, &path).await?.pop()
    } else {
        None
    };
    let mut shown = wanted.shown;
    // What is written from now on is not among the last lines.
    if let (Some(lines), false) = (wanted.tail, wanted.follow) {
        shown.records = lines;
    }
    Ok(Log {
        path,
        content: Content::from(file, at),
        is_aside: false,
        since: since.map(|aside| aside.stamp),
        printer: Printer::new(shown),
        following,
    })
}

/// Where the runtime writes it.
async fn path(sources: &Sources, run: &Run) -> Result<PathBuf, String> {
    let bare = super::choose::bare_id(&run.id);
    let observed = sources.book.observed(&run.pod);
    let known = observed.as_ref().and_then(|pod| {
        let mut containers = pod.containers.iter();
        containers.find(|one| one.id == bare && !one.log_path.is_empty())
    });
    if let Some(known) = known {
        return Ok(PathBuf::from(&known.log_path));
    }
    let request = ContainerStatusRequest {
        container_id: bare.to_owned(),
        verbose: false,
    };
    let answer = sources.runtime.container_status(request).await;
    let answer = answer.map_err(|_| format!("unable to retrieve container logs for {}", run.id))?;
    let status = answer
        .status
        .ok_or_else(|| "container status is nil".to_owned())?;
    Ok(PathBuf::from(status.log_path))
}

/// As Go's `%q` has it.
fn quoted(path: &Path) -> String {
    format!("{:?}", path.to_string_lossy())
}

/// A log is `ROOT/POD/CONTAINER/FILE`, and pods that can write below the root may have
/// put links there: none leads out. `None` if there is no file.
async fn file_at(sources: &Sources, path: &Path) -> Result<Option<Arc<dyn OpenFile>>, String> {
    let failed = |why: &str| format!("failed to open log file {}: {why}", quoted(path));
    let (root, name) = below(path);
    let found = sources.host.below(root, name).await;
    match found.map_err(|error| failed(&error.in_gos_words()))? {
        Below::File(file) => Ok(Some(file)),
        Below::Absent => Ok(None),
        Below::Outside => Err(failed("a link in it leads out of the logs of pods")),
        Below::Directory(_) | Below::Other => Err(failed("it is not a file")),
    }
}

/// The root of all logs, and where this one is below it.
fn below(log: &Path) -> (&Path, &Path) {
    let root = log.ancestors().nth(3).unwrap_or_else(|| Path::new("/"));
    (root, log.strip_prefix(root).unwrap_or(log))
}

/// What was put aside of a log, the oldest first.
async fn aside_of(sources: &Sources, path: &Path) -> Result<Vec<Aside>, String> {
    let (root, name) = below(path);
    let place = name.parent().unwrap_or(name);
    let found = sources.host.below(root, place).await;
    let found = found.map_err(|error| {
        let name = quoted(path);
        format!(
            "failed to list what was put aside of log file {name}: {}",
            error.in_gos_words()
        )
    })?;
    let Below::Directory(directory) = found else {
        return Ok(Vec::new());
    };
    let own = path.file_name().unwrap_or_default().to_string_lossy();
    let names = directory.entries.iter().map(|entry| entry.name.as_str());
    Ok(put_aside(&own, names))
}

impl Log {
    /// The next block, if it has one; or what there is to do without. Whether there may
    /// be more.
    async fn read(
        &mut self,
        sources: &Sources,
        run: &Run,
        out: &mut Vec<u8>,
    ) -> Result<bool, String> {
        if let Some(following) = &mut self.following {
            following.follower.seen();
        }
        let block = self.content.read().await;
        let block = block.map_err(|cause| self.unread(&cause))?;
        if block.is_empty() {
            let Some(following) = &mut self.following else {
                let course = self.printer.finish(out);
                return going_on(course).map(|_| false);
            };
            let next = following
                .at_end(sources, run, &self.path, &self.content)
                .await;
            return match next {
                Ok(Some(Next::Read)) => Ok(true),
                Ok(Some(Next::End)) => Ok(false),
                Ok(None) => self.turn_over(sources).await.map(|()| true),
                Err(cause) => Err(self.unread(&cause)),
            };
        }
        // Heads are longer than what is shown in their place, but for a byte now and then.
        out.reserve(block.len() + block.len() / 16);
        let course = self.printer.push(&block, out);
        going_on(course)
    }

    fn unread(&self, cause: &io::Error) -> String {
        format!("failed to read log file {}: {cause}", quoted(&self.path))
    }

    /// Goes on with the file that follows this one, from its beginning: one that was put
    /// aside meanwhile, or the one that has the name now.
    async fn turn_over(&mut self, sources: &Sources) -> Result<(), String> {
        // Gone again: the next look will tell.
        let Some(named) = file_at(sources, &self.path).await? else {
            return Ok(());
        };
        // After that file was opened: what comes before it is put aside by now.
        let mut aside = aside_of(sources, &self.path).await?;
        let next = self.next_aside(sources, &aside, &named).await?;
        if let Some(next) = next {
            let place = self.path.with_file_name(&next.name);
            // Packed or gone since, likewise.
            let Some(file) = file_at(sources, &place).await? else {
                return Ok(());
            };
            self.content = Content::new(file, next.packed);
            self.is_aside = true;
            self.since = Some(next.stamp);
        } else {
            self.content = Content::new(named, false);
            self.is_aside = false;
            self.since = aside.pop().map(|newest| newest.stamp);
        }
        self.printer.break_off();
        if let Some(following) = &mut self.following {
            following.follower.renewed();
            following.moved = None;
            following.replaced = None;
        }
        Ok(())
    }

    /// The oldest that was put aside after this file; `None`: `named` follows, which has
    /// the log's name.
    async fn next_aside(
        &self,
        sources: &Sources,
        aside: &[Aside],
        named: &Arc<dyn OpenFile>,
    ) -> Result<Option<Aside>, String> {
        let named = Content::new(Arc::clone(named), false);
        let unread = |cause: io::Error| self.unread(&cause);
        if !self.is_aside && self.content.is(named).await.map_err(unread)? {
            // It was cut short, and goes on.
            return Ok(None);
        }
        let is_later = |one: &&Aside| Some(&one.stamp) > self.since.as_ref();
        let mut later = aside.iter().filter(is_later);
        let Some(first) = later.next() else {
            return Ok(None);
        };
        // Unless so many were put aside that it is gone, that is this file.
        if !self.is_aside {
            let place = self.path.with_file_name(&first.name);
            if let Some(file) = file_at(sources, &place).await? {
                let first = Content::new(file, first.packed);
                if self.content.is(first).await.map_err(unread)? {
                    return Ok(later.next().cloned());
                }
            }
        }
        Ok(Some(first.clone()))
    }
}

fn going_on(course: Course) -> Result<bool, String> {
    match course {
        Course::More => Ok(true),
        Course::Done => Ok(false),
        Course::Failed(problem) => Err(problem),
    }
}

impl Following {
    /// Waits for more; `None`: it is in another file.
    async fn at_end(
        &mut self,
        sources: &Sources,
        run: &Run,
        path: &Path,
        content: &Content,
    ) -> io::Result<Option<Next>> {
        let clock = &*sources.clock;
        let facts = content.file.facts()?;
        if facts.size < content.at {
            // Somebody cut it short: what is there was written since.
            return Ok(None);
        }
        let named = sources.host.file_id(path);
        let named = named.map_err(|error| error.cause)?;
        let now = clock.uptime();
        if named == Some(facts.id) {
            self.moved = None;
        } else {
            self.moved.get_or_insert(now);
        }
        // The runtime may take its time to make the next one.
        if self.moved.is_none() || named.is_none() {
            self.replaced = None;
        } else {
            self.replaced.get_or_insert(now);
        }
        let lasts = |since: Option<Duration>| since.map(|since| now.saturating_sub(since));
        let moved = lasts(self.moved);
        if lasts(self.replaced).is_some_and(|replaced| replaced >= SETTLE) {
            return Ok(None);
        }
        if self.ended && (named.is_none() || moved.is_none()) {
            return Ok(Some(Next::End));
        }
        if !self.ended
            && self
                .asked
                .is_none_or(|asked| now.saturating_sub(asked) >= LOOK)
        {
            self.asked = Some(now);
            self.ended = !is_running(sources, run).await;
            if self.ended {
                // What it wrote at last is there by now.
                return Ok(Some(Next::Read));
            }
        }
        let wait = match moved {
            // The runtime is about to make another, or has just made it.
            Some(moved) if moved < LOOK || self.replaced.is_some() => PACE,
            _ => LOOK,
        };
        tokio::select! {
            () = self.follower.changed() => self.keep_pace(clock).await,
            () = clock.sleep(wait) => {}
        }
        Ok(Some(Next::Read))
    }

    async fn keep_pace(&mut self, clock: &dyn Clock) {
        let pause = PACE.saturating_sub(clock.uptime().saturating_sub(self.woken));
        if !pause.is_zero() {
            clock.sleep(pause).await;
        }
        self.woken = clock.uptime();
    }
}

/// By what was last observed; the runtime is asked only to confirm the end.
async fn is_running(sources: &Sources, run: &Run) -> bool {
    let bare = super::choose::bare_id(&run.id);
    let observed = sources.book.observed(&run.pod);
    let running = |pod: &types::observed::ObservedPod| {
        let mut containers = pod.containers.iter();
        containers.any(|one| one.id == bare && one.state == ContainerState::Running)
    };
    if observed.is_some_and(|pod| running(&pod)) {
        return true;
    }
    let request = ContainerStatusRequest {
        container_id: bare.to_owned(),
        verbose: false,
    };
    match sources.runtime.container_status(request).await {
        Ok(answer) => {
            let state = answer.status.map(|status| status.state);
            state == Some(CriState::ContainerRunning as i32)
        }
        // A container can outlive the runtime's absence.
        Err(error) => error.is_unavailable(),
    }
}

#[cfg(test)]
mod tests;
