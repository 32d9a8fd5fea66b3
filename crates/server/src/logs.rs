//! What containers and the node itself have written: `/containerLogs`, straight from
//! the files that the runtime writes, and `/logs/`.

mod choose;
mod docker;
mod node;
mod options;
mod printer;
mod reader;
mod record;
mod rotated;
mod tail;
#[cfg(test)]
mod testing;
mod wakes;

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use seams::{SharedClock, SharedHost, SharedRuntime};
use tokio_util::sync::CancellationToken;
use types::PodBook;

use crate::answer::{not_found, text};
use crate::body::{Body, whole};
use crate::door::PathWords;
use crate::query::Query;
use options::{LogOptions, Since, Stream};
use printer::Shown;
use reader::{Reader, Run, Sources, Wanted};
use record::Moment;
use wakes::Wakes;

pub use node::NodeLogs;

/// What the logs of containers are read from.
#[derive(Clone, Debug)]
pub struct ContainerLogsConfig {
    pub book: PodBook,
    pub host: SharedHost,
    pub runtime: SharedRuntime,
    pub clock: SharedClock,
    /// The gate `PodLogsQuerySplitStreams`.
    pub split_streams: bool,
}

/// `/containerLogs/{namespace}/{pod}/{container}`. Clones share their followers.
#[derive(Clone, Debug)]
pub struct ContainerLogs {
    sources: Sources,
    split_streams: bool,
}

impl ContainerLogs {
    pub fn new(config: ContainerLogsConfig) -> Self {
        Self {
            sources: Sources {
                book: config.book,
                host: config.host,
                runtime: config.runtime,
                clock: config.clock,
                wakes: Arc::new(Wakes::default()),
            },
            split_streams: config.split_streams,
        }
    }

    /// Listens for what is written to logs that are followed, until told to end.
    pub async fn listen(&self, shutdown: CancellationToken) {
        let wakes = &self.sources.wakes;
        wakes.listen(&self.sources.host, &shutdown).await;
    }

    /// The words of the path are namespace, pod and container.
    pub(crate) fn answer_to<B>(&self, request: &Request<B>) -> Response<Body> {
        let words = request.extensions().get::<PathWords>();
        let words = words.map_or(&[][..], |words| &words.0);
        let query = request.uri().query().unwrap_or_default();
        // Upstream reads an encoded slash as one: there is no such path then.
        let slashed = words.iter().any(|word| word.contains('/'));
        match words {
            _ if slashed => whole(text(StatusCode::NOT_FOUND, "404: Page Not Found")),
            [namespace, pod, container] => self.answer(namespace, pod, container, query),
            _ => whole(not_found()),
        }
    }

    /// Nothing is waited for here: the log is opened and read as its body is.
    fn answer(&self, namespace: &str, pod: &str, container: &str, query: &str) -> Response<Body> {
        let options = match LogOptions::read(&Query::read(query)) {
            Ok(options) => options,
            Err((status, words)) => return whole(text(status, words)),
        };
        let absent = |words: String| whole(text(StatusCode::NOT_FOUND, words));
        let Some(served) = self.sources.book.named(namespace, pod) else {
            return absent(format!("pod {pod:?} does not exist"));
        };
        if !choose::has_container(&served.pod.pod, container) {
            return absent(format!("container {container:?} not found in pod {pod:?}"));
        }
        if options.stream != Stream::All && !self.split_streams {
            let stream = options.stream.name();
            let words = format!(
                "unable to return the given log stream: {stream:?}. Please enable \
                 PodLogsQuerySplitStreams feature gate in kubelet"
            );
            return whole(text(StatusCode::BAD_REQUEST, words));
        }
        match choose::run(pod, &served.status(), container, options.previous) {
            Err(words) => {
                let mut answer = Response::new(chunked(stream::iter([words.into_bytes()])));
                *answer.status_mut() = StatusCode::BAD_REQUEST;
                answer
            }
            Ok(id) => {
                let run = Run {
                    pod: served.uid.clone(),
                    id,
                };
                let reader = Reader::new(self.sources.clone(), run, self.wanted(&options));
                let blocks = stream::unfold(reader, async |mut reader| {
                    let block = reader.next().await?;
                    Some((block, reader))
                });
                Response::new(chunked(blocks))
            }
        }
    }

    #[cfg(test)]
    fn is_followed(&self) -> bool {
        self.sources.wakes.is_followed()
    }

    fn wanted(&self, options: &LogOptions) -> Wanted {
        let now = self.sources.clock.now();
        let since = options.since.map(|since| match since {
            Since::Seconds(seconds) => Moment::before(now, seconds),
            Since::Time(time) => time,
        });
        Wanted {
            shown: Shown {
                since,
                timestamps: options.timestamps,
                stdout: options.stream != Stream::Stderr,
                stderr: options.stream != Stream::Stdout,
                bytes: options.limit.unwrap_or(u64::MAX),
                records: u64::MAX,
            },
            tail: options.tail,
            follow: options.follow,
        }
    }
}

/// Of a length that nobody knows: each block is sent when it is there.
fn chunked(blocks: impl stream::Stream<Item = Vec<u8>> + Send + 'static) -> Body {
    use futures_util::StreamExt as _;
    let frames = blocks.map(|block| Ok::<_, io::Error>(Frame::data(Bytes::from(block))));
    StreamBody::new(frames).boxed_unsync()
}

#[cfg(test)]
mod tests;
