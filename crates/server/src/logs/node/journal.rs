//! What services have written: to the machine's journal, or to files of their name.

use std::io;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::{StreamExt as _, stream};
use http::Response;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use memchr::memmem;
use seams::host::{Below, Heard, OpenFile, Program};
use seams::timeout;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::query::ServiceQuery;
use super::{NodeLogs, ROOT};
use crate::body::Body;
use crate::logs::tail::BLOCK;

/// For all of an answer; upstream's.
const LONGEST: Duration = Duration::from_secs(30);

/// Where machines have it.
const PLACES: [&str; 4] = [
    "/usr/bin/journalctl",
    "/bin/journalctl",
    "/usr/local/bin/journalctl",
    "/run/current-system/sw/bin/journalctl",
];

pub(super) fn answer(logs: &NodeLogs, query: ServiceQuery, request: &Parts) -> Response<Body> {
    let encoding = request.headers.get(ACCEPT_ENCODING);
    let gzip = encoding.is_some_and(|encoding| encoding == "gzip");
    let blocks = told(logs.clone(), query);
    let mut answer = if gzip {
        Response::new(packed(blocks))
    } else {
        let frames = blocks.map(|block| Ok::<_, io::Error>(Frame::data(Bytes::from(block))));
        Response::new(StreamBody::new(frames).boxed_unsync())
    };
    let headers = answer.headers_mut();
    let plain = HeaderValue::from_static("text/plain;charset=UTF-8");
    headers.insert(CONTENT_TYPE, plain);
    if gzip {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    answer
}

/// Each block can be unpacked when it is there.
fn packed(blocks: impl stream::Stream<Item = Vec<u8>> + Send + 'static) -> Body {
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let state = (Box::pin(blocks), Some(encoder));
    let frames = stream::try_unfold(state, async |(mut blocks, encoder)| {
        let Some(mut encoder) = encoder else {
            return Ok::<_, io::Error>(None);
        };
        let (out, encoder) = if let Some(block) = blocks.next().await {
            encoder.write_all(&block)?;
            encoder.flush()?;
            (std::mem::take(encoder.get_mut()), Some(encoder))
        } else {
            (encoder.finish()?, None)
        };
        Ok(Some((Frame::data(Bytes::from(out)), (blocks, encoder))))
    });
    StreamBody::new(frames).boxed_unsync()
}

/// The blocks of an answer. They are found by a task of its own, which ends in time also
/// while nobody reads what it tells, and with those who might.
fn told(logs: NodeLogs, query: ServiceQuery) -> impl stream::Stream<Item = Vec<u8>> + Send {
    let (to, from) = mpsc::channel(1);
    let mut task = JoinSet::new();
    task.spawn(async move {
        let clock = Arc::clone(&logs.clock);
        let _ = timeout(&*clock, LONGEST, tell(logs, query, to)).await;
    });
    stream::unfold((from, task), async |(mut from, task)| {
        let block = from.recv().await?;
        Some((block, (from, task)))
    })
}

async fn tell(logs: NodeLogs, query: ServiceQuery, to: mpsc::Sender<Vec<u8>>) {
    let mut step = Step::Split(query);
    loop {
        let (block, next) = take(&logs, step).await;
        if !block.is_empty() && to.send(block).await.is_err() {
            return;
        }
        if let Step::Over = next {
            return;
        }
        step = next;
    }
}

enum Step {
    /// Which of the services the journal knows is not known yet.
    Split(ServiceQuery),
    Journal {
        heard: Heard,
        /// What comes from files, and whether more than services was asked for.
        files: Vec<String>,
        options: bool,
    },
    /// The rest of them, the last one first.
    Files(Vec<String>),
    File {
        service: String,
        file: Arc<dyn OpenFile>,
        at: u64,
        rest: Vec<String>,
    },
    Over,
}

async fn take(logs: &NodeLogs, step: Step) -> (Vec<u8>, Step) {
    match step {
        Step::Over => (Vec::new(), Step::Over),
        Step::Split(query) => split(logs, &query).await,
        Step::Journal {
            mut heard,
            files,
            options,
        } => match heard.next().await {
            Some(Ok(block)) => {
                let step = Step::Journal {
                    heard,
                    files,
                    options,
                };
                (block, step)
            }
            _ => after_journal(files, options),
        },
        Step::Files(mut services) => match services.pop() {
            None => (Vec::new(), Step::Over),
            Some(service) => find(logs, service, services).await,
        },
        Step::File {
            service,
            file,
            at,
            rest,
        } => match file.read_at(at, BLOCK).await {
            Ok(block) if block.is_empty() => (block, Step::Files(rest)),
            Ok(block) => {
                let at = at + block.len() as u64;
                let step = Step::File {
                    service,
                    file,
                    at,
                    rest,
                };
                (block, step)
            }
            Err(cause) => (failure(&service, &cause.to_string()), Step::Files(rest)),
        },
    }
}

fn failure(service: &str, why: &str) -> Vec<u8> {
    format!("\nerror getting log for {service}: {why}\n").into_bytes()
}

async fn split(logs: &NodeLogs, query: &ServiceQuery) -> (Vec<u8>, Step) {
    let journal = journalctl(logs);
    let known = match &journal {
        None => vec![false; query.services.len()],
        Some(journal) => known_units(logs, journal, &query.services).await,
    };
    let (mut native, mut files) = (Vec::new(), Vec::new());
    for (service, known) in query.services.iter().zip(known) {
        let list = if known { &mut native } else { &mut files };
        list.push(service.clone());
    }
    let options = query.has_options();
    let Some(journal) = journal.filter(|_| !native.is_empty()) else {
        return after_journal(files, options);
    };
    if let Ok(heard) = logs.host.hear(program(journal, query.words(&native))) {
        let step = Step::Journal {
            heard,
            files,
            options,
        };
        return (Vec::new(), step);
    }
    let (mut block, step) = after_journal(files, options);
    if !query.says_boot() {
        let words = b"\nerror: journal output not available\n";
        block.splice(..0, words.iter().copied());
    }
    (block, step)
}

fn after_journal(mut files: Vec<String>, options: bool) -> (Vec<u8>, Step) {
    if files.is_empty() {
        return (Vec::new(), Step::Over);
    }
    if options {
        let names = files.join(" ");
        let words = format!(
            "\noptions present and query resolved to log files for [{names}]\ntry without \
             specifying options\n"
        );
        return (words.into_bytes(), Step::Over);
    }
    files.reverse();
    (Vec::new(), Step::Files(files))
}

fn journalctl(logs: &NodeLogs) -> Option<PathBuf> {
    let mut places = PLACES.iter().map(PathBuf::from);
    places.find(|place| logs.host.is_program(place).unwrap_or(false))
}

fn program(path: PathBuf, words: Vec<String>) -> Program {
    Program {
        path,
        arguments: words.into_iter().map(Into::into).collect(),
        environment: Vec::new(),
        input: Vec::new(),
        most_output: 0,
    }
}

/// Which of the services the journal has something of. It may know many others: none
/// of them are kept.
async fn known_units(logs: &NodeLogs, journal: &Path, services: &[String]) -> Vec<bool> {
    let unknown = vec![false; services.len()];
    let words = ["--field", "_SYSTEMD_UNIT"].map(str::to_owned).into();
    let Ok(mut heard) = logs.host.hear(program(journal.to_owned(), words)) else {
        return unknown;
    };
    let names: Vec<String> = services
        .iter()
        .map(|service| format!("{service}.service"))
        .collect();
    let longest = names.iter().map(String::len).max().unwrap_or_default();
    let looking = async {
        let mut known = unknown.clone();
        let mut text: Vec<u8> = Vec::new();
        while let Some(Ok(block)) = heard.next().await {
            text.extend(block);
            for (known, name) in known.iter_mut().zip(&names) {
                *known = *known || memmem::find(&text, name.as_bytes()).is_some();
            }
            // A name may go on in the next block.
            text.drain(..text.len().saturating_sub(longest));
        }
        known
    };
    let looked = timeout(&*logs.clock, LONGEST, looking).await;
    looked.unwrap_or(unknown)
}

/// The first of a service's usual files that is there.
async fn find(logs: &NodeLogs, service: String, rest: Vec<String>) -> (Vec<u8>, Step) {
    let names = [
        service.clone(),
        format!("{service}.log"),
        format!("{service}/{service}.log"),
    ];
    for name in names {
        match logs.host.below(Path::new(ROOT), Path::new(&name)).await {
            Ok(Below::Absent | Below::Directory(_) | Below::Other) => {}
            Ok(Below::File(file)) => {
                let step = Step::File {
                    service,
                    file,
                    at: 0,
                    rest,
                };
                return (Vec::new(), step);
            }
            Ok(Below::Outside) => {
                let why = format!("openat {name}: path escapes from parent");
                return (failure(&service, &why), Step::Files(rest));
            }
            Err(error) => {
                let why = error.in_gos_words();
                return (failure(&service, &why), Step::Files(rest));
            }
        }
    }
    let words = format!("\nlog not found for {service}\n");
    (words.into_bytes(), Step::Files(rest))
}
