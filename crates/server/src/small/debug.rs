//! `/debug/…`: how much is logged, and what the node is busy with. Of Go's profiles there
//! is that of the CPU; the others tell of what only Go programs have.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use seams::SharedClock;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tracing::info;

use crate::answer::{Answer, not_found, text, unguessed};
use crate::process::Process;
use crate::query::Query;

/// A number is short.
const LONGEST_BODY: usize = 1024;

/// Which parts of the node run, and what they wait for, a line each.
pub type Running = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

#[derive(Clone)]
pub struct Debugging {
    pub process: Process,
    pub running: Running,
    pub clock: SharedClock,
}

impl fmt::Debug for Debugging {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Debugging").finish_non_exhaustive()
    }
}

const INDEX: &str = "what there is to see of this node:\n\
    /debug/pprof/cmdline  the program and its arguments\n\
    /debug/pprof/tasks    its parts that run, its tasks, its pods and what is stuck\n\
    /debug/pprof/profile  where it spends its CPU time: `go tool pprof` reads it (?seconds=30)\n\
    What else Go programs show of themselves here is not there.\n";

/// As long as Go's, if nothing else is said.
const PROFILE: Duration = Duration::from_secs(30);

/// More is asked for by mistake: for all of it somebody has to wait.
const LONGEST_PROFILE: Duration = Duration::from_secs(600);

/// Between two looks at what has been seen.
const LOOKS: Duration = Duration::from_millis(50);

impl Debugging {
    /// What is below `/debug/pprof/`.
    pub(crate) async fn profile(&self, words: &[String], query: &str) -> Answer {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            [] => text(StatusCode::OK, INDEX),
            ["cmdline"] => unguessed(text(StatusCode::OK, self.process.command.join("\0"))),
            ["tasks"] => text(StatusCode::OK, self.tasks()),
            ["profile"] => self.of_cpu(&Query::read(query)).await,
            [
                "trace" | "symbol" | "heap" | "goroutine" | "allocs" | "block" | "mutex"
                | "threadcreate",
            ] => text(StatusCode::NOT_IMPLEMENTED, INDEX),
            _ => not_found(),
        }
    }

    /// Whoever goes before it is over ends it.
    async fn of_cpu(&self, query: &Query) -> Answer {
        let seconds = query
            .first("seconds")
            .and_then(|text| text.parse::<u64>().ok());
        let length = seconds.filter(|seconds| *seconds > 0);
        let length = length.map_or(PROFILE, Duration::from_secs);
        if length > LONGEST_PROFILE {
            let most = LONGEST_PROFILE.as_secs();
            let words = format!("a profile may be of {most} seconds and no more");
            return refused(StatusCode::BAD_REQUEST, &words);
        }
        match self.taken(length).await {
            Ok(profile) => download(profile),
            Err(words) => {
                let words = format!("Could not enable CPU profiling: {words}");
                refused(StatusCode::INTERNAL_SERVER_ERROR, &words)
            }
        }
    }

    /// It begins and ends with files that are read, and not here.
    async fn taken(&self, length: Duration) -> Result<Vec<u8>, String> {
        let start = self.process.profiler.clone();
        let lost = |_| "it was given up".to_owned();
        let mut profile = spawn_blocking(move || start()).await.map_err(lost)??;
        let (begun, before) = (self.clock.now(), self.clock.uptime());
        info!(?length, "a CPU profile is being taken");
        let took = loop {
            let took = self.clock.uptime().saturating_sub(before);
            if took >= length {
                break took;
            }
            let left = length.saturating_sub(took);
            self.clock.sleep(LOOKS.min(left)).await;
            profile.look();
        };
        let finished = spawn_blocking(move || profile.finish(begun, took)).await;
        finished.map_err(lost)?
    }

    fn tasks(&self) -> String {
        let metrics = Handle::current().metrics();
        let mut lines = format!(
            "tasks: {} alive on {} threads, {} waiting for one\n",
            metrics.num_alive_tasks(),
            metrics.num_workers(),
            metrics.global_queue_depth(),
        );
        for line in (self.running)() {
            lines.push_str(&line);
            lines.push('\n');
        }
        lines
    }

    /// `PUT /debug/flags/v` with a number.
    pub(crate) async fn verbosity(&self, request: Request<Incoming>) -> Answer {
        if request.method() != Method::PUT {
            return plain(StatusCode::NOT_ACCEPTABLE, "unsupported http method");
        }
        let body = Limited::new(request.into_body(), LONGEST_BODY);
        let body = match body.collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => {
                let words = format!("error reading request body: {error}");
                return plain(StatusCode::BAD_REQUEST, words);
            }
        };
        let given = String::from_utf8_lossy(&body);
        let level = given.parse::<u32>();
        let Ok(level) = level else {
            let words = format!("{given:?} is no number from 0 to {}", u32::MAX);
            return plain(StatusCode::BAD_REQUEST, words);
        };
        (self.process.set_verbosity)(level);
        info!(level, "the verbosity of the log was changed");
        let words = format!("successfully set klog.logging.verbosity to {given}");
        plain(StatusCode::OK, words)
    }
}

/// As Go's server gives it out.
fn download(profile: Vec<u8>) -> Answer {
    let mut answer = unguessed(text(StatusCode::OK, profile));
    let headers = answer.headers_mut();
    let bytes = HeaderValue::from_static("application/octet-stream");
    headers.insert(CONTENT_TYPE, bytes);
    let file = HeaderValue::from_static("attachment; filename=\"profile\"");
    headers.insert(CONTENT_DISPOSITION, file);
    answer
}

/// By the header pprof's tools know that the words are for whoever called them.
fn refused(status: StatusCode, words: &str) -> Answer {
    let mut answer = unguessed(text(status, format!("{words}\n")));
    let of_tools = HeaderName::from_static("x-go-pprof");
    answer
        .headers_mut()
        .insert(of_tools, HeaderValue::from_static("1"));
    answer
}

/// A line of its own.
fn plain(status: StatusCode, words: impl AsRef<str>) -> Answer {
    let mut answer = unguessed(text(status, format!("{}\n", words.as_ref())));
    let kind = HeaderValue::from_static("text/plain");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::SystemTime;

    use testkit::clock::TokioClock;

    use super::*;
    use crate::process::Profiling;

    struct Counted(Arc<AtomicU32>);

    impl Profiling for Counted {
        fn look(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn finish(self: Box<Self>, _: SystemTime, took: Duration) -> Result<Vec<u8>, String> {
            Ok(format!("{took:?}").into_bytes())
        }
    }

    /// What is answered, and how often the process was looked at.
    async fn asked(query: &str, well: bool) -> (Answer, u32) {
        let looks = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&looks);
        let debugging = Debugging {
            process: Process {
                version: String::new(),
                command: Vec::new(),
                flags: Arc::new(BTreeMap::new),
                set_verbosity: Arc::new(|_| ()),
                log: Arc::new(|| Ok(())),
                profiler: Arc::new(move || -> Result<Box<dyn Profiling>, String> {
                    if well {
                        Ok(Box::new(Counted(Arc::clone(&counted))))
                    } else {
                        Err("cpu profiling already in use".to_owned())
                    }
                }),
            },
            running: Arc::new(Vec::new),
            clock: Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH)),
        };
        let answer = debugging.profile(&["profile".to_owned()], query).await;
        (answer, looks.load(Ordering::Relaxed))
    }

    async fn body(answer: Answer) -> String {
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(body.to_vec()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_profile_is_as_long_as_is_asked_for_and_looked_at_often() {
        for (query, took) in [
            ("seconds=2", "2s"),
            ("", "30s"),
            ("seconds=", "30s"),
            ("seconds=0", "30s"),
            ("seconds=-4", "30s"),
            ("seconds=soon", "30s"),
            ("x=1&seconds=600", "600s"),
        ] {
            let (answer, looks) = asked(query, true).await;
            assert_eq!(answer.status(), StatusCode::OK, "{query}");
            assert_eq!(answer.headers()[CONTENT_TYPE], "application/octet-stream");
            assert!(answer.headers().contains_key(CONTENT_DISPOSITION));
            assert_eq!(body(answer).await, took, "{query}");
            assert!(looks >= 2 * 20, "{query}: {looks} looks");
        }
        let (answer, looks) = asked("seconds=601", true).await;
        assert_eq!((answer.status(), looks), (StatusCode::BAD_REQUEST, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn where_there_is_no_profile_it_is_said_why() {
        let (answer, _) = asked("seconds=1", false).await;
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(answer.headers()["x-go-pprof"], "1");
        let words = "Could not enable CPU profiling: cpu profiling already in use\n";
        assert_eq!(body(answer).await, words);
    }
}
